"""`TimeSampler`: frames of sequences. The positive is a later frame of the anchor's sequence, up to a lag."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError
from ident3d.latents.exact.streams import check_seed
from ident3d.loaders.pairs.sampler import Pairs
from ident3d.loaders.pairs.search import Indices
from ident3d.loaders.pairs.variates import ANCHOR, draw_variates, pair_numbers

MAX_LAG: Final = 1
# Columns of ANCHOR.
START, LAG = range(2)


class TimeSampler:
    """Pairs of frames of one sequence: pair k depends on (sequences, frames, settings, seed, k) alone.

    anchor    uniform over all frames but the last one of each sequence
    positive  t ~ uniform {1, …, max_lag} frames later; the last frame, if the sequence ends before

    Frames are in the order of their numbers, and t counts those that there are. Where a number is left out, the next
    one follows.

    Args:
        latents: Raw latents of the images (n, d) float32; d may be 0.
        sequence: The sequence of each image (n,).
        frame: Its number in the sequence (n,); by default the order of the images.
        max_lag: Δ, the longest time between the two.
        seed: What every pair depends on.

    Example:
        >>> import numpy as np
        >>> from ident3d import TimeSampler
        >>> sequence = np.repeat([0, 1], [3, 4])
        >>> pairs = TimeSampler(np.empty((7, 0)), sequence, max_lag=2).pairs(np.arange(100))
        >>> sorted(set(zip(pairs.anchor.tolist(), pairs.positive.tolist())))
        [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (4, 6), (5, 6)]
    """

    members: Final = 2
    on_gpu: Final = False

    def __init__(
        self,
        latents: NDArray[np.float32],
        sequence: ArrayLike,
        frame: ArrayLike | None = None,
        *,
        max_lag: int = MAX_LAG,
        seed: int = 0,
    ) -> None:
        check_lag(max_lag)
        which = np.asarray(sequence)
        n = len(which)
        when = np.arange(n) if frame is None else np.asarray(frame)
        if not len(latents) == n == len(when):
            raise UserError(f"There are {len(latents)} images, and {n} sequences and {len(when)} frames of them.")
        # Images by sequence and frame. A place is a position in this order.
        self.order: Indices = np.lexsort((when, which)).astype(np.int64)
        same = np.diff(which[self.order]) == 0
        twice = np.flatnonzero(same & (np.diff(when[self.order]) == 0))
        if len(twice):
            image = self.order[twice[0]]
            raise UserError(f"Frame {when[image]} of sequence {which[image]} is there twice; a frame has one image.")
        self.starts: Indices = np.flatnonzero(same)
        ends = np.append(np.flatnonzero(~same), n - 1)
        longest = int(np.diff(ends, prepend=-1).max(initial=0))
        if max_lag >= longest:
            raise UserError(
                f"The positive is up to {max_lag} frames later (max_lag), and the longest sequence has {longest}: "
                f"{'take a lag below that' if longest > 1 else 'there are no pairs'}."
            )
        # Where the sequence of each start ends.
        self.ends: Indices = ends[np.searchsorted(ends, self.starts)]
        self.latents, self.max_lag, self.seed = latents, max_lag, check_seed(seed)

    @property
    def settings(self) -> tuple[object, ...]:
        """What pairs depend on besides the images and the seed."""
        return "time", self.max_lag

    def build(self) -> None:
        """Do nothing: all that is needed was made with the sampler."""

    def pairs(self, numbers: ArrayLike) -> Pairs:
        """Return the pairs with these numbers. What was drawn is the positive itself."""
        variates = draw_variates(self.seed, pair_numbers(numbers))[:, ANCHOR]
        which = (variates[:, START] * len(self.starts)).astype(np.int64)
        lag = 1 + (variates[:, LAG] * self.max_lag).astype(np.int64)
        start = self.starts[which]
        anchor, positive = self.order[start], self.order[np.minimum(start + lag, self.ends[which])]
        return Pairs(anchor, positive, None, self.latents[positive].astype(np.float64))

    def lags(self, pairs: Pairs) -> Indices:
        """Return how many frames later the positive of each pair is."""
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(self.order))
        return np.asarray(place[pairs.positive] - place[pairs.anchor])


def check_lag(max_lag: int) -> None:
    """Raise UserError unless the lag is a whole number from 1."""
    if not hasattr(max_lag, "__index__") or max_lag < 1:
        raise UserError(f"The lag is a whole number of frames from 1, not {max_lag!r}.")
