"""Drawing from a causal model: one pass over the graph, all images at once, each from its own random words."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.exact.arithmetic import Float64
from ident3d.latents.exact.causal import CausalModel
from ident3d.latents.exact.families import BELOW_ONE, noise, truncated_laplace, truncated_normal, wrapped
from ident3d.latents.exact.formula import Formula
from ident3d.latents.exact.mechanism import Node
from ident3d.latents.exact.names import CLASSES, NAMES
from ident3d.latents.exact.streams import uniform_float32, uniform_float64

# The class has a word to itself, as each latent has.
CLASS_WORD: Final = len(NAMES)


def classes_of(index: NDArray[np.int64], classes: tuple[str, ...]) -> NDArray[np.int8]:
    """Return classes[i mod len(classes)] for each image i, by its number in CLASSES: any n is balanced."""
    codes = np.array([CLASSES.index(name) for name in classes], np.int8)
    chosen: NDArray[np.int8] = codes[index % len(codes)]
    return chosen


def sample(
    model: CausalModel,
    word: NDArray[np.uint64],
    index: NDArray[np.int64],
    drawn_classes: tuple[str, ...],
    held: Mapping[str, float | NDArray[np.float32]],
    given_classes: NDArray[np.int8] | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Return raw latents (n, 10) and classes (n,) of the images `index`, from random words (n, > 10).

    `held` latents are set from outside: do(z_k = value), for all images or for each; so are classes, if they are given.
    A child sees its parents as they are stored, in float32.
    Latent k has word k to itself, so that an intervention changes its descendants and nothing else.
    """
    raw = np.empty((len(word), len(NAMES)), np.float32)
    classes = classes_of(index, drawn_classes) if given_classes is None else given_classes
    latents: dict[str, Float64] = {}
    for name in model.order:
        if name == "class":
            if given_classes is None and model.weights and len(drawn_classes) > 1:
                weights = [model.weights[model.classes.index(c)].value(latents) for c in drawn_classes]
                chosen, _ = choose(weights, uniform_float64(word[:, CLASS_WORD]))
                classes = classes_of(chosen, drawn_classes)
            continue
        k, node = NAMES.index(name), model.nodes[name]
        if name in held:
            raw[:, k] = held[name]
        elif node.components:
            raw[:, k] = around_means(model, node, latents, classes, uniform_float64(word[:, k]))
        else:
            middle, half = (node.low + node.high) / 2, (node.high - node.low) / 2
            raw[:, k] = middle + half * uniform_float32(word[:, k]).astype(np.float64)
        latents[name] = raw[:, k].astype(np.float64)
    return raw, classes


def choose(weights: Sequence[Float64], u: Float64) -> tuple[NDArray[np.int64], Float64]:
    """Return which of the weights each u falls on, and how far through it, which is uniform again."""
    ends = [np.broadcast_to(weights[0], u.shape)]
    # Added in order, so that the last bit agrees everywhere.
    for weight in weights[1:]:
        ends.append(ends[-1] + weight)
    place = u * ends[-1]
    chosen = np.sum([place >= end for end in ends[:-1]], axis=0, dtype=np.int64)
    edges = np.stack([np.zeros_like(u), *ends])
    images = np.arange(len(u))
    low, high = edges[chosen, images], edges[chosen + 1, images]
    # Rounding must reach neither 0 nor 1, where a quantile is infinite.
    return chosen, np.clip((place - low) / (high - low), 2.0**-53, BELOW_ONE)


def means(model: CausalModel, node: Node, latents: Mapping[str, Float64], classes: NDArray[np.int8]) -> list[Float64]:
    """Return the mean of each component for each image."""
    return [_by_class(model, part.mean, latents, classes) for part in node.components]


def around_means(
    model: CausalModel, node: Node, latents: Mapping[str, Float64], classes: NDArray[np.int8], u: Float64
) -> Float64:
    chosen = np.zeros(len(u), np.int64)
    if len(node.components) > 1:
        chosen, u = choose([_by_class(model, part.weight, latents, classes) for part in node.components], u)
    value = np.empty(len(u))
    for k, part in enumerate(node.components):
        rows = chosen == k
        given = {key: latents[key][rows] for key in node.keys}
        mean, sd = (_by_class(model, formulas, given, classes[rows]) for formulas in (part.mean, part.sd))
        if node.periodic:
            width = sd if part.noise == "normal" else sd / np.sqrt(2.0)
            value[rows] = wrapped(mean + width * noise(part.noise, 0.0, u[rows]))
        elif part.noise == "normal":
            value[rows] = truncated_normal(node.low, node.high, mean, sd, u[rows])
        else:
            # The noise has the standard deviation sd.
            value[rows] = truncated_laplace(node.low, node.high, mean, sd / np.sqrt(2.0), u[rows])
    return value


def _by_class(
    model: CausalModel, formulas: tuple[Formula, ...], latents: Mapping[str, Float64], classes: NDArray[np.int8]
) -> Float64:
    if len(formulas) == 1:
        return np.broadcast_to(formulas[0].value(latents), classes.shape)
    value = np.empty(classes.shape)
    for name, formula in zip(model.classes, formulas, strict=True):
        rows = classes == CLASSES.index(name)
        value[rows] = formula.value({key: latents[key][rows] for key in formula.keys})
    return value
