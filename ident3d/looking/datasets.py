"""``datasets``: every data set that can be had here, and the command for each."""

from dataclasses import dataclass
from typing import Final

from tabulate import tabulate

from ident3d.downloads.labelled_sets import LABELLED_SETS
from ident3d.latents.worlds import World
from ident3d.loaders.cards.text import TERMS
from ident3d.loaders.layouts import dsprites_npz, kitti_annotations, kitti_masks, published
from ident3d.sprites import natural, transitions
from ident3d.sprites.dsprites import FACTORS, grid_size
from ident3d.sprites.generate import ORIGIN
from ident3d.sprites.outlines import SIZE

RENDERED, GENERATED, FETCHED, IMPORTED = "rendered", "generated", "fetched", "imported"
# Of images whose number or size is the user's choice.
ANY: Final = "any"


@dataclass(frozen=True)
class Dataset:
    """One data set: where its images come from, how many and how large they are, their factors, terms and command."""

    name: str
    source: str
    images: int | str
    size: int | str
    factors: tuple[str, ...]
    terms: str
    command: str

    @property
    def count(self) -> str:
        """How many images of which size, in words."""
        images = f"{self.images:,}" if isinstance(self.images, int) else self.images
        return f"{images} of {self.size}×{self.size}" if isinstance(self.size, int) else images


@dataclass(frozen=True)
class Datasets:
    """Every data set, in the order in which it is shown."""

    datasets: tuple[Dataset, ...]

    def table(self) -> str:
        """Return two tables: commands are to be copied, so that their column must not be broken."""
        rows = [(data.name, data.source, data.count, data.command) for data in self.datasets]
        more = [(data.name, ", ".join(data.factors), data.terms) for data in self.datasets]
        first = tabulate(rows, ("name", "source", "images", "command"), disable_numparse=True)
        second = tabulate(more, ("name", "factors", "terms"), maxcolwidths=[None, 44, 40], disable_numparse=True)
        return f"{first}\n\n{second}"


def datasets() -> Datasets:
    """Return every data set that can be rendered, generated, fetched or imported: with factors, terms and command.

    Returns:
        `Datasets`, whose `table` shows them.

    Example:
        >>> import ident3d
        >>> found = {data.name: data for data in ident3d.datasets().datasets}
        >>> found["dsprites"].images, found["dsprites"].command
        (737280, 'ident3d sprites dsprites')
    """
    return Datasets((*rendered(), *sprites(), *labelled(), *archives(), *own()))


def rendered() -> tuple[Dataset, ...]:
    """Return the scenes. The commands give the papers' numbers of training images."""
    commands = {
        "3dident": "ident3d render --n 250000",
        "3dident-periodic": "ident3d render --scene 3dident-periodic --n 250000",
        "causal3dident": "ident3d render --scene causal3dident --n 252000",
    }
    meshes = {"causal3dident": " Its meshes are other people's: see `ident3d meshes`."}
    return tuple(
        Dataset(scene, RENDERED, ANY, ANY, World(scene).names, TERMS + meshes.get(scene, ""), command)
        for scene, command in commands.items()
    )


def sprites() -> tuple[Dataset, ...]:
    """Return the sets of sprites."""
    whole, names = grid_size(FACTORS), FACTORS.names
    moved, make = natural.FACTORS.names, "ident3d sprites natural --from"
    masks = f"those of KITTI Masks: {kitti_masks.ORIGIN['licence']}"
    return (
        Dataset("dsprites", GENERATED, whole, SIZE, names, ORIGIN["licence"], "ident3d sprites dsprites"),
        Dataset("natural", GENERATED, "2 a transition", SIZE, moved, transitions.TABLE_TERMS, f"{make} TABLE.csv"),
        Dataset("natural, KITTI transitions", GENERATED, transitions.KITTI_PAIRED, SIZE, moved, masks, f"{make} KITTI"),
        Dataset(
            "natural, grid",
            GENERATED,
            natural.GRID_IMAGES,
            SIZE,
            moved,
            "as its transitions",
            f"{make} KITTI --images grid",
        ),
    )


def archives() -> tuple[Dataset, ...]:
    """Return the published files that a user may have."""
    record = published.LICENCE
    pictures = [("3dident", "250,000 and 25,000"), ("causal3dident", "252,000 and 25,200")]
    return (
        *(
            Dataset(
                f"{name}, published", IMPORTED, images, 224, World(name).names, record, f"ident3d import {name}.tar OUT"
            )
            for name, images in pictures
        ),
        Dataset(
            "dsprites, published", IMPORTED, grid_size(FACTORS), SIZE, FACTORS.names, dsprites_npz.LICENCE,
            "ident3d import dsprites.npz OUT",
        ),
        Dataset(
            "kitti-masks, published", IMPORTED, kitti_masks.FRAMES, kitti_annotations.SIZE, kitti_masks.FACTORS.names,
            kitti_masks.ORIGIN["licence"], "ident3d import kitti-masks OUT --from PICKLE",
        ),
        Dataset(
            "kitti-masks, rebuilt", IMPORTED, kitti_masks.FRAMES, kitti_annotations.SIZE, kitti_masks.FACTORS.names,
            kitti_masks.ORIGIN["licence"], "ident3d import kitti-masks OUT --from KITTI-MOTS --from MOTSChallenge",
        ),
    )  # fmt: skip


def labelled() -> tuple[Dataset, ...]:
    """Return the sets of images with class labels that are fetched by name."""
    return tuple(
        Dataset(
            name,
            FETCHED,
            sum(each.images.values()),
            each.size,
            ("class",),
            each.terms,
            f"ident3d datasets fetch {name}",
        )
        for name, each in LABELLED_SETS.items()
    )


def own() -> tuple[Dataset, ...]:
    """Return what stands for anybody's own images."""
    said, command = "as you say them", "ident3d import --arrays IMAGES LATENTS OUT"
    return (
        Dataset("your own arrays", IMPORTED, ANY, ANY, ("as you declare them",), said, command),
        Dataset(
            "your own pictures", IMPORTED, ANY, ANY, ("class",), said, "ident3d import --folder DIR OUT --size 224"
        ),
    )
