"""Natural Sprites: its five factors, which sprites are in a set, and one shard of them.

The sprites of a pair are a transition of one object in a video: its place and size at two times. Shape and angle are
drawn, and are those of both.
"""

from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.streams import words
from ident3d.latents.factor import Factor, nearest_place
from ident3d.latents.factors import Factors
from ident3d.loaders.folders.lifecycle import Job
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.latents_source import FULL_GRID
from ident3d.loaders.format.shard import Shard
from ident3d.sprites.canvas import SHAPES, SIZE, Floats, draw
from ident3d.sprites.dsprites import Where, drawn_values, grid_size, grid_values, place_of_word, subset
from ident3d.sprites.folder import Choice, check_count, table_of_values

if TYPE_CHECKING:
    # A worker process draws, and starts sooner without what reads transitions.
    from ident3d.sprites.transitions import Transitions

DISCRETE, CONTINUOUS, GRID = SETS = ("discrete", "continuous", "grid")
# In the order of the papers' scores. Angles are in degrees; the shapes' corners let some of them look alike.
FACTORS: Final = Factors(
    (
        Factor("x", range=(0, 1), group="position"),
        Factor("y", range=(0, 1), group="position"),
        Factor("scale", range=(0, 1)),
        Factor("angle", values=tuple(np.arange(0.0, 360.0, 9.0).tolist())),
        Factor("shape", "categorical", values=SHAPES),
    )
)
# Any angle may be given, as any place may.
GIVEN: Final = Factors(
    tuple(replace(f, range=(0, 360), values=()) if f.name == "angle" else f for f in FACTORS.factors)
)
# Bins of equal width over all values of x, y and area.
BINS: Final = (32, 32, 6)
GRID_IMAGES: Final = prod(BINS) * 40 * len(SHAPES)
# Which of a pair's random words chooses its transition, angle and shape.
TRANSITION, ANGLE, SHAPE = range(3)


def choose_pairs(
    transitions: "Transitions", images: str, where: Where | None, n: int | None, seed: int, split: str
) -> Choice:
    """Return pairs of the discrete or the continuous set: one of each transition, or n images of drawn ones."""
    factors = discrete(transitions) if images == DISCRETE else FACTORS
    for name in where or {}:
        if name in FACTORS.names[:3]:
            raise UserError(f"{name} is that of a transition: of pairs, keep values of angle and shape alone.")
    factors = subset(where or {}, factors)
    steps = transitions.steps
    if images == DISCRETE:
        # Of areas, not of scales, the nearest centre: halfway between two areas is not halfway between their scales.
        steps = np.stack([c[nearest_place(c, steps[..., k])] for k, c in enumerate(centres_of(transitions))], -1)
    steps = in_widths(steps)
    source = {"images": kind_of_pairs(images, drawn=n is not None), "seed": seed}
    if n is not None and check_count(n) % 2:
        raise UserError(f"The images are pairs, so there is an even number of them, not {n}.")
    values = partial(values_of_pairs, steps, factors, seed, split, n is not None)
    return Choice(2 * len(steps) if n is None else n, factors, source | transitions.as_dict(), values)


def kind_of_pairs(images: str, *, drawn: bool = False) -> str:
    """Return what a folder of pairs says of its images."""
    return f"{images} pairs, {'of drawn transitions' if drawn else 'one of each transition'}"


def values_of_pairs(
    steps: Floats, factors: Factors, seed: int, split: str, drawn: bool, start: int, count: int
) -> Floats:
    """Return the values (count, 5) of images start … start+count-1, of which each two are a pair."""
    pair, member = np.divmod(np.arange(start, start + count), 2)
    word = words(seed, split, int(pair[0]), int(pair[-1] - pair[0] + 1))[pair - pair[0]]
    which = place_of_word(word[:, TRANSITION], len(steps)) if drawn else pair
    angle, shape = factors.factors[3:]
    return np.column_stack(
        [
            steps[which, member],
            angle.positions[place_of_word(word[:, ANGLE], len(angle.positions))],
            shape.positions[place_of_word(word[:, SHAPE], len(shape.positions))],
        ]
    )


def choose_grid(transitions: "Transitions", where: Where | None, n: int | None, seed: int, split: str) -> Choice:
    """Return all combinations of the discrete set's values, or n images drawn uniformly from them."""
    factors = subset(where or {}, discrete(transitions))
    if n is None:
        source: dict[str, Any] = {"images": FULL_GRID}
        count, values = grid_size(factors), partial(grid_values, factors)
    else:
        source = {"images": "drawn from the grid", "seed": seed}
        count, values = check_count(n), partial(drawn_values, factors, seed, split)
    return Choice(count, factors, source | transitions.as_dict(), values)


def choose_rows(latents: ArrayLike) -> Choice:
    """Return the images at these values."""
    values = table_of_values(latents)
    GIVEN.to_raw(values)
    source = {"images": "given latents", "latents_sha256": sha256(values.tobytes())}
    return Choice(len(values), GIVEN, source, lambda first, count: values[first : first + count])


def centres_of(transitions: "Transitions") -> list[Floats]:
    """Return the centres of equal bins over all columns, rows and areas of both times, in pixels."""
    edges = [np.histogram_bin_edges(transitions.steps[..., k], bins) for k, bins in enumerate(BINS)]
    return [each[:-1] + (each[1:] - each[:-1]) / 2 for each in edges]


def in_widths(steps: Floats) -> Floats:
    """Return x, y and scale in widths of the image for x, y and area in pixels (…, 3): the scale is √area."""
    found = steps / SIZE
    found[..., 2] = np.sqrt(steps[..., 2] / SIZE**2)
    return found


def discrete(transitions: "Transitions") -> Factors:
    """Return the factors with the centres of bins for the values of x, y and scale."""
    centres = centres_of(transitions)
    values = [in_widths(np.repeat(each[:, None], 3, axis=1))[:, k].tolist() for k, each in enumerate(centres)]
    named = zip(FACTORS.factors, [*map(tuple, values), *(f.values for f in FACTORS.factors[3:])], strict=True)
    return Factors(tuple(replace(f, range=None, values=found) for f, found in named))


def shard_of(paired: bool, settings: dict[str, Any], job: Job, values: Floats) -> Shard:
    """Draw one shard's sprites, white in three equal channels; of pairs with the number of the pair and the frame."""
    factors = Factors.from_dict(settings["world"])
    raw = factors.to_raw(values)
    index = np.arange(job.first, job.first + job.count, dtype=np.int64)
    grey = draw(values, [str(name) for name in factors.factors[-1].values])
    columns: dict[str, NDArray[np.int64]] = {"sequence": index // 2, "frame": index % 2} if paired else {}
    return Shard(np.repeat(grey[..., None], 3, -1), raw, factors.to_scene(raw), index, None, columns)


def choose_images(
    transitions: "Transitions | None",
    images: str,
    where: Where | None,
    n: int | None,
    seed: int,
    split: str,
    latents: ArrayLike | None,
) -> Choice:
    """Return which images the arguments of `natural_sprites` name."""
    check_known("set of Natural Sprites", images, SETS)
    if latents is not None:
        if transitions is not None or where or n is not None:
            raise UserError("Latents name the images themselves: leave transitions, where and n away.")
        return choose_rows(latents)
    if transitions is None:
        raise UserError(
            "Natural Sprites are drawn at transitions: give the published downscale_keepaspect.csv (--from), or a "
            "folder that `ident3d import kitti-masks` made; or latents of your own."
        )
    if images == GRID:
        return choose_grid(transitions, where, n, seed, split)
    return choose_pairs(transitions, images, where, n, seed, split)
