"""`GridSampler`: images on a full grid of factors, some of which change. The positive is looked up, not searched.

`uni` and `lap` are the pairs of the papers that compare methods on dSprites, as their code draws them, and `redraw` are
those of Ada-GVAE's paper.
"""

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.streams import check_seed
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors
from ident3d.latents.worlds import AnyWorld
from ident3d.loaders.pairs.grid_draws import IMAGE, RATE, draw_lap, draw_redraw, draw_uni
from ident3d.loaders.pairs.sampler import Pairs
from ident3d.loaders.pairs.search import Indices
from ident3d.loaders.pairs.variates import ANCHOR, WORDS_A_PURPOSE, draw_variates, pair_numbers

GRIDS: Final = ("lap", "uni", "lap-rejecting", "redraw")
# They choose some of two factors or more, categorical ones too.
OF_SOME: Final = {"uni": draw_uni, "redraw": draw_redraw}
# With it, weights are still far from being rounded to 0.
GREATEST_RATE: Final = 100.0
# Of grids with more combinations to an image no table is made, only to name one that is missing.
MOST_CELLS: Final = 100
ONE_OF_EACH: Final = "A grid has one image of each combination of values."
ELSE: Final = "without a full grid take the rule nearest."


class GridSampler:
    """Pairs among images on a full grid: pair k depends on (latents, factors, settings, seed, k) alone.

    The anchor is uniform over the images, and has value number i₀ of the n of a factor. Factors with a single value do
    not count. A periodic factor's values are a list like others: its way round is not looked at.

    uni            k ~ uniform {1, …, D-1} of the D factors, categorical ones too, take another value, all alike
    lap            p(i) ∝ exp(-|i - i₀| rate / ln n) for each factor by itself; categorical factors stay. If nothing has
                   changed, one of the other factors is chosen, and takes another value with these weights
    lap-rejecting  the same, but drawn again until something has changed
    redraw         one factor or k ~ uniform {1, …, D-1}, by a coin, take any value, all alike, also the old one

    Args:
        latents: Raw latents of the images (n, factors) float32.
        world: Their declared factors. Each has a list of values.
        grid: "lap", "uni", "lap-rejecting" or "redraw".
        rate: Of lap; None draws it from U(1, 10) for each pair.
        seed: What every pair depends on.

    Example:
        >>> import numpy as np
        >>> from ident3d import Factor, Factors, GridSampler
        >>> factors = Factors([Factor("x", values=range(4)), Factor("y", values=range(5))])
        >>> cells = np.stack(np.unravel_index(np.arange(20), (4, 5)), axis=1)
        >>> pairs = GridSampler(factors.to_raw(cells), factors, grid="uni").pairs(np.arange(100))
        >>> set((cells[pairs.anchor] != cells[pairs.positive]).sum(axis=1).tolist())  # one of the two factors
        {1}
    """

    members: Final = 2
    on_gpu: Final = False

    def __init__(
        self,
        latents: NDArray[np.float32],
        world: AnyWorld,
        *,
        grid: str = "lap",
        rate: float | None = RATE,
        seed: int = 0,
    ) -> None:
        check_grid(grid, rate)
        factors = grid_factors(world)
        self.latents, self.grid, self.rate, self.seed = latents, grid, rate, check_seed(seed)
        moving = [k for k, factor in enumerate(factors) if len(factor.values) > 1]
        self.names = tuple(factors[k].name for k in moving)
        self.sizes: Indices = np.array([len(factors[k].values) for k in moving], np.int64)
        self.ordered = np.array([factors[k].kind != "categorical" for k in moving], np.bool_)
        enough = len(moving) > 1 if grid in OF_SOME else self.ordered.any()
        if not enough or len(moving) > WORDS_A_PURPOSE:
            wanted = "two factors or more" if grid in OF_SOME else "a factor that is not categorical"
            vary = ", ".join(self.names) or "none"
            raise UserError(
                f"The grid {grid} needs {wanted}, of {WORDS_A_PURPOSE} at most that vary; here vary {vary}."
            )
        cells = prod(self.sizes.tolist())
        listed = [factors[k].values for k in moving]
        if cells > MOST_CELLS * max(1, len(latents)):
            raise UserError(
                f"{ONE_OF_EACH} {', '.join(self.names)} have {cells:,}, and there are {len(latents):,} images; {ELSE}"
            )
        # Cells of the grid are numbered as in dSprites: the last factor varies fastest.
        self.strides: Indices = np.array([prod(self.sizes[k + 1 :].tolist()) for k in range(len(moving))], np.int64)
        cell = np.zeros(len(latents), np.int64)
        for k, stride in zip(moving, self.strides, strict=True):
            cell += factors[k].index(latents[:, k]) * stride
        # Neither table is needed for images that lie in the order of the grid.
        self._cell = self._image = None
        if not np.array_equal(cell, np.arange(cells)):
            self._cell, self._image = cell, self._images_of(cell, cells, listed)

    def _images_of(self, cell: Indices, cells: int, listed: Sequence[Sequence[float | str]]) -> Indices:
        """Return the number of the image in each cell, from the cell of each image."""
        image = np.full(cells, -1)
        image[cell] = np.arange(len(cell))
        holes = np.flatnonzero(image < 0)
        if len(holes) or len(cell) != cells:
            several = np.flatnonzero(np.bincount(cell, minlength=cells) > 1)
            found = [
                f"{len(each):,} of {cells:,} have {what}, the first {self._named(each[0], listed)}"
                for each, what in ((holes, "none here"), (several, "several"))
                if len(each)
            ]
            raise UserError(f"{ONE_OF_EACH} {'; '.join(found)}; {ELSE}")
        return image

    def _named(self, cell: np.int64, listed: Sequence[Sequence[float | str]]) -> str:
        """Return a cell's values with the names of their factors."""
        numbers = (cell // self.strides % self.sizes).tolist()
        values = [values[i] for values, i in zip(listed, numbers, strict=True)]
        shown = [value if isinstance(value, str) else f"{value:.6g}" for value in values]
        return " and ".join(f"{name} {value}" for name, value in zip(self.names, shown, strict=True))

    @property
    def settings(self) -> tuple[object, ...]:
        """What pairs depend on besides the images and the seed."""
        return "grid", self.grid, self.rate

    def build(self) -> None:
        """Do nothing: all that is needed was made with the sampler."""

    def pairs(self, numbers: ArrayLike) -> Pairs:
        """Return the pairs with these numbers. What was drawn is the positive itself."""
        numbers = pair_numbers(numbers)
        variates = draw_variates(self.seed, numbers)
        anchor = (variates[:, ANCHOR, IMAGE] * len(self.latents)).astype(np.int64)
        cell = anchor if self._cell is None else self._cell[anchor]
        old = cell[:, None] // self.strides % self.sizes
        if self.grid in OF_SOME:
            new = OF_SOME[self.grid](old, self.sizes, variates)
        else:
            rejecting = self.grid == "lap-rejecting"
            new = draw_lap(old, self.sizes, self.ordered, self.rate, variates, rejecting=rejecting)
        positive = new @ self.strides
        if self._image is not None:
            positive = self._image[positive]
        return Pairs(anchor, positive, None, self.latents[positive].astype(np.float64))


def grid_factors(world: AnyWorld) -> tuple[Factor, ...]:
    """Return the declared factors of a world, each of which must have a list of values."""
    declared = world.factors if isinstance(world, Factors) else ()
    continuous = [factor.name for factor in declared if not factor.values]
    if not declared or continuous:
        what = f"{', '.join(continuous)} are continuous" if continuous else "these images have no listed values"
        raise UserError(
            f"The rule grid looks positives up among factors with listed values: {what}; take nearest, or "
            "declare the factor with its values (in a table of factors: `values = [0, 1, 2]`)."
        )
    return declared


def check_grid(grid: str, rate: float | None) -> None:
    """Raise UserError for a grid that does not exist, or a rate that it does not take."""
    check_known("grid", grid, GRIDS)
    if rate is not None and not 0 < rate <= GREATEST_RATE:
        raise UserError(f"The rate of a grid is a number above 0, {GREATEST_RATE:g} at most, not {rate:g}.")
    if grid in OF_SOME and rate != RATE:
        raise UserError(f"The grid {grid} has no rate: a factor's values are alike to it.")
