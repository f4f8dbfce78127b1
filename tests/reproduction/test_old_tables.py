"""Tables that version 0.1 began are continued, and those below results/ are what the code makes of their figures.

tests/data/v0.1/reproduce was made by commit 0d2f063. `python tests/reproduction/test_old_tables.py` writes results/
anew from the results in each table.json.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ident3d.loaders.format.files import write_json
from ident3d.reproduction.cells import result_of
from ident3d.reproduction.own_table import own_experiment
from ident3d.reproduction.reproduce import reproduce
from ident3d.reproduction.table import Table, as_json, markdown, table_of
from ident3d.training.experiments.by_name import EXPERIMENTS
from ident3d.training.experiments.experiment import Variant, on_validation
from ident3d.training.experiments.icml2021 import TABLE1
from ident3d.training.loop.log_file import read_log
from ident3d.training.mixing.settings import MixingSettings

OLD = Path(__file__).parents[1] / "data/v0.1/reproduce"
RESULTS = Path(__file__).parents[2] / "results"


def made_again(folder: Path) -> Table:
    """A table of results/, from the results in its table.json."""
    content = json.loads((folder / "table.json").read_text())
    own = folder / f"{folder.name}.toml"
    experiment = own_experiment(own) if own.exists() else EXPERIMENTS[content["experiment"]]
    # The command is said as one gives it in a clone.
    experiment = replace(experiment, file=str(own.relative_to(RESULTS.parent))) if own.exists() else experiment
    results = [result_of(each) for each in content["results"]]
    if any(result.facts.get("images", {}).get("scored") == "validation" for result in results):
        experiment = on_validation(experiment)
    return table_of(experiment, content["profile"], results)


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in RESULTS.glob("*/table.json")))
def test_the_committed_tables_are_those_of_their_figures(folder: str) -> None:
    table = made_again(RESULTS / folder)
    assert (RESULTS / folder / "table.md").read_text() == markdown(table)
    # One unit: the paper's figures are recorded as ours are, as shares of 1.
    kept, again = json.loads((RESULTS / folder / "table.json").read_text()), as_json(table)
    assert (kept["paper"], kept["command"]) == (again["paper"], again["command"])


def test_a_table_on_mixed_latents_goes_on(tmp_path: Path) -> None:
    """One row is finished, and one stands at step 4 of 6."""
    tiny = MixingSettings(
        encoder="16x2", whiten=True, bound=None, batch=32, steps=6, lr=3e-3, dim=10, negatives="batch"
    )
    small = replace(TABLE1, profiles={"tiny": (Variant(name="mixing", settings=tiny),)})
    folder = Path(shutil.copytree(OLD / "table1-tiny", tmp_path / "table"))
    finished = folder / "mixing/box-normal-p2-seed0/result.json"
    before, log = finished.read_text(), read_log(folder / "mixing/box-normal-p3-seed0")
    said: list[str] = []
    _, table = reproduce(
        "", profile="tiny", rows=["box-normal-p2", "box-normal-p3"], out=folder, experiment=small, workers=1,
        say=said.append, show_progress=False,
    )  # fmt: skip
    assert said[0].startswith("1 row to do")
    assert finished.read_text() == before
    went_on = read_log(folder / "mixing/box-normal-p3-seed0")
    assert went_on[: len(log)] == log
    assert went_on[-1]["step"] == 6
    rows = {line.split("|")[1].strip() for line in table.splitlines() if "0.99" in line}
    assert rows == {"box-normal-p2", "box-normal-p3"}
    figures = json.loads(before)["figures"]
    assert f" {figures['R²']:.4f} " in table


if __name__ == "__main__":
    for path in (each.parent for each in RESULTS.glob("*/table.json")):
        again = made_again(path)
        (path / "table.md").write_text(markdown(again))
        kept = json.loads((path / "table.json").read_text())
        write_json(path / "table.json", kept | {name: as_json(again)[name] for name in ("paper", "command")})
