"""``ident3d import``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ident3d.commands.options import Sectioned, option, options
from ident3d.commands.output import print_warnings, show
from ident3d.commands.parameters import FILE, FOLDER, assignment, names
from ident3d.errors import UserError

if TYPE_CHECKING:
    from ident3d.latents.factors import Factors

NO_LATENTS = "none"


@click.command(name="import", cls=Sectioned)
@click.argument("places", metavar="[SRC] OUT", nargs=-1, type=click.Path(path_type=Path))
@options(
    option("--from", "sources", multiple=True, type=click.Path(path_type=Path)),
    option("--split", default=None, show_default="the only one there is, or train"),
    option("--licence", show_default="that of the published data"),
    option("--citation", show_default="the published paper"),
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
        help="Kinds of the latents: box, periodic (in radians) or categorical.",
    ),
    option("--like", type=FOLDER, help="Take the factors and classes of this dataset: for a test set."),
    "--class-file",
    option(
        "--column",
        multiple=True,
        metavar="NAME=FILE",
        type=assignment("frame=frames.npy", Path),
        help="A whole number for each image, a .npy file: sequence, frame, instance, view or environment; repeatable.",
    ),
    option(
        "--images-per-chunk",
        type=int,
        show_default="1",
        help="Compress so many images together: 32 suits black and white ones.",
    ),
    option("--unit", is_flag=True, help="The images are numbers from 0 to 1."),
    section="Anybody's arrays",
)
@options(
    option("--folder", type=FOLDER, help="A folder of pictures (.jpeg, .png) with a folder for each class."),
    option("--size", show_default="224"),
    section="Anybody's pictures",
)
def import_(
    places: tuple[Path, ...], sources: tuple[Path, ...], arrays: tuple[Path, Path] | None, folder: Path | None,
    size: int | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Turn published files, or anybody's arrays or pictures, into a dataset folder.

    SRC is a folder, a .tar or a compressed .tar in the layout of the Zenodo archives, the .npz file of dSprites, the
    pickle of KITTI Masks, or what `ident3d export --to` wrote; nothing is unpacked to disk. With --from, SRC is the
    name of the data: 3dident, causal3dident, dsprites or kitti-masks. With --arrays or --folder there is no SRC; of
    pictures the square in the middle is kept. Stray files are ignored. The split `train` is a folder train or trainset.
    The same command continues an interrupted import.

    \b
      ident3d import 3dident_train.tar data/3dident
      ident3d import dsprites.npz data/dsprites
      ident3d import shared data/shared --split test
      ident3d import kitti-masks data/kitti --from kitti_peds_v2.pickle
      ident3d import kitti-masks data/kitti --from KITTI-MOTS --from MOTSChallenge
      ident3d import --folder imagenet/train data/imagenet/train --size 224
      ident3d import --folder imagenet/val data/imagenet/test --split test --like data/imagenet/train
    """
    own = {name: given.pop(name) for name in ("names", "kinds", "like", "class_file", "column", "unit")}
    own["images_per_chunk"] = given.pop("images_per_chunk")
    if len(places) != (1 if arrays or folder else 2):
        raise UserError(
            "Give SRC and OUT, or --folder DIR and OUT, or --arrays IMAGES LATENTS and OUT: two .npy files and the new "
            "folder; `--arrays images.npy none OUT` without latents."
        )
    if (arrays or folder) and sources:
        raise UserError("--from belongs to published data, and not to --arrays or --folder.")
    if size is not None and not folder:
        raise UserError("--size belongs to --folder; other images keep their size.")
    if arrays and folder:
        raise UserError("Give --arrays or --folder, and not both.")
    # A bar would stand between the lines of --json if both go to one file.
    given |= {"out": places[-1], "show_progress": not as_json}
    if arrays:
        result = from_files(arrays, **own, **given)
    elif folder:
        from ident3d.loaders.layouts.image_folder import SIDE, from_image_folder

        like = own.pop("like")
        refuse(own, "--arrays")
        if like:
            given["class_names"] = declared_by(like).classes
            if not given["class_names"]:
                raise UserError(f"{like} has no classes to take.")
        split = given.pop("split") or "train"
        chosen = {name: value for name, value in given.items() if value is not None}
        result = from_image_folder(folder, size=SIDE if size is None else size, split=split, **chosen)
    else:
        from ident3d.loaders.layouts.importing import import_

        refuse(own, "--arrays or --folder" if own["like"] else "--arrays")
        with print_warnings():
            result = import_(sources or places[0], data=str(places[0]) if sources else None, **given)
    show(result, as_json, f"{result.path}: {result.n:,} images, {result.imported:,} of them imported now")


def refuse(given: dict[str, Any], option: str) -> None:
    """Raise UserError for the first of these options that was given without the one that they belong to."""
    if useless := [name for name, value in given.items() if value]:
        raise UserError(f"--{useless[0].replace('_', '-')} belongs to {option}.")


def declared_by(like: Path) -> "Factors":
    """Return the factors and classes of a dataset; raise UserError if it shows a scene."""
    from ident3d.latents.factors import Factors
    from ident3d.loaders.format.description import read_description

    declared = read_description(like).settings["world"]
    if "scene" in declared:
        raise UserError(f"{like} shows a scene; --like takes a dataset that was made of arrays or pictures.")
    return Factors.from_dict(declared)


def from_files(
    arrays: tuple[Path, Path], *, like: Path | None, class_file: Path | None, column: tuple[tuple[str, Path], ...],
    split: str | None, workers: int | None, **given: Any,
) -> Any:  # fmt: skip
    """Call from_arrays with what the files hold."""
    from ident3d.loaders.format.latents_source import read_npy
    from ident3d.loaders.layouts.arrays import from_arrays
    from ident3d.machine import cores

    if like:
        given["factors"] = declared_by(like)
    images, latents = arrays
    # Images are mapped, not read: there may be more of them than memory.
    return from_arrays(
        read_npy(images, mapped=True),
        None if str(latents) == NO_LATENTS else read_npy(latents),
        classes=read_npy(class_file) if class_file else None,
        columns={name: read_npy(path) for name, path in column},
        split=split or "train",
        workers=cores() if workers is None else workers,
        source=f"{images.name}, {latents.name}",
        **{name: value for name, value in given.items() if value is not None},
    )
