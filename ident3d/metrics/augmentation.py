"""Augmentation read-out: how much of the augmentation that made a view is still in its code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError
from ident3d.metrics.classifiers import class_accuracy
from ident3d.metrics.factors import kinds_of
from ident3d.metrics.inputs import Floats, halves, matrix, plain_array
from ident3d.metrics.linear import linear_r2
from ident3d.metrics.result import Score


@dataclass(frozen=True, eq=False)
class AugmentationReadout(Score):
    """Mean skill over the parameters: 0 if the codes are invariant to all of them, 1 if they keep them all.

    `raw` is the held-out R² of a continuous parameter and the accuracy of a discrete one, `chance` its value without
    codes (0 or the share of the most frequent value).
    """

    parameters: tuple[str, ...]
    skill: Floats
    raw: Floats
    chance: Floats


def augmentation_readout(parameters: Mapping[str, ArrayLike], h: ArrayLike, *, seed: int = 0) -> AugmentationReadout:
    """Read each parameter of the augmentation linearly from the codes of the augmented views, on held-out rows.

    skill = max(0, (raw - chance) / (1 - chance)), with raw the R² of linear regression for numbers (crop corner,
    brightness; several columns are averaged) or the accuracy of logistic regression for strings, booleans and whole
    numbers of few values (flipped, angle of rotation). Half of the rows, shuffled by `seed`, are held out. The score
    measures what an invariant encoder throws away, so lower is more invariant. Give the rows one view each, with its
    own parameters.

    Convention: the field has no common definition; papers report R² or accuracy per parameter, which is `raw`.

    Args:
        parameters: Name of a parameter → its values (N,) or (N, columns), one row for every view.
        h: Codes of the augmented views (N, k).
        seed: What shuffles the rows before half of them are held out.

    Returns:
        An `AugmentationReadout`: the mean skill, and the skill of every parameter.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> h = np.random.default_rng(0).normal(size=(400, 2))
        >>> found = metrics.augmentation_readout({"brightness": 2 * h[:, 0], "angle": np.arange(400) % 7.5}, h)
        >>> found.parameters, found.skill.round(1).tolist()
        (('brightness', 'angle'), [1.0, 0.0])
    """
    codes = matrix(h, "codes h")
    arrays = parameter_arrays(parameters, len(codes))
    raw, chance = np.zeros(len(arrays)), np.zeros(len(arrays))
    fit, score = halves(len(codes), seed)
    for i, (name, array) in enumerate(arrays.items()):
        held_out = (array[score], codes[score])
        try:
            if _is_discrete(array):
                accuracy = class_accuracy(array[fit], codes[fit], test=held_out)
                raw[i], chance[i] = accuracy.score, accuracy.chance
            else:
                raw[i] = linear_r2(array[fit], codes[fit], test=held_out).score
        except UserError as error:
            raise UserError(f"Parameter {name!r}: {error}") from error
    # A parameter with one value among the scored rows leaves nothing to be read.
    skill = np.divide(raw - chance, 1 - chance, out=np.zeros_like(raw), where=chance < 1)
    skill = np.maximum(skill, 0)
    return AugmentationReadout(float(skill.mean()), tuple(arrays), skill, raw, chance)


def parameter_arrays(parameters: Mapping[str, ArrayLike], rows: int) -> dict[str, NDArray[Any]]:
    """Return the parameters as arrays, checked to have one value per row."""
    if not parameters:
        raise UserError("Augmentation read-out needs at least one parameter.")
    arrays = {name: plain_array(values, name) for name, values in parameters.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != rows:
            raise UserError(f"Parameter {name!r} needs one value per row of the codes ({rows}).")
    return arrays


def _is_discrete(array: NDArray[Any]) -> bool:
    """Return whether these are strings, booleans or, as for latents, few different whole numbers."""
    if array.dtype.kind in "USb":
        return True
    return array.ndim == 1 and kinds_of(matrix(array, "parameter"))[0] == "discrete"
