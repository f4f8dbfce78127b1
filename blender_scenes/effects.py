"""What a factor does to the picture: whether any pixel changes, and whether an object leaves the frame at an end of it.

Both are for scenes of a user's own, before anything of them is rendered in earnest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.blender_scenes.sight import shares_in_frame
from ident3d.blender_scenes.studio import Studio
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors

# Rows at random that a factor is tried at, as one among many, and then if it had no effect so far: what it does may
# need a rare combination of the others.
FEW: Final = 4
MANY: Final = 60
# Image sizes of the two searches: in the smaller one a thin or small thing may fall between the samples.
SMALL: Final = 16
LARGE: Final = 64


class Leaving(NamedTuple):
    """An object is out of frame by this share where the factor has this value, and less so in the middle."""

    thing: str
    factor: str
    value: float | str
    share: float


def without_effect(
    studio: Studio,
    factors: Factors,
    bases: NDArray[np.float32],
    suspects: Sequence[str],
    start_step: Callable[[], object],
    *,
    everywhere: bool = True,
) -> list[str]:
    """Return those of the factors that change no pixel, as long as the others are as in the bases.

    Each base is seen from all cameras, or, if there are many and not `everywhere`, from one of them in turn.
    """
    cameras = [None, *studio.scene.cameras]
    found = []
    for name in suspects:
        k = factors.names.index(name)
        # Without other factors all bases are one.
        _, first = np.unique(np.delete(bases, k, axis=1), axis=0, return_index=True)
        all_cameras = everywhere or len(first) <= FEW
        tries = (
            (rows_around(factors, base, k, turn), camera)
            for turn, base in enumerate(bases[np.sort(first)])
            for camera in (cameras if all_cameras else [cameras[turn % len(cameras)]])
        )
        if not any(has_effect(studio, rows, camera, start_step) for rows, camera in tries):
            found.append(name)
    return found


def has_effect(studio: Studio, rows: NDArray[np.float32], camera: str | None, start_step: Callable[[], object]) -> bool:
    """Return whether the image of any row differs from that of the first."""
    first = None
    for row in rows:
        start_step()
        image = studio.render_linear(row, seed=0, camera=camera)
        if first is None:
            first = image
        elif not np.array_equal(first, image):
            return True
    return False


def rows_around(factors: Factors, base: NDArray[np.float32], k: int, turn: int) -> NDArray[np.float32]:
    """Return scene values in which factor k takes some of its values, the others being as in the base.

    The first turn takes all of a list, or a few of a range, and each further turn another two.
    """
    factor = factors.factors[k]
    # The ends of a circle are one place, and what repeats in a range may be the same at its ends and middle.
    few = [-1, 0, 0.7] if factor.kind == "periodic" else [-1, 1, 0.3, -0.62]
    column = factor.to_raw(factor.listed) if factor.values else np.array(few, np.float32)
    if turn:
        column = column[[turn % len(column), (turn + len(column) // 2) % len(column)]]
    raw = np.tile(base, (len(column), 1))
    raw[:, k] = column
    return factors.to_scene(factors.nearest(raw))


def base_rows(factors: Factors) -> NDArray[np.float32]:
    """Return raw rows: the middle, the middle with each value of a categorical factor, and a few at random."""
    rows = [np.zeros((1, factors.n_raw), np.float32)]
    for k in factors.categorical:
        column = factors.factors[k].to_raw(factors.factors[k].listed)
        rows.append(np.zeros((len(column), factors.n_raw), np.float32))
        rows[-1][:, k] = column
    return factors.nearest(np.concatenate([*rows, random_rows(factors, FEW, seed=2)]))


def rare_rows(factors: Factors) -> NDArray[np.float32]:
    """Return many raw rows at random, every second of them with all ranges at one of their ends."""
    rows = random_rows(factors, MANY, seed=3)
    rows[::2] = np.where(rows[::2] < 0, -1, 1)
    for k in factors.categorical:
        rows[::2, k] = random_rows(factors, MANY, seed=4)[::2, k]
    return factors.nearest(rows)


def random_rows(factors: Factors, count: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-1, 1, (count, factors.n_raw)).astype(np.float32)


def leavings(
    studio: Studio, factors: Factors, held: Mapping[str, float], start_step: Callable[[], object]
) -> list[Leaving]:
    """Pose every factor at its listed values or both ends, and say what `focus` names and then leaves the frame.

    The others are in the middle, or where they are held; of a held factor only the poses are tried.
    """
    middle = factors.nearest([[held.get(name, 0) for name in factors.names]])
    start_step()
    studio.pose(factors.to_scene(middle)[0])
    whole, found = shares_in_frame(studio.scene.focus()), list[Leaving]()
    for k, factor in enumerate(factors.factors):
        raw = np.repeat(middle, len(column := extremes(factor)), axis=0)
        raw[:, k] = column
        for row in factors.to_scene(factors.nearest(raw)):
            start_step()
            studio.pose(row)
            if factor.name in held:
                continue
            for thing, share in shares_in_frame(studio.scene.focus()).items():
                # What is cut off in the middle too is not led out of the frame by this factor.
                if share < whole.get(thing, 1):
                    found.append(Leaving(thing, factor.name, factor.shown(row[k].item()), 1 - share))
    return found


def extremes(factor: Factor) -> NDArray[np.float32]:
    """Return the raw latents at which a factor takes its listed values, its ends, or four places around its circle."""
    if factor.values:
        return factor.to_raw(factor.listed)
    return np.array([-1, -0.5, 0.5] if factor.kind == "periodic" else [-1, 1], np.float32)


def sentence(found: Sequence[Leaving]) -> str:
    """Return a sentence that names what leaves the frame most, for each object and factor; nothing if nothing does."""
    worst = {(each.thing, each.factor): each for each in sorted(found, key=lambda each: each.share)}
    if not worst:
        return ""
    said = list(islice(parts(list(worst.values())[::-1]), 3))
    more = f", and {len(worst) - len(said)} more such" if len(worst) > len(said) else ""
    return f"{'; '.join(said)}{more}: `ident3d scene check` shows what leaves the image."


def parts(found: Sequence[Leaving]) -> Iterator[str]:
    for each in found:
        value = each.value if isinstance(each.value, str) else f"{each.value:.4g}"
        share = "" if each.share == 1 else f"{min(99, 100 * each.share):.2g} % "
        yield f"{each.thing} is {share}out of frame at {each.factor}={value}"
