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


# Where R² and MCC of runs are quoted: page, heading, label of the line, column; and which: table, variant, row, seed.
QUOTED = [
    *(
        ("encoders.md", "Which encoder", f"`{row}`", "R² / MCC", "encoders", "images", row, 0)
        for row in ("conv-32", "conv-64", "resnet18-32")
    ),
    *(
        ("images-and-steps.md", "More images", f"{n:,}", "R² / MCC", "size-and-data", f"images-{n}", "64", 0)
        for n in (5_000, 12_000, 40_000)
    ),
    *(
        ("boxes.md", "The plateau", label, f"seed {seed}", "box-start", "images", row, seed)
        for label, row in (("3", "3-256"), ("`auto`, 4.4", "auto-256"), ("6", "6-256"))
        for seed in (0, 1, 2)
    ),
    *(
        ("boxes.md", "Negatives and the width", label, column, "box-start", "images", row + end, 0)
        for label, end in (("`others`", ""), ("`batch`", "-own"))
        for column, row in (("`auto`", "auto-256"), ("from 3", "3-256"), ("from 6", "6-256"))
    ),
    ("boxes.md", "Negatives and the width", "`batch`", "from 2.5", "box-start", "images", "2.5-256-own", 0),
    ("boxes.md", "Negatives and the width", "`batch`", "from 4.4", "box-start", "images", "4.44-256-own", 0),
]


@pytest.mark.parametrize(("page", "heading", "label", "column", "table", "variant", "row", "seed"), QUOTED)
def test_explanations_quote_runs_as_they_are(
    page: str, heading: str, label: str, column: str, table: str, variant: str, row: str, seed: int
) -> None:
    (figures,) = (each["figures"] for each in results_of(table, variant, row) if each["seed"] == seed)
    lines = lines_of(f"docs/explanation/{page}", heading, re.escape(label))
    cell = next(cells[column] for cells, _ in lines if column in cells)
    assert cell.split(": ")[-1] == " / ".join(short(figures[name]) for name in ("R²", "MCC"))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("variant", ["seven", "all-ten"])
def test_r2_by_latent_is_quoted_as_it_is(variant: str, row: str) -> None:
    latents = ["spotlight_position", "object_hue", "spotlight_hue", "ground_hue"]
    heads = ["spotlight's position", "object's hue", "spotlight's hue", "ground's hue"]
    if variant == "all-ten":
        latents += ["rotation_phi", "rotation_theta", "rotation_psi"]
        heads += ["φ", "θ", "ψ"]
    found = [each["facts"].get("r2_by_latent") for each in results_of("table4-mini", variant, row)]
    known = [each for each in found if each]
    lines = lines_of("docs/results/images.md", "Table 4", ROWS[row])
    cells = next((cells for cells, _ in lines if "x, y, z" in cells and ("ψ" in cells) == (variant == "all-ten")), None)
    assert (cells is None) == (not known)
    if cells:
        means = {latent: mean(each[latent] for each in known) for latent in ("x", "y", "z", *latents)}
        assert cells["x, y, z"] == ", ".join(short(means[latent]) for latent in "xyz")
        for head, latent in zip(heads, latents, strict=True):
            # Rotations are quoted with two digits.
            assert abs(float(cells[head]) - means[latent]) <= (0.0051 if "rotation" in latent else 0.00051), head


@pytest.mark.parametrize("result", results_of("causal3dident-mini"), ids=lambda result: result["row"])
def test_causal3dident_is_quoted_as_it_is(result: dict[str, Any]) -> None:
    ((_, line),) = lines_of("docs/results/images.md", "Causal-3DIdent", re.escape(result["row"]))
    cells = [float(re.sub(r" \(.*\)", "", cell)) for cell in cells_of(line)[1:]]
    assert cells == [round(value, 2) + 0.0 for value in result["figures"].values()]
