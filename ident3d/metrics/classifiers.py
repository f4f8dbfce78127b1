"""Scores of discrete factors by logistic regression: class accuracy and explicitness."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ident3d.errors import UserError
from ident3d.metrics.factors import FACTOR_BINS, Kind, level_rows
from ident3d.metrics.inputs import Floats, Integers, class_labels, halves, matrix, mean_over_varying, standardized
from ident3d.metrics.result import Score


@dataclass(frozen=True, eq=False)
class ClassAccuracy(Score):
    """Held-out accuracy. `chance` is the accuracy of always naming the most frequent class of the scored rows.

    `per_class` is the accuracy within each class of `classes`, NaN for a class that no scored row has.
    """

    chance: float
    classes: NDArray[Any]
    per_class: Floats
    true: Integers = field(repr=False)
    predicted: Integers = field(repr=False)


@dataclass(frozen=True, eq=False)
class Explicitness(Score):
    """Mean one-vs-rest AUC on held-out rows; `fit_score` is the same on the fitted rows."""

    per_latent: Floats
    fit_score: float

    @property
    def rescaled(self) -> float:
        """2 AUC - 1: chance is 0 and perfect is 1."""
        return 2 * self.score - 1


def class_accuracy(
    classes: ArrayLike, h: ArrayLike, *, test: tuple[ArrayLike, ArrayLike] | None = None, seed: int = 0
) -> ClassAccuracy:
    """Return the accuracy of multinomial logistic regression from the codes to a class, on held-out rows.

    (1/N) Σ_n [argmax_c (W h_n + b)_c = c_n], codes standardised by the fitted rows, L2 penalty C = 1. In [0, 1];
    chance is `chance`. `test=(classes, h)` holds out those rows, otherwise half of the rows, shuffled by `seed`.
    Classes may be integers, booleans or strings; a class that the fitted rows lack is always missed.

    Reference: von Kügelgen et al., NeurIPS 2021 (class of Causal-3DIdent).

    Args:
        classes: The class of each row (N,): integers, booleans or strings.
        h: Codes (N, k).
        test: Classes (M,) and codes (M, k) to score on, instead of a half of the rows.
        seed: What shuffles the rows before half of them are held out.

    Returns:
        A `ClassAccuracy`: the held-out accuracy, `chance`, and the accuracy within each class.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> h = np.random.default_rng(0).normal(size=(400, 2))
        >>> found = metrics.class_accuracy(np.where(h[:, 0] > 0, "Hare", "Cow"), h)
        >>> float(found) > 0.95, found.classes.tolist()
        (True, ['Cow', 'Hare'])
    """
    known, fit_labels, fit_codes, true, codes = fitted_and_scored(classes, h, test, seed)
    if np.unique(fit_labels).size < 2:
        raise UserError("The fitted rows hold a single class, so there is nothing to classify.")
    # The penalty acts on the weights: in other units it would weigh small codes more than large ones.
    scale = standardized(fit_codes)
    model = logistic(scale.columns, fit_labels)
    return accuracy_of(known, true, np.asarray(model.predict((codes - scale.mean) / scale.scale), dtype=np.int64))


def explicitness(
    z: ArrayLike,
    h: ArrayLike,
    *,
    kinds: Sequence[Kind] | None = None,
    factor_bins: int = FACTOR_BINS,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    seed: int = 0,
) -> Explicitness:
    """Return explicitness: (1/d) Σ_i mean over levels a of AUC(z_i = a against the rest), on held-out rows.

    The scores ranked by the AUC are class probabilities of multinomial logistic regression on codes standardised by
    the fitted rows. 0.5 is chance and 1 perfect: a raw AUC, as in the reference code (`rescaled` maps it to 0..1, as
    the paper's text does). Continuous and periodic factors are cut into `factor_bins` levels; a level without both
    kinds of row among the scored ones is left out of the mean.

    Convention: scikit-learn's default of 2018 was one-vs-rest by liblinear, which gives somewhat lower values.
    Reference: Ridgeway and Mozer, NeurIPS 2018.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        factor_bins: The levels that a continuous or periodic latent is cut into.
        test: Latents (M, d) and codes (M, k) to score on, instead of a half of the rows.
        seed: What shuffles the rows before half of them are held out.

    Returns:
        An `Explicitness`: the mean AUC, that of each latent, and `rescaled`.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).integers(4, size=(400, 3))
        >>> round(float(metrics.explicitness(z, z)), 2)
        1.0
    """
    data = level_rows(z, h, test, seed, kinds, factor_bins)
    scale = standardized(data.rows.h_fit)
    scored = (data.rows.h - scale.mean) / scale.scale
    held, fitted = np.full(data.levels.shape[1], np.nan), np.full(data.levels.shape[1], np.nan)
    for i, (labels_fit, labels) in enumerate(zip(data.levels_fit.T, data.levels.T, strict=True)):
        # A latent with a single fitted level has nothing to classify; it stays NaN and is left out of the mean.
        if np.unique(labels_fit).size < 2:
            continue
        model = logistic(scale.columns, labels_fit)
        held[i] = _mean_auc(model.predict_proba(scored), model.classes_, labels)
        fitted[i] = _mean_auc(model.predict_proba(scale.columns), model.classes_, labels_fit)
    return Explicitness(mean_over_varying(held), held, mean_over_varying(fitted))


def logistic(features: Floats, labels: Integers) -> LogisticRegression:
    """Return multinomial logistic regression with scikit-learn's defaults (L2, C = 1, lbfgs), run to convergence."""
    # The default of 100 iterations stops short of the optimum on correlated codes.
    return LogisticRegression(max_iter=2000).fit(features, labels)


