"""Cells of an experiment's table: one row on one world with one seed, each with a folder and a result of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ident3d.loaders.format.files import write_json
from ident3d.reproduction.results import FILE, Result
from ident3d.training.experiments.experiment import Data, Row
from ident3d.training.experiments.mixing_rows import Latents

LEFT = "Left to another process"
Say = Callable[[str], None]
World = TypeVar("World", bound=Data | Latents, covariant=True)


@dataclass(frozen=True)
class Cell(Generic[World]):
    """One row on one world with one seed, and the folder of its run."""

    world: str
    data: World
    row: Row
    seed: int
    folder: Path

    @property
    def done(self) -> bool:
        return (self.folder / FILE).exists()


def finish(cell: Cell[Any], figures: dict[str, float], seconds: float, facts: dict[str, Any]) -> None:
    """Write down that a cell is done, and with which figures."""
    result = Result(cell.world, cell.row.name, cell.seed, figures, round(seconds, 1), "", facts)
    write_json(cell.folder / FILE, vars(result))
