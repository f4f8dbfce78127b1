"""Experiments on mixed latents: side by side, resumable, the paper's figures, baselines and Λ beside ours."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.reproduction.cells import RESULT_FILE, Result
from ident3d.reproduction.mixing_cells import estimate, processes
from ident3d.reproduction.mixing_table import changed_settings, correlation_rows
from ident3d.reproduction.reproduce import plan_cells, reproduce
from ident3d.reproduction.table import command_of, heads_of
from ident3d.training.experiments.aninfonce2024 import ANINFONCE_FIG2
from ident3d.training.experiments.by_name import EXPERIMENTS
from ident3d.training.experiments.experiment import Experiment, Variant
from ident3d.training.experiments.icml2021 import FIGURE2, TABLE1, TABLE2
from ident3d.training.loop.log_file import read_log
from ident3d.training.losses.choice import TRICL
from ident3d.training.mixing.settings import MixingSettings, with_defaults
from ident3d.training.report.charts import line_chart
from ident3d.training.report.tables import paper_figure

TINY = MixingSettings(encoder="16x2", whiten=True, bound=None, batch=32, steps=6, lr=3e-3, dim=10)
PROFILES = {
    "paper": (Variant(name="mixing", settings=MixingSettings()),),
    "tiny": (Variant(name="mixing", settings=TINY, supervised={"steps": 3}),),
}
SMALL = replace(TABLE1, profiles=PROFILES)
MIXING = {name: experiment for name, experiment in EXPERIMENTS.items() if experiment.kind == "mixing"}


def small_with(**changes: object) -> Experiment:
    """SMALL with one profile, whose variant has these changes."""
    return replace(SMALL, profiles={"tiny": (replace(PROFILES["tiny"][0], **changes),)})


def test_rows_side_by_side_and_baselines(tmp_path: Path) -> None:
    said: list[str] = []
    rows = ["supervised-box", "box-normal-p2", "box-normal-p3"]
    options = {"profile": "tiny", "root": tmp_path, "experiment": SMALL, "say": said.append, "show_progress": False}
    folder, markdown = reproduce("table1", rows=rows, workers=2, **options)
    assert said[0].startswith("3 rows to do, 2 at a time; about ")
    assert [sentence.partition("]")[0] for sentence in said[1:]] == ["[1/3", "[2/3", "[3/3"]
    results = {r["row"]: r for r in json.loads((folder / "table.json").read_text())["results"]}
    assert set(results) == set(rows)
    line = next(line for line in markdown.splitlines() if line.startswith("| box-normal-p2"))
    own, base = (results[name]["figures"]["R²"] for name in ("box-normal-p2", "supervised-box"))
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[2:4] == ["0.9960 ± 0.0002", f"{own:.4f}"]
    assert cells[4] == "0.68"
    assert cells[6:8] == ["0.997", f"{base:.4f}"]
    assert "Not run yet: supervised-sphere, sphere-vmf1" in markdown
    assert "| batch " in markdown.partition("## Settings")[2]
    facts = results["box-normal-p2"]["facts"]
    assert facts["threads"] == 1
    assert facts["settings"]["batch"] == 32
    report = (folder / "report.html").read_text()
    assert "<script" not in report
    assert "Not run yet: supervised-sphere, sphere-vmf1" in report
    assert "<h2>Settings</h2>" in report
    assert "Row by row" not in report  # nothing to fold away
    seeds = report.partition("Seed by seed")[2]
    assert f"<td>box-normal-p2</td><td>0</td><td>{own:.4f}</td>" in seeds
    assert f"<td>{base:.4f}</td></tr><tr><td>box-normal-p3" in seeds  # the supervised baseline, last of the line
    said.clear()
    reproduce("table1", rows=rows, **options)
    assert said == ["All rows asked for are finished."]


def test_lambda_stands_beside_the_best_one(tmp_path: Path) -> None:
    small = replace(ANINFONCE_FIG2, profiles=PROFILES)
    folder, markdown = reproduce(
        "", profile="tiny", rows=["aninfonce-25"], root=tmp_path, experiment=small, say=lambda _: None,
        show_progress=False,
    )  # fmt: skip
    line = next(line for line in markdown.splitlines() if line.startswith("| aninfonce-25 | 0 "))
    truth, best, stretched, ours = (tuple(map(float, part.split(","))) for part in line.split("|")[3:7])
    assert truth == (5, 25)
    assert best == pytest.approx((5, 25), rel=0.5)
    assert stretched == pytest.approx(best, rel=0.5)
    assert ours == pytest.approx((0.69, 0.69), abs=0.2)  # hardly moved from where they start
    report = (folder / "report.html").read_text()
    assert "Λ̂ of aninfonce-25, seed 0" in report
    assert "<title>Λ = 25</title>" in report
    assert "<title>R² style</title>" in report
    assert "Λ̂ that minimises the loss at f = g⁻¹" in report


def test_two_processes_are_compared_by_correlation() -> None:
    settings = {"lambdas": [[1, 2, 3], [3, 2, 1]], "loss": "aninfonce", "tau": 1.0}
    both = Result("mixing", "both", 0, {}, 1.0, "", {"settings": settings, "precision": [[1, 5, 9], [9, 5, 2]]})
    one = replace(both, facts={"settings": settings | {"lambdas": [[1, 2, 3]]}, "precision": [[1, 2, 3]]})
    ((row, seed, truth, found),) = correlation_rows([one, both])
    assert (row, seed, truth) == ("both", "0", "-1.000")
    assert float(found) == pytest.approx(np.corrcoef([1, 5, 9], [9, 5, 2])[0, 1], abs=1e-3)


def test_a_logarithm_at_the_end_of_an_axis_is_not_rounded_away() -> None:
    chart = line_chart({"R²": [(3.32, 0.5), (8.64, 0.9)]}, "over log₂ Λ₂", 0, 1, left=3.32, mark=4.64)
    assert ">3.32</text>" in chart
    assert ">8.64</text>" in chart


def test_an_empty_table_names_the_command_of_the_whole() -> None:
    assert command_of(TABLE1, "mini", []) == "ident3d reproduce table1 --profile mini"


def test_a_short_estimate_is_in_minutes(tmp_path: Path) -> None:
    cells = plan_cells(SMALL, "tiny", tmp_path, rows=("box-normal-p2",), seeds=(0,), variants=())
    assert re.match(r"1 row .*, 1 at a time.* \d\.\d CPU minutes", *estimate(cells, "cpu", 1))


def test_a_killed_experiment_goes_on(tmp_path: Path) -> None:
    """SIGTERM and SIGKILL of the parent while runs are under way: none is left behind, and none starts again."""
    script = f"""
