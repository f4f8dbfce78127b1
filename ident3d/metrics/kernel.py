"""Identified up to a smooth invertible map: kernel-ridge R², with the grid search of the Causal-3DIdent paper.

One search serves all latents: the kernel of a fold is factorised once per (alpha, gamma) and solved for every latent,
where a search per latent would repeat the factorisation d times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.spatial.distance import cdist
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from ident3d.errors import UserError, check_known
from ident3d.metrics.inputs import (
    Flags,
    Floats,
    Integers,
    Rows,
    Standardized,
    halves,
    mean_over_varying,
    rows_to_use,
    standardized,
    varies,
)
from ident3d.metrics.linear import unexplained
from ident3d.metrics.result import Score

ALPHAS = (1.0, 0.1, 0.01, 0.001)
GAMMAS = tuple(float(gamma) for gamma in np.logspace(-2, 2, 4))
Kernel = Literal["rbf", "linear"]


@dataclass(frozen=True, eq=False)
class KernelRidgeR2(Score):
    """Mean held-out R². `alphas` and `gammas` are the grid that was tried; gamma is NaN for the linear kernel.

    `best` (d, 2) is the chosen (alpha, gamma) of each latent, and `cv_r2` (alphas, gammas, d) the cross-validated R²
    that the choice was made on; it is empty if there was nothing to choose. `true` and `predicted` are the scored rows
    in the units of z.
    """

    per_latent: Floats
    fit_score: float
    alphas: Floats
    gammas: Floats
    best: Floats
    cv_r2: Floats
    true: Floats = field(repr=False)
    predicted: Floats = field(repr=False)


def kernel_ridge_r2(
    z: ArrayLike,
    h: ArrayLike,
    *,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    kernel: Kernel = "rbf",
    alphas: Sequence[float] = ALPHAS,
    gammas: Sequence[float] = GAMMAS,
    folds: int = 3,
    per_latent: bool = True,
    standardize: bool = True,
    max_rows: int = 4096,
    seed: int | None = None,
) -> KernelRidgeR2:
    """Return the held-out R² of kernel ridge regression from the codes to the latents.

    ẑ(h) = Σ_n a_n exp(-γ‖h - h_n‖²), a = (K + αI)⁻¹z on standardised columns (mean and population std of the fitted
    rows), no intercept; α and γ by cross-validated R² on contiguous folds of the fitted rows. At most 1; 1 means
    that the code determines the latent through some smooth map.

    Without `test` the first half is fitted and the second scored (after a shuffle if `seed` is given). Either side is
    thinned at random to `max_rows` / 2 rows, as the cost grows with their cube.

    Conventions: `per_latent=True` chooses (α, γ) for each latent, as the 3DIdent scripts do by calling the search once
    per latent; False chooses one pair on the mean R². `standardize=False` takes the columns as they are. The public
    code silently uses a *linear* kernel with α = 1 when it is asked to split; here the kernel is RBF unless
    `kernel="linear"` is given.

    Reference: von Kügelgen, Sharma, Gresele, Brendel, Schölkopf, Besserve, Locatello, "Self-Supervised Learning with
    Data Augmentations Provably Isolates Content from Style", NeurIPS 2021.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        test: Latents (M, d) and codes (M, k) to score on, instead of a half of the rows.
        kernel: "rbf" or "linear".
        alphas: The values of α to choose from.
        gammas: The values of γ to choose from.
        folds: The folds of the cross-validation.
        per_latent: Choose (α, γ) for each latent, not for all of them.
        standardize: Standardise the columns by the fitted rows.
        max_rows: The most rows that are fitted and scored together.
        seed: What shuffles the rows before half of them are held out; by default they keep their order.

    Returns:
        A `KernelRidgeR2`: the mean R², that of each latent, the grid, and what was chosen from it.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> found = metrics.kernel_ridge_r2(z, np.exp(z))
        >>> float(found) > 0.99, found.alphas.tolist(), found.best.shape
        (True, [1.0, 0.1, 0.01, 0.001], (3, 2))
    """
    check_known("kernel", kernel, get_args(Kernel))
    grid = [float("nan")] if kernel == "linear" else [float(gamma) for gamma in gammas]
    for name, numbers in (("alphas", alphas), ("gammas", grid if kernel == "rbf" else [1.0])):
        if not len(numbers) or not all(0 < number < np.inf for number in numbers):
            raise UserError(f"{name} must hold at least one number, all finite and above 0; it is {list(numbers)}.")
    rows = _thin(rows_to_use(z, h, test, split=test is None, seed=seed), max_rows, seed)
    measure = standardized if standardize else _as_given
    # Factorisations this small gain little from threads, and on a busy machine threads cost ten times the CPU time.
    with threadpool_limits(1, user_api="blas"):
        latents, codes = measure(rows.z_fit), measure(rows.h_fit)
        # Distances do not depend on γ: they are computed once for the whole grid and all folds.
        distances = _affinity(codes.columns, codes.columns, kernel)
        # A single point needs no cross-validation, which costs several times the fit.
        if len(alphas) * len(grid) > 1:
            cv_r2 = _cross_validate(distances, latents.columns, kernel, alphas, grid, folds)
            choice = _choice(cv_r2, latents.moving, per_latent)
        else:
            cv_r2, choice = np.empty((0, 0, latents.columns.shape[1])), [(0, 0)] * latents.columns.shape[1]
        # The scored rows are measured by the fitted ones: nothing of them may leak into the fit.
        unseen = _affinity((rows.h - codes.mean) / codes.scale, codes.columns, kernel)
        predicted, fitted = np.empty_like(rows.z), np.empty_like(rows.z_fit)
        # Latents that chose the same (alpha, gamma) share one factorisation.
        for a, g in sorted(set(choice)):
            mine = [latent for latent, pick in enumerate(choice) if pick == (a, g)]
            gram = _kernel(distances, grid[g], kernel)
            dual = _dual(gram, latents.columns[:, mine], alphas[a])
            fitted[:, mine] = gram @ dual
            predicted[:, mine] = _kernel(unseen, grid[g], kernel) @ dual
    predicted = predicted * latents.scale + latents.mean
    r2 = 1 - unexplained(rows.z, predicted)
    fit_r2 = 1 - unexplained(rows.z_fit, fitted * latents.scale + latents.mean)
    best = np.array([(alphas[a], grid[g]) for a, g in choice])
    tried = np.array(alphas, np.float64), np.array(grid, np.float64)
    return KernelRidgeR2(mean_over_varying(r2), r2, mean_over_varying(fit_r2), *tried, best, cv_r2, rows.z, predicted)


def coordinate_correlation(z: Floats, h: Floats, *, max_rows: int, seed: int) -> Floats:
    """Return the correlation (d, k), at least 0, of latents with held-out predictions from each single code."""
    fit, score = halves(len(z), seed)
    fit, score = fit[: max(max_rows // 2, 2)], score[: max(max_rows // 2, 2)]
    matrix = np.zeros((z.shape[1], h.shape[1]))
    moving = np.flatnonzero(varies(z[fit]) & varies(z[score]))
    for j in np.flatnonzero(varies(h[fit])) if moving.size else ():
        code, latents = h[:, j : j + 1], z[:, moving]
        result = kernel_ridge_r2(latents[fit], code[fit], test=(latents[score], code[score]), max_rows=max_rows)
        true, predicted = standardized(result.true).columns, standardized(result.predicted).columns
        # A prediction that runs against the latent on held-out rows has learnt nothing, and counts 0.
        matrix[moving, j] = np.maximum(np.einsum("ij,ij->j", true, predicted) / len(true), 0)
    return matrix


def _thin(rows: Rows, max_rows: int, seed: int | None) -> Rows:
    if max_rows < 4:
        raise UserError(f"max_rows must be at least 4; it is {max_rows}.")
    generator = np.random.default_rng(seed or 0)

    # Sorted, so that the contiguous folds stay in the given order.
    def keep(count: int) -> slice | Integers:
        most = max_rows // 2
        return slice(None) if count <= most else np.sort(generator.choice(count, most, replace=False))

    fit, score = keep(len(rows.z_fit)), keep(len(rows.z))
    return Rows(rows.z_fit[fit], rows.h_fit[fit], rows.z[score], rows.h[score], rows.held_out)


def _as_given(columns: Floats) -> Standardized:
    return Standardized(columns, np.zeros(columns.shape[1]), np.ones(columns.shape[1]), varies(columns))


def _affinity(left: Floats, right: Floats, kernel: Kernel) -> Floats:
    """Return what the kernel is a function of: squared distances for RBF, inner products for linear."""
    return np.asarray(cdist(left, right, "sqeuclidean") if kernel == "rbf" else left @ right.T)


def _kernel(affinity: Floats, gamma: float, kernel: Kernel) -> Floats:
    return np.exp(-gamma * affinity) if kernel == "rbf" else affinity


def _dual(gram: Floats, targets: Floats, alpha: float) -> Floats:
    """Return a = (K + αI)⁻¹ targets."""
    ridge = gram.copy()
    ridge.flat[:: len(gram) + 1] += alpha
    try:
        # Cholesky's factors take half the time of a general solver, and fail if the matrix is not positive definite.
        return np.asarray(cho_solve(cho_factor(ridge, lower=True, overwrite_a=True), targets))
    except LinAlgError as error:
        raise UserError(f"alpha = {alpha} is too small for these codes: the kernel matrix is singular.") from error


def _cross_validate(
    affinity: Floats, latents: Floats, kernel: Kernel, alphas: Sequence[float], gammas: Sequence[float], folds: int
) -> Floats:
    """Return R² (alphas, gammas, d) averaged over contiguous folds."""
    if not 2 <= folds <= len(latents) // 2:
        raise UserError(f"{folds} folds need at least {2 * max(folds, 2)} fitted rows; there are {len(latents)}.")
    table = np.zeros((len(alphas), len(gammas), latents.shape[1]))
    # Folds are contiguous and not shuffled, as in the public code: GridSearchCV on a regressor does the same.
    for rest, held in KFold(folds).split(latents):
        for g, gamma in enumerate(gammas):
            gram = _kernel(affinity[np.ix_(rest, rest)], gamma, kernel)
            cross = _kernel(affinity[np.ix_(held, rest)], gamma, kernel)
            for a, alpha in enumerate(alphas):
                predicted = cross @ _dual(gram, latents[rest], alpha)
                table[a, g] += (1 - unexplained(latents[held], predicted)) / folds
    return table


def _choice(cv_r2: Floats, moving: Flags, per_latent: bool) -> list[tuple[int, int]]:
    """Return the grid position of the best R² of each latent, or of their mean; the first one on ties."""
    latents = cv_r2.shape[2]
    # A latent that is constant in some fold has no R² there; it then follows the first point of the grid.
    score = np.where(np.isnan(cv_r2), -np.inf, cv_r2)
    if not per_latent:
        usable = moving & np.isfinite(score).all(axis=(0, 1))
        score = np.repeat(score[:, :, usable].sum(axis=2)[:, :, None], latents, axis=2)
    flat = score.reshape(-1, latents).argmax(axis=0)
    return [divmod(int(position), cv_r2.shape[1]) for position in flat]
