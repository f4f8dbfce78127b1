"""Batches of rows that share one factor, drawn from the rows at hand: what the BetaVAE and FactorVAE scores vote on."""

import numpy as np

from ident3d.errors import UserError
from ident3d.metrics.inputs import Integers


def shared_rows(levels: Integers, factor: int, draws: int, generator: np.random.Generator) -> tuple[Integers, Integers]:
    """Return `draws` pairs of different rows of equal level of `factor`; the first is uniform over rows with a match.

    Factors other than the shared one follow the data, so they are independent only if they are so in the data.
    """
    column = levels[:, factor]
    order = np.argsort(column, kind="stable")
    _, start, size = np.unique(column[order], return_index=True, return_counts=True)
    group = np.repeat(np.arange(size.size), size)
    eligible = np.flatnonzero(size[group] > 1)
    if eligible.size == 0:
        raise UserError(f"No two rows share a value of factor {factor}, so no batch can be drawn for it.")
    first = generator.choice(eligible, draws)
    start, size = start[group[first]], size[group[first]]
    # Another place of the same group: a step of 1 … size-1 around it never ends on the row itself.
    step = 1 + np.floor(generator.random(draws) * (size - 1)).astype(np.int64)
    second = start + (first - start + step) % size
    return order[first], order[second]


def batch_of_level(levels: Integers, factor: int, batches: int, size: int, generator: np.random.Generator) -> Integers:
    """Return row indices (batches, size): the rows of a batch share the level of `factor` that a random row has.

    Rows are drawn without replacement where the level has enough of them.
    """
    column = levels[:, factor]
    chosen = column[generator.integers(len(column), size=batches)]
    rows = np.empty((batches, size), dtype=np.int64)
    # Batch by batch, because a draw without replacement cannot be made for all batches at once.
    for level in np.unique(chosen):
        members = np.flatnonzero(column == level)
        for batch in np.flatnonzero(chosen == level):
            rows[batch] = generator.choice(members, size, replace=members.size < size)
    return rows
