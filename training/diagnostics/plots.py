"""Pictures of a diagnosis: distances of positives and others, codes of one image's views, the classifier's logits."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ident3d.loaders.format.files import write_figure
from ident3d.metrics.pair_overlap import Overlap
from ident3d.metrics.view_shapes import ConditionalShape
from ident3d.training.diagnostics.domain import DomainAccuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 40
# Codes whose histograms are drawn.
MOST = 20


def figure_of(width: float, height: float) -> "Figure":
    """Return an empty figure that needs no display."""
    # Without pyplot there is no global state, and matplotlib loads only here.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def overlap_picture(overlaps: Mapping[int, Overlap], of_pixels: Mapping[int, Overlap], path: Path) -> None:
    """Draw the overlap over the batch, and histograms of both distances in the largest batch."""
    figure = figure_of(8, 3)
    left, right = figure.subplots(1, 2)
    for label, found in (("codes", overlaps), ("pixels", of_pixels)):
        left.plot(list(found), [float(each) for each in found.values()], "o-", label=label)
    left.set(xscale="log", ylim=(-0.02, 1.02), xlabel="pairs in a batch", ylabel="overlap")
    left.set_xticks(list(overlaps), labels=map(str, overlaps))
    left.set_xticks([], minor=True)
    # Named places: matplotlib's search for the best one warns where it takes long.
    left.legend(frameon=False, loc="center left")
    largest = overlaps[max(overlaps)]
    bins = np.linspace(0, max(largest.positive.max(), largest.other.max()) or 1.0, BINS)
    right.hist(largest.positive, bins, alpha=0.6, label="to the positive")
    right.hist(largest.other, bins, alpha=0.6, label="to the nearest other")
    right.set(xlabel=f"distance of codes, batches of {max(overlaps)}", yticks=[])
    right.legend(frameon=False, loc="upper right")
    write_figure(path, figure)


def conditional_picture(codes: NDArray[np.float32], shape: ConditionalShape, path: Path) -> None:
    """Draw a histogram of each code over the views of the first image, beside the normal distribution that fits."""
    count = min(MOST, codes.shape[2])
    columns = min(5, count)
    rows = -(-count // columns)
    figure = figure_of(2.2 * columns, 1.9 * rows)
    for k, axes in enumerate(figure.subplots(rows, columns, squeeze=False).flat):
        if k >= count:
            axes.set_axis_off()
            continue
        values = codes[0, :, k].astype(np.float64)
        axes.hist(values, BINS, density=True)
        spread = values.std()
        if spread > 0:
            x = np.linspace(values.min(), values.max(), 200)
            axes.plot(x, np.exp(-0.5 * ((x - values.mean()) / spread) ** 2) / (spread * np.sqrt(2 * np.pi)), "k", lw=1)
        axes.set_title(f"h{k}, not normal {shape.not_normal[k]:.2f}", fontsize=8)
        axes.set_yticks([])
        axes.tick_params(labelsize=7)
    write_figure(path, figure)


def domain_picture(found: DomainAccuracy, path: Path) -> None:
    """Draw the classifier's loss over its steps, and histograms of its logits on what it was scored on."""
    figure = figure_of(8, 3)
    left, right = figure.subplots(1, 2)
    left.plot(range(1, len(found.losses) + 1), found.losses)
    left.set(xlabel="step", ylabel="loss", ylim=(0, None))
    both = np.concatenate([found.plain, found.augmented])
    bins = np.linspace(both.min(), both.max() + 1e-6, BINS)
    right.hist(found.plain, bins, alpha=0.6, label="originals")
    right.hist(found.augmented, bins, alpha=0.6, label="views")
    right.axvline(0, color="k", lw=1)
    right.set(xlabel=f"logit; accuracy {found.accuracy:.3f}", yticks=[])
    right.legend(frameon=False, loc="upper right")
    write_figure(path, figure)
