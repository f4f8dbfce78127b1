"""What a pair rule changes from anchor to positive: how many factors, how far, how many frames later."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from tabulate import tabulate

from ident3d.errors import UserError
from ident3d.latents.distributions.spaces import distance
from ident3d.latents.factors import Factors
from ident3d.latents.step_widths import asked_widths
from ident3d.loaders.cards.contact_sheet import picture_of
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.datasets.view_changes import asked_of_views, blocks_by_name, correlations_of
from ident3d.loaders.format.files import write_figure
from ident3d.loaders.format.latents_source import environments_of, sequences_of
from ident3d.loaders.pairs.sampler import PairSampler
from ident3d.loaders.pairs.time import TimeSampler
from ident3d.loaders.pairs.view import ViewSampler

PICTURED_PAIRS: Final = 8
# Of longer lags, the table shows so many lines.
LISTED_LAGS: Final = 20
# More names of factors than these need to be turned to find room.
MOST_FLAT: Final = 5


@dataclass(frozen=True)
class Changes:
    """What differs between the images of pairs, as shares of the pairs and as means over them.

    `changed` is the share of pairs in which a factor changes, `steps` the mean difference of the numbers of its values
    (None if it is continuous), `widths` the mean |z̃ - z| of raw latents. `counts[k]` is the share of pairs in which k
    factors change, `lags[t - 1]` that of pairs t frames apart; without the rule time there are none. `asked` is the
    mean |z̃ - z| that a folder of rendered sequences or views was asked for, of neighbouring frames or of two views,
    and `errors` the standard error of `widths`, √Σc² σ/n for pairs that were drawn c times each, as if different pairs
    were independent. `blocks` says which factors views share and which are private, `correlations` how those of anchor
    and positive correlate: 1 if they are equal, near 0 if they are independent. For periodic factors it is the mean of
    cos π(z̃ - z); for categorical and constant ones it is None.
    """

    images: int
    pairs: int
    rule: str
    names: tuple[str, ...]
    changed: tuple[float, ...]
    steps: tuple[float | None, ...]
    widths: tuple[float, ...]
    counts: tuple[float, ...]
    lags: tuple[float, ...]
    asked: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    blocks: tuple[str, ...] = ()
    correlations: tuple[float | None, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        columns = zip(self.names, self.changed, self.steps, self.widths, strict=True)
        factors = [{"factor": n, "changed": c, "mean_steps": s, "mean_width": w} for n, c, s, w in columns]
        found = {"images": self.images, "pairs": self.pairs, "rule": self.rule, "factors": factors}
        if self.asked:
            found["asked_widths"] = dict(zip(self.names, self.asked, strict=True))
            found["standard_errors"] = dict(zip(self.names, self.errors, strict=True))
        if self.blocks:
            found["blocks"] = dict(zip(self.names, self.blocks, strict=True))
            found["correlations"] = dict(zip(self.names, self.correlations, strict=True))
        return found | {"changed_factors": list(self.counts), "lags": list(self.lags)}

    def table(self) -> str:
        columns = zip(self.names, self.changed, self.steps, self.widths, strict=True)
        rows: list[tuple[str, ...]] = [
            (n, f"{c:.1%}", "-" if s is None else f"{s:.3f}", f"{w:.4f}") for n, c, s, w in columns
        ]
        parts = [f"{self.pairs:,} pairs among {self.images:,} images, rule {self.rule}"]
        if rows:
            head: tuple[str, ...] = ("factor", "changes in", "mean steps", "mean |z̃-z|")
            if self.asked:
                head = (*head, "asked", "ratio")
                both = zip(rows, self.asked, self.widths, self.errors, strict=True)
                rows = [(*row, f"{a:.4f}", f"{w / a:.3f} ± {e / a:.3f}" if a else "-") for row, a, w, e in both]
            if self.blocks:
                head = (*head, "correlation", "block")
                known = ["-" if r is None else f"{r:.3f}" for r in self.correlations]
                rows = [(*row, r, block) for row, r, block in zip(rows, known, self.blocks, strict=True)]
            parts.append(markdown(head, rows))
            parts.append(markdown(("factors that change", "pairs"), numbered(self.counts, 0)))
        if self.lags:
            parts.append(markdown(("frames later", "pairs"), numbered(self.lags[:LISTED_LAGS], 1)))
        return "\n\n".join(parts)


def markdown(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)


def numbered(shares: tuple[float, ...], first: int) -> list[tuple[str, ...]]:
    return [(str(number), f"{share:.1%}") for number, share in enumerate(shares, first)]


def pair_changes(pairs: PairDataset, count: int = 20_000) -> Changes:
    """Draw the first `count` pairs of a dataset of pairs, and measure what changes in them.

    Args:
        pairs: Pairs by any rule.
        count: The number of pairs.

    Returns:
        A `Changes`: which factors change, how many, and how far.

    Example:
        >>> import ident3d, numpy as np
        >>> images, z = np.zeros((12, 8, 8), np.uint8), np.stack(np.unravel_index(np.arange(12), (3, 4)), axis=1)
        >>> made = ident3d.from_arrays(images, z, "grid", names=["x", "y"], show_progress=False)
        >>> found = ident3d.pair_changes(ident3d.PairDataset("grid", rule="grid", grid="uni"), 1000)
        >>> found.counts  # one of the two factors, always
        (0.0, 1.0, 0.0)
    """
    if count < 1:
        raise UserError(f"At least one pair must be drawn, not {count}.")
    world, sampler = pairs.source.world, pairs.sampler
    drawn = sampler.pairs(np.arange(count))
    z, z_tilde = (sampler.latents[index].astype(np.float64) for index in (drawn.anchor, drawn.positive))
    different, d = z != z_tilde, len(world.names)
    moved = distance(world.space, z_tilde, z) if d else np.empty((count, 0))
    # A pair that is drawn again, or the other way round, says nothing new: c times the same number has c² the variance.
    both = np.sort(np.stack([drawn.anchor, drawn.positive], axis=1), axis=1)
    times = np.unique(both, axis=0, return_counts=True)[1]
    steps: list[float | None] = [None] * d
    if isinstance(world, Factors):
        for k, factor in enumerate(world.factors):
            if factor.values:
                steps[k] = float(np.abs(factor.index(z[:, k]) - factor.index(z_tilde[:, k])).mean())
    counts = np.bincount(different.sum(axis=1), minlength=d + 1) / count
    lags, asked = np.empty(0), list[float]()
    if isinstance(sampler, TimeSampler):
        lags = np.bincount(sampler.lags(drawn), minlength=sampler.max_lag + 1)[1:] / count
        asked = asked_of_folders(pairs.source, sampler) if sampler.max_lag == 1 else []
    blocks, correlations = tuple[str, ...](), tuple[float | None, ...]()
    if isinstance(sampler, ViewSampler):
        blocks, asked = blocks_by_name(pairs.source), asked_of_views(pairs.source)
        correlations = correlations_of(world, z, z_tilde) if blocks else ()
    return Changes(
        images=len(sampler.latents),
        pairs=count,
        rule="nearest" if isinstance(sampler, PairSampler) else " ".join(map(str, sampler.settings)),
        names=world.names,
        changed=tuple(different.mean(axis=0).tolist()),
        steps=tuple(steps),
        widths=tuple(moved.mean(axis=0).tolist()),
        counts=tuple(counts.tolist()),
        lags=tuple(lags.tolist()),
        asked=tuple(asked),
        errors=tuple((moved.std(axis=0) * np.sqrt((times**2).sum()) / count).tolist()),
        blocks=blocks,
        correlations=correlations,
    )


def asked_of_folders(images: ImageDataset, sampler: TimeSampler) -> list[float]:
    """Return the mean |z̃ - z| that all folders were asked for; nothing if they were not rendered as one kind."""
    found = [sequences_of(part.folder.description.settings) for part in images.parts]
    # Each environment asks for widths of its own.
    if any(environments_of(part.folder.description.settings) for part in images.parts):
        return []
    if found[0] is None or any(each is None or each.as_dict() != found[0].as_dict() for each in found):
        return []
    anchors = sampler.latents[sampler.order[sampler.starts]].astype(np.float64)
    return asked_widths(images.world, found[0], anchors).tolist()  # type: ignore[no-any-return]


def plot_changes(pairs: PairDataset, result: Changes, path: Path, title: str) -> None:
    """Save a picture: the first pairs, anchors above their positives, and bars of what changes."""
    from matplotlib.figure import Figure

    drawn = pairs.sampler.pairs(np.arange(PICTURED_PAIRS))
    figure = Figure(figsize=(10, 6), layout="constrained")
    top, bottom = np.ravel(np.asarray(figure.subfigures(2, 1)))
    panels = top.subplots(2, PICTURED_PAIRS)
    for row, (name, numbers) in enumerate((("anchor", drawn.anchor), ("positive", drawn.positive))):
        for panel, image in zip(panels[row], pairs.source.images(numbers), strict=True):
            panel.imshow(np.asarray(picture_of(image)), cmap="gray", vmin=0, vmax=255)
            panel.set(xticks=[], yticks=[])
        panels[row, 0].set_ylabel(name)
    bars: list[tuple[str, list[Any], tuple[float, ...]]] = []
    if result.names:
        bars.append(("pairs in which each factor changes", list(result.names), result.changed))
        bars.append(("pairs by number of factors that change", list(range(len(result.counts))), result.counts))
    if result.lags:
        bars.append(("pairs by frames from anchor to positive", list(range(1, len(result.lags) + 1)), result.lags))
    for panel, (words, places, shares) in zip(bottom.subplots(1, len(bars), squeeze=False)[0], bars, strict=True):
        panel.bar(places, shares, color="#9db8d9")
        panel.set_title(words, fontsize=9)
        panel.tick_params(labelsize=8)
        if places != list(result.names):
            panel.xaxis.get_major_locator().set_params(integer=True)
        if len(places) > MOST_FLAT and places == list(result.names):
            panel.tick_params("x", rotation=60)
    figure.suptitle(title, fontsize=10)
    write_figure(path, figure)
