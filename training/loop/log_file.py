"""metrics.jsonl, the log of a run, as it is read. No torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

from ident3d.loaders.format.files import parse_json

LOG_FILE: Final = "metrics.jsonl"
LARGEST_FIGURE: Final = 1e300
# The list of R² of each latent in a line.
BY_LATENT: Final = "r2_by_latent"


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl, without one that a kill cut short."""
    path = folder / LOG_FILE
    found = []
    # Only the last line can be cut short, but a line that cannot be read is nowhere worth a failed run.
    for text in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            line = parse_json(text)
        except ValueError:
            continue
        # The report computes with these, and a line that no run of ours writes is left out as a whole.
        if type(line.get("step")) is int and is_shown(line):
            found.append(line)
    return found


def is_shown(line: Mapping[str, object]) -> bool:
    """Return whether a line's numbers are such as a float holds, and those that the report adds up are numbers."""
    sums = isinstance(line.get("loss"), int | float | None) and isinstance(line.get("seconds", 0), int | float)
    return sums and all(abs(value) <= LARGEST_FIGURE for value in line.values() if isinstance(value, int | float))


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value of a log or of scores, which may be a list or missing, is a number."""
    return isinstance(value, int | float)
