"""Importing 3DIdent and Causal3DIdent: pictures and arrays in the published layouts, in a folder or an archive."""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ident3d.errors import UserError
from ident3d.loaders.exports.origins import ORIGINS
from ident3d.loaders.folders.lifecycle import Job
from ident3d.loaders.folders.make import make_shards
from ident3d.loaders.format.description import LARGEST_SIDE
from ident3d.loaders.format.files import TEMPORARY, new_folder, remove_partial_files, sha256
from ident3d.loaders.format.shard import Shard
from ident3d.loaders.layouts import published
from ident3d.loaders.layouts.published import LICENCE, NO_CLASS, Split
from ident3d.loaders.stores.lease import lease
from ident3d.loaders.stores.tar_members import ByteRange, byte_ranges
from ident3d.machine import cores


@dataclass(frozen=True)
class Imported:
    """What an import made: images in all, and those of this run."""

    path: Path
    n: int
    imported: int


@dataclass(frozen=True)
class Content:
    """All that is imported, in the order of our numbers: where each image is, and the latents."""

    images: Sequence[ByteRange]
    raw: NDArray[np.float32]
    scene: NDArray[np.float32]
    classes: NDArray[np.int8] | None


def import_pictures(
    source: Path,
    out: Path,
    *,
    split: str | None,
    licence: str | None,
    citation: str | None,
    workers: int | None,
    shard_size: int | None,
    show_progress: bool,
) -> Imported:
    """Make a dataset folder from pictures and arrays: a folder, a .tar or a compressed .tar.

    Images of several classes take turns: image k of class c comes before image k of class c + 1. The raw → scene
    mapping is inferred from the two arrays and recorded. An import keeps what an interrupted one has finished.
    """
    started = datetime.now(UTC)
    # Next to the dataset, on the disk that must hold it anyway; inside, an interrupted import would leave it there.
    target = out.resolve()
    scratch = target.with_name(f"{TEMPORARY}{target.name}-members")
    with new_folder(out), lease(out) as held:
        remove_partial_files(out)
        # A killed import left it, or anybody put a link there: the folder above may be everybody's.
        scratch.unlink(missing_ok=True)
        try:
            files = byte_ranges(source, published.is_published, scratch, show_progress)
            above, chosen = published.choose_split(published.splits(files), split)
            content = content_of(chosen)
            settings = settings_of(source, above, content, licence, citation)
            description, due = make_shards(
                out,
                held,
                settings,
                len(content.images),
                partial(part, content),
                shard_of,
                started=started,
                shard_size=shard_size,
                workers=workers or cores(),
                show_progress=show_progress,
                imported=source.name,
            )
        finally:
            scratch.unlink(missing_ok=True)
    return Imported(out, description.n, due)


def content_of(split: Split) -> Content:
    """Return the latents and images of a split, checked against each other and in our order."""
    kinds = sorted(split.images)
    if sorted(split.raw) != kinds or sorted(split.scene) != kinds or (NO_CLASS in kinds and len(kinds) > 1):
        raise UserError("The classes of the images are not the classes of the latents.")
    if max(kinds) > np.iinfo(np.int8).max:
        raise UserError(f"There is no class {max(kinds)}.")
    raws, scenes, order = [], [], []
    for kind in kinds:
        label = "" if kind == NO_CLASS else f"_{kind}"
        raw = published.read_array(split.raw[kind], f"raw_latents{label}.npy", (10, 11))
        scene = published.read_array(split.scene[kind], f"latents{label}.npy", (10,))
        images = split.images[kind]
        if not len(raw) == len(scene) == len(images):
            raise UserError(
                f"images{label} has {len(images)} pictures, raw_latents{label}.npy {len(raw)} rows, "
                f"latents{label}.npy {len(scene)}."
            )
        if sorted(images) != list(range(len(images))):
            missing = min(set(range(len(images))) - set(images))
            raise UserError(f"images{label} lacks number {missing}.")
        raws.append(raw)
        scenes.append(scene)
        order += [(number, kind, images[number]) for number in range(len(images))]
    if len({raw.shape[1] for raw in raws}) > 1:
        raise UserError("The raw latents of the classes have different numbers of columns.")
    # Image 0 of each class, then image 1 of each class, and so on.
    turn = sorted(range(len(order)), key=lambda i: order[i][:2])
    classes = None if NO_CLASS in kinds else np.array([order[i][1] for i in turn], np.int8)
    return Content([order[i][2] for i in turn], np.concatenate(raws)[turn], np.concatenate(scenes)[turn], classes)


def settings_of(
    source: Path, above: str, content: Content, licence: str | None, citation: str | None
) -> dict[str, Any]:
    """Return the settings that dataset.json records: the inferred world, and where everything comes from."""
    causal = content.classes is not None
    world, mapping = published.infer_world(content.raw, content.scene, causal)
    # `verify` has no seed to compare imported latents with, so that their ranges are checked here.
    world.check_raw(content.raw)
    layout = "causal3dident" if causal else "3dident"
    origin = ORIGINS[layout] | {"licence": licence or LICENCE}
    return {
        "world": world.as_dict(),
        "source": {
            "kind": "import",
            "layout": layout,
            "from": source.name,
            "split": above,
            "raw_latents_sha256": sha256(content.raw.tobytes()),
            "raw_to_scene": mapping,
        },
        "origin": origin | ({"citation": citation} if citation else {}),
        "size": len(decode(content.images[0], None)),
        "quality": None,
        "material": "as imported",
        "device": "unknown",
        "versions": {"ident3d": version("ident3d")},
    }


def part(content: Content, job: Job) -> Content:
    rows = slice(job.first, job.first + job.count)
    classes = None if content.classes is None else content.classes[rows]
    return Content(content.images[rows], content.raw[rows], content.scene[rows], classes)


def shard_of(settings: dict[str, Any], job: Job, own: Content) -> Shard:
    """Decode one shard's pictures."""
    images = np.stack([decode(place, settings["size"]) for place in own.images])
    index = np.arange(job.first, job.first + job.count, dtype=np.int64)
    return Shard(images, own.raw, own.scene, index, own.classes)


def decode(place: ByteRange, size: int | None) -> NDArray[np.uint8]:
    """Return a square picture as (size, size, 3) bytes, without its transparency."""
    with open_picture(place.path.name, place.read(), ("PNG",)) as picture:
        width, height = picture.size
        plain = picture.mode in ("RGB", "RGBA") and width == height <= LARGEST_SIDE
        if not plain or size not in (None, width):
            raise UserError(
                f"{place.path.name}: a picture is {width}×{height} {picture.mode}; all must be square RGB pictures of "
                f"one size, of at most {LARGEST_SIDE} pixels."
            )
        return np.asarray(picture)[..., :3].copy()


@contextmanager
def open_picture(name: str, data: bytes | Path, formats: tuple[str, ...]) -> Iterator[Image.Image]:
    """Open a picture's bytes, or its file for the header alone; what goes wrong with it is one sentence that names it.

    That holds while it is decoded too.
    """
    # Pillow only warns of a picture that would fill the memory; here that is an error. Of its many parsers only those
    # of the formats see the file.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data) if isinstance(data, bytes) else data, formats=formats) as picture:
                yield picture
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError(f"{name}: a picture is larger than Pillow's limit allows: {error}") from None
    except MemoryError:
        raise UserError(f"{name}: there is not enough memory for a picture.") from None
    except UnidentifiedImageError:
        raise UserError(
            f"{name}: a picture cannot be read: it is no {' or '.join(formats)} file, or one that is cut short."
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{name}: a picture cannot be read ({error}).") from None
