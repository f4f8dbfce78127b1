"""Results of an experiment: one file for each row on a world with a seed."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.training.loop.recorded import with_new_names

FILE = "result.json"


@dataclass(frozen=True)
class Result:
    """One finished cell: a row on a world with a seed. Figures are shares of 1, `run` the folder below the table's."""

    world: str
    row: str
    seed: int
    figures: dict[str, float]
    seconds: float
    run: str
    facts: dict[str, Any]


def finished_results(folder: Path) -> list[Result]:
    """Every result below the folder, in order of world, row and seed."""
    found = []
    for path in sorted(folder.glob(f"*/*/{FILE}")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if "settings" in content["facts"]:
                content["facts"]["settings"] = with_new_names(content["facts"]["settings"])
            result = Result(**content | {"run": path.parent.relative_to(folder).as_posix()})
            kinds = (str, str, int, dict, int | float, str, dict)
            numbers = result.figures.values()
            if not all(map(isinstance, vars(result).values(), kinds)) or not all(isinstance(x, float) for x in numbers):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{path} cannot be read; delete it, and its row is scored again.") from None
        found.append(result)
    return sorted(found, key=lambda result: (result.world, result.row, result.seed))
