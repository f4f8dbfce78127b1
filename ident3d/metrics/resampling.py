"""Resamples of rows, drawn with replacement, all at once: means and covariances of each.

A resample of N rows is how often each row was drawn. Means of any features of the rows are then one matrix product of
the counts with the features, instead of a loop over copies of the data.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ident3d.metrics.inputs import Floats, Integers

# Memory of one step: counts of at most this many draws at a time.
DRAWS_AT_ONCE = 4_000_000
ROWS_AT_ONCE = 16_384


def draw_counts(rows: int, resamples: int, seed: int, width: int = 1) -> Iterator[Integers]:
    """Yield how often each row is drawn, (some resamples, rows) at a time; `width` is the memory wanted per draw."""
    generator = np.random.default_rng(seed)
    step = max(1, DRAWS_AT_ONCE // (rows * width))
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        # Each resample has a range of numbers to itself, so that one call counts the draws of all.
        draws = generator.integers(rows, size=(count, rows)) + rows * np.arange(count)[:, None]
        yield np.bincount(draws.ravel(), minlength=count * rows).reshape(count, rows)


def resampled_means(
    rows: Floats, resamples: int, seed: int, expand: Callable[[Floats], Floats] = lambda block: block
) -> Iterator[Floats]:
    """Yield means (some resamples, features) of the features that `expand` makes of each row."""
    for counts in draw_counts(len(rows), resamples, seed):
        total: Any = 0.0
        for start in range(0, len(rows), ROWS_AT_ONCE):
            # Products of all columns for all rows at once would need gigabytes.
            block = slice(start, start + ROWS_AT_ONCE)
            total = total + counts[:, block].astype(np.float64) @ expand(rows[block])
        yield np.asarray(total / len(rows))


def covariances(columns: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield covariance matrices (some resamples, p, p) of columns that are standardised over all rows."""
    p = columns.shape[1]
    # The matrices are symmetric: half of the products is enough.
    upper = np.triu_indices(p)
    for means in resampled_means(
        columns, resamples, seed, lambda block: np.hstack([block, block[:, upper[0]] * block[:, upper[1]]])
    ):
        first, second = means[:, :p], np.empty((len(means), p, p))
        second[:, upper[0], upper[1]] = second[:, upper[1], upper[0]] = means[:, p:]
        yield second - first[:, :, None] * first[:, None, :]


def rank_covariances(columns: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield covariance matrices of the midranks of each resample.

    In the order of a column, the rank of a value is the number of draws below it plus half of those equal to it, so
    that running sums of the counts give every resample's ranks without sorting it.
    """
    n, p = columns.shape
    order = np.argsort(columns, axis=0, kind="stable")
    for counts in draw_counts(n, resamples, seed, width=p):
        ranks = np.empty((len(counts), n, p))
        for j in range(p):
            ordered = columns[order[:, j], j]
            # Equal values share the rank in the middle of their run; these are the ends of the runs.
            last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
            ends = np.cumsum(counts[:, order[:, j]], axis=1)[:, last]
            middle = (ends + np.hstack([np.zeros((len(counts), 1), dtype=np.int64), ends[:, :-1]])) / (2 * n) - 0.5
            ranks[:, order[:, j], j] = np.repeat(middle, np.diff(last, prepend=-1), axis=1)
        weighted = ranks * (counts / n)[:, :, None]
        mean = weighted.sum(axis=1)
        yield weighted.transpose(0, 2, 1) @ ranks - mean[:, :, None] * mean[:, None, :]
