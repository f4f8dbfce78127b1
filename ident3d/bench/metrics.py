"""What the scores cost, against a straightforward computation of the same thing in the same run.

The reference-style computations are written as the field's scripts are: a loop over pairs of columns, one estimator
after the other, a copy of the data per resample. They are measured on part of the work where the whole would take
minutes, and scaled up; `reference_share` says how much was run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import pearsonr
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mutual_info_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from ident3d import metrics
from ident3d.bench.measure import Shown, least_cpu_seconds
from ident3d.metrics.kernel import ALPHAS, GAMMAS

WIDTH = 10


@dataclass(frozen=True)
class ScoreCost:
    """CPU seconds of one measurement; `limit` is the promise, `ratio` how many times the reference costs."""

    name: Annotated[str, Shown("figure")]
    cpu_seconds: Annotated[float, Shown("CPU s", ".3g")]
    limit: Annotated[float | None, Shown("limit", "g")]
    reference_cpu_seconds: Annotated[float, Shown("reference CPU s", ".3g")]
    reference_share: Annotated[float, Shown("of it run", ".0%")]
    ratio: Annotated[float, Shown("ratio", ".3g")]


def score_costs(shrink: int = 1) -> Iterator[ScoreCost]:
    """Yield each figure as it is measured; `shrink` divides the rows, to try the benchmark out."""
    z, h = _mixture(100_000 // shrink)
    yield _figure(
        f"MCC and linear R², {_size(z)}",
        lambda: (metrics.mcc(z, h), metrics.linear_r2(z, h)),
        lambda: (_plain_mcc(z, h), _plain_r2(z, h)),
        limit=0.2,
    )
    z, h = _mixture(4096 // shrink)
    yield _figure(
        f"bootstrap of both, 1,000 resamples, {_size(z)}",
        lambda: metrics.bootstrap(z, h, resamples=1000),
        lambda: _plain_bootstrap(z, h, resamples=20),
        limit=3,
        share=20 / 1000,
    )
    yield _figure(
        f"kernel-ridge R², {_size(z)}",
        lambda: metrics.kernel_ridge_r2(z, h),
        lambda: _plain_kernel_ridge(z[:, :1], h),
        share=1 / WIDTH,
    )
    z, h = _mixture(10_000 // shrink)
    levels = np.floor(z * 10)
    yield _figure(
        f"MIG, modularity and continuous SAP, {_size(z)}",
        lambda: (metrics.mig(z, h), metrics.modularity(z, h), metrics.sap(z, h)),
        lambda: (_plain_information(levels, h), _plain_information(levels, h), _plain_correlations(z, h)),
        limit=10,
    )
    yield _figure(
        f"discrete SAP, {_size(z)}, 10 levels",
        lambda: metrics.sap_discrete(levels, h),
        lambda: _plain_svms(levels, h),
    )
    # The reference is fitted to one of the ten latents, since all of them would take minutes.
    for name, target, model in (
        ("continuous", z, GradientBoostingRegressor),
        ("10 levels", levels, GradientBoostingClassifier),
    ):
        yield _figure(
            f"DCI, {_size(z)}, {name}",
            lambda target=target: metrics.dci(target, h),  # type: ignore[misc]
            lambda target=target, model=model: model().fit(h[: len(h) // 2], target[: len(h) // 2, 0]),  # type: ignore[misc]
            limit=60,
            share=1 / WIDTH,
        )


def _figure(
    name: str,
    ours: Callable[[], object],
    reference: Callable[[], object],
    limit: float | None = None,
    share: float = 1.0,
) -> ScoreCost:
    spent, plain = _cpu_seconds(ours), _cpu_seconds(reference) / share
    return ScoreCost(name, spent, limit, plain, share, plain / spent)


def _cpu_seconds(work: Callable[[], object]) -> float:
    """Return the least of three runs on one BLAS thread; work of more than 0.1 s runs once."""
    # BLAS threads would spend CPU seconds waiting for one another
    with threadpool_limits(1):
        first = least_cpu_seconds(lambda _: work(), 1)
        return first if first > 0.1 else min(first, least_cpu_seconds(lambda _: work(), 2))


def _mixture(rows: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.uniform(size=(rows, WIDTH))
    return z, z @ rng.normal(size=(WIDTH, WIDTH)) + 0.1 * rng.normal(size=(rows, WIDTH))


def _size(z: Any) -> str:
    return f"{len(z):,} x {z.shape[1]}"


def _plain_correlations(z: Any, h: Any) -> Any:
    return np.array([[abs(pearsonr(a, b)[0]) for b in h.T] for a in z.T])


def _plain_mcc(z: Any, h: Any) -> float:
    strength = _plain_correlations(z, h)
    return float(strength[linear_sum_assignment(-strength)].mean())


def _plain_r2(z: Any, h: Any) -> float:
    return float(r2_score(z, LinearRegression().fit(h, z).predict(h)))


def _plain_bootstrap(z: Any, h: Any, resamples: int) -> Any:
    rng = np.random.default_rng(0)
    # Each resample copies its rows and starts the scores anew.
    draws = (rng.integers(len(z), size=len(z)) for _ in range(resamples))
    return np.quantile(
        [(_plain_mcc(z[rows], h[rows]), _plain_r2(z[rows], h[rows])) for rows in draws], [0.025, 0.975], 0
    )


def _plain_kernel_ridge(z: Any, h: Any) -> float:
    half = len(z) // 2
    scaled = (h - h[:half].mean(axis=0)) / h[:half].std(axis=0)
    search = GridSearchCV(KernelRidge(kernel="rbf"), {"alpha": ALPHAS, "gamma": GAMMAS}, cv=3, scoring="r2")
    return float(r2_score(z[half:], search.fit(scaled[:half], z[:half]).predict(scaled[half:])))


def _plain_information(levels: Any, h: Any) -> Any:
    binned = [np.digitize(code, np.histogram(code, 20)[1][:-1]) for code in h.T]
    return np.array([[mutual_info_score(level, code) for level in levels.T] for code in binned])


def _plain_svms(levels: Any, h: Any) -> Any:
    half = len(h) // 2
    scores = np.zeros((h.shape[1], levels.shape[1]))
    for j in range(h.shape[1]):
        for i in range(levels.shape[1]):
            model = LinearSVC(C=0.01, class_weight="balanced").fit(h[:half, j : j + 1], levels[:half, i])
            scores[j, i] = model.score(h[half:, j : j + 1], levels[half:, i])
    return scores
