"""`ImageDataset`: images and their latents by number, as torch tensors or as NumPy arrays."""

import copy
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents.factors import Factors
from ident3d.loaders.datasets.stored_images import StoredImages
from ident3d.loaders.folders.folder import Folder
from ident3d.loaders.format.description import differences
from ident3d.loaders.format.latents_source import blocks_of, environments_of
from ident3d.loaders.format.latents_table import join_classes
from ident3d.loaders.format.shard import FURTHER_COLUMNS

if TYPE_CHECKING:
    from torch import Tensor

Folders: TypeAlias = Path | str | Folder | Sequence[Path | str | Folder]
CLASS = "class"


class ImageDataset:
    """Map-style dataset: number → (latents float32, image uint8 C×H×W), in the order of a PairDataset.

    The image tensor is a view of the stored H×W×C bytes, which torch calls channels-last. Latents are raw, in [-1, 1],
    in the order of `names`; if the scene has classes, the class is the last of them. A list of numbers gives a whole
    batch, (latents B×d, images B×C×H×W). `images` and `latents` return NumPy arrays and need no torch.

    Args:
        path: A dataset folder, or several, which are joined in this order. Each is a path, the address of a store, or
            what `open_folder` returned, which is then not opened again.
        latents: Names of the latents to return; by default all.
        transform: Applied to each image tensor.
        packed: Read the packed files (True) or the shards (False); by default the packed files that match their shards.

    Example:
        >>> from ident3d import ImageDataset
        >>> images = ImageDataset(dataset)
        >>> z, x = images[0]
        >>> len(images), x.dtype, x.shape[0], z.shape
        (16, torch.uint8, 3, torch.Size([10]))
    """

    def __init__(
        self,
        path: Folders,
        *,
        latents: Sequence[str] | None = None,
        transform: "Callable[[Tensor], Tensor] | None" = None,
        packed: bool | None = None,
    ) -> None:
        if not isinstance(path, str | Path | Folder | Iterable):
            raise UserError(f"ImageDataset takes a dataset folder, or a list of them, not {path!r}.")
        paths = [path] if isinstance(path, str | Path | Folder) else list(path)
        if not paths:
            raise UserError("There is no folder to read images from.")
        self.parts = [StoredImages(folder, packed) for folder in paths]
        first = self.parts[0]
        for part in self.parts[1:]:
            if part.shape != first.shape:
                here, there = ("×".join(map(str, shape)) for shape in (part.shape, first.shape))
                raise UserError(f"{part.path} has images of {here} pixels and channels, {first.path} of {there}.")
            differ = differences(first.world.as_dict(), part.world.as_dict())
            # Latents of two worlds have the same numbers but mean different scenes.
            if differ:
                raise UserError(f"{first.path} and {part.path} show different worlds ({'; '.join(differ)}).")
        if len(self.parts) > 1 and len({part.has_classes for part in self.parts}) > 1:
            raise UserError("Some of the joined datasets have classes and some do not.")
        self.size, self.shape = first.size, first.shape
        self.world = first.world
        self.transform = transform
        # The folders' images follow one another; a number's folder is found by bisection among these ends.
        self._ends = np.cumsum([part.n for part in self.parts])
        self._select(latents)

    def with_latents(self, latents: Sequence[str] | None) -> "ImageDataset":
        """Return the same images with these latents selected by name (None: all). No folder is opened again."""
        # A shallow copy shares the open files and the table of latents. Only what depends on the selection is dropped.
        other = copy.copy(self)
        other.__dict__.pop("names", None)
        other._select(latents)
        return other

    def _select(self, latents: Sequence[str] | None) -> None:
        self._wanted = None if latents is None else tuple(latents)
        if not (self._wanted is None or self._wanted):
            raise UserError("Select at least one latent.")
        for name in self._wanted or ():
            check_known("latent", name, (*self.world.names, CLASS))

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __repr__(self) -> str:
        where, names = ", ".join(str(part.folder.address) for part in self.parts), self._wanted or self.world.names
        return f"<ImageDataset: {len(self)} images of {self.size}x{self.size} in {where}, latents {', '.join(names)}>"

    # Images of each number of a batch; a PairDataset has two or three.
    members = 1

    @property
    def packed(self) -> bool:
        """Whether all images come from packed files."""
        return all(part.packed for part in self.parts)

    @cached_property
    def has_classes(self) -> bool:
        return self.parts[0].has_classes

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the latents that come with each image, in order."""
        everything = (*self.world.names, CLASS) if self.has_classes else self.world.names
        if self._wanted and CLASS in self._wanted and not self.has_classes:
            raise UserError(f"The images of {self.parts[0].path} have no class.")
        return self._wanted or everything

    @property
    def factors(self) -> Factors:
        """What the images depend on, in scene units: name, kind, range or values, and group of each factor."""
        return self.world if isinstance(self.world, Factors) else self.world.factors

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the further columns that all images have: sequence, frame, instance, view, environment, targets."""
        return tuple(name for name in FURTHER_COLUMNS if all(name in part.columns for part in self.parts))

    @property
    def environments(self) -> tuple[str, ...]:
        """The names of the environments that the images were rendered in; empty if there are none."""
        return tuple(each.name for each in environments_of(self.parts[0].folder.description.settings))

    @property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """Shared and private → the latents that are so in views of one z; empty for other images."""
        return blocks_of(self.parts[0].folder.description.settings)

    def column(self, name: str) -> NDArray[np.int64]:
        """Return a further column of all images (n,), if the folder has it; `columns` names them.

        Of `targets` bit k says whether latent k was intervened on: ``column[:, None] >> np.arange(d) & 1``.
        """
        check_known("column", name, FURTHER_COLUMNS)
        return np.concatenate([part.column(name) for part in self.parts])

    @property
    def mean(self) -> tuple[float, ...]:
        """Per channel, in 0 … 1, over all images."""
        return tuple(float(value) for value in self._moments()[0])

    @property
    def std(self) -> tuple[float, ...]:
        """Per channel, in 0 … 1, over all images and pixels."""
        return tuple(float(value) for value in self._moments()[1])

    def images(self, index: ArrayLike) -> NDArray[np.uint8]:
        """Return images by number, (B, H, W, C) uint8."""
        numbers = whole_numbers(index, len(self))
        out = np.empty((len(numbers), *self.shape), np.uint8)
        self._read(numbers, out)
        return out

    def latents(self, index: ArrayLike) -> NDArray[np.float32]:
        """Return the selected latents of images by number, (B, d) float32."""
        numbers = whole_numbers(index, len(self))
        # Once all latents were asked for, they are kept. A folder without its table reads the shards of these images.
        if self._all is not None:
            return self.select(self._all[0][numbers], None if self._all[1] is None else self._all[1][numbers])
        out = np.empty((len(numbers), len(self.names)), np.float32)
        for part, rows, local in self._split(numbers):
            out[rows] = self.select(*part.latents(local))
        return out

    def all_latents(self) -> tuple[NDArray[np.float32], NDArray[np.signedinteger[Any]] | None]:
        """Return the raw latents (n, d) of all images, selected or not, and their classes (n,) if they have any."""
        if self._all is None:
            found = [part.all_latents() for part in self.parts]
            classes = [c for _, c in found if c is not None]
            joined_classes = np.concatenate(classes) if classes else None
            # A single table is not copied: at a million images it has 40 MB.
            self._all = found[0] if len(found) == 1 else (np.concatenate([raw for raw, _ in found]), joined_classes)
        return self._all

    def select(self, raw: NDArray[np.float32], classes: NDArray[np.signedinteger[Any]] | None) -> NDArray[np.float32]:
        """Return the selected columns of raw latents (B, d) and classes (B,)."""
        table = join_classes(raw, classes)
        if self._wanted is None:
            return table
        names = (*self.world.names, CLASS)
        return table[:, [names.index(name) for name in self.names]]

    def batch(self, index: ArrayLike) -> "tuple[Tensor, Tensor]":
        """Return (latents B×d float32, images B×C×H×W uint8) of the images with these numbers."""
        import torch

        numbers = whole_numbers(index, len(self))
        pixels = np.empty((len(numbers), *self.shape), np.uint8)
        latents = self.fill(numbers, pixels)
        return self.assemble(torch.from_numpy(pixels), torch.from_numpy(latents))

    def fill(self, index: ArrayLike, out: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Read the images with these numbers into `out`, (B, H, W, C), and return their latents, (B, d)."""
        numbers = whole_numbers(index, len(self))
        self._read(numbers, out)
        return self.latents(numbers)

    def assemble(self, pixels: "Tensor", latents: "Tensor") -> "tuple[Tensor, Tensor]":
        """Return the batch of these bytes, B×H×W×C, and latents: a view, unless there is a transform."""
        import torch

        # Channels last in memory, as stored: no byte moves here, and cuDNN's fastest convolutions want it so.
        images = pixels.permute(0, 3, 1, 2)
        return latents, (images if self.transform is None else torch.stack([self.transform(image) for image in images]))

    def __getitem__(self, index: Any) -> "tuple[Tensor, Tensor]":
        if isinstance(index, SupportsIndex):
            latents, images = self.batch([operator.index(index)])
            return latents[0], images[0]
        return self.batch(index)

    def __getitems__(self, index: Sequence[int]) -> "list[tuple[Tensor, Tensor]]":
        """Return the batch as the list of samples that a DataLoader's collate function expects, read at once."""
        return list(zip(*self.batch(index), strict=True))

    _all: tuple[NDArray[np.float32], NDArray[np.signedinteger[Any]] | None] | None = None

    def _read(self, numbers: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        # The usual case, a single folder, reads straight into the caller's memory.
        if len(self.parts) == 1:
            self.parts[0].read(numbers, out)
            return
        for part, rows, local in self._split(numbers):
            pixels = np.empty((len(rows), *out.shape[1:]), np.uint8)
            part.read(local, pixels)
            out[rows] = pixels

    def _split(self, numbers: NDArray[np.int64]) -> list[tuple[StoredImages, NDArray[np.intp], NDArray[np.int64]]]:
        """Return, for each folder that has some of them, which rows they are, and their numbers in that folder."""
        which = np.searchsorted(self._ends, numbers, side="right")
        found = []
        for k, part in enumerate(self.parts):
            rows = np.flatnonzero(which == k)
            if len(rows):
                found.append((part, rows, numbers[rows] - (self._ends[k] - part.n)))
        return found

    def _moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        descriptions = [part.folder.description for part in self.parts]
        weight = np.array([part.n for part in self.parts]) / len(self)
        mean, std = (np.array([getattr(d, name) for d in descriptions]) for name in ("pixel_mean", "pixel_std"))
        # E x² of all folders together is the mean of their E x² = std² + mean²; their variances alone would not do.
        centre = weight @ mean
        return centre, np.sqrt(weight @ (std**2 + mean**2) - centre**2)


def whole_numbers(index: Any, length: int, what: str = "images") -> NDArray[np.int64]:
    """Return a list or slice of numbers as an array. Negative ones count from the end; one out of range is an error."""
    # NumPy would turn 1.5 into 1 and True into 1 without a word, so the kind of the numbers is checked first.
    given = np.arange(*index.indices(length)) if isinstance(index, slice) else np.asarray(index)
    if given.ndim != 1 or not (given.dtype.kind in "iu" or given.size == 0):
        raise UserError("An image is chosen by a whole number, and several by a list of whole numbers.")
    numbers = given.astype(np.int64)
    numbers = np.where(numbers < 0, numbers + length, numbers)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < length):
        raise IndexError(f"there are {length} {what}, numbered from 0")
    return numbers
