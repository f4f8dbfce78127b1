"""``explore``: one page to look around in a dataset, or in what a run has made of one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError, os_errors
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.format.files import write_atomically
from ident3d.training.explorer.choose import choose_images
from ident3d.training.explorer.codes import MOST_CODES, ShownCodes, shown_codes
from ident3d.training.explorer.contents import about, contents, megabytes, shown_columns
from ident3d.training.explorer.coordinates import Coordinates, coordinates_of
from ident3d.training.explorer.page import fill_page
from ident3d.training.explorer.sheets import Sheets, check_size, make_sheets, tiles_of
from ident3d.training.explorer.source import Source, open_source

# Bytes of a page, all of it.
LARGEST: Final = 20_000_000
# Of these, besides images, latents and codes.
ROOM: Final = 400_000
# Images, and their width, if nothing is said.
COUNT, SIZE = 2000, 128
MOST: Final = 50_000
# Bytes of pixels that are in memory at once. Pictures of so many hardly ever fit into a page.
MOST_PIXELS: Final = 2**29


@dataclass(frozen=True)
class Explored:
    """A written page: how many of how many images it shows, how large, and its own size in bytes."""

    path: Path
    images: int
    total: int
    size: int
    latents: tuple[str, ...]
    codes: int
    bytes: int

    def text(self) -> str:
        shown = f"{self.images:,} of {self.total:,} images of {self.size}x{self.size} pixels"
        return f"{self.path}: {shown}, {megabytes(self.bytes)}. Open it in a browser."


def explore(
    path: Path | str,
    out: Path | str | None = None,
    *,
    count: int | None = None,
    size: int | None = None,
    data: Path | str | None = None,
    encoder: str | Callable[..., Any] | None = None,
    device: str = "auto",
    root: Path | str | None = None,
    show_progress: bool = True,
) -> Explored:
    """Write one HTML page to look around in: a slider for each latent, which shows the nearest image as it moves.

    Nearest in latents from -1 to 1: d² = Σ (z - t)², the shorter way round for periodic ones. Images of the asked
    categories go before all others. Of a run the page shows codes as well: clouds of any two latents and codes, and
    images along one of them. It holds all that it shows, loads nothing, and has less than 20 MB. Equal input gives
    equal bytes.

    Args:
        path: A dataset folder, its address in a store, or a run's folder.
        out: The page; by default DIR-explore.html beside the dataset, or explore.html in the run's folder.
        count: The number of images, spread evenly, in whole sequences or instances; by default 2,000, or fewer if they
            are large.
        size: The width that images are averaged down to; by default as stored, at most 128.
        data: Of a run: the folder whose images are shown; by default the matching test set, else the training set.
        encoder: A user's own encoder of the run, given or named as in training.
        device: "auto", "cpu", "cuda" or "mps".
        root: The data root.
        show_progress: Show progress bars.

    Returns:
        An `Explored`: the file, the numbers of images and codes, and its size.

    Example:
        >>> import ident3d
        >>> page = ident3d.explore(dataset, "look.html", show_progress=False)
        >>> page.images, page.size, page.bytes < 20e6
        (16, 16, True)
        >>> ident3d.explore(run, data=test_set, device="cpu", show_progress=False).codes
        10
    """
    if count is not None and not 1 <= count <= MOST:
        raise UserError(f"A page shows 1 to {MOST:,} images, not {count:,}.")
    if size is not None:
        check_size(size)
    source = open_source(path, data, encoder, root)
    target = page_path(source, out)
    images = source.images
    coordinates = coordinates_of(images)
    if not (coordinates.axes or source.run):
        raise UserError(f"The images of {path} have no latents to look around in; `ident3d preview` shows them.")
    most_codes = MOST_CODES if source.run else 0
    numbers, sheets = shown_images(
        images, coordinates, most_codes, count, min(size or SIZE, images.size), show_progress
    )
    codes = source.codes(numbers, device, show_progress)
    shown = None if codes is None else shown_codes(coordinates.axes, coordinates.table[numbers], codes)
    names = coordinates.moving(numbers)
    page = fill_page(
        titles(source, len(names), shown),
        about(images, numbers, sheets),
        contents(images, coordinates, numbers, sheets, shown),
    )
    if len(page) >= LARGEST:
        raise too_large(len(numbers), sheets.size)
    with os_errors(f"The page cannot be written to {target}"):
        write_atomically(target, page)
    return Explored(
        target, len(numbers), len(images), sheets.size, names, 0 if codes is None else codes.shape[1], len(page)
    )


def page_path(source: Source, out: Path | str | None) -> Path:
    """Return where the page goes; raise UserError if it cannot, before any work is done."""
    target = source.page if out is None else Path(out)
    if target.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{target} does not have the ending of a page; use a name such as {target.stem}.html.")
    if not target.absolute().parent.is_dir():
        raise UserError(f"There is no folder {target.absolute().parent} to write {target.name} to.")
    return target


def shown_images(
    images: ImageDataset, coordinates: Coordinates, codes: int, count: int | None, size: int, show: bool
) -> tuple[NDArray[np.int64], Sheets]:
    """Return the numbers of the images of a page with at most so many codes, and their sheets, which fit into it."""
    wanted = min(COUNT if count is None else count, len(images))
    while True:
        numbers = choose_images(images, coordinates.table, wanted)
        # Base64 has four characters for three bytes. Further columns have eight bytes a number, all others four.
        columns = 1 + coordinates.table.shape[1] + codes + 2 * len(shown_columns(images))
        budget = (LARGEST - ROOM) * 3 // 4 - 4 * columns * len(numbers)
        if len(numbers) * size * size * images.shape[2] <= MOST_PIXELS:
            sheets = make_sheets(tiles_of(images, numbers, size, show=show), budget)
            if sheets:
                return numbers, sheets
        if count is not None or wanted < 2:
            raise too_large(len(numbers), size)
        # Nobody asked for so many of them.
        wanted //= 2


def too_large(count: int, size: int) -> UserError:
    return UserError(
        f"A page of {count:,} images of {size} pixels has more than {LARGEST / 1e6:.0f} MB; ask for fewer with --n, or "
        "for smaller ones with --size."
    )


def titles(source: Source, latents: int, codes: ShownCodes | None) -> tuple[str, str]:
    """Return the page's title, and the line below it."""
    what = counted(latents, "latent") if latents else counted(len(source.images), "image")
    return (what if codes is None else f"{what}, {counted(codes.total, 'code')}"), source.subtitle


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
