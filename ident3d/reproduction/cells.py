"""Cells of a table: one row on one variant with one seed, each with a folder, and a result once it is finished."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ident3d.errors import UserError
from ident3d.loaders.format.files import read_json, write_json
from ident3d.training.experiments.experiment import Row, Variant
from ident3d.training.loop.run_folder import with_new_names

RESULT_FILE: Final = "result.json"
AnyVariant = TypeVar("AnyVariant", bound=Variant[Any], covariant=True)


@dataclass(frozen=True)
class Cell(Generic[AnyVariant]):
    """One row on one variant with one seed, and the folder of its run."""

    variant: AnyVariant
    row: Row
    seed: int
    folder: Path

    @property
    def done(self) -> bool:
        return (self.folder / RESULT_FILE).exists()

    @property
    def label(self) -> str:
        return f"{self.variant.name}: {self.row.name}, seed {self.seed}"


class CellStatus(Enum):
    """What became of a cell: BUSY means that another process holds its folder."""

    STARTED = "started"
    FINISHED = "finished"
    BUSY = "busy"
    FAILED = "failed"


class CellEvent(NamedTuple):
    """A cell, what became of it, and for BUSY and FAILED the reason as a sentence."""

    cell: Cell[Any]
    status: CellStatus
    reason: str = ""


@dataclass(frozen=True)
class Result:
    """The result of a finished cell. Figures are shares of 1, `run` is the cell's folder relative to the table's."""

    variant: str
    row: str
    seed: int
    figures: dict[str, float]
    seconds: float
    run: str
    facts: dict[str, Any]


def write_result(cell: Cell[Any], figures: dict[str, float], seconds: float, facts: dict[str, Any]) -> None:
    """Write the file that makes a cell a finished one."""
    result = Result(cell.variant.name, cell.row.name, cell.seed, figures, round(seconds, 1), "", facts)
    write_json(cell.folder / RESULT_FILE, vars(result))


def result_of(content: Mapping[str, Any]) -> Result:
    """Return a result from its JSON, every field checked; raise ValueError, TypeError or KeyError if one is wrong."""
    # Version 0.1 called the variant "world", and some settings by other names.
    fields = {"variant" if name == "world" else name: value for name, value in content.items()}
    if "settings" in fields["facts"]:
        fields["facts"] = fields["facts"] | {"settings": with_new_names(fields["facts"]["settings"])}
    result = Result(**fields)
    kinds = (str, str, int, dict, int | float, str, dict)
    if not all(map(isinstance, vars(result).values(), kinds)):
        raise TypeError("a field is of a wrong kind")
    if not all(isinstance(value, float) for value in result.figures.values()):
        raise TypeError("a figure is no number")
    return result


def finished_results(folder: Path) -> list[Result]:
    """Return every result below the folder, in order of variant, row and seed."""
    found = []
    for path in sorted(folder.glob(f"*/*/{RESULT_FILE}")):
        try:
            content = read_json(path)
            found.append(result_of(content | {"run": path.parent.relative_to(folder).as_posix()}))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            raise UserError(f"{path} cannot be read; delete it, and its row is scored again.") from None
    return sorted(found, key=lambda result: (result.variant, result.row, result.seed))
