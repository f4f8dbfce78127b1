"""What an HDF5 file must be to be read as a shard: its parts, their types and storage, and sizes that it can hold.

A shard may come from anyone. HDF5 would follow its links and external storage to any file of the user's, load plug-ins,
and allocate whatever a file of a kilobyte claims. So everything is looked at before it is read.
"""

from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ident3d.errors import UserError

SHARD_FORMAT = "ident3d-shard"
SHARD_FORMAT_VERSION = 1
# Deflate makes at most 1032 bytes of one. What claims more than this multiple of its file is a lie.
MOST_INFLATED = 1100
# Bytes of an attribute, and columns of a table: what `encode_shard` writes is far from either.
LARGEST_ATTRIBUTE = 2**20
MOST_COLUMNS = 64
# Each part: the types that it may have, and how many dimensions. Of more than 128 classes the numbers need two bytes.
STORED_AS: dict[str, tuple[tuple[type, ...], int]] = {
    "images": ((np.uint8,), 4),
    "raw_latents": ((np.float32,), 2),
    "scene_latents": ((np.float32,), 2),
    "index": ((np.int64,), 1),
    "class": ((np.int8, np.int16), 1),
    "sequence": ((np.int64,), 1),
    "frame": ((np.int64,), 1),
    "instance": ((np.int64,), 1),
    "view": ((np.int64,), 1),
    "environment": ((np.int64,), 1),
    "targets": ((np.int64,), 1),
}
# Bytes of a chunk of several images.
LARGEST_CHUNK = 2**22
# Grey or red, green and blue.
CHANNELS = (1, 3)


def check_layout(file: h5py.File, path: Path) -> None:
    """Refuse what is not a plain shard: other formats, links, external or virtual storage, wrong shapes and types."""
    names = check_head(file, path)
    images = check_images(file, path)
    for name in names:
        data = images if name == "images" else check_dataset(file, path, name)
        if len(data) != len(images):
            raise UserError(f"{path} has {len(images)} images but {len(data)} rows of {name}.")


def check_head(file: h5py.File, path: Path) -> list[str]:
    """Return the names of the parts. Refuse other formats, missing parts, and links before anything opens them."""
    if not h5py.h5a.exists(file.id, b"format") or attribute(file, b"format") != SHARD_FORMAT.encode():
        raise UserError(f"{path} is not an ident3d shard.")
    version = attribute(file, b"format_version")
    if version != SHARD_FORMAT_VERSION:
        raise UserError(f"{path} has shard format {version}; this ident3d reads format {SHARD_FORMAT_VERSION}.")
    names = list(file)
    if not {"images", "raw_latents", "scene_latents", "index"} <= set(names):
        raise UserError(f"{path} lacks one of images, raw_latents, scene_latents and index.")
    for name in names:
        if file.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
            raise UserError(f"{path} holds a link or a group where only datasets belong: {name}.")
    return names


def attribute(file: h5py.File, name: bytes) -> Any:
    """Read a single value of the file itself, in half the time of ``file.attrs``."""
    found = h5py.h5a.open(file.id, name)
    # A text of varying length would be read from wherever the file says that it lies. Ours have a fixed length.
    if found.shape != () or found.dtype.kind not in "Siu" or found.dtype.itemsize > LARGEST_ATTRIBUTE:
        raise ValueError(f"its {name.decode()} are not a single number or a short text")
    value = np.empty((), found.dtype)
    found.read(value)
    return value[()]


def check_images(file: h5py.File, path: Path) -> h5py.Dataset:
    """Return the images; refuse anything but gzipped chunks of one whole image, or of several small ones."""
    images = check_dataset(file, path, "images")
    shape = images.shape
    if shape[3] not in CHANNELS or images.chunks is None or images.chunks[1:] != shape[1:]:
        raise UserError(f"{path} does not store its images as one uint8 chunk of H×W×1 or H×W×3 each.")
    # To read one image all of its chunk is inflated.
    if images.chunks[0] > 1 and prod(images.chunks) > LARGEST_CHUNK:
        raise UserError(f"{path} stores {images.chunks[0]} images in one chunk, too many to read one of them.")
    # Chunks are inflated here and not by HDF5, so that only one filter is known, and no plug-in is ever loaded.
    layout = images.id.get_create_plist()
    if [layout.get_filter(k)[0] for k in range(layout.get_nfilters())] != [h5py.h5z.FILTER_DEFLATE]:
        raise UserError(f"{path} stores its images through another filter than gzip.")
    return images


def check_dataset(file: h5py.File, path: Path, name: str) -> h5py.Dataset:
    """Return the dataset of this name; refuse a group, or storage outside the file."""
    data = file[name]
    if not isinstance(data, h5py.Dataset):
        raise UserError(f"{path} holds a link or a group where only datasets belong: {name}.")
    layout = data.id.get_create_plist()
    if layout.get_layout() == h5py.h5d.VIRTUAL or layout.get_external_count():
        raise UserError(f"{path} takes {name} from another file, which is not allowed.")
    if name not in STORED_AS:
        raise UserError(f"{path} holds {name}, which is no part of a shard.")
    kinds, dimensions = STORED_AS[name]
    if data.dtype not in kinds or data.ndim != dimensions:
        raise UserError(f"{path} stores {name} as {data.dtype} of {data.ndim} dimensions.")
    # A small file may claim terabytes, which would be allocated before the first byte is read.
    if data.nbytes > MOST_INFLATED * file.id.get_filesize():
        raise UserError(f"{path} claims {data.nbytes:,} bytes of {name}, more than a file of its size can hold.")
    # HDF5 inflates a whole chunk to read one row, and a chunk may be larger than the table. Ours have no chunks.
    flat = layout.get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT) and data.size <= MOST_COLUMNS * len(data)
    if name != "images" and not flat:
        raise UserError(f"{path} does not store {name} as one plain table of at most {MOST_COLUMNS} columns.")
    return data