def fitted_and_scored(
    classes: ArrayLike, h: ArrayLike, test: tuple[ArrayLike, ArrayLike] | None, seed: int
) -> tuple[NDArray[Any], Integers, Floats, Integers, Floats]:
    """Return the classes that there are, and class numbers and codes of the rows to fit on and of those to score on."""
    values, codes = class_rows(classes, h, "classes", "codes h")
    if test is None:
        first, second = halves(len(values), seed)
        fit_values, fit_codes, values, codes = values[first], codes[first], values[second], codes[second]
    else:
        fit_values, fit_codes = values, codes
        values, codes = class_rows(*test, "test classes", "test codes")
        if codes.shape[1] != fit_codes.shape[1] or (values.dtype.kind in "US") != (fit_values.dtype.kind in "US"):
            raise UserError("The test arrays must have the columns and the kind of class of the arrays to fit on.")
    # Both sides are numbered together: a class that the fitted rows lack still counts as missed.
    known, labels = np.unique(np.concatenate([fit_values, values]), return_inverse=True)
    labels = labels.astype(np.int64)
    return known, labels[: len(fit_values)], fit_codes, labels[len(fit_values) :], codes


def accuracy_of(known: NDArray[Any], true: Integers, predicted: Integers) -> ClassAccuracy:
    """Return the accuracy of predicted class numbers, over all rows and within each class."""
    count = np.bincount(true, minlength=known.size)
    hits = np.bincount(true[true == predicted], minlength=known.size)
    per_class = np.divide(hits, count, out=np.full(known.size, np.nan), where=count > 0)
    return ClassAccuracy(
        float((true == predicted).mean()), float(count.max() / count.sum()), known, per_class, true, predicted
    )


def class_rows(classes: ArrayLike, h: ArrayLike, class_name: str, code_name: str) -> tuple[NDArray[Any], Floats]:
    """Return class values and codes with equally many rows."""
    labels, known = class_labels(classes, class_name)
    codes = matrix(h, code_name)
    if len(labels) != len(codes):
        raise UserError(f"{class_name} has {len(labels)} rows and {code_name} has {len(codes)}; they must match.")
    return known[labels], codes


def _mean_auc(probability: Floats, levels: Integers, labels: Integers) -> float:
    """Return the mean over levels of the area under the ROC curve; NaN if no level can be scored."""
    scored = [(labels == level, column) for level, column in zip(levels, probability.T, strict=True)]
    areas = [roc_auc_score(mine, column) for mine, column in scored if 0 < mine.sum() < len(mine)]
    return float(np.mean(areas)) if areas else float("nan")
