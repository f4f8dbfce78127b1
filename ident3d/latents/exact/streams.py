"""Random numbers by address: what image i gets depends on (seed, split, i) and on nothing drawn before it.

Philox is a counter-based generator: its output is a keyed permutation of a counter. The key is (seed, stream), the
counter the image's index, so any range of images is drawn directly, in chunks of any size, and the streams of
different splits never meet. ``random_raw`` is covered by NumPy's promise that a bit generator's stream never changes.
"""

import operator
from typing import Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError

SPLITS: Final = ("train", "test")
# Of 64 bits each: a multiple of the four that one step of the counter gives, and more than any world of ours needs.
WORDS_PER_IMAGE: Final = 16
_PURPOSES: Final = ("latents", "noise")


def check_seed(seed: SupportsIndex) -> int:
    """Return a seed as a number; raise UserError if it is none, or does not fit into 64 bits."""
    if not isinstance(seed, SupportsIndex) or not 0 <= operator.index(seed) < 2**64:
        raise UserError(f"The seed must be a whole number from 0 to 2**64 - 1, not {seed!r}.")
    return operator.index(seed)


def _key(seed: int, split: str, purpose: str) -> int:
    if split not in SPLITS:
        raise UserError(f"There is no split {split!r}; the splits are {' and '.join(SPLITS)}.")
    # The stream's number lies above the 64 bits of the seed, so that no two keys are equal.
    return check_seed(seed) + ((SPLITS.index(split) + len(SPLITS) * _PURPOSES.index(purpose)) << 64)


def words(
    seed: int, split: str, start: int, count: int, each: int = WORDS_PER_IMAGE, attempt: int = 0
) -> NDArray[np.uint64]:
    """Return the random words of images start … start+count-1, shape (count, each); `each` is a multiple of four.

    Who rejects what the words gave takes those of a further `attempt`.
    """
    if start < 0 or count < 0:
        raise UserError(f"Images are numbered from 0, so {count} images from number {start} cannot be drawn.")
    # The counter starts at the first image's words: each of its steps gives four. Of its 256 bits, images take half.
    philox = np.random.Philox(key=_key(seed, split, "latents"), counter=start * (each // 4) + (attempt << 128))
    return np.asarray(philox.random_raw(count * each), np.uint64).reshape(count, each)


def noise_seed(seed: int, split: str, index: int) -> int:
    """Return the 31-bit seed of Cycles' sampling noise for one image, from a stream of its own.

    Args:
        seed: The dataset's seed.
        split: "train" or "test".
        index: The image's number.

    Returns:
        A whole number from 0 to 2**31 - 1.

    Example:
        >>> from ident3d import latents
        >>> latents.noise_seed(0, "train", 7) == latents.noise_seed(0, "train", 7) != latents.noise_seed(0, "test", 7)
        True
    """
    if index < 0:
        raise UserError(f"Images are numbered from 0; there is no image {index}.")
    return int(np.random.Philox(key=_key(seed, split, "noise"), counter=index).random_raw() >> 33)


def uniform_float32(word: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Return U(-1, 1) from a word's upper 24 bits k: (2k + 1 - 2²⁴) / 2²⁴, odd multiples of 2⁻²⁴, exact in float32."""
    k = (word >> np.uint64(40)).astype(np.int64)
    return ((2 * k + 1 - 2**24) / 2**24).astype(np.float32)


def uniform_float64(word: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return U(0, 1) without its ends, from a word's upper 52 bits k: (2k + 1) / 2⁵³, exact in float64."""
    k = (word >> np.uint64(12)).astype(np.int64)
    return (2 * k + 1) / 2.0**53