from test_reproduce_mixing import *
if __name__ == "__main__":
    long = small_with(settings=replace(TINY, steps=1_000_000))
    reproduce("", profile="tiny", rows=["box-normal-p2"], out=Path({str(tmp_path)!r}), experiment=long)
"""
    (tmp_path / "script.py").write_text(script)
    folder = tmp_path / "mixing/box-normal-p2-seed0"
    before = 0
    paths = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen([sys.executable, tmp_path / "script.py"], env=os.environ | paths,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            wait_for(lambda least=before + 60: steps(folder) > least)
        finally:
            process.send_signal(number)
            process.wait()
        wait_for(lambda: not list(folder.glob(".lease-*")))
        assert steps(folder) > before
        before = steps(folder)
    assert not (folder / RESULT_FILE).exists()


def steps(folder: Path) -> int:
    log = read_log(folder)
    return int(log[-1]["step"]) if log else 0


def wait_for(condition, seconds: float = 120) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_failing_row_is_one_sentence(tmp_path: Path) -> None:
    broken = small_with(settings=replace(TINY, mixing="own_mixing:flat"))
    with pytest.raises(UserError, match="own_mixing:flat"):
        reproduce("", profile="tiny", rows=["box-normal-p2"], root=tmp_path, experiment=broken, say=lambda _: None)


def test_a_failing_row_ends_no_other(tmp_path: Path) -> None:
    one_fails = small_with(tuned={"box-normal-p2": {"lr": 1e30}})
    said: list[str] = []
    with pytest.raises(UserError, match="The loss is") as failed:
        reproduce(
            "", profile="tiny", rows=["box-normal-p2", "box-normal-p3"], workers=1, out=tmp_path, experiment=one_fails,
            say=said.append, show_progress=False,
        )  # fmt: skip
    assert any(sentence.startswith(f"Failed: mixing: box-normal-p2, seed 0: {failed.value}") for sentence in said)
    assert (tmp_path / "mixing/box-normal-p3-seed0" / RESULT_FILE).exists()
    assert "box-normal-p3" in (tmp_path / "table.md").read_text()


def test_every_row_of_every_profile_is_accepted() -> None:
    for experiment in MIXING.values():
        assert set(experiment.profiles) == {"paper", "mini"}
        for profile in experiment.profiles:
            for variant in experiment.variants(profile):
                for row in experiment.rows_of(variant):
                    assert with_defaults(variant.settings_of(row, 0)).loss
                    assert set(row.paper) <= set(experiment.columns)
                    assert row.baseline is None or experiment.row(row.baseline).change["supervised"]
                assert set(variant.tuned) <= {row.name for row in experiment.rows}


# These were run before there was this test.
TOO_FAR = {("aninfonce-fig2", "aninfonce-400"), ("vae-mnist", "aninfonce-5-200")}


def test_lambda_can_get_to_its_place_in_every_row_of_mini() -> None:
    """Adam moves Λ̂ by at most about its rate a step, and a cosine halves that: a fifth more than the largest Λ."""
    for experiment in MIXING.values():
        for variant in experiment.variants("mini"):
            for row in experiment.rows_of(variant):
                s = with_defaults(variant.settings_of(row, 0))
                if s.loss in ("aninfonce", *TRICL) and (experiment.name, row.name) not in TOO_FAR:
                    largest = max(value for values in s.lambdas for value in values)
                    # TriCL's scale is divided by τ.
                    reach = s.lambda_lr * s.steps * (0.5 if s.schedule == "cosine" else 1) / s.tau
                    assert reach >= 1.2 * largest, f"{experiment.name}: {row.name}"


def test_the_papers_rows() -> None:
    contrastive = {e.name: [row for row in e.rows if not row.change.get("supervised")] for e in MIXING.values()}
    assert {name: len(rows) for name, rows in contrastive.items()} == {
        "table1": 12, "table2": 10, "figure2": 16, "aninfonce-fig2": 12, "aninfonce-linear": 6, "hard-negatives": 3,
        "ensemble": 3, "dimension-batch": 12, "vae-mnist": 10, "tricl": 6, "overlap": 21, "marginal-mismatch": 6,
    }  # fmt: skip
    assert all(row.baseline for rows in contrastive.values() for row in rows)
    of = TABLE2.profiles["paper"][0]
    s = with_defaults(of.settings_of(TABLE2.row("laplace-p2-box"), 3))
    assert (s.cond, s.sigma, s.space, s.model_p, s.batch, s.steps, s.lr, s.seed) == (
        "laplace", 0.05, "box", 2.0, 6144, 300_000, 1e-4, 3,
    )  # fmt: skip
    both = MIXING["ensemble"]
    ensemble = with_defaults(both.profiles["paper"][0].settings_of(both.row("ensemble"), 0))
    assert [len(values) for values in ensemble.lambdas] == [20, 20]
    assert ensemble.lambdas[0].count(15.0) == 8


def test_supervised_baselines_have_the_rows_latents() -> None:
    for row in FIGURE2.rows:
        if row.baseline:
            base, own = FIGURE2.row(row.baseline).change, row.change
            for name in ("latent_space", "marginal", "marginal_sigma", "marginal_kappa"):
                assert base.get(name) == own.get(name)


def test_a_papers_figure_is_a_share_of_1_like_ours() -> None:
    assert paper_figure((99.7, 0.0)) == "0.997"  # printed without a spread
    assert paper_figure((98.62, 0.05)) == "0.9862 ± 0.0005"
    assert paper_figure(None) == "–"
    with_paper = [line for experiment in (TABLE1, FIGURE2) for line in heads_of(experiment, "R²")]
    assert with_paper == ["R², paper", "R², here", "R²"]  # the paper prints no figures of Figure 2


def test_settings_that_differ_are_shown() -> None:
    lines = {line[0]: line[1:] for line in changed_settings(TABLE1, "mini")}
    assert lines["batch"] == ["6144", "256"]
    assert lines["steps"][0] == "300000, supervised 100000"
    assert lines["bound"] == ["1.0", "the best scale at f = g⁻¹"]
    assert "seed" not in lines
    assert "steps" in lines["supervised rows"][1]


def test_seeds_and_folders(tmp_path: Path) -> None:
    cells = plan_cells(TABLE1, "mini", tmp_path, rows=("sphere-normal",), seeds=(0, 4), variants=())
    assert [c.folder.relative_to(tmp_path) for c in cells] == [
        Path("mixing/sphere-normal-seed0"),
        Path("mixing/sphere-normal-seed4"),
    ]
    assert processes("cpu", None, 1) == 1
    assert processes("cpu", 3, 10) == 3


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("tabel1", "'table1'"),
        ("table1 --rows sphere-norm", "'sphere-normal'"),
        ("table1 --profile min", "'mini'"),
        ("table1 --variant mixin", "'mixing'"),
        ("table1 --seeds 0,1,0", "--seeds"),
        ("table1 --workers 0", "--workers"),
    ],
)
def test_bad_names(words: str, fact: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["reproduce", *words.split(), "--root", str(tmp_path)])
    assert result.exit_code == 2
    assert fact in result.stderr
