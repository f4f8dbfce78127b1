"""The random numbers of pairs by address: those of pair k depend on (seed, k) and on nothing drawn before.

So pairs are the same however they are divided into batches, and whichever worker or rank draws them.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError
from ident3d.latents.exact.streams import uniform_float64

# 64-bit words for each pair. Philox gives four with each step of its counter.
WORDS = 64
# Words for each of the four purposes: one for each latent, and the periodic world has eleven.
WORDS_A_PURPOSE = 16
ANCHOR, MARGINAL, POSITIVE, NEGATIVE = range(4)
# Apart from the streams of latents and noise, which are numbered from 0.
_STREAM = 1000
# And onwards, one for each purpose: for conditionals that draw until they accept.
_REPEATS = 1004


def pair_numbers(numbers: ArrayLike) -> NDArray[np.int64]:
    """Return the numbers of pairs (m,); UserError unless they are whole numbers from 0."""
    found = np.asarray(numbers, np.int64)
    if found.ndim != 1 or (found < 0).any():
        raise UserError("Pairs are chosen by a list of whole numbers from 0.")
    return found


def draw_variates(seed: int, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return U(0, 1) for each pair and purpose, (pairs, 4, WORDS_A_PURPOSE)."""
    # Philox is a function of its counter, so that pair k's words can be had without those before it. Runs of
    # consecutive numbers, as a loader asks for, are one call each.
    words = np.empty((len(numbers), WORDS), np.uint64)
    edges = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1), len(numbers)] if len(numbers) else [0]
    for start, stop in pairwise(edges):
        philox = np.random.Philox(key=seed + (_STREAM << 64), counter=int(numbers[start]) * (WORDS // 4))
        words[start:stop] = philox.random_raw((stop - start) * WORDS).reshape(-1, WORDS)
    return uniform_float64(words).reshape(len(numbers), 4, WORDS_A_PURPOSE)


def generator_of(seed: int, number: int, purpose: int) -> np.random.Generator:
    """Return a generator for one pair and purpose, for draws that need an unknown count of random numbers."""
    philox = np.random.Philox(key=seed + ((_REPEATS + purpose) << 64), counter=number << 64)
    return np.random.Generator(philox)


class Columns:
    """Gives the columns of a block of random numbers in the shapes (n, k) that a sampler asks for."""

    def __init__(self, block: NDArray[np.float64]) -> None:
        self.block, self.next = block, 0

    def __call__(self, shape: Sequence[int]) -> NDArray[np.float64]:
        if 0 in shape:
            return np.empty(shape)
        n, width = shape
        if n != len(self.block) or self.next + width > self.block.shape[1]:
            raise ValueError(f"{tuple(shape)} random numbers wanted, but the block has {self.block.shape}")
        self.next += width
        return self.block[:, self.next - width : self.next]


def permutation(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    """Return the order of images in an epoch: that of n random words."""
    philox = np.random.Philox(key=seed + ((_STREAM + 1) << 64), counter=epoch << 64)
    return np.argsort(philox.random_raw(n), kind="stable").astype(np.int64)
