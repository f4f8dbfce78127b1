"""How an epoch is cut into batches and shared out among ranks."""

from ident3d.errors import UserError


def rank_batches(
    length: int, batch_size: int, rank: int = 0, world_size: int = 1, drop_last: bool = True
) -> list[tuple[int, int]]:
    """The ranges [start, stop) of an epoch's numbers that one rank takes, one after the other.

    Step t of all ranks together covers the numbers t·R·B … (t+1)·R·B - 1, rank r the r-th B of them; what is left over
    at the end and does not fill a step is left out with `drop_last`, and else shared out by the same rule, so that a
    rank's last batch may be short or lacking. An epoch shorter than one step is one short batch of its own.
    """
    if batch_size < 1:
        raise UserError(f"A batch has at least one sample, not {batch_size}.")
    if not 0 <= rank < world_size:
        raise UserError(f"Ranks are numbered from 0 to {world_size - 1}; there is no rank {rank}.")
    step = batch_size * world_size
    if not drop_last:
        firsts = range(rank * batch_size, length, step)
        return [(first, min(first + batch_size, length)) for first in firsts]
    if length < step:
        if world_size == 1:
            return [(0, length)]
        raise UserError(f"An epoch of {length} samples does not fill one batch of {batch_size} on {world_size} ranks.")
    firsts = range(rank * batch_size, length - length % step, step)
    return [(first, first + batch_size) for first in firsts]
