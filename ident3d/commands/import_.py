"""``ident3d import``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import option, options, show
from ident3d.commands.parameters import FILE, FOLDER, assignment, names
from ident3d.errors import UserError

NO_LATENTS = "none"


@click.command(name="import")
@click.argument("places", metavar="[SRC] OUT", nargs=-1, required=True, type=click.Path(path_type=Path))
@options(
    option("--split", default=None, show_default="the only one there is, or train"),
    option("--licence", show_default="that of the Zenodo record", help="Licence of the data, for the card."),
    option("--citation", show_default="the published paper", help="What to cite, for the card."),
    "--workers",
    "--shard-size",
    "--json",
)
@options(
    option(
        "--arrays",
        nargs=2,
        type=FILE,
        metavar="IMAGES LATENTS",
        help="Two .npy files: images (n, S, S) or (n, S, S, 3), and values of their factors (n, d), or `none`.",
    ),
    "--names",
    option(
        "--kinds",
        type=names(),
        show_default="box",
        help="Kinds of the latents, separated by commas: box, periodic (in radians) or categorical.",
    ),
    option("--like", type=FOLDER, help="Take the factors and classes of this dataset: for a test set."),
    "--class-file",
    option(
        "--column",
        multiple=True,
        metavar="NAME=FILE",
        type=assignment("frame=frames.npy", Path),
        help="A whole number for each image, a .npy file: sequence, frame or environment; repeatable.",
    ),
    option("--images-per-chunk", default=1, help="Compress so many images together: 32 suits black and white ones."),
    option("--unit", is_flag=True, help="The images are numbers from 0 to 1."),
    section="Anybody's arrays",
)
def import_(places: tuple[Path, ...], arrays: tuple[Path, Path] | None, as_json: bool, **given: Any) -> None:
    """Turn published files, or anybody's arrays, into a dataset folder.

    SRC is a folder, a .tar or a compressed .tar in the layout of the Zenodo archives; nothing is unpacked to disk.
    Stray files are ignored. The split `train` is a folder train or trainset. With --arrays there is no SRC. The same
    command continues an interrupted import.
    """
    together = given.pop("images_per_chunk")
    own = {name: given.pop(name) for name in ("names", "kinds", "like", "class_file", "column", "unit")}
    if len(places) != (1 if arrays else 2):
        raise UserError("Give SRC and OUT, or --arrays IMAGES LATENTS and OUT.")
    # A bar would stand between the lines of --json if both go to one file.
    given |= {"out": places[-1], "show_progress": not as_json}
    if arrays:
        result = from_files(arrays, images_per_chunk=together, **own, **given)
    else:
        from ident3d.loaders.layouts.importing import import_

        if useless := [name for name, value in own.items() if value]:
            raise UserError(f"--{useless[0].replace('_', '-')} belongs to --arrays.")
        result = import_(places[0], **given)
    show(result, as_json, f"{result.path}: {result.n:,} images, {result.imported:,} of them imported now")


def from_files(
    arrays: tuple[Path, Path], *, like: Path | None, class_file: Path | None, column: tuple[tuple[str, Path], ...],
    split: str | None, workers: int | None, **given: Any,
) -> Any:  # fmt: skip
    """Call from_arrays with what the files hold."""
    from ident3d.latents.factors import Factors
    from ident3d.loaders.folders.folder import read_description
    from ident3d.loaders.format.latents_source import read_npy
    from ident3d.loaders.layouts.arrays import from_arrays
    from ident3d.machine import cores

    if like:
        declared = read_description(like).settings["world"]
        if "scene" in declared:
            raise UserError(f"{like} shows a scene; --like takes a dataset that was made of arrays.")
        given["factors"] = Factors.from_dict(declared)
    images, latents = arrays
    # Images are mapped, not read: there may be more of them than memory.
    return from_arrays(
        read_npy(images, mapped=True),
        None if str(latents) == NO_LATENTS else read_npy(latents),
        classes=read_npy(class_file) if class_file else None,
        columns={name: read_npy(path) for name, path in column},
        split=split or "train",
        workers=workers or cores(),
        source=f"{images.name}, {latents.name}",
        **{name: value for name, value in given.items() if value is not None},
    )
