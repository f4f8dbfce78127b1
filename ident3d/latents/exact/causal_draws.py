"""Drawing from a causal model: one pass over the graph, all images at once, each from its own random words."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.exact.arithmetic import Float64, normal_cdf, normal_quantile
from ident3d.latents.exact.causal import CausalModel, Node
from ident3d.latents.exact.names import CLASSES, NAMES
from ident3d.latents.exact.streams import uniform_float32, uniform_float64


def classes_of(index: NDArray[np.int64], classes: tuple[str, ...]) -> NDArray[np.int8]:
    """Image i has the class classes[i mod len(classes)], told by its number in CLASSES: any n is balanced."""
    codes = np.array([CLASSES.index(name) for name in classes], np.int8)
    chosen: NDArray[np.int8] = codes[index % len(codes)]
    return chosen


def sample(
    model: CausalModel, word: NDArray[np.uint64], classes: NDArray[np.int8], held: Mapping[str, float]
) -> NDArray[np.float32]:
    """Raw latents (n, 10) from random words (n, ≥ 10). `held` latents are set from outside: do(z_k = value).

    A child sees its parents as they are stored, in float32. Latent k has word k to itself, so that an intervention
    changes its descendants and nothing else.
    """
    raw = np.empty((len(word), len(NAMES)), np.float32)
    latents: dict[str, Float64] = {}
    for name in model.order:
        k, node = NAMES.index(name), model.nodes[name]
        if name in held:
            raw[:, k] = held[name]
        elif node.means:
            raw[:, k] = _truncated_normal(node, _mean(model, node, latents, classes), uniform_float64(word[:, k]))
        else:
            middle, half = (node.low + node.high) / 2, (node.high - node.low) / 2
            raw[:, k] = middle + half * uniform_float32(word[:, k]).astype(np.float64)
        latents[name] = raw[:, k].astype(np.float64)
    return raw


def _mean(model: CausalModel, node: Node, latents: Mapping[str, Float64], classes: NDArray[np.int8]) -> Float64:
    if len(node.means) == 1:
        return np.broadcast_to(node.means[0].value(latents), classes.shape)
    mean = np.empty(classes.shape)
    for name, formula in zip(model.classes, node.means, strict=True):
        rows = classes == CLASSES.index(name)
        mean[rows] = formula.value({parent: latents[parent][rows] for parent in formula.names})
    return mean


def _truncated_normal(node: Node, mean: Float64, u: Float64) -> Float64:
    """μ + sd Φ⁻¹(Φ(a) + u (Φ(b) - Φ(a))) with a, b the range's ends, mirrored where the range is in the upper tail."""
    a, b = (node.low - mean) / node.sd, (node.high - mean) / node.sd
    # In the upper tail Φ is 1 up to a few last digits; in the lower one it keeps all of them.
    mirrored = a + b > 0
    a, b = np.where(mirrored, -b, a), np.where(mirrored, -a, b)
    low, high = normal_cdf(a), normal_cdf(b)
    # Rounding must not reach 1, where the quantile is infinite.
    score = normal_quantile(np.minimum(low + u * (high - low), 1 - 2.0**-53))
    return np.clip(mean + node.sd * np.where(mirrored, -score, score), node.low, node.high)
