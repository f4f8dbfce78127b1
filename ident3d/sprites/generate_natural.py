"""``natural_sprites``: generate Natural Sprites, or a part of them, as a dataset folder."""

from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from numpy.typing import ArrayLike

from ident3d.loaders.stores.store import local_folder
from ident3d.sprites.canvas import SIZE
from ident3d.sprites.dsprites import Where
from ident3d.sprites.folder import Generated, check_making, make_sprites
from ident3d.sprites.natural import DISCRETE, GRID, choose_images, shard_of
from ident3d.sprites.transitions import CITATION, NAME, Transitions, read_transitions

# Compressed together: the two of a pair, which are read together.
CHUNK_IMAGES: Final = 2
GIVEN: Final = {
    "name": f"{NAME} at given latents",
    "source": "sprites drawn by ident3d at a user's own latents",
    "licence": "ident3d claims no rights in images that it generates",
    "citation": CITATION,
}


def natural_sprites(
    out: Path | str,
    transitions: Transitions | Path | str | None = None,
    *,
    images: str = DISCRETE,
    where: Where | None = None,
    n: int | None = None,
    seed: int = 0,
    split: str = "train",
    latents: ArrayLike | None = None,
    workers: int | None = None,
    shard_size: int | None = None,
    show_progress: bool = True,
) -> Generated:
    """Generate Natural Sprites as a dataset folder: white sprites of 64×64 pixels that move as objects in videos do.

    The images are pairs: images 2k and 2k + 1 are the frames 0 and 1 of sequence k, which the pair rule *time* takes
    together. A transition in a video gives x, y and scale of both, x = column / 64, y = row / 64, scale = √area / 64.
    Shape and angle are drawn uniformly, once for both. A sprite is a polygon on a canvas of 320×320 pixels; Pillow's
    Lanczos filter makes it smaller.

    The bytes depend on the arguments and on Pillow's version alone, not on workers or interruptions, and the same call
    goes on where an interrupted one stopped.

    Args:
        out: A new dataset folder.
        transitions: The published table, downscale_keepaspect.csv, or a folder of KITTI Masks: the data are then called
            "Natural Sprites with KITTI transitions". Those with the smallest and largest 5 % of areas are left out.
        images: "discrete", pairs with x and y at the centres of 32 equal bins over their ranges, and areas at those of
            6; "continuous", pairs as they are; "grid", one image of each combination of the discrete set's values.
        where: Factor → the value or values to keep, such as ``{"shape": "square"}``; of pairs angle and shape alone.
        n: So many images: pairs of drawn transitions in place of one pair of each, or images drawn from the grid
            in place of all. A larger n keeps the first.
        seed: Seed of all that is drawn.
        split: "train" or "test": what `train` and `evaluate` take the folder for. They are drawn apart.
        latents: Values of the factors (m, 5), one row an image, in place of transitions: x, y, scale, angle in degrees
            and the number of the shape (0 square, 1 triangle, 2 star_4, 3 spoke_4).
        workers: Worker processes; by default one per core. A script that uses several needs
            ``if __name__ == "__main__":``.
        shard_size: Images in a shard; by default 1,024.
        show_progress: Show a progress bar.

    Returns:
        A `Generated`: the folder, and how many images were made.

    Example:
        >>> import ident3d
        >>> z = [[0.5, 0.5, 0.25, 0, 0], [0.25, 0.75, 0.25, 45, 2]]
        >>> made = ident3d.natural_sprites("two", latents=z, workers=1, show_progress=False)
        >>> data = ident3d.ImageDataset("two")
        >>> data.names, data.images([0, 1]).shape
        (('x', 'y', 'scale', 'angle', 'shape'), (2, 64, 64, 3))
        >>> int(data.images([0])[0, 32, 32, 0])  # 16 pixels wide, around the middle
        255
    """
    out = local_folder(out)
    check_making(split, seed, workers, shard_size)
    if isinstance(transitions, str | Path):
        transitions = read_transitions(Path(transitions))
    origin = GIVEN if transitions is None else transitions.origin
    return make_sprites(
        out,
        choose_images(transitions, images, where, n, seed, split, latents),
        partial(shard_of, latents is None and images != GRID),
        data=origin["name"],
        split=split,
        origin=origin,
        settings={"size": SIZE, "images_per_chunk": CHUNK_IMAGES},
        # Pillow decides which pixels of the canvas a polygon covers.
        versions={"pillow": version("pillow")},
        workers=workers,
        shard_size=shard_size,
        show_progress=show_progress,
    )
