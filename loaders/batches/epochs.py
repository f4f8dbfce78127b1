"""How an epoch is divided into batches and ranks."""

from ident3d.errors import UserError


def rank_batches(
    length: int, batch_size: int, rank: int = 0, world_size: int = 1, drop_last: bool = True
) -> list[tuple[int, int]]:
    """Return the ranges [start, stop) of an epoch's numbers that one rank takes, in order.

    Step t of all R ranks together covers the numbers t·R·B … (t+1)·R·B - 1, and rank r takes the r-th B of them. The
    numbers at the end that do not fill a step are left out with `drop_last`. Without it the same rule shares them out,
    so a rank's last batch may be short or missing. An epoch shorter than one step is a single short batch.
    """
    if batch_size < 1:
        raise UserError(f"A batch has at least one sample, not {batch_size}.")
    if not 0 <= rank < world_size:
        raise UserError(f"Ranks are numbered from 0 to {world_size - 1}; there is no rank {rank}.")
    step = batch_size * world_size
    end = length
    if drop_last and length >= step:
        end -= length % step
    elif drop_last and world_size > 1:
        raise UserError(f"An epoch of {length} samples does not fill one batch of {batch_size} on {world_size} ranks.")
    return [(first, min(first + batch_size, length)) for first in range(rank * batch_size, end, step)]
