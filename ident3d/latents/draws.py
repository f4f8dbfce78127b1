"""Drawing a world's latents for any range of images."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.exact.arithmetic import normal_quantile
from ident3d.latents.exact.causal_draws import sample
from ident3d.latents.exact.families import unit
from ident3d.latents.exact.streams import WORDS_PER_IMAGE, uniform_float32, uniform_float64, words
from ident3d.latents.factors import MOST_FACTORS, Factors
from ident3d.latents.own_graph import follow, independent
from ident3d.latents.scene_values import SPHERE
from ident3d.latents.worlds import AnyWorld


class Draws(NamedTuple):
    """Raw latents (count, n_raw) float32 and, for scenes that have them, classes (count,) int8."""

    raw: NDArray[np.float32]
    classes: NDArray[np.int8] | None


def draw(world: AnyWorld, *, seed: int, split: str, start: int, count: int) -> Draws:
    """Return the latents of images start … start+count-1.

    Box: z ~ U[-1, 1]^10. Periodic: U[-1, 1]³ × U(S⁷). Causal: z_k ~ p(z_k | parents) along the graph, classes in turn
    unless the graph draws them. Declared factors: U[-1, 1], or each listed value equally often,
    unless they have a graph.

    A latent held fixed or intervened on leaves all but its descendants as they would have been. The same on every
    machine and for any cutting of the range: words from an integer generator, then operations that IEEE 754 fixes to
    the last bit.

    Args:
        world: The scene's latents and how they are distributed.
        seed: The dataset's seed, a whole number of at least 0.
        split: "train" or "test".
        start: The first image.
        count: The number of images.

    Returns:
        `Draws`: raw latents (count, n_raw) float32, and classes (count,) int8 or None.

    Example:
        >>> from ident3d import latents
        >>> z, classes = latents.draw(latents.World("3dident"), seed=0, split="train", start=0, count=1000)
        >>> z.shape, classes
        ((1000, 10), None)
        >>> later = latents.draw(latents.World("3dident"), seed=0, split="train", start=400, count=600)
        >>> bool((later.raw == z[400:]).all())
        True
    """
    return draw_from(world, words(seed, split, start, count, words_each(world)), np.arange(start, start + count))


def words_each(world: AnyWorld) -> int:
    """Return the number of random words that an image of this world has."""
    return MOST_FACTORS if isinstance(world, Factors) else WORDS_PER_IMAGE


def draw_from(world: AnyWorld, word: NDArray[np.uint64], index: NDArray[np.int64]) -> Draws:
    """Return the latents of images with these random words (n, words); classes go in turn with `index` (n,)."""
    # Raw number k of image i comes from word k of image i in every world: nothing drawn before can shift it.
    if isinstance(world, Factors):
        return Draws(follow(world.mechanisms or independent(world.factors), world.factors, word, world.held), None)
    if world.mechanisms is not None:
        return Draws(*sample(world.mechanisms, word, index, world.drawn_classes, world.held))
    if world.periodic:
        raw = np.empty((len(word), world.n_raw), np.float32)
        raw[:, :3] = uniform_float32(word[:, :3])
        raw[:, SPHERE] = unit(normal_quantile(uniform_float64(word[:, SPHERE])))
    else:
        raw = uniform_float32(word[:, : world.n_raw])
    # Written over what was drawn, so that the other latents are the same as without it.
    for name, value in world.held.items():
        raw[:, world.names.index(name)] = value
    return Draws(raw, None)
