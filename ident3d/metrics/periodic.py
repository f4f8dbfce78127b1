"""Periodic latents (angles, hues on a wheel): circular correlation and sine-cosine regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import check_known
from ident3d.metrics.correlation import Mcc, correlation_matrix, match_codes
from ident3d.metrics.factors import Kind, angles, circle, is_periodic
from ident3d.metrics.inputs import Floats, mean_over_varying, pair, rows_to_use, standardized, varies
from ident3d.metrics.linear import affine_map
from ident3d.metrics.result import Score

Circular = Literal["fisher-lee", "jammalamadaka"]


@dataclass(frozen=True, eq=False)
class PeriodicR2(Score):
    """Mean sine-cosine R² over the latents that vary; `per_latent` is NaN for a constant latent."""

    per_latent: Floats
    held_out: bool


def circular_correlation(
    z: ArrayLike,
    h: ArrayLike,
    *,
    period: float,
    code_period: float | None = None,
    convention: Circular = "fisher-lee",
) -> Mcc:
    """Return the mean circular correlation of periodic latents with their matched periodic codes (MCC on the circle).

    For angles a = 2π z / period and b = 2π h / code_period, Fisher and Lee (1983):
    ρ = Σ_{m<n} sin(a_m - a_n) sin(b_m - b_n) / √(Σ sin²(a_m - a_n) Σ sin²(b_m - b_n)), computed in one pass over the
    rows. ρ in [-1, 1]; ±1 for b = ±a + constant; 0 for independent angles, on average. The headline and the matching
    are those of `mcc`, on |ρ|.

    Convention: `"jammalamadaka"` (and SenGupta, 2001) is Σ sin(a - ā) sin(b - b̄) over the root of the squares; it
    depends on the mean directions ā and b̄, which a uniform angle does not have, so it is not the default.

    Args:
        z: Periodic latents (N, d).
        h: Periodic codes (N, k).
        period: The period of the latents.
        code_period: The period of the codes; by default that of the latents.
        convention: "fisher-lee" or "jammalamadaka".

    Returns:
        An `Mcc`: the mean, the correlation matrix (d, k) before matching, and the code of each latent.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> round(float(metrics.circular_correlation(z, (0.3 - z) % 1, period=1)), 6)
        1.0
    """
    latents, codes = pair(z, h)
    a, b = angles(latents, period), angles(codes, period if code_period is None else code_period)
    check_known("convention", convention, get_args(Circular))
    moving, alive = varies(latents), varies(codes)
    matrix = _fisher_lee(a, b) if convention == "fisher-lee" else _jammalamadaka(a, b)
    return match_codes(np.clip(np.where(np.outer(moving, alive), matrix, 0), -1, 1), moving)


def periodic_r2(
    z: ArrayLike,
    h: ArrayLike,
    *,
    period: float,
    code_period: float | None = None,
    split: bool = False,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    seed: int | None = None,
) -> PeriodicR2:
    """Return the linear R² of the points (cos a, sin a) of each periodic latent, a = 2π z / period, from the codes.

    R²_i = 1 - Σ_n ‖u_ni - û_ni‖² / Σ_n ‖u_ni - ū_i‖² with u = (cos a, sin a) and û = hW + b by least squares, so that
    the two ends of the period are the same point. `code_period` puts the codes on the circle too, for codes that are
    angles themselves. 1 means identified up to a linear map of the circle. Rows as for `linear_r2`.

    Args:
        z: Periodic latents (N, d).
        h: Codes (N, k).
        period: The period of the latents.
        code_period: The period of codes that are angles themselves.
        split: Score the rows that were not fitted.
        test: Latents (M, d) and codes (M, k) to score on, instead of the fitted rows.
        seed: What shuffles the rows before half of them are held out; by default they keep their order.

    Returns:
        A `PeriodicR2`: the mean R², and that of each latent.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> round(float(metrics.periodic_r2(z, (z + 0.3) % 1, period=1, code_period=1)), 6)
        1.0
    """
    rows = rows_to_use(z, h, test, split, seed)
    # An angle jumps at the end of its period, which no linear map can follow; its point on the circle does not.
    if code_period is not None:
        rows = rows._replace(h_fit=_on_circles(rows.h_fit, code_period), h=_on_circles(rows.h, code_period))
    rows.check_fit("Periodic R²")
    weights, offset = affine_map(_on_circles(rows.z_fit, period), rows.h_fit)
    true = _on_circles(rows.z, period)
    # Cosine and sine are summed together, so that the score does not depend on where an angle is 0.
    missed = np.square(true - rows.h @ weights - offset).sum(axis=0).reshape(-1, 2).sum(axis=1)
    total = np.square(true - true.mean(axis=0)).sum(axis=0).reshape(-1, 2).sum(axis=1)
    moving = varies(rows.z)
    per_latent = 1 - np.divide(missed, total, out=np.full_like(total, np.nan), where=moving)
    return PeriodicR2(mean_over_varying(per_latent), per_latent, rows.held_out)


def squared_correlation(z: Floats, h: Floats, kinds: Sequence[Kind]) -> Floats:
    """Return how much of each code (columns) is linear in each latent (rows): r², on the circle for a periodic latent.

    For a periodic latent it is Mardia's circular-linear R² = (r_c² + r_s² - 2 r_c r_s r_cs) / (1 - r_cs²), with r_c
    and r_s the correlations of the code with cosine and sine, and r_cs that of cosine with sine.
    """
    squared = np.square(correlation_matrix(z, h))
    for i, kind in enumerate(kinds):
        if is_periodic(kind):
            # Mardia's R² is that of the code on cosine and sine; least squares also copes with constant columns.
            points = circle(z[:, i], float(kind))
            weights, offset = affine_map(h, points)
            codes = standardized(h)
            fitted = (points @ weights + offset - codes.mean) / codes.scale
            squared[i] = np.where(codes.moving & varies(z)[i], np.square(fitted).mean(axis=0), 0)
    return np.clip(squared, 0, 1)


def _fisher_lee(a: Floats, b: Floats) -> Floats:
    # The double sum over pairs of rows factorises into products of sums over rows: N instead of N² terms.
    n = len(a)
    products = {(f, g): f(a).T @ g(b) for f in (np.cos, np.sin) for g in (np.cos, np.sin)}
    top = products[np.cos, np.cos] * products[np.sin, np.sin] - products[np.cos, np.sin] * products[np.sin, np.cos]
    spread = [n**2 - np.cos(2 * x).sum(axis=0) ** 2 - np.sin(2 * x).sum(axis=0) ** 2 for x in (a, b)]
    bottom = np.sqrt(np.maximum(np.outer(*spread), 0))
    return np.asarray(np.divide(4 * top, bottom, out=np.zeros_like(top), where=bottom > 1e-12 * n**2))


def _jammalamadaka(a: Floats, b: Floats) -> Floats:
    # The mean direction is that of the mean point: a plain mean of angles depends on where they are cut.
    left, right = (np.sin(x - np.angle(np.exp(1j * x).mean(axis=0))) for x in (a, b))
    bottom = np.sqrt(np.outer(np.square(left).sum(axis=0), np.square(right).sum(axis=0)))
    return np.asarray(np.divide(left.T @ right, bottom, out=np.zeros_like(bottom), where=bottom > 1e-12 * len(a)))


def _on_circles(columns: Floats, period: float) -> Floats:
    """Return (N, 2d) for (N, d): cosine and sine of each column side by side."""
    return np.hstack([circle(column, period) for column in columns.T])
