"""The figures that README and docs quote from tables on images are those of results/."""

import json
import re
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

HOUSE = Path(__file__).parents[2]
# Labels of lines in README and docs, by row.
ROWS = {
    "box-normal": "box, normal|box-normal",
    "unbounded": "unbounded",
    "box-laplace": "box, Laplace|box-laplace",
    "sphere": "sphere",
    "simclr": "SimCLR|simclr",
    "supervised": "supervised",
}


def results_of(table: str, *variant_and_row: str) -> list[dict[str, Any]]:
    found = json.loads((HOUSE / "results" / table / "table.json").read_text())["results"]
    return [each for each in found if variant_and_row in ((), (each["variant"], each["row"]))]


def short(value: float) -> str:
    """A share of 1 as the docs write it: .973."""
    return f"{value:.3f}".replace("0.", ".", 1)


def lines_of(page: str, heading: str, label: str) -> list[tuple[dict[str, str], str]]:
    """The lines of a section's tables that begin with a label, each with its cells by the head of their column."""
    text = (HOUSE / page).read_text()
    section = re.split(r"^## ", text.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    found, head = [], list[str]()
    for line in section.splitlines():
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells_of(line)
        elif re.match(rf"\| (?:{label})[ ,]", line):
            found.append((dict(zip(head, cells_of(line), strict=True)), line))
    return found


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


# Where a variant is quoted: the page, the heading, and the head of the column.
COLUMNS = [
    ("README.md", "Results", "seven", "here, seven"),
    ("README.md", "Results", "all-ten", "here, ten"),
    ("docs/results/images.md", "Table 4", "seven", "`seven`"),
    ("docs/results/images.md", "Table 4", "all-ten", "`all-ten`"),
]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(("page", "heading", "variant", "column"), COLUMNS)
def test_table_4_is_quoted_as_it_is(page: str, heading: str, variant: str, column: str, row: str) -> None:
    seeds = results_of("table4-mini", variant, row)
    # Today's table stands above those of earlier profiles.
    cell = next(cells[column] for cells, _ in lines_of(page, heading, ROWS[row]) if column in cells)
    figures = [short(mean(each["figures"][name] for each in seeds)) for name in ("R²", "MCC") if seeds]
    assert re.sub(r" ± \.\d+", "", cell) == " / ".join(figures)


@pytest.mark.parametrize("result", results_of("causal3dident-mini"), ids=lambda result: result["row"])
def test_causal3dident_is_quoted_as_it_is(result: dict[str, Any]) -> None:
    ((_, line),) = lines_of("docs/results/images.md", "Causal-3DIdent", re.escape(result["row"]))
    cells = [float(re.sub(r" \(.*\)", "", cell)) for cell in cells_of(line)[1:]]
    assert cells == [round(value, 2) + 0.0 for value in result["figures"].values()]
