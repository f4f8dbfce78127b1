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


def lines_of(page: str, heading: str, label: str) -> list[str]:
    """The lines of a section's tables that begin with a label."""
    text = (HOUSE / page).read_text()
    section = re.split(r"^## ", text.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    return [line for line in section.splitlines() if re.match(rf"\| (?:{label})[ ,]", line)]


QUOTED = [(variant, row) for variant in ("seven", "all-ten") for row in ROWS]


@pytest.mark.parametrize(("variant", "row"), [cell for cell in QUOTED if results_of("table4-mini", *cell)])
@pytest.mark.parametrize(("page", "heading"), [("README.md", "Results"), ("docs/results/images.md", "Table 4")])
def test_table_4_is_quoted_as_it_is(page: str, heading: str, variant: str, row: str) -> None:
    seeds = results_of("table4-mini", variant, row)
    r2, mcc = (short(mean(each["figures"][name] for each in seeds)) for name in ("R²", "MCC"))
    quoted = [re.sub(r" ± \.\d+", "", line) for line in lines_of(page, heading, ROWS[row])]
    assert any(f"{r2} / {mcc}" in line for line in quoted), (r2, mcc, quoted)


@pytest.mark.parametrize("result", results_of("causal3dident-mini"), ids=lambda result: result["row"])
def test_causal3dident_is_quoted_as_it_is(result: dict[str, Any]) -> None:
    (line,) = lines_of("docs/results/images.md", "Causal-3DIdent", re.escape(result["row"]))
    cells = [float(re.sub(r" \(.*\)", "", cell)) for cell in line.split("|")[2:-1]]
    assert cells == [round(value, 2) + 0.0 for value in result["figures"].values()]
