"""Every score that fits the arrays, in one call."""

import platform
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError, unknown
from ident3d.machine import installed_versions
from ident3d.metrics.augmentation import parameter_arrays
from ident3d.metrics.blocks import block_columns
from ident3d.metrics.catalogue import CATALOGUE, Data, enough_rows
from ident3d.metrics.classifiers import ClassAccuracy, class_rows
from ident3d.metrics.correlation import mcc
from ident3d.metrics.factors import Kind, is_periodic, kinds_of
from ident3d.metrics.inputs import pair
from ident3d.metrics.intervals import (
    STATISTICS,
    Interval,
    bootstrap,
    bootstrap_accuracy,
    bootstrap_predictions,
    check_bootstrap,
)
from ident3d.metrics.kernel import KernelRidgeR2
from ident3d.metrics.linear import LinearR2
from ident3d.metrics.report import Report
from ident3d.metrics.result import Score


def score(
    z: ArrayLike,
    h: ArrayLike,
    metrics: str | Sequence[str] = "default",
    *,
    seed: int = 0,
    kinds: Sequence[Kind] | None = None,
    classes: ArrayLike | None = None,
    blocks: Mapping[str, Sequence[int]] | None = None,
    code_blocks: Mapping[str, Sequence[int]] | None = None,
    augmentations: Mapping[str, ArrayLike] | None = None,
    code_period: float | None = None,
    latent_names: Sequence[str] | None = None,
    resamples: int = 0,
    level: float = 0.95,
) -> Report:
    """Score codes against true latents by every score that fits the arrays.

    `metrics` is `"default"` (the scores of seconds), `"all"` (also those that train many models: about ten CPU seconds
    for 4,096 x 10), or names from `CATALOGUE`. A score of a group that cannot be computed, say for too few rows or
    because no classes were given, is left out with its reason; one that was named is an error instead.

    `kinds` says which latents are continuous, discrete or periodic (see `kinds_of`); `classes` (N,) asks for class
    accuracy, `blocks` for block identifiability, `augmentations` for the augmentation read-out. Held-out scores fit on
    one half of the rows and score on the other, after a shuffle by `seed`, so that sorted rows do no harm; the papers'
    split of the rows as they come is `linear_r2(z, h, split=True)`.

    `resamples` > 0 adds bootstrap intervals: of the moment scores over all rows, of held-out R² and accuracy over the
    scored rows with the fitted model kept. The other scores have none.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        metrics: "default", "all", or names from `CATALOGUE`.
        seed: What shuffles rows and draws samples.
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        classes: The class of each row (N,), for class accuracy.
        blocks: Name of a block → its columns of `z`, for block identifiability.
        code_blocks: Name of a block → its columns of `h`; by default one block of all codes.
        augmentations: Name of a parameter → its values (N,), for the augmentation read-out.
        code_period: The period of codes that are angles themselves, for circular correlation.
        latent_names: A name for each latent, d of them.
        resamples: The number of bootstrap resamples; 0 for no intervals.
        level: The share of resamples that an interval holds.

    Returns:
        A `Report`: the scores by name, their intervals, and why others were left out.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> report = metrics.score(z, z @ np.array([[2, 1, 0], [0, 1, 0], [0, 0, 1]]), ["linear_r2", "mcc_pearson"])
        >>> {name: round(float(score), 2) for name, score in report.scores.items()}
        {'linear_r2': 1.0, 'mcc_pearson': 0.88}
    """
    latents, codes = pair(z, h)
    checked = kinds_of(latents, kinds)
    names = _names(latent_names, latents.shape[1])
    chosen, named = choose_scores(metrics)
    if resamples:
        check_bootstrap(resamples, level)
    # Scikit-learn takes no larger seeds.
    if not 0 <= seed < 2**32:
        raise UserError(f"seed must be between 0 and 2**32 - 1; it is {seed}.")
    # What was given must be sound, or its mistake would hide among the scores that are left out
    if classes is not None:
        class_rows(classes, codes, "classes", "codes h")
    if augmentations is not None:
        parameter_arrays(augmentations, len(codes))
    for given, width in ((blocks, latents.shape[1]), (code_blocks, codes.shape[1])):
        if given is not None:
            block_columns(given, width)
    if code_period is not None and not 0 < code_period < np.inf:
        raise UserError(f"A period is a positive number; code_period is {code_period!r}.")
    data = Data(latents, codes, checked, classes, blocks, code_blocks, augmentations, code_period, seed)
    scores: dict[str, Score] = {}
    not_chosen = set[str]() if named else CATALOGUE.keys() - chosen
    left_out = {name: "not a default; ask for it by name or for all scores" for name in CATALOGUE if name in not_chosen}
    cpu_seconds: dict[str, float] = {}
    # The report's picture shows this matching, also if MCC is not among the scores.
    matching = mcc(latents, codes)
    for name in chosen:
        # CPU time and not the clock, which other work on the machine would change.
        start = time.process_time()
        # A score of a group that cannot be computed is left out with its reason; one that was named is an error.
        try:
            enough_rows(CATALOGUE[name], data)
            scores[name] = CATALOGUE[name].compute(data)
        except UserError as error:
            if named:
                raise UserError(f"{name}: {error}") from error
            left_out[name] = str(error)
        cpu_seconds[name] = time.process_time() - start
    settings: dict[str, Any] = {
        "rows": len(latents),
        "codes": codes.shape[1],
        "kinds": list(checked),
        "periodic": [i for i, kind in enumerate(checked) if is_periodic(kind)],
        "seed": seed,
        "resamples": resamples,
        "level": level,
        "host": platform.node(),
        "versions": installed_versions(("ident3d", "numpy", "scipy", "scikit-learn")),
    }
    intervals = _intervals(data, scores, resamples, level) if resamples else {}
    return Report(scores, intervals, left_out, matching, names, settings, cpu_seconds)


def choose_scores(metrics: str | Sequence[str]) -> tuple[list[str], bool]:
    """Return the names to compute, in the order of the catalogue, and whether they were named one by one."""
    if metrics == "all":
        return list(CATALOGUE), False
    if metrics == "default":
        return [name for name, entry in CATALOGUE.items() if entry.default], False
    wanted = [metrics] if isinstance(metrics, str) else list(metrics)
    if not wanted:
        raise UserError("metrics names no score; give 'default', 'all' or some names.")
    for name in wanted:
        if name not in CATALOGUE:
            raise unknown("score", name, ["default", "all", *CATALOGUE])
    return [name for name in CATALOGUE if name in wanted], True


def _names(latent_names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    names = tuple(f"z{i}" for i in range(d)) if latent_names is None else tuple(map(str, latent_names))
    if len(names) != d:
        raise UserError(
            f"--names, or latent_names in Python, names each of the {d} latents; there are {len(names)} names."
        )
    return names


def _intervals(data: Data, scores: Mapping[str, Score], resamples: int, level: float) -> dict[str, Interval]:
    moments = [name for name in scores if name in STATISTICS]
    options: dict[str, Any] = {"resamples": resamples, "level": level, "seed": data.seed}
    found = bootstrap(data.z, data.h, moments, **options) if moments else {}
    for name, result in scores.items():
        if isinstance(result, KernelRidgeR2) or (isinstance(result, LinearR2) and result.held_out):
            found[name] = bootstrap_predictions(result.true, result.predicted, **options)
        elif isinstance(result, ClassAccuracy):
            found[name] = bootstrap_accuracy(result.true, result.predicted, **options)
    return {name: found[name] for name in scores if name in found}
