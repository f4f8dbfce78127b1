"""``from_image_folder``: make a dataset folder of a folder of pictures with a folder for each class, as of ImageNet."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ident3d.errors import UserError, check_known, os_errors
from ident3d.latents.exact.streams import SPLITS
from ident3d.latents.factors import Factors
from ident3d.loaders.cards.facts import ARRAYS, NOT_SAID
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.lifecycle import Job
from ident3d.loaders.folders.make import make_shards
from ident3d.loaders.format.description import LARGEST_SIDE
from ident3d.loaders.format.files import new_folder, remove_partial_files, sha256
from ident3d.loaders.format.shard import Shard
from ident3d.loaders.layouts.array_table import empty, labels_of
from ident3d.loaders.layouts.pictures import Imported, open_picture
from ident3d.loaders.stores.lease import lease
from ident3d.loaders.stores.store import local_folder
from ident3d.loaders.stores.tar_members import checked_size
from ident3d.machine import cores
from ident3d.progress import progress_bar

ENDINGS: Final = (".jpeg", ".jpg", ".png")
FORMATS: Final = ("JPEG", "PNG")
# Pillow's names of pixels with at most 8 bits a channel.
MODES: Final = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
# With fewer pictures the look at their headers takes no time.
SHOWN_FROM: Final = 10_000
# The usual side of ImageNet's pictures, cut out of the middle.
SIDE: Final = 224


@dataclass(frozen=True)
class Files:
    """Pictures in the order of our numbers, with their classes."""

    paths: Sequence[Path]
    classes: NDArray[np.signedinteger[Any]]


def from_image_folder(
    source: Path | str,
    out: Path | str,
    *,
    size: int = SIDE,
    split: str = "train",
    class_names: Sequence[str] | None = None,
    name: str | None = None,
    licence: str = NOT_SAID,
    citation: str = NOT_SAID,
    shard_size: int | None = None,
    workers: int | None = None,
    show_progress: bool = True,
) -> Imported:
    """Make a dataset folder of pictures that lie in a folder for each class, such as ImageNet's train/n01440764/….JPEG.

    Each picture is made so small that its shorter side has `size` pixels (bicubic), and the square in its middle is
    kept, in colours; what is transparent becomes black. Pictures are decoded shard by shard, and the same call goes on
    where an interrupted one stopped.

    Args:
        source: The folder of the classes' folders. Pictures are JPEG or PNG files; others are left out.
        out: A new dataset folder.
        size: The images' side in pixels.
        split: "train" or "test": what `train` and `evaluate` take the folder for.
        class_names: The names of classes 0, 1, and so on, each the name of a folder; by default all folders by name. A
            test set needs those of its training set if it lacks some.
        name: The name of the data on the card; by default that of the folder.
        licence: Their licence, for the card.
        citation: How to cite them, for the card.
        shard_size: Images in a shard.
        workers: Processes that decode pictures. A script that uses several needs ``if __name__ == "__main__":``.
        show_progress: Show a progress bar.

    Returns:
        An `Imported`: the folder, and how many images were written.

    Example:
        >>> import ident3d, numpy as np
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> for kind, level in (("dark", 20), ("light", 220)):
        ...     Path("pictures", kind).mkdir(parents=True)
        ...     Image.fromarray(np.full((40, 60, 3), level, np.uint8)).save(f"pictures/{kind}/0.png")
        >>> made = ident3d.from_image_folder("pictures", "kinds", size=32, workers=1, show_progress=False)
        >>> ident3d.ImageDataset("kinds").factors.classes
        ('dark', 'light')
    """
    started, source, out = datetime.now(UTC), local_folder(source), local_folder(out)
    check_known("split", split, SPLITS)
    if not 1 <= size <= LARGEST_SIDE:
        raise UserError(f"Images have a side of 1 to {LARGEST_SIDE} pixels, not {size}; see --size.")
    files, names = files_of(source, class_names)
    settings: dict[str, Any] = {
        "world": Factors((), names).as_dict(),
        "source": {
            "kind": "import",
            "layout": ARRAYS,
            "from": "pictures",
            "split": split,
            "files_sha256": listing_sha256(source, files.paths),
            "labels_sha256": sha256(files.classes.tobytes()),
        },
        "origin": {
            "name": name or out.resolve().name,
            "source": f"{len(files.paths):,} pictures of {source.name}, cut out of their middle",
            "licence": licence,
            "citation": citation,
        },
        "size": size,
        "quality": None,
        "material": "as imported",
        "device": "unknown",
        "versions": {"ident3d": version("ident3d")},
    }
    if not is_dataset(out):
        check_headers(files.paths, show_progress)
    with new_folder(out), lease(out) as held:
        remove_partial_files(out)
        description, due = make_shards(
            out, held, settings, len(files.paths), partial(part_of, files), shard_of, started=started,
            shard_size=shard_size, workers=workers or cores(), show_progress=show_progress, imported=source.name,
        )  # fmt: skip
    return Imported(out, description.n, due)


def files_of(source: Path, class_names: Sequence[str] | None) -> tuple[Files, tuple[str, ...]]:
    """Return the pictures of all classes by name of their file, so that classes take turns, and the classes' names."""
    if not source.is_dir():
        raise UserError(f"There is no folder {source} with a folder for each class.")
    with os_errors(f"The folder {source} cannot be read"):
        folders = sorted(without_link(path) for path in source.iterdir() if path.is_dir())
        found = {folder.name: pictures_in(folder) for folder in folders}
    found = {name: paths for name, paths in found.items() if paths or name in (class_names or ())}
    if not any(found.values()):
        raise UserError(f"{source} has no folder with pictures in it ({', '.join(ENDINGS)}), one for each class.")
    # The k-th pictures of all classes come before the next ones: the first images of a set are then of all classes.
    order = sorted((k, name, path) for name, paths in found.items() for k, path in enumerate(paths))
    labels, names = labels_of([name for _, name, _ in order], class_names)
    assert labels is not None
    return Files([path for _, _, path in order], labels), names


