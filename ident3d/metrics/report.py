"""The report of `score`: scores, intervals and what was left out, as a table, a dict, JSON or a picture."""

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.metrics.blocks import BlockR2
from ident3d.metrics.catalogue import CATALOGUE
from ident3d.metrics.correlation import Mcc
from ident3d.metrics.inputs import Floats
from ident3d.metrics.intervals import Interval
from ident3d.metrics.picture import correlation_picture
from ident3d.metrics.result import Score, plain

WIDTH = 110  # of the table, in characters


@dataclass(frozen=True, eq=False)
class Report:
    """Scores by name, intervals of those that have one, and the reason for every score that was left out.

    `matching` is the Pearson correlation matrix with its assignment, which `plot` draws.
    """

    scores: dict[str, Score]
    intervals: dict[str, Interval]
    left_out: dict[str, str]
    matching: Mcc
    latent_names: tuple[str, ...]
    settings: dict[str, Any]
    cpu_seconds: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, lists and strings; NaN is None."""
        return {
            "scores": {name: score.as_dict() for name, score in self.scores.items()},
            "intervals": {name: plain(interval._asdict()) for name, interval in self.intervals.items()},
            "left_out": dict(self.left_out),
            "matching": self.matching.as_dict(),
            "latents": list(self.latent_names),
            "settings": plain(self.settings),
            "cpu_seconds": plain(self.cpu_seconds),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return `as_dict` as strict JSON."""
        return json.dumps(self.as_dict(), indent=indent, allow_nan=False)

    def table(self) -> str:
        """Return a line per score with its interval, the values per latent, and what was left out."""
        sizes = f"{self.settings['rows']} rows, {len(self.latent_names)} latents, {self.settings['codes']} codes"
        lines = [f"{sizes}, seed {self.settings['seed']}", "", *self._headlines()]
        detail = {name: values for name in self.scores if (values := self.per_latent(name)) is not None}
        if detail:
            rows = [
                [CATALOGUE[name].per_latent or name, *("-" if np.isnan(x) else f"{x:.3f}" for x in values)]
                for name, values in detail.items()
            ]
            rows.insert(0, ["per latent", *self.latent_names])
            # Many latents are cut into several tables, so that no line is too wide.
            step = max(1, (WIDTH - 22) // max(8, *(len(name) + 2 for name in self.latent_names)))
            for start in range(1, len(self.latent_names) + 1, step):
                lines += ["", *_aligned([[row[0], *row[start : start + step]] for row in rows], left={0})]
            if any(np.isnan(values).any() for values in detail.values()):
                lines += ["", "- no value: a constant latent, one without a code, or one that the score is not about"]
        for name, score in self.scores.items():
            if isinstance(score, BlockR2) and len(score.blocks) > 1:
                rows = [[name, *score.code_blocks]]
                rows += [[b, *(f"{r2:.3f}" for r2 in row)] for b, row in zip(score.blocks, score.matrix, strict=True)]
                lines += ["", *_aligned(rows, left={0})]
        if self.left_out:
            # Scores with the same reason share a line: without classes or kinds there are several.
            reasons = list(dict.fromkeys(self.left_out.values()))
            named = [", ".join(name for name, why in self.left_out.items() if why == reason) for reason in reasons]
            lines += ["", "left out"]
            for names, reason in zip(named, reasons, strict=True):
                lines += textwrap.wrap(f"{names}: {reason}", WIDTH, initial_indent="  ", subsequent_indent="    ")
        return "\n".join(lines)

    def plot(self, path: str | Path) -> Path:
        """Write the heat-map of the correlation matrix, with the assignment marked, to a .png, .pdf or .svg file."""
        return correlation_picture(self.matching, path, latent_names=self.latent_names)

    def _headlines(self) -> list[str]:
        if not self.scores:
            return ["no score could be computed"]
        rows = [["score", "value", "identified up to"]]
        rows += [[name, f"{float(score):.4f}", CATALOGUE[name].up_to] for name, score in self.scores.items()]
        if self.intervals:
            rows[0].insert(2, f"{100 * self.settings['level']:g} % interval")
            for row in rows[1:]:
                interval = self.intervals.get(row[0])
                row.insert(2, f"{interval.low:.4f} to {interval.high:.4f}" if interval else "-")
        return _aligned(rows, left={0, len(rows[0]) - 1})

    def per_latent(self, name: str) -> Floats | None:
        """Return the values of a score per latent, NaN for latents that it is not about; None if it has none."""
        values = getattr(self.scores[name], "per_latent", None)
        if values is None:
            return None
        if name in ("periodic_r2", "circular_correlation"):
            everything = np.full(len(self.latent_names), np.nan)
            everything[self.settings["periodic"]] = values
            return everything
        return np.asarray(values if values.ndim == 1 else values[:, 0])


def _aligned(rows: list[list[str]], left: set[int]) -> list[str]:
    """Return rows of words as lines of columns two spaces apart, flush right; the columns in `left` flush left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:{'<' if i in left else '>'}{width}}}" for i, width in enumerate(widths))
    return [form.format(*row).rstrip() for row in rows]
