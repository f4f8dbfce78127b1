"""The layouts in which 3DIdent and Causal3DIdent were published: names of files, and what they say of each other.

3DIdent:        <split>/images/NNNNNN.png     <split>/raw_latents.npy     <split>/latents.npy
Causal3DIdent:  <split>/images_c/NNNNN.png    <split>/raw_latents_c.npy   <split>/latents_c.npy   for each class c
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.exact.names import ANGLES, HUES, NAMES, POSITIONS
from ident3d.latents.worlds import World
from ident3d.loaders.format.latents_source import read_npy
from ident3d.loaders.stores.tar_members import ByteRange

IMAGE: Final = re.compile(r"(?:(.+)/)?images(?:_(\d{1,2}))?/(\d{1,9})\.png", re.ASCII)
ARRAY: Final = re.compile(r"(?:(.+)/)?(raw_)?latents(?:_(\d{1,2}))?\.npy", re.ASCII)
NO_CLASS: Final = -1
# What a scene value may be off: the published arrays are float32, and their angles were computed in it.
TOLERANCE: Final = 1e-4


LICENCE: Final = "that of the record, which names it"


@dataclass
class Split:
    """The files of one split by class (NO_CLASS without classes): the images by number, and the two arrays."""

    images: dict[int, dict[int, ByteRange]] = field(default_factory=dict)
    raw: dict[int, ByteRange] = field(default_factory=dict)
    scene: dict[int, ByteRange] = field(default_factory=dict)


def is_published(name: str) -> bool:
    """Return whether a file belongs to the layout; files in hidden folders do not."""
    hidden = any(part.startswith(".") for part in PurePosixPath(name).parts)
    return not hidden and bool(IMAGE.fullmatch(name) or ARRAY.fullmatch(name))


def splits(files: Mapping[str, ByteRange]) -> dict[str, Split]:
    """Return the splits by the folder that each is in. A split has images and both arrays."""
    found: dict[str, Split] = {}
    for name, place in files.items():
        if image := IMAGE.fullmatch(name):
            above, kind, number = image.groups()
            of_class = found.setdefault(above or "", Split()).images.setdefault(class_number(kind), {})
            if int(number) in of_class:
                raise UserError(f"Image {int(number)} is there twice: {name}.")
            of_class[int(number)] = place
        elif array := ARRAY.fullmatch(name):
            above, raw, kind = array.groups()
            split = found.setdefault(above or "", Split())
            (split.raw if raw else split.scene)[class_number(kind)] = place
    return {name: split for name, split in found.items() if split.images and split.raw and split.scene}


def class_number(text: str | None) -> int:
    return NO_CLASS if text is None else int(text)


def choose_split(found: Mapping[str, Split], wished: str | None) -> tuple[str, Split]:
    """Return the only split, or the one named by its folder's name or path; ``train`` means train or trainset."""
    # A split goes by its folder's name, or by its whole path if two folders have the same name.
    last = [PurePosixPath(above).name for above in found]
    names = {name if last.count(name) == 1 else above: above for name, above in zip(last, found, strict=True)}
    if not found:
        raise UserError(
            "No published layout was found: images/NNNNNN.png next to raw_latents.npy and latents.npy, or the same "
            "with _c for each class c."
        )
    if wished is None and len(found) == 1:
        return next(iter(found.items()))
    if wished is not None and wished in found:
        return wished, found[wished]
    for name in (wished, f"{wished}set"):
        if name in names and last.count(name) == 1:
            return names[name], found[names[name]]
    instead = f", not {wished}" if wished else ""
    raise UserError(f"The splits are {', '.join(sorted(names))}: choose one with --split{instead}.")


def read_array(place: ByteRange, name: str, columns: Iterable[int]) -> NDArray[np.float32]:
    """Read a published array, (N, 10) or (N, 11) numbers, without pickle."""
    array = read_npy(Path(name), place.read())
    if array.ndim != 2 or array.shape[1] not in columns or array.dtype.kind != "f":
        raise UserError(f"{name} does not hold numbers in {' or '.join(map(str, columns))} columns.")
    # A double may be too large for the single precision of latents.
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise UserError(f"{name} holds values that are not finite.")
    return array


def infer_world(raw: NDArray[np.float32], scene: NDArray[np.float32], causal: bool) -> tuple[World, dict[str, Any]]:
    """Return the world whose raw → scene mapping explains both arrays, and the mapping of each column.

    Each column is fitted by scene = scale · raw + offset. A world has one scale for positions, one for angles and one
    for hues, and no offset. Eleven raw columns belong to the periodic world, whose mapping only has a position range. A
    column held at 0 has no mapping (None). If all columns of a scale are held at 0, it is the world's default.
    """
    usual = World()
    if raw.shape[1] == 11:
        world = World("3dident-periodic", position_range=scale_of(raw, scene, POSITIONS, usual.position_range))
        mapping: dict[str, Any] = {"kind": "periodic", "position_range": world.position_range}
    else:
        fits = {name: line(raw[:, k], scene[:, k]) for k, name in enumerate(NAMES)}
        scales = {name: fit and {"scale": fit[0], "offset": fit[1]} for name, fit in fits.items()}
        mapping = {"kind": "linear"} | scales
        world = World(
            "causal3dident" if causal else "3dident",
            position_range=scale_of(raw, scene, POSITIONS, usual.position_range),
            angle_range=scale_of(raw, scene, ANGLES, usual.angle_range),
            hue_range=scale_of(raw, scene, HUES, usual.hue_range),
        )
    # Every column may have a fit, and the fits may still be no world: its own mapping has to give every value.
    off = np.abs(world.to_scene(raw) - scene)
    if off.max() > TOLERANCE * max(1.0, world.position_range):
        name = NAMES[int(off.max(axis=0).argmax())]
        raise UserError(
            f"latents.npy does not follow from raw_latents.npy as in any world that ident3d knows: "
            f"{name} is off by {off.max():.3g}."
        )
    return world, mapping


def scale_of(raw: NDArray[np.float32], scene: NDArray[np.float32], group: slice, default: float) -> float:
    """Return the scale that a group of columns shares, or the default if all of them are held at 0."""
    fits = [fit for k in range(group.start, group.stop) if (fit := line(raw[:, k], scene[:, k]))]
    return snap(max(fits)[0], f"range of {NAMES[group][0]}") if fits else default


def line(raw: NDArray[np.float32], scene: NDArray[np.float32]) -> tuple[float, float] | None:
    """Fit scene = scale · raw + offset by least squares; a column held fixed gives a line through 0, or none at 0."""
    x, y = raw.astype(np.float64), scene.astype(np.float64)
    # A least-squares line through a single x has no slope, so that a column held fixed is a case of its own.
    if np.ptp(x) < 1e-9:
        return (float(y[0] / x[0]), 0.0) if x[0] else None
    scale, offset = np.polyfit(x, y, 1)
    return float(scale), float(offset)


def snap(scale: float, name: str) -> float:
    """Return a fitted scale as the round number that it is within float32: a multiple of π/4 or of a quarter."""
    for unit in (0.25, np.pi / 4):
        near = round(scale / unit) * unit
        if near > 0 and abs(scale - near) < TOLERANCE:
            return float(near)
    if not scale > 0:
        raise UserError(f"latents.npy does not grow with raw_latents.npy: the {name} would be {scale:g}.")
    return scale
