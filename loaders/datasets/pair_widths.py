"""How wide pairs of finite data are: |z̃ - z| of matched pairs against the distribution asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from ident3d.errors import UserError
from ident3d.latents.distributions.differences import difference_cdf, expected_abs_difference
from ident3d.latents.distributions.spaces import distance
from ident3d.latents.world_conditional import DEFAULT_SIGMA, world_conditional
from ident3d.loaders.datasets.image_dataset import Folders, ImageDataset
from ident3d.loaders.datasets.pair_rules import pair_sampler
from ident3d.loaders.format.files import write_figure
from ident3d.loaders.pairs.sampler import PairSampler

BINS = 120


@dataclass(frozen=True)
class Realised:
    """Per raw latent: mean |z̃ - z| asked for and realised, and the largest distance between the two distributions (KS).

    `histogram` (bins, d) counts realised |z̃ - z| between `edges`. `asked_cdf` (bins + 1, d) is the distribution asked
    for at the edges, with the dataset's own latents as anchors. The KS distance is the largest one at an edge.
    """

    images: int
    pairs: int
    names: tuple[str, ...]
    asked_mean: tuple[float, ...]
    realised_mean: tuple[float, ...]
    ks: tuple[float, ...]
    search: str
    edges: NDArray[np.float64]
    histogram: NDArray[np.int64]
    asked_cdf: NDArray[np.float64]

    def as_dict(self) -> dict[str, Any]:
        columns = zip(self.names, self.asked_mean, self.realised_mean, self.ks, strict=True)
        latents = [{"latent": n, "asked_mean": a, "realised_mean": r, "ks": k} for n, a, r, k in columns]
        return {"images": self.images, "pairs": self.pairs, "search": self.search, "latents": latents}

    def table(self) -> str:
        columns = zip(self.names, self.asked_mean, self.realised_mean, self.ks, strict=True)
        rows = [(n, f"{a:.4f}", f"{r:.4f}", f"{r / a:.2f}" if a else "-", f"{k:.3f}") for n, a, r, k in columns]
        headers = ("latent", "mean |z̃-z| asked", "realised", "ratio", "KS distance")
        shown = tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)
        return f"{self.pairs:,} pairs among {self.images:,} images, search {self.search}\n\n{shown}"


def pairs(
    images: Folders | ImageDataset,
    cond: str = "normal",
    sigma: float | Sequence[float] | None = DEFAULT_SIGMA,
    *,
    p: float = 3.0,
    kappa: float | None = None,
    precision: float | Sequence[float] | None = None,
    only: Sequence[str] | None = None,
    same_class: bool = False,
    anchors: str = "rendered",
    search: str = "exact",
    environments: str | None = None,
    seed: int = 0,
    count: int = 20_000,
) -> Realised:
    """Draw `count` pairs as PairDataset does, and compare |z̃ - z| with the conditional.

    `images` and the settings of the pairs are those of PairDataset.

    Args:
        images: A dataset folder, its address, an opened `Folder`, several of them, or an `ImageDataset`.
        cond: The name of p(z̃ | z): see `ident3d.latents.conditional`.
        sigma: The width, one number or one per latent.
        p: The power of gennorm.
        kappa: The concentration of vmf.
        precision: The diagonal of Λ for rejected_normal.
        only: Names of the latents that change.
        same_class: Keep a pair within its class.
        anchors: "rendered" or "marginal".
        search: "exact", "flat" or "ivf".
        environments: "within" or "across" environments, or of some, as in "within:plain,right".
        seed: What every pair depends on.
        count: The number of pairs.

    Returns:
        A `Realised`: what was asked for and what the finite data gave, per latent.

    Example:
        >>> import ident3d
        >>> found = ident3d.pairs(dataset, sigma=0.3, count=100)
        >>> found.pairs, bool(found.realised_mean[0] > found.asked_mean[0])  # 16 images are few
        (100, True)
    """
    if count < 1:
        raise UserError(f"At least one pair must be drawn, not {count}.")
    data = images if isinstance(images, ImageDataset) else ImageDataset(images)
    conditional = world_conditional(data.world, cond, sigma, p, kappa, precision, only)
    kept = {"same_class": same_class, "anchors": anchors, "search": search, "environments": environments}
    sampler = pair_sampler(data, conditional, seed=seed, **kept)  # type: ignore[arg-type]
    return realised_pairs(sampler, data.world.names, count)


def realised_pairs(sampler: PairSampler, names: tuple[str, ...], count: int) -> Realised:
    """Draw `count` pairs of a sampler, and compare |z̃ - z| of the latents with these names with its conditional."""
    conditional = sampler.conditional
    # Pair numbers from 0 are those of a training's first epoch: what a run with this seed sees is measured.
    drawn = sampler.pairs(np.arange(count))
    z, anchors = sampler.latents.astype(np.float64), sampler.searched.astype(np.float64)
    difference = distance(conditional.space, z[drawn.positive], z[drawn.anchor])
    # The last thousandth is left out: one stray pair would squeeze all others into a few bins.
    edges = np.linspace(0, max(float(np.quantile(difference, 0.999)), 1e-9), BINS + 1)
    # The distribution asked for is averaged over all images as anchors, because edges of the box narrow it.
    asked = difference_cdf(conditional, edges, anchors)
    realised = np.stack([np.searchsorted(np.sort(column), edges, "right") for column in difference.T], axis=1) / count
    return Realised(
        images=len(anchors),
        pairs=count,
        names=names,
        asked_mean=tuple(expected_abs_difference(conditional, anchors).tolist()),
        realised_mean=tuple(difference.mean(axis=0).tolist()),
        ks=tuple(np.abs(realised - asked).max(axis=0).tolist()),
        search=sampler.neighbours.search,
        edges=edges,
        histogram=np.stack([np.histogram(column, edges)[0] for column in difference.T], axis=1),
        asked_cdf=asked,
    )


def plot_realised(result: Realised, path: Path, title: str) -> None:
    """Save a picture with one panel per latent: realised differences as bars, the density asked for as a line."""
    from matplotlib.figure import Figure

    columns = min(5, len(result.names))
    rows = -(-len(result.names) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.1 * rows + 0.9), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    width = result.edges[1]
    middle = (result.edges[:-1] + result.edges[1:]) / 2
    asked = np.diff(result.asked_cdf, axis=0) / width
    realised = result.histogram / result.pairs / width
    # A narrow conditional's density at 0 may be far above all bars. Its top is cut off, so that they are seen.
    top = 1.15 * max(realised.max(), np.quantile(asked, 0.98))
    for k, name in enumerate(result.names):
        panels[k].bar(middle, realised[:, k], width, color="#9db8d9", label="realised")
        panels[k].plot(middle, asked[:, k], color="#c0392b", label="asked for")
        panels[k].set(title=name, ylim=(0, top), xlim=(0, result.edges[-1]))
        panels[k].title.set_fontsize(9)
        panels[k].tick_params(labelsize=7)
        panels[k].set_yticks([])
    for panel in panels[len(result.names) :]:
        panel.set_axis_off()
    figure.supxlabel("|z̃ - z|", fontsize=9)
    figure.suptitle(title, fontsize=10)
    panels[0].legend(loc="upper right", fontsize=7, frameon=False)
    write_figure(path, figure)
