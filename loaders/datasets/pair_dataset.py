"""`PairDataset`: batches ((z, z̃), (x, x̃)) of latents and images, as the contrastive losses take them."""

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError
from ident3d.latents.world_conditional import DEFAULT_SIGMA, world_conditional
from ident3d.loaders.datasets.image_dataset import Folders, ImageDataset, whole_numbers
from ident3d.loaders.datasets.pair_rules import (
    Sampler,
    check_space,
    pair_sampler,
    time_sampler,
    usual_rule,
    view_sampler,
)
from ident3d.loaders.pairs.grid import GridSampler
from ident3d.loaders.pairs.grid_draws import RATE
from ident3d.loaders.pairs.rules import check_rule, is_default, options_of
from ident3d.loaders.pairs.time import MAX_LAG

if TYPE_CHECKING:
    from torch import Tensor


Sample: TypeAlias = "tuple[tuple[Tensor, ...], tuple[Tensor, ...]]"
# In the place of a pair's number.
NONE_READ, WARNED = -1, -2


class PairDataset:
    """Map-style dataset: number → ((z, z̃), (x, x̃)), latents float32 and images uint8 C×H×W, by one of four rules.

    nearest  the image nearest to a draw from p(z̃ | z) = `cond`
    grid     images on a full grid of factors, some of which change: see `GridSampler`
    time     a later frame of the same sequence: see `TimeSampler`
    view     another view of the same z: see `ViewSampler`

    Pair k of epoch e is pair number e · length + k of its seed, whichever worker or rank reads it; a list of numbers
    gives a whole batch. `set_epoch` chooses e. `make_loader` starts from that epoch and continues by itself; in a plain
    DataLoader, call `set_epoch` before each epoch.

    Args:
        images: Dataset folders as ImageDataset takes them, or an ImageDataset, whose folders are not opened again.
        cond: The conditional's name, "normal" by default, as `ident3d.latents.conditional` takes it, with `sigma`, `p`,
            `kappa` and `precision`.
        seed: Of the pairs.
        space: The space that the latents live in, such as "box"; an error if they live in another one.
        only: Names of the latents, groups (position, rotation, hue) or views (positions, rotations, hues) that change
            from anchor to positive; by default all that are not held fixed or categorical. Both images of a pair have
            the same categorical factors.
        same_class: Take the positive from the anchor's class.
        negative: Arguments of a second conditional, such as ``{"cond": "normal", "sigma": 0.3}``. Each tuple then has a
            third member, the hard negative.
        anchors: "rendered", uniform over the images, or "marginal", the image nearest to a draw from the marginal.
        search: How the nearest image is found: "exact", "flat" or "ivf".
        environments: "within": take the positive from the anchor's environment; "across": from another one.
            "within:a,b" and "across:a,b" take both images from the environments of these names alone.
        length: Pairs of an epoch; by default as many as there are images.
        latents: As in ImageDataset.
        transform: As in ImageDataset; if `images` is one, its own.
        packed: As in ImageDataset; if `images` is one, its own.
        rule: "nearest", "grid", "time" or "view"; by default view for views of one z and time for frames of sequences,
            unless something of nearest is given: what is said above from `cond` to `environments` belongs to it.
        grid: Of grid: "lap", "uni", "lap-rejecting" or "redraw".
        rate: Of lap; None draws it from U(1, 10) for each pair.
        max_lag: Of time: how many frames later the positive is at most.

    Example:
        >>> from ident3d import PairDataset
        >>> pairs = PairDataset(dataset, cond="normal", sigma=0.3)
        >>> (z, z_tilde), (x, x_tilde) = pairs[0]
        >>> z.shape, x.shape == x_tilde.shape
        (torch.Size([10]), True)
    """

    def __init__(
        self,
        images: Folders | ImageDataset,
        cond: str | None = None,
        sigma: float | Sequence[float] | None = DEFAULT_SIGMA,
        seed: int = 0,
        *,
        space: str | None = None,
        p: float = 3.0,
        kappa: float | None = None,
        precision: float | Sequence[float] | None = None,
        only: Sequence[str] | None = None,
        same_class: bool = False,
        negative: Mapping[str, Any] | None = None,
        anchors: str = "rendered",
        search: str = "exact",
        environments: str | None = None,
        length: int | None = None,
        latents: Sequence[str] | None = None,
        transform: "Callable[[Tensor], Tensor] | None" = None,
        packed: bool | None = None,
        rule: str | None = None,
        grid: str = "lap",
        rate: float | None = RATE,
        max_lag: int = MAX_LAG,
    ) -> None:
        import torch

        nearest = {
            "cond": (cond, None), "sigma": (sigma, DEFAULT_SIGMA), "p": (p, 3.0), "kappa": (kappa, None),
            "precision": (precision, None), "only": (only, None), "same_class": (same_class, False),
            "negative": (negative, None), "anchors": (anchors, "rendered"), "search": (search, "exact"),
            "environments": (environments, None),
        }  # fmt: skip
        if isinstance(images, ImageDataset):
            if transform is not None or packed is not None:
                raise UserError("Give `transform` and `packed` to the ImageDataset, not to the PairDataset made of it.")
            self.source = images if latents is None else images.with_latents(latents)
        else:
            self.source = ImageDataset(images, latents=latents, transform=transform, packed=packed)
        if rule is None:
            asked = not all(is_default(*given) for given in nearest.values())
            rule = "nearest" if asked else usual_rule(self.source)
        check_rule(rule, {"nearest": nearest, **options_of(grid, rate, max_lag)})
        cond = cond or "normal"
        self.sampler: Sampler
        world = self.source.world
        # Frames need no latents to be paired, and images without latents have no space.
        if rule not in ("time", "view") or space is not None:
            check_space(world, space)
        if rule == "grid":
            self.sampler = GridSampler(self.source.all_latents()[0], world, grid=grid, rate=rate, seed=seed)
        elif rule == "time":
            self.sampler = time_sampler(self.source, max_lag, seed)
        elif rule == "view":
            self.sampler = view_sampler(self.source, seed)
        else:
            self.sampler = pair_sampler(
                self.source,
                world_conditional(world, cond, sigma, p, kappa, precision, only),
                seed=seed,
                same_class=same_class,
                negative=None if negative is None else world_conditional(world, **negative),
                anchors=anchors,
                search=search,
                environments=environments,
            )
        # In shared memory: workers that outlive an epoch see its number change. The second number is that of a pair of
        # the epoch that a plain DataLoader has read.
        self._epoch = torch.tensor([0, NONE_READ]).share_memory_()  # type: ignore[no-untyped-call]
        given = {"sigma": sigma, "kappa": kappa, "precision": precision, "only": only}
        words = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        how = [f"cond={cond!r}", *words] if rule == "nearest" else [" ".join(map(str, self.sampler.settings))]
        self._how = ", ".join([*how, f"seed={seed}"])
        self.length = len(self.source) if length is None else length
        if self.length < 1:
            raise UserError(f"An epoch has at least one pair, not {self.length}.")

    def __len__(self) -> int:
        return self.length

    @property
    def epoch(self) -> int:
        """The epoch that plain numbers belong to."""
        return int(self._epoch[0])

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that plain numbers belong to, here and in workers that are already running."""
        if epoch < 0:
            raise UserError(f"Epochs are numbered from 0; there is no epoch {epoch}.")
        self._epoch[0] = epoch
        self._epoch[1] = NONE_READ

    def __repr__(self) -> str:
        return f"<PairDataset: {len(self)} pairs an epoch, {self._how}, of {self.source!r}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the latents that come with each image, in order."""
        return self.source.names

    @property
    def mean(self) -> tuple[float, ...]:
        return self.source.mean

    @property
    def std(self) -> tuple[float, ...]:
        return self.source.std

    @property
    def members(self) -> int:
        """Images of each pair: anchor, positive and, on request, hard negative."""
        return self.sampler.members

    def batch(self, numbers: ArrayLike) -> Sample:
        """Return ((z, z̃), (x, x̃)) of the pairs with these numbers, counted over all epochs: B×d and B×C×H×W."""
        import torch

        pixels = np.empty((self.members * np.size(numbers), *self.source.shape), np.uint8)
        latents = self.fill(numbers, pixels)
        return self.assemble(torch.from_numpy(pixels), torch.from_numpy(latents))

    def fill(self, numbers: ArrayLike, out: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Read the images of these pairs into `out`, first all anchors, then all positives; return their latents."""
        # All members in one array, so that `assemble` splits it into views and copies nothing.
        pairs = self.sampler.pairs(numbers)
        members = [index for index in (pairs.anchor, pairs.positive, pairs.negative) if index is not None]
        return self.source.fill(np.concatenate(members), out)

    def assemble(self, pixels: "Tensor", latents: "Tensor") -> Sample:
        """Return ((z, z̃), (x, x̃)) of what `fill` read and returned."""
        z, images = self.source.assemble(pixels, latents)
        return z.chunk(self.members), images.chunk(self.members)

    def __getitem__(self, index: Any) -> Sample:
        if isinstance(index, SupportsIndex):
            z, x = self.batch(self._numbers([operator.index(index)]))
            return tuple(one[0] for one in z), tuple(one[0] for one in x)
        return self.batch(self._numbers(index))

    def __getitems__(self, index: Sequence[int]) -> list[Sample]:
        """Return the batch as the list of samples that a DataLoader's collate function expects, read at once."""
        self._warn_of_a_repeat(index)
        z, x = self.batch(self._numbers(index))
        return list(zip(zip(*z, strict=True), zip(*x, strict=True), strict=True))

    def _warn_of_a_repeat(self, index: Sequence[int]) -> None:
        """Warn once if an epoch's pairs are read again: no one would see that they are the same."""
        read = int(self._epoch[1])
        if read == NONE_READ and len(index):
            self._epoch[1] = int(index[0])
        elif read in index:
            self._epoch[1] = WARNED
            warnings.warn(
                f"A plain DataLoader reads the pairs of epoch {self.epoch} again: call set_epoch on the PairDataset "
                f"before each epoch, or take ident3d.make_loader, whose epochs advance by themselves.",
                stacklevel=2,
            )

    def _numbers(self, index: Any) -> NDArray[np.int64]:
        # Within an epoch, -1 is its last pair. The sampler counts over all epochs, so that each epoch has new pairs.
        return whole_numbers(index, len(self), "pairs in an epoch") + self.epoch * len(self)
