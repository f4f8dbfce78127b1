"""`ViewSampler`: views of one z. The positive is another view of the anchor's instance."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError
from ident3d.latents.exact.streams import check_seed
from ident3d.loaders.pairs.sampler import Pairs
from ident3d.loaders.pairs.search import Indices
from ident3d.loaders.pairs.variates import ANCHOR, draw_variates, pair_numbers

# Columns of ANCHOR.
START, OTHER = range(2)


def one_of_each(instance: ArrayLike) -> Indices:
    """Return in order the rows of one view of each instance, any of them: rows that are not twins, to be scored."""
    which = np.asarray(instance)
    order = np.random.default_rng(0).permutation(len(which))
    return np.sort(order[np.unique(which[order], return_index=True)[1]]).astype(np.int64)


class ViewSampler:
    """Pairs of views of one instance: pair k depends on (instances, settings, seed, k) alone.

    anchor    uniform over all images whose instance has another view
    positive  uniform over the other views of that instance

    Args:
        latents: Raw latents of the images (n, d) float32; d may be 0.
        instance: The instance of each image (n,): what images with the same number are views of.
        seed: What every pair depends on.

    Example:
        >>> import numpy as np
        >>> from ident3d import ViewSampler
        >>> pairs = ViewSampler(np.empty((6, 0)), [7, 7, 7, 8, 9, 9]).pairs(np.arange(100))
        >>> sorted(set(zip(pairs.anchor.tolist(), pairs.positive.tolist())))
        [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (4, 5), (5, 4)]
    """

    members: Final = 2
    on_gpu: Final = False

    def __init__(self, latents: NDArray[np.float32], instance: ArrayLike, *, seed: int = 0) -> None:
        which = np.asarray(instance)
        if which.ndim != 1 or len(latents) != len(which):
            raise UserError(f"There are {len(latents)} images, and instances of {which.size} of them.")
        # Images by instance. A place is a position in this order.
        self.order: Indices = np.argsort(which, kind="stable").astype(np.int64)
        _, first, count = np.unique(which[self.order], return_index=True, return_counts=True)
        # For each place where its instance begins, and how many views that has.
        begin, views = np.repeat(first, count), np.repeat(count, count)
        self.places: Indices = np.flatnonzero(views > 1).astype(np.int64)
        if not len(self.places):
            raise UserError("No instance has two views, so there are no pairs.")
        self.begin: Indices = begin[self.places]
        self.views: Indices = views[self.places]
        self.latents, self.seed = latents, check_seed(seed)

    @property
    def settings(self) -> tuple[object, ...]:
        """What pairs depend on besides the images and the seed."""
        return ("view",)

    def build(self) -> None:
        """Do nothing: all that is needed was made with the sampler."""

    def pairs(self, numbers: ArrayLike) -> Pairs:
        """Return the pairs with these numbers. What was drawn is the positive itself."""
        variates = draw_variates(self.seed, pair_numbers(numbers))[:, ANCHOR]
        which = (variates[:, START] * len(self.places)).astype(np.int64)
        place, begin, views = self.places[which], self.begin[which], self.views[which]
        # So many views further on, round the instance.
        ahead = 1 + (variates[:, OTHER] * (views - 1)).astype(np.int64)
        anchor, positive = self.order[place], self.order[begin + (place - begin + ahead) % views]
        return Pairs(anchor, positive, None, self.latents[positive].astype(np.float64))
