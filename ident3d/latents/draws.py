"""Drawing a world's latents for any range of images."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.exact.arithmetic import Float64, normal_quantile
from ident3d.latents.exact.causal_draws import sample
from ident3d.latents.exact.names import NAMES
from ident3d.latents.exact.streams import uniform_float32, uniform_float64, words
from ident3d.latents.scene_values import SPHERE
from ident3d.latents.worlds import World


class Draws(NamedTuple):
    """Raw latents (count, n_raw) float32 and, for scenes that have them, classes (count,) int8."""

    raw: NDArray[np.float32]
    classes: NDArray[np.int8] | None


def draw(world: World, *, seed: int, split: str, start: int, count: int) -> Draws:
    """Return the latents of images start … start+count-1.

    Box: z ~ U[-1, 1]^10. Periodic: U[-1, 1]³ × U(S⁷). Causal: z_k ~ p(z_k | parents) along the graph, classes in turn
    unless the graph draws them.

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
    # Raw number k of image i comes from word k of image i in every world: nothing drawn before can shift it.
    word = words(seed, split, start, count)
    if world.mechanisms is not None:
        index = np.arange(start, start + count)
        return Draws(*sample(world.mechanisms, word, index, world.drawn_classes, world.held))
    if world.periodic:
        raw = np.empty((count, world.n_raw), np.float32)
        raw[:, :3] = uniform_float32(word[:, :3])
        raw[:, SPHERE] = _uniform_on_sphere(word[:, SPHERE])
    else:
        raw = uniform_float32(word[:, : world.n_raw])
    # Written over what was drawn, so that the other latents are the same as without it.
    for name, value in world.held.items():
        raw[:, NAMES.index(name)] = value
    return Draws(raw, None)


def _uniform_on_sphere(word: NDArray[np.uint64]) -> Float64:
    """g / |g| with g ~ N(0, 1)^d."""
    g = normal_quantile(uniform_float64(word))
    square = np.zeros(len(g))
    # Not np.sum: its order of additions differs between NumPy's versions and processors, and so would the last bits.
    for column in g.T:
        square = square + column * column
    point: Float64 = g / np.sqrt(square)[:, None]
    return point
