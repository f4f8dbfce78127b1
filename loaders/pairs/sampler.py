"""`PairSampler`: an anchor z, a draw z̃' ~ p(· | z), and the rendered image whose latents are nearest to it."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents import Conditional, marginal
from ident3d.latents.distributions.conditionals import ProductConditional, RejectedNormal
from ident3d.latents.distributions.spaces import goes_round
from ident3d.latents.exact.streams import check_seed
from ident3d.loaders.format.files import sha256
from ident3d.loaders.pairs.search import Neighbours
from ident3d.loaders.pairs.variates import (
    ANCHOR,
    MARGINAL,
    NEGATIVE,
    POSITIVE,
    WORDS_A_PURPOSE,
    Columns,
    draw_variates,
    generator_of,
    pair_numbers,
)

ANCHORS: Final = ("rendered", "marginal")


class Pairs(NamedTuple):
    """Image numbers of anchors, positives and, on request, hard negatives, (m,) each, and the draws z̃' (m, d)."""

    anchor: NDArray[np.int64]
    positive: NDArray[np.int64]
    negative: NDArray[np.int64] | None
    drawn: NDArray[np.float64]


class PairSampler:
    """Pairs among images with these raw latents: pair k depends on (latents, classes, settings, seed, k) alone.

    anchor    uniform over the images ("rendered"), or the one nearest to a draw from the uniform marginal ("marginal")
    z̃'        ~ p(· | z), z the anchor's latents
    positive  the image nearest to z̃' in L2 that is not the anchor, of the anchor's class if `classes` are given, and of
              another environment if `apart` is given
    negative  on request, the same with a second conditional

    Args:
        latents: Raw latents of the images (n, d) float32.
        conditional: p(z̃ | z) on the latents' space.
        seed: What every pair depends on.
        anchors: "rendered" or "marginal".
        search: "exact", "flat" or "ivf".
        classes: Classes of the images (n,), whole numbers, to keep pairs within a class.
        negative: The conditional of hard negatives.
        apart: Environments of the images (n,), whole numbers, to take pairs from two of them.
        among: Numbers of the images that pairs are taken from; by default all.

    Example:
        >>> import numpy as np
        >>> from ident3d import PairSampler, latents
        >>> z = np.random.default_rng(0).uniform(-1, 1, (1000, 3)).astype(np.float32)
        >>> sampler = PairSampler(z, latents.conditional("normal", latents.Box(3), sigma=0.1))
        >>> anchors, positives, *_ = sampler.pairs(np.arange(500))
        >>> bool(0.05 < np.abs(z[anchors] - z[positives]).mean() < 0.15)
        True
    """

    def __init__(
        self,
        latents: NDArray[np.float32],
        conditional: Conditional,
        *,
        seed: int = 0,
        anchors: str = "rendered",
        search: str = "exact",
        classes: NDArray[np.integer[Any]] | None = None,
        negative: Conditional | None = None,
        apart: NDArray[np.integer[Any]] | None = None,
        among: NDArray[np.int64] | None = None,
    ) -> None:
        for given in (conditional, negative):
            if given is not None and latents.shape[1:] != (given.space.dim,):
                raise UserError(f"A conditional on {given.space.dim} dimensions does not fit latents {latents.shape}.")
        if latents.shape[1] > WORDS_A_PURPOSE:
            raise UserError(
                f"Pairs are drawn among latents of at most {WORDS_A_PURPOSE} dimensions, not {latents.shape[1]}."
            )
        check_known("way to choose anchors", anchors, ANCHORS)
        self.latents, self.conditional, self.negative, self.anchors = latents, conditional, negative, anchors
        self.seed = check_seed(seed)
        circles = goes_round(conditional.space)
        self.among = among
        if among is not None:
            if not len(among):
                raise UserError("Pairs are taken among images that are there, and none is left.")
            classes, apart = (None if labels is None else labels[among] for labels in (classes, apart))
        # Below, images are counted among these.
        self.searched = latents if among is None else latents[among]
        self.neighbours = Neighbours(self.searched, search, classes, circles, apart)
        self.marginal = marginal("uniform", conditional.space) if anchors == "marginal" else None
        # An anchor drawn from the marginal may be of any class; only the positive has to be of the anchor's.
        anywhere = self.marginal and not (classes is None and apart is None)
        self.nearest_anchor = Neighbours(self.searched, search, None, circles) if anywhere else self.neighbours

    @property
    def settings(self) -> tuple[object, ...]:
        """What pairs depend on besides the images and the seed."""
        within = self.neighbours.classes is not None
        usual: tuple[object, ...] = (self.conditional, self.negative, self.anchors, self.neighbours.search, within)
        usual = usual if self.neighbours.apart is None else (*usual, "across")
        return usual if self.among is None else (*usual, f"among {sha256(self.among.tobytes())[:16]}")

    @property
    def members(self) -> int:
        """Images of each pair: anchor, positive and, on request, hard negative."""
        return 2 if self.negative is None else 3

    @property
    def on_gpu(self) -> bool:
        """Whether the search runs on a GPU, which a forked process cannot use."""
        return self.neighbours.on_gpu

    def build(self) -> None:
        """Build or load the search index now, so that worker processes forked later share it."""
        self.neighbours.build()
        if self.marginal:
            self.nearest_anchor.build()

    def pairs(self, numbers: ArrayLike) -> Pairs:
        """Return the pairs with these numbers. The index is searched for the whole batch at once."""
        numbers = pair_numbers(numbers)
        # The numbers for all purposes come at once, each purpose its own columns, so that a hard negative that is asked
        # for leaves the anchor and the positive as they were.
        variates = draw_variates(self.seed, numbers)
        if self.marginal:
            anchor = self.nearest_anchor.find(self.marginal.sample(len(numbers), Columns(variates[:, MARGINAL])))
        else:
            anchor = (variates[:, ANCHOR, 0] * len(self.searched)).astype(np.int64)
        z = self.searched[anchor].astype(np.float64)
        drawn = draw_positives(self.conditional, z, self.seed, numbers, variates, POSITIVE)
        positive = self.neighbours.find(drawn, other_than=anchor)
        if self.negative is None:
            return Pairs(self._numbers(anchor), self._numbers(positive), None, drawn)
        away = draw_positives(self.negative, z, self.seed, numbers, variates, NEGATIVE)
        further = self.neighbours.find(away, other_than=anchor)
        return Pairs(self._numbers(anchor), self._numbers(positive), self._numbers(further), drawn)

    def _numbers(self, found: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of images that were counted among those that pairs are taken from."""
        return found if self.among is None else np.asarray(self.among[found], np.int64)


def draw_positives(
    conditional: Conditional,
    z: NDArray[np.float64],
    seed: int,
    numbers: NDArray[np.int64],
    variates: NDArray[np.float64],
    purpose: int,
) -> NDArray[np.float64]:
    """Return z̃' ~ p(· | z) for each pair, from the random numbers that belong to its number."""
    if not rejects(conditional):
        return np.asarray(conditional.sample(z, Columns(variates[:, purpose])))
    # No one knows beforehand how many random numbers a rejection takes. So each pair draws alone, from a generator of
    # its own: what it gets then does not depend on the other pairs of the batch.
    generators = [generator_of(seed, int(number), purpose) for number in numbers]
    rows = [conditional.sample(z[i : i + 1], own.random) for i, own in enumerate(generators)]
    return np.concatenate(rows) if rows else z


def rejects(conditional: Conditional) -> bool:
    """Return whether it draws until it accepts, and so needs an unknown count of random numbers."""
    parts = conditional.parts if isinstance(conditional, ProductConditional) else (conditional,)
    return any(isinstance(part, RejectedNormal) for part in parts)
