"""What a diagnosis found: its figures, as a table and as plain numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from ident3d.metrics.pair_overlap import Overlap
from ident3d.metrics.result import plain
from ident3d.metrics.view_shapes import ConditionalShape
from ident3d.training.diagnostics.domain import DomainAccuracy


@dataclass(frozen=True)
class Diagnosis:
    """What augmentations do to the images of a folder.

    `overlaps` are of codes by batch size, `pixel_overlaps` of the pixels themselves; `shape` is that of the codes of
    views of one image. The codes are `codes`. The classifier learnt from `fitted` images and was scored on `held_out`
    others, of the folder `test` or, if that is None, of the same one.
    """

    data: Path
    augment: str
    codes: str
    overlaps: dict[int, Overlap]
    pixel_overlaps: dict[int, Overlap]
    shape: ConditionalShape
    domain: DomainAccuracy
    fitted: int
    held_out: int
    test: Path | None
    settings: dict[str, int]
    out: Path

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain numbers, lists and strings, as on disk."""
        return {
            "data": str(self.data),
            "augment": self.augment,
            "codes": self.codes,
            "overlap": {str(batch): found.score for batch, found in self.overlaps.items()},
            "overlap_of_pixels": {str(batch): found.score for batch, found in self.pixel_overlaps.items()},
            "conditional": plain(self.shape.as_dict()),
            "domain_accuracy": self.domain.accuracy,
            "fitted": self.fitted,
            "held_out": self.held_out,
            "test": None if self.test is None else str(self.test),
            "settings": self.settings,
            "out": str(self.out),
        }

    def table(self) -> str:
        shape, rows = self.shape, list[Sequence[str]]()
        where = "held out of them" if self.test is None else f"of {self.test}"
        rows += [
            (
                f"overlap in batches of {batch}",
                f"{float(found):.4f}",
                f"{float(self.pixel_overlaps[batch]):.4f} in pixels",
            )
            for batch, found in self.overlaps.items()
        ]
        rows += [
            ("conditional not normal", f"{float(shape):.4f}", "0.05 if it is normal"),
            ("conditional of two peaks", f"{np.nanmean(shape.two_peaks):.4f}", "about 0 if it has one"),
            (
                "views told from originals",
                f"{self.domain.accuracy:.4f}",
                f"0.5 by chance; learnt from {self.fitted:,}, scored on {self.held_out:,} {where}",
            ),
        ]
        by_code = [
            (
                f"h{k}",
                *(f"{values[k]:.3f}" for values in (shape.not_normal, shape.two_peaks, shape.width, shape.across)),
            )
            for k in range(len(shape.width))
        ]
        heads = ["code", "not normal", "two peaks", "width in views", "width across images"]
        first = tabulate(rows, ["augmentations: " + self.augment, "", ""], disable_numparse=True)
        second = tabulate(by_code, heads, disable_numparse=True)
        return f"{self.data}, codes: {self.codes}\n\n{first}\n\n{second}\n\nPictures: {self.out}"
