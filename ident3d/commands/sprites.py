"""``ident3d sprites``: data sets of sprites, made without Blender."""

from collections.abc import Iterable
from pathlib import Path

import click

from ident3d.cli import Commands
from ident3d.commands.options import option, options
from ident3d.commands.output import interruptible, show

KEPT = "finished shards are kept, and the same command goes on from there."


@click.group(cls=Commands)
def sprites() -> None:
    """Make data sets of sprites: dSprites, Natural Sprites.

    They need no Blender, and take minutes.
    """


def joined_values(where: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Return each factor's values; of a factor that is named twice, those of both."""
    found: dict[str, tuple[str, ...]] = {}
    for name, values in where:
        found[name] = found.get(name, ()) + values
    return found


@sprites.command()
@options(
    option("--out", show_default="dsprites below the data root"),
    "--root",
    "--where",
    option("--n", show_default="the full grid"),
    "--seed",
    "--split",
    "--latents",
    "--workers",
    "--shard-size",
    "--json",
)
def dsprites(
    out: Path | None, root: Path | None, where: tuple[tuple[str, tuple[str, ...]], ...], latents: Path | None,
    n: int | None, seed: int, split: str, workers: int | None, shard_size: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Generate dSprites: 737,280 black and white images of 64×64 pixels, of five factors.

    All of it takes half a minute of CPU time and 70 MB of disk. Image i is that of the published set, up to single
    pixels. With --n, so many images are drawn from the grid. With --latents, a row of the file is shape (0 to 2),
    scale, orientation, posX, posY; --where takes these names. The same command continues an interrupted run.

    \b
      ident3d sprites dsprites                                   the whole set
      ident3d sprites dsprites --out hearts --where shape=heart  245,760 hearts
      ident3d sprites dsprites --out few --n 10000               10,000 images, drawn
    """
    from ident3d.loaders.format.latents_source import read_npy
    from ident3d.loaders.stores.data_root import data_root
    from ident3d.sprites.generate import dsprites

    with interruptible(KEPT):
        made = dsprites(
            out or data_root(root) / "dsprites",
            where=joined_values(where),
            n=n,
            seed=seed,
            split=split,
            latents=read_npy(latents) if latents else None,
            workers=workers,
            shard_size=shard_size,
            # A bar would stand between the lines of --json if both go to one file.
            show_progress=not as_json,
        )
    show(made, as_json, f"{made.path} is complete: {made.n:,} images, {made.generated:,} of them generated now.")


@sprites.command()
@options(
    option("--from", "source", type=click.Path(path_type=Path)),
    option(
        "--images",
        default="discrete",
        help="discrete (pairs of binned places and sizes), continuous (pairs as they are) or grid (one image of each "
        "combination of the discrete values, to score on).",
    ),
    option("--out", show_default="natural-kitti-discrete, or as the data are called, below the data root"),
    "--root",
    "--where",
    option("--n", show_default="a pair of each transition, or the full grid"),
    "--seed",
    "--split",
    "--latents",
    "--workers",
    "--shard-size",
    "--json",
)
def natural(
    source: Path | None, images: str, out: Path | None, root: Path | None,
    where: tuple[tuple[str, tuple[str, ...]], ...], latents: Path | None, n: int | None, seed: int, split: str,
    workers: int | None, shard_size: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Generate Natural Sprites: white shapes of 64×64 pixels that move and grow as objects in videos do.

    Images come in pairs, frames 0 and 1 of a sequence, for the pair rule time. --from takes the transitions: the
    published downscale_keepaspect.csv, or a folder that `ident3d import kitti-masks` made; the data are then called
    "Natural Sprites with KITTI transitions". --where takes shape and angle, of a grid also x, y and scale. With
    --latents, a row of the file is x, y, scale, angle in degrees, and shape (0 to 3). The same command continues an
    interrupted run.

    \b
      ident3d sprites natural --from downscale_keepaspect.csv
      ident3d sprites natural --from data/kitti --images continuous
      ident3d sprites natural --from data/kitti --images grid
      ident3d sprites natural --from data/kitti --n 1000 --split test --out few
    """
    from ident3d.loaders.format.latents_source import read_npy
    from ident3d.loaders.stores.data_root import data_root
    from ident3d.sprites.generate_natural import natural_sprites
    from ident3d.sprites.transitions import read_transitions

    with interruptible(KEPT):
        transitions = None if source is None else read_transitions(source)
        name = f"{transitions.folder}-{images}" if transitions else "natural-latents"
        made = natural_sprites(
            out or data_root(root) / name,
            transitions,
            images=images,
            where=joined_values(where),
            n=n,
            seed=seed,
            split=split,
            latents=read_npy(latents) if latents else None,
            workers=workers,
            shard_size=shard_size,
            show_progress=not as_json,
        )
    show(made, as_json, f"{made.path} is complete: {made.n:,} images, {made.generated:,} of them generated now.")
