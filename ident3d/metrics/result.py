"""The shape of a result: a headline number with its details."""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Score:
    """Base of every result: `float(result)` is the headline `score`, the other fields are the detail."""

    score: float

    def __float__(self) -> float:
        return self.score

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers, lists and strings, ready for JSON; NaN becomes None.

        Fields with one entry per row of the data (`repr=False`) are left out.
        """
        return {field.name: plain(getattr(self, field.name)) for field in fields(self) if field.repr}


def plain(value: Any) -> Any:
    """Return `value` in terms that JSON knows: arrays become lists, NaN and infinity become None."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    # JSON knows neither NaN nor infinity, and strict readers refuse Python's spelling of them.
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
