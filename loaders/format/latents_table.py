"""``all_latents.npy``: the latents of all images in one table, so that a reader need not open every shard for them.

At a million images that takes minutes, and reading this table a second. The shards hold the same. They are read instead
if the file is absent or not as recorded.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import h5py
import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.worlds import AnyWorld
from ident3d.loaders.format.arrays import load_array
from ident3d.loaders.format.files import sha256, sha256_of_file, write_atomically
from ident3d.loaders.format.inside import NotPlain, plain_sizes, read_plain
from ident3d.loaders.format.latents_source import npy_bytes
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import as_user_error
from ident3d.loaders.format.shard_layout import check_dataset, check_head

TABLE_FILE = "all_latents.npy"
# Bytes. That of a .npy file is shorter.
HEADER = 4096

# Raw latents, and classes if there are any.
Latents: TypeAlias = tuple[NDArray[np.float32], NDArray[np.signedinteger[Any]] | None]


def shard_latents(path: Path, count: int, n_raw: int, data: bytes | None = None) -> Latents:
    """Read the raw latents (count, n_raw) and classes of one shard file, or of its bytes `data`."""
    with as_user_error(path), h5py.File(path if data is None else io.BytesIO(data), "r", locking=False) as file:
        has_classes = "class" in check_head(file, path)
        raw = check_dataset(file, path, "raw_latents")
        classes = check_dataset(file, path, "class") if has_classes else None
        if raw.shape != (count, n_raw):
            raise ValueError(f"raw_latents of shape {raw.shape}")
        if classes is not None and classes.shape != (count,):
            raise ValueError(f"classes of shape {classes.shape}")
        return raw[()], None if classes is None else classes[()]


def shard_column(path: Path, count: int, name: str, data: bytes) -> NDArray[np.int64]:
    """Read one of the further columns, such as sequence or frame, of the bytes `data` of a shard file (count,)."""
    with as_user_error(path), h5py.File(io.BytesIO(data), "r") as file:
        if name not in check_head(file, path):
            raise UserError(f"The images in {path} have no {name}.")
        column = check_dataset(file, path, name)
        if column.shape != (count,):
            raise ValueError(f"{name} of shape {column.shape}")
        return np.asarray(column[()])


def gather_table(shards: Path, entries: Sequence[ShardEntry], world: AnyWorld) -> NDArray[np.float32]:
    """Return the shards' table: raw latents in order and, where there are classes, the class as the last column."""
    parts = [shard_latents(shards / entry.name, entry.count, world.n_raw) for entry in entries]
    raw, classes = np.concatenate([raw for raw, _ in parts]), [kinds for _, kinds in parts if kinds is not None]
    if classes and len(classes) != len(parts):
        raise UserError(f"Some shards in {shards} have classes and some do not.")
    return join_classes(raw, np.concatenate(classes) if classes else None)


def join_classes(raw: NDArray[np.float32], classes: NDArray[np.signedinteger[Any]] | None) -> NDArray[np.float32]:
    """Return raw latents and, if there are any, classes as one table."""
    return raw if classes is None else np.column_stack([raw, classes.astype(np.float32)])


def class_type(count: int) -> type[np.int8] | type[np.int16]:
    """Return the type in which the numbers of so many classes are stored."""
    return np.int8 if count <= np.iinfo(np.int8).max + 1 else np.int16


def write_table(folder: Path, table: NDArray[np.float32]) -> str:
    """Write the table and return its sha256, for ``dataset.json``."""
    data = npy_bytes(table)
    write_atomically(folder / TABLE_FILE, data)
    return sha256(data)


def read_table(folder: Path, recorded: str | None, n: int, n_raw: int) -> Latents | None:
    """Return raw latents (n, n_raw) and classes from the file, if it is there and just what was recorded."""
    # A file larger than the table can be is not read into memory.
    largest = 4 * n * (n_raw + 1) + HEADER
    size = plain_sizes(folder, "", [TABLE_FILE])[TABLE_FILE]
    if recorded is None or size is None or size > largest:
        return None
    data = read_plain(folder, TABLE_FILE, largest)
    if sha256(data) != recorded:
        return None
    try:
        table = load_array(io.BytesIO(data))
    except ValueError:
        return None
    shapes = ((n, n_raw), (n, n_raw + 1))
    if table.dtype != np.float32 or table.shape not in shapes:
        return None
    raw = np.ascontiguousarray(table[:, :n_raw])
    if table.shape[1] == n_raw:
        return raw, None
    # The class must be a whole number of two bytes. A conversion that changes it shows that it is not.
    with np.errstate(invalid="ignore"):
        classes = table[:, n_raw].astype(np.int16)
    classes = classes.astype(class_type(int(classes.max(initial=0)) + 1))
    return (raw, classes) if np.array_equal(classes, table[:, n_raw]) else None


def table_problem(folder: Path, recorded: str | None, n: int, n_raw: int, latents: Sequence[Latents]) -> str | None:
    """Return what is wrong with the file, if a hash of it is recorded; `latents` are those of the shards, in order."""
    if not recorded:
        return None
    found = read_table(folder, recorded, n, n_raw)
    if found is None:
        if table_sha256(folder) == recorded:
            raise OSError("it is as recorded, and cannot be taken apart here")
        return f"{TABLE_FILE} is missing or does not match its sha256"
    table, rows = join_classes(*found), [join_classes(*each) for each in latents]
    alike = bool(rows) and all(each.shape[1:] == table.shape[1:] for each in rows)
    same = alike and np.array_equal(table, np.concatenate(rows))
    return None if same else f"{TABLE_FILE} does not hold the latents of the shards"


def table_sha256(folder: Path) -> str | None:
    try:
        return sha256_of_file(folder / TABLE_FILE)
    except (FileNotFoundError, NotPlain):
        return None
