"""DCI: disentanglement, completeness and informativeness, from how much each code matters to predict each factor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr
from sklearn import dummy, ensemble

from ident3d.errors import UserError, check_known
from ident3d.metrics.factors import Kind, circle, is_periodic, level_rows
from ident3d.metrics.inputs import Floats, Standardized, matrix, mean_over_varying, standardized
from ident3d.metrics.result import Score

Importance = Literal["permutation", "forest", "boosting"]

TREES = 40
PERMUTATIONS = 3
# How many standard errors above chance a prediction, and above 0 a drop, must lie to count in permutation importance.
# The first keeps unrelated codes at 0 (a normal mean passes 3 by luck once in 700); the second only trims noise.
FACTOR_ERRORS, CODE_ERRORS = 3.0, 2.0


@dataclass(frozen=True, eq=False)
class Dci(Score):
    """The headline is disentanglement. `importance` is (d, k); `informativeness` is held out, `..._fit` is not.

    Per factor, informativeness is the accuracy of a discrete and the R² of a continuous or periodic factor.
    """

    completeness: float
    informativeness: float
    informativeness_fit: float
    importance: Floats
    disentanglement_per_code: Floats
    completeness_per_latent: Floats
    informativeness_per_latent: Floats


def dci(
    z: ArrayLike,
    h: ArrayLike,
    *,
    importance: Importance = "permutation",
    kinds: Sequence[Kind] | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    seed: int = 0,
) -> Dci:
    """Return disentanglement Σ_j w_j (1 - H_d(R_·j)) and completeness Σ_i w_i (1 - H_k(R_i·)) of importances R (d, k).

    H_b is the entropy, to base b, of a column or row of R divided by its sum, and w its share of the sum of R. Both
    in [0, 1]: 1 if each code matters to one factor (disentanglement), if each factor needs one code (completeness).
    Informativeness is the mean held-out accuracy or R² of the model that the importances come from: higher is better,
    not the paper's error, and `importance` changes it as well.

    R_ij by `importance`: `"permutation"` the drop in held-out score of a random forest when code j is shuffled, 0
    unless the forest beats the best constant guess of the factor by 3 standard errors and the drop exceeds 2 of its
    own, so that unrelated codes score D = C = 0; `"forest"` the impurity importance of that forest;
    `"boosting"` the importance of gradient boosting with scikit-learn's defaults, as in disentanglement_lib, several
    times slower for discrete factors. Only values of one kind compare: impurity importances spread over noise codes
    and come out lower. Rows sum to one, but for `"permutation"`, where they tell how well the factor is predicted.

    Conventions: a code or factor of no importance has weight 0 (the reference adds 1e-11 to the same end). Constant
    factors are left out.

    Reference: Eastwood and Williams, "A Framework for the Quantitative Evaluation of Disentangled Representations",
    ICLR 2018.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        importance: "permutation", "forest" or "boosting".
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        test: Latents (M, d) and codes (M, k) to score on, instead of a half of the rows.
        seed: What shuffles the rows and codes, and grows the trees.

    Returns:
        A `Dci`: disentanglement as the headline, completeness, informativeness, and `importance` (d, k).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).integers(4, size=(400, 3))
        >>> found = metrics.dci(z[:, :2], z[:, :2])
        >>> round(found.score, 2), round(found.completeness, 2), round(found.informativeness, 2)
        (1.0, 1.0, 1.0)
    """
    check_known("importance", importance, get_args(Importance))
    data = level_rows(z, h, test, seed, kinds)
    # Trees compare float32 values: standardised columns keep what a large offset or unit would round away.
    scale = standardized(data.rows.h_fit)
    fit, scored = scale.columns, (data.rows.h - scale.mean) / scale.scale
    goal = standardized(data.rows.z_fit)
    moving = np.flatnonzero(goal.moving)
    if moving.size < 2 or fit.shape[1] < 2:
        raise UserError(f"DCI needs two codes and two factors that vary; there are {fit.shape[1]} and {moving.size}.")
    matters = np.zeros((len(data.kinds), fit.shape[1]))
    held, fitted = np.full(len(data.kinds), np.nan), np.full(len(data.kinds), np.nan)
    for i in moving.tolist():
        kind = data.kinds[i]
        target_fit, target = (_target(columns[:, i], kind, goal, i) for columns in (data.rows.z_fit, data.rows.z))
        models = _fit_models(fit, target_fit, importance, kind, seed)
        losses = _losses(models, scored, target, kind)
        fitted[i], held[i] = 1 - _losses(models, fit, target_fit, kind).mean(), 1 - losses.mean()
        if importance == "permutation":
            matters[i] = _drops(models, scored, target, kind, losses, seed)
        else:
            # Rounding may leave a tree's importance a little below 0; the reference takes the size as well.
            matters[i] = np.abs(np.mean([model.feature_importances_ for model in models], axis=0))
    disentanglement, per_code = concentration(matters[moving].T)
    completeness, per_factor = concentration(matters[moving])
    per_latent = np.full(len(data.kinds), np.nan)
    per_latent[moving] = per_factor
    informativeness = mean_over_varying(held), mean_over_varying(fitted)
    return Dci(disentanglement, completeness, *informativeness, matters, per_code, per_latent, held)


def concentration(importance: ArrayLike) -> tuple[float, Floats]:
    """Return Σ_r w_r s_r and s_r = 1 - H(row r) / log(columns), w_r row r's share of the total.

    A zero row has s = w = 0.

    On importances (d, k) this is completeness and its value per latent; on their transpose, disentanglement.

    Args:
        importance: Importances of at least 0 (rows, columns), two columns or more.

    Returns:
        The weighted mean over rows, and s_r of every row (rows,).

    Example:
        >>> from ident3d import metrics
        >>> metrics.concentration([[1.0, 0.0], [0.5, 0.5]])[1].tolist()
        [1.0, 0.0]
    """
    table = matrix(importance, "importances")
    if table.shape[1] < 2 or (table < 0).any():
        raise UserError("Importances must be at least 0, with two columns or more.")
    total = table.sum(axis=1, keepdims=True)
    share = np.divide(table, total, out=np.zeros_like(table), where=total > 0)
    # 0 log 0 counts as 0: a code that does not matter adds nothing to the entropy.
    per_row = np.where(total[:, 0] > 0, 1 - entr(share).sum(axis=1) / np.log(table.shape[1]), 0)
    per_row = np.clip(per_row, 0, 1)
    weight = total[:, 0] / total.sum() if total.sum() > 0 else np.zeros(len(total))
    return float(weight @ per_row), per_row


def _target(column: Floats, kind: Kind, goal: Standardized, i: int) -> Floats:
    """Return what a model predicts of latent i: its value, standardised if continuous, or its point on the circle."""
    if kind == "discrete":
        return column
    # Trees minimise squared errors, which mean something for a point on the circle and nothing for an angle.
    return circle(column, float(kind)) if is_periodic(kind) else (column - goal.mean[i]) / goal.scale[i]


def _fit_models(codes: Floats, target: Any, importance: Importance, kind: Kind, seed: int) -> list[Any]:
    """Return the fitted model; two of them for boosting of a periodic factor, which takes one output at a time."""
    if importance != "boosting":
        forest = ensemble.RandomForestClassifier if kind == "discrete" else ensemble.RandomForestRegressor
        # Leaves of five rows halve the time; every split looks at all codes, else noise codes collect importance.
        model = forest(n_estimators=TREES, min_samples_leaf=5, max_features=None, random_state=seed)
        return [model.fit(codes, target)]
    boosted = ensemble.GradientBoostingClassifier if kind == "discrete" else ensemble.GradientBoostingRegressor
    return [boosted(random_state=seed).fit(codes, column) for column in target.reshape(len(target), -1).T]


def _losses(models: list[Any], codes: Floats, target: Any, kind: Kind) -> Floats:
    """Return the loss of each row, of which 1 - mean is the performance: accuracy of a discrete factor, else R².

    1 for a wrong level, else the squared error in units of the variance; NaN if the rows do not vary.
    """
    predicted = np.column_stack([model.predict(codes) for model in models])
    true = np.asarray(target).reshape(len(target), -1)
    if kind == "discrete":
        return np.asarray((predicted != true)[:, 0], dtype=np.float64)
    variance = np.square(true - true.mean(axis=0)).sum() / len(true)
    missed = np.square(true - predicted).sum(axis=1)
    return np.asarray(missed / variance) if variance > 0 else np.full(len(true), np.nan)


def _drops(models: list[Any], codes: Floats, target: Any, kind: Kind, losses: Floats, seed: int) -> Floats:
    """Return the mean rise of the losses when one code is shuffled among the scored rows; 0 if it may be luck.

    Without this rule the shares of a factor that no code predicts are shares of noise, and look concentrated.
    """
    drops = np.zeros(codes.shape[1])
    # The best constant guess for these rows: their most frequent level, else their mean.
    guess = (dummy.DummyClassifier() if kind == "discrete" else dummy.DummyRegressor()).fit(codes, target)
    if not _above_zero(_losses([guess], codes, target, kind) - losses, FACTOR_ERRORS):
        return drops
    generator = np.random.default_rng(seed)
    for j in range(codes.shape[1]):
        rise = np.zeros(len(codes))
        # One shuffle is luck in part; the mean of a few has a smaller error.
        for _ in range(PERMUTATIONS):
            shuffled = codes.copy()
            shuffled[:, j] = generator.permutation(codes[:, j])
            rise += (_losses(models, shuffled, target, kind) - losses) / PERMUTATIONS
        if _above_zero(rise, CODE_ERRORS):
            drops[j] = rise.mean()
    return drops


def _above_zero(differences: Floats, errors: float) -> bool:
    """Return whether the mean of paired differences is over `errors` of its standard errors above 0; False for NaN."""
    return bool(differences.mean() > errors * differences.std() / np.sqrt(len(differences)))
