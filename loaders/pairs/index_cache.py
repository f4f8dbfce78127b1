"""FAISS indexes in our own cache folder. An index is trained once and never read from a dataset or an archive.

A file's name is the hash of what went into it, and its first 32 bytes are the hash of the rest. A file that does not
match is made again, and FAISS, whose parser trusts its input, never reads it.
"""

import hashlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.loaders.format.files import write_atomically
from ident3d.machine import cache_folder

# 256 for each of the 1,024 lists: FAISS would use no more, and warn that it has been given more.
TRAINING_POINTS = 256 * 1024


def cached_path(latents: NDArray[np.float32], factory: str) -> Path:
    """Return the path of the index of just these latents; it may not have been built yet."""
    import faiss

    # FAISS' version is part of the key, because another version may train other lists from the same latents.
    key = hashlib.sha256(f"{factory} {latents.shape} faiss {faiss.__version__}\n".encode())
    key.update(latents.tobytes())
    return cache_folder() / "indexes" / f"{key.hexdigest()}.faiss"


def cached_index(latents: NDArray[np.float32], factory: str) -> Any:
    """Return the FAISS index `factory` of the latents. Load it from the cache, or build it and keep it there."""
    path = cached_path(latents, factory)
    index = load_index(path)
    if index is None:
        index = build_index(latents, factory)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, stamp(index))
        except OSError as error:
            warnings.warn(f"The index is not kept: {path.parent} cannot be written ({error.strerror}).", stacklevel=2)
    return index


def build_index(latents: NDArray[np.float32], factory: str) -> Any:
    """Train an index on the latents and add all of them."""
    import faiss

    index = faiss.index_factory(latents.shape[1], factory)
    index.train(np.ascontiguousarray(latents[:TRAINING_POINTS]))
    index.add(np.ascontiguousarray(latents))
    return index


def stamp(index: Any) -> bytes:
    import faiss

    data = faiss.serialize_index(index).tobytes()
    return hashlib.sha256(data).digest() + data


def load_index(path: Path) -> Any | None:
    """Return the index in this file, or None if there is none or its hash does not match."""
    import faiss

    try:
        content = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return faiss.deserialize_index(np.frombuffer(content, np.uint8, offset=32))