def check_headers(paths: Sequence[Path], show_progress: bool) -> None:
    """Raise UserError for the first picture that cannot be opened, before any is decoded.

    An import without that picture has other numbers, so that nothing decoded until then could be kept.
    """
    bar = progress_bar(len(paths), "pictures looked at", show=show_progress and len(paths) >= SHOWN_FROM)
    with bar:
        for path in paths:
            checked_size(path.name, path.stat().st_size)
            with open_picture(str(path), path, FORMATS) as picture:
                check_mode(str(path), picture)
            bar.update()


def pictures_in(folder: Path) -> list[Path]:
    """Return a folder's pictures by name."""
    named = (path for path in folder.iterdir() if path.suffix.lower() in ENDINGS and path.is_file())
    return sorted(without_link(path) for path in named)


def without_link(path: Path) -> Path:
    """Return the path; raise UserError if it is a link, which may lead out of the folder that the user named."""
    if path.is_symlink():
        raise UserError(f"{path} is a link, and none is followed; put a copy in its place.")
    return path


def listing_sha256(source: Path, paths: Sequence[Path]) -> str:
    """Return the hash of the pictures' names and sizes: an interrupted call goes on with the same files alone."""
    return sha256("".join(f"{path.relative_to(source)} {path.stat().st_size}\n" for path in paths).encode())


def part_of(files: Files, job: Job) -> Files:
    rows = slice(job.first, job.first + job.count)
    return Files(files.paths[rows], files.classes[rows])


def shard_of(settings: dict[str, Any], job: Job, own: Files) -> Shard:
    """Decode one shard's pictures."""
    images = np.stack([square(path, settings["size"]) for path in own.paths])
    none, index = empty(job.count), np.arange(job.first, job.first + job.count, dtype=np.int64)
    return Shard(images, none, none, index, own.classes)


def square(path: Path, size: int) -> NDArray[np.uint8]:
    """Return the square in the middle of a picture, (size, size, 3), its shorter side made `size` pixels long."""
    checked_size(path.name, path.stat().st_size)
    with open_picture(str(path), path.read_bytes(), FORMATS) as picture:
        plain = in_colours(str(path), picture)
        scale = size / min(plain.size)
        sides = [max(size, round(side * scale)) for side in plain.size]
        starts = [(side - size) // 2 for side in sides]
        # Only the square is made: of a picture that is long and thin, all of it may be a thousand times as large.
        ends = [start + size for start in starts]
        left, top, right, bottom = (
            place * whole / side
            for places in (starts, ends)
            for place, whole, side in zip(places, plain.size, sides, strict=True)
        )
        small = plain.resize((size, size), Image.Resampling.BICUBIC, (left, top, right, bottom))
        return np.asarray(small).copy()


def check_mode(name: str, picture: Image.Image) -> None:
    """Raise UserError for pixels that Pillow cannot turn into colours of 8 bits."""
    # It cuts the levels of other modes, such as grey of 16 bits, off at 255.
    if picture.mode not in MODES:
        raise UserError(f"{name}: a picture has pixels of the kind {picture.mode}; save it with 8 bits a channel.")


def in_colours(name: str, picture: Image.Image) -> Image.Image:
    """Return a picture in colours, on black where it is transparent."""
    check_mode(name, picture)
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    pixels = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", pixels.size, "black"), pixels).convert("RGB")
