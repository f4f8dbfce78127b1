"""Anybody's images as uint8 (n, S, S, C), block by block: from an array, a memory map, or an iterator of blocks."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.format.description import LARGEST_SIDE
from ident3d.loaders.format.shard_layout import CHANNELS
from ident3d.progress import progress_bar

# Bytes of the images that are looked at together.
CHECKED_BYTES = 2**24

PixelArray: TypeAlias = NDArray[np.uint8]


class ArrayImages:
    """Images of one array, or of anything with a shape whose slices are arrays. Any part can be read at any time."""

    def __init__(self, images: Any, unit: bool) -> None:
        self.images, self.unit, self.n = images, unit, len(images)
        self.shape = checked_shape(images.shape)

    def read(self, first: int, count: int) -> PixelArray:
        """Return images first … first+count-1 as bytes, checked."""
        return as_bytes(np.asarray(self.images[first : first + count]), self.shape, first, self.unit)

    def sha256(self, show_progress: bool) -> str:
        """Return the hash of all bytes. Every image is checked on the way, before anything is written."""
        total, step = hashlib.sha256(), max(1, CHECKED_BYTES // int(np.prod(self.shape)))
        with progress_bar(self.n, "images checked", show=show_progress) as bar:
            for first in range(0, self.n, step):
                block = self.read(first, min(step, self.n - first))
                total.update(block.tobytes())
                bar.update(len(block))
        return total.hexdigest()


class ImageBlocks:
    """Images of an iterator of blocks, read once and in order. There must be `n` of them."""

    def __init__(self, blocks: Iterable[Any], n: int, unit: bool) -> None:
        self.blocks, self.n, self.unit = iter(blocks), n, unit
        first = self._next()
        if first is None:
            raise UserError("There are no images: the first block is missing.")
        self.shape = checked_shape(first.shape)
        self.read_so_far = 0
        self.waiting = self._checked(first)

    def read(self, first: int, count: int) -> PixelArray:
        """Return the next `count` images as bytes; after the last image there must be no further block."""
        parts, missing = [], count
        while missing:
            if not len(self.waiting):
                block = self._next()
                if block is None:
                    raise UserError(f"The blocks hold {first + count - missing} images, and there are {self.n} rows.")
                self.waiting = self._checked(block)
            parts.append(self.waiting[:missing])
            self.waiting = self.waiting[missing:]
            missing -= len(parts[-1])
        if first + count == self.n and (len(self.waiting) or self._next() is not None):
            raise UserError(f"The blocks hold more images than the {self.n} that there are latents or classes of.")
        return np.concatenate(parts)

    def _checked(self, block: NDArray[Any]) -> PixelArray:
        pixels = as_bytes(block, self.shape, self.read_so_far, self.unit)
        self.read_so_far += len(pixels)
        return pixels

    def _next(self) -> NDArray[Any] | None:
        for block in self.blocks:
            array = np.asarray(block)
            if len(array):
                return array
        return None


Images: TypeAlias = ArrayImages | ImageBlocks


def checked_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return (S, S, C) of images (n, S, S) or (n, S, S, C), or a sentence about any other shape."""
    if len(shape) == 4 and shape[1] in CHANNELS and shape[3] not in CHANNELS:
        raise UserError(f"Images have their channels last: {shape} looks like channels first; transpose (0, 2, 3, 1).")
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in CHANNELS):
        raise UserError(f"Images have the shape (n, S, S), (n, S, S, 1) or (n, S, S, 3), not {tuple(shape)}.")
    if shape[1] != shape[2] or not 1 <= shape[1] <= LARGEST_SIDE:
        raise UserError(f"Images are square, up to {LARGEST_SIDE} pixels; not {shape[1]}×{shape[2]}: pad or crop them.")
    return shape[1], shape[2], shape[3] if len(shape) == 4 else 1


def as_bytes(block: NDArray[Any], shape: tuple[int, int, int], first: int, unit: bool) -> PixelArray:
    """Return a block of images as bytes (k, S, S, C); `first` is the number of its first image, for messages.

    Whole numbers are from 0 to 255, truth values 0 or 255. With `unit` numbers from 0 to 1 become round(255 · v).
    """
    if block.ndim not in (3, 4) or checked_shape(block.shape) != shape:
        raise UserError(f"The images from number {first} on have the shape {block.shape[1:]}, those before {shape}.")
    kind = block.dtype.kind
    if kind == "b":
        block, unit, kind = block.view(np.uint8), True, "u"
    if kind not in "iuf":
        raise UserError(f"Images are numbers, not {block.dtype}.")
    if kind == "f" and not unit:
        raise UserError(f"Images are {block.dtype}: say that they are from 0 to 1 (unit), or turn them to uint8.")
    most = 1 if unit else 255
    # Written as a negation, so that NaN counts as outside too.
    if unit or block.dtype != np.uint8:
        bad = np.flatnonzero(~((block >= 0) & (block <= most)).reshape(len(block), -1).all(axis=1))
        if len(bad):
            raise UserError(f"Image {first + bad[0]} has values outside of 0 to {most}.")
    pixels = np.rint(block * np.float32(255)).astype(np.uint8) if unit else block.astype(np.uint8, copy=False)
    return pixels.reshape(len(block), *shape)


def images_of(images: Any, n: int | None, unit: bool) -> Images:
    """Return what was given as images, of which `n` are expected, if that is known."""
    if isinstance(images, list | tuple):
        images = np.asarray(images)
    if hasattr(images, "shape") and hasattr(images, "__getitem__"):
        if not images.shape or not images.shape[0]:
            raise UserError("There are no images.")
        return ArrayImages(images, unit)
    if not isinstance(images, Iterator | Iterable):
        raise UserError(f"Images are an array, or an iterator of arrays, not a {type(images).__name__}.")
    if n is None:
        raise UserError("An iterator of images does not say how many there are: give latents or classes too.")
    return ImageBlocks(images, n, unit)
