"""Experiments from nothing to a table: resumable, finished rows skipped, the paper's figures beside ours."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.stores.lease import lease
from ident3d.reproduction.cells import RESULT_FILE
from ident3d.reproduction.image_cells import dataset_path
from ident3d.reproduction.reproduce import reproduce
from ident3d.training.experiments.by_name import EXPERIMENTS
from ident3d.training.experiments.experiment import ImageVariant
from ident3d.training.experiments.icml2021 import TABLE4
from ident3d.training.experiments.neurips2021 import CAUSAL3DIDENT
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.evaluate import evaluate, identity_r2
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.report.paper import paper_row
from ident3d.training.report.report import write_report

OLD = Path(__file__).parents[1] / "data/v0.1/reproduce"
SETTINGS = TrainSettings(encoder="tiny:plain", batch=32, steps=2)
TINY = ImageVariant(name="all-ten", settings=SETTINGS, world=World(), size=16, train=80, test=64)
SMALL = replace(TABLE4, profiles={"tiny": (TINY,)})


def rendered(variant: ImageVariant, root: Path) -> None:
    """The folders that rendering would make, with synthetic pictures."""
    scene, classes = variant.world.scene, len(variant.world.classes)
    for split in ("train", "test"):
        path = dataset_path(variant, split, root)
        make_dataset(path, variant.count(split), size=variant.size, split=split, scene=scene, classes=classes)


def test_all_rows_of_table_4(tmp_path: Path) -> None:
    rendered(TINY, tmp_path)
    said: list[str] = []
    options = tiny_options(tmp_path, said)
    folder, markdown = reproduce("table4", rows=["box-normal", "identity"], seeds=[0, 1], **options)
    assert said[0].startswith("4 rows ")
    assert "| 0.9673 ± 0.0010 | " in markdown
    assert "R², paper" in markdown
    paper = json.loads((folder / "table.json").read_text())["paper"]["box-normal"]
    assert paper == {"R²": [0.9673, 0.001], "MCC": [0.9831, 0.0004]}
    # The last is that of R² by latent, which pixels have none of.
    with_both = [line.split("|")[1].strip() for line in markdown.splitlines() if "| 0, 1 " in line]
    assert with_both == ["box-normal", "identity", "box-normal"]
    before = (folder / "all-ten/box-normal-seed0" / RESULT_FILE).stat().st_mtime_ns
    said.clear()
    folder, markdown = reproduce("table4", **options)
    assert said[0].startswith("5 rows ")
    assert (folder / "all-ten/box-normal-seed0" / RESULT_FILE).stat().st_mtime_ns == before
    found = json.loads((folder / "table.json").read_text())
    assert {(result["row"], result["seed"]) for result in found["results"]} == {
        *((row.name, 0) for row in TABLE4.rows),
        ("box-normal", 1),
        ("identity", 1),
    }
    trained = next(result for result in found["results"] if result["row"] == "box-normal")
    assert trained["facts"]["settings"]["batch"] == 32
    assert all(ratio > 1 for ratio in trained["facts"]["widths"].values())  # 80 images lie far apart
    assert 0 < trained["figures"]["MCC"] <= 1
    page = (folder / "report.html").read_text()
    assert "0.6574" in page
    assert "<script" not in page
    said.clear()
    reproduce("table4", **options)
    assert said == ["All rows asked for are finished."]


def tiny_options(root: Path, said: list[str]) -> dict[str, Any]:
    return {"profile": "tiny", "root": root, "experiment": SMALL, "say": said.append, "show_progress": False}


def test_the_table_names_the_commands_that_make_it_and_is_a_table_in_markdown(tmp_path: Path) -> None:
    rendered(TINY, tmp_path)
    for row, seeds in (("supervised", [0, 1]), ("identity", [0])):
        folder, markdown = reproduce("table4", rows=[row], seeds=seeds, **tiny_options(tmp_path, []))
    # One for each row, because their seeds differ.
    command = " && ".join(
        f"ident3d reproduce table4 --profile tiny --rows {row} --seeds {seeds}"
        for row, seeds in (("supervised", "0,1"), ("identity", "0"))
    )
    assert f"by `{command}`" in markdown
    assert json.loads((folder / "table.json").read_text())["command"] == command
    table, by_latent, rest = re.split("## Rows|## all-ten: R² by latent", markdown)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in by_latent.splitlines() if "|" in line]
    attainable, supervised = (dict(zip(lines[0], line, strict=True)) for line in lines[2:])
    assert attainable | {"z": "1.000", "object_hue": "0.963", "ground_hue": "0.999", "row": "attainable"} == attainable
    assert supervised["row"] == "supervised"
    results = json.loads((folder / "table.json").read_text())["results"]
    found = [result["facts"]["r2_by_latent"]["x"] for result in results if result["row"] == "supervised"]
    assert float(supervised["x"]) == pytest.approx(sum(found) / 2, abs=6e-4)
    assert "| supervised |" in " ".join(rest.split())
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert {line.count("|") for line in rows} == {rows[1].count("|")}
    assert "Computed by " in markdown
    page = (folder / "report.html").read_text()
    one_by_one = page[page.index("Seed by seed") :]
    assert one_by_one.index("<td>supervised</td>") < one_by_one.index("<td>identity</td>")
    for part in ("<details><summary>supervised, seed 0</summary>", "Correlation of latents", "Walks along"):
        assert part in page


def test_rows_of_other_settings_are_not_set_beside_those_of_now(tmp_path: Path) -> None:
    rendered(TINY, tmp_path)
    options = tiny_options(tmp_path, [])
    reproduce("table4", rows=["supervised"], **options)
    for change, facts in (
        ({"settings": replace(SETTINGS, lr=0.5)}, r"settings\.lr: 0\.0001 .*0\.5"),
        ({"test": 60}, r"images\.test: 64 .*60"),
        ({"name": "other"}, r"all-ten/supervised-seed0 .*--out"),
    ):
        changed = replace(TABLE4, profiles={"tiny": (replace(TINY, **change),)})
        with pytest.raises(UserError, match=facts):
            reproduce("table4", rows=["sphere"], **options | {"experiment": changed})
    older = next(tmp_path.rglob("result.json"))  # of before there was a setting, which then was at its default
    result = json.loads(older.read_text())
    del result["facts"]["settings"]["negatives"]
    older.write_text(json.dumps(result))
    _, markdown = reproduce("table4", rows=["identity"], **options)
    assert "| supervised " in markdown


def test_a_report_shows_what_is_handed_in_and_the_runs_pairs(tmp_path: Path) -> None:
    rendered(TINY, tmp_path)
    sets = [dataset_path(TINY, split, tmp_path) for split in ("train", "test")]
    run = train(sets[0], SETTINGS, out=tmp_path / "run", workers=0, show_progress=False)
    assert run.pairs is not None
    ours = run.pairs.sampler.pairs(np.arange(50))
    drawn = PairDataset(sets[0], sigma=SETTINGS.sigma).sampler.pairs(np.arange(50))
    assert (ours.anchor.tolist(), ours.positive.tolist()) == (drawn.anchor.tolist(), drawn.positive.tolist())
    evaluation = evaluate(run, sets[1], encoder=SETTINGS.encoder, show_progress=False)
    shutil.move(sets[1], tmp_path / "moved")  # so nothing can open it by its path again
    shown = write_report(run, evaluation).read_text()
    assert "Walks along" in shown
    assert "Training pairs" in shown
    assert "Walks along" not in write_report(run).read_text()


def test_rows_that_version_01_finished_stay(tmp_path: Path) -> None:
    rendered(TINY, tmp_path)
    folder = Path(shutil.copytree(OLD / "table4-tiny", tmp_path / "reproduce/table4-tiny"))
    before = (folder / "all-ten/supervised-seed0/result.json").read_text()
    said: list[str] = []
    _, markdown = reproduce("table4", rows=["supervised", "identity"], **tiny_options(tmp_path, said))
    assert said[0].startswith("1 row ")
    assert (folder / "all-ten/supervised-seed0/result.json").read_text() == before
    line = next(line for line in markdown.splitlines() if line.startswith("| supervised"))
    cells = [cell.strip() for cell in line.split("|")]
    assert ["0.9933 ± 0.0001", f"{json.loads(before)['figures']['MCC']:.4f}"] == cells[4:6]


def test_a_row_that_another_process_is_at_is_left_to_it(tmp_path: Path) -> None:
    rendered(TINY, tmp_path)
    said: list[str] = []
    busy = tmp_path / "reproduce/table4-tiny/all-ten/sphere-seed0"
    busy.mkdir(parents=True)
    with lease(busy):
        _, markdown = reproduce("table4", rows=["sphere", "identity"], **tiny_options(tmp_path, said))
    assert any("another process" in sentence and str(busy) in sentence for sentence in said)
    assert said[-1].startswith("1 row is ")
    assert "| identity " in markdown
    assert "| sphere " not in markdown
    _, markdown = reproduce("table4", rows=["sphere", "identity"], **tiny_options(tmp_path, said))
    assert "| sphere " in markdown


TWO = """
import sys
from pathlib import Path
from test_reproduce import reproduce, tiny_options
reproduce("table4", rows=["supervised", "sphere", "unbounded", "identity"], **tiny_options(Path(sys.argv[1]), []))
"""


def test_two_processes_share_the_rows_and_end_with_one_table(tmp_path: Path) -> None:
    rendered(TINY, tmp_path)
    here = Path(__file__).parent
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])}
    words = [sys.executable, "-c", TWO, str(tmp_path)]
    both = [subprocess.Popen(words, env=environment, stderr=subprocess.PIPE) for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=240)
        assert process.returncode == 0, err.decode()
    table = json.loads((tmp_path / "reproduce/table4-tiny/table.json").read_text())
    assert [result["row"] for result in table["results"]] == ["unbounded", "sphere", "supervised", "identity"]
    assert not list(tmp_path.rglob(".partial-*"))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"world": 1}', '{"variant": 1, "facts": {"settings": 1}}'])
def test_a_damaged_result_is_one_sentence(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "reproduce/table4-tiny/all-ten/sphere-seed0"
    folder.mkdir(parents=True)
    (folder / RESULT_FILE).write_text(content)
    with pytest.raises(UserError, match=r"sphere-seed0.result\.json"):
        reproduce("table4", rows=["sphere"], **tiny_options(tmp_path, []))


@pytest.mark.slow
@pytest.mark.bpy
def test_what_is_missing_is_rendered(tmp_path: Path) -> None:
    seven = ImageVariant(
        name="seven",
        settings=replace(SETTINGS, batch=16),
        world=World(fixed={"rotation": 0.0}),
        size=16,
        train=24,
        test=20,
    )
    small = replace(TABLE4, profiles={"tiny": (seven,)})
    said: list[str] = []
    folder, _ = reproduce(
        "table4", profile="tiny", rows=["sphere"], root=tmp_path, experiment=small, say=said.append, show_progress=False
    )
    assert said[0].startswith("44 images to render first")
    assert len(ImageDataset(dataset_path(seven, "test", tmp_path))) == 20
    assert (folder / "report.html").is_file()


def test_the_twelve_views_of_the_causal_table(tmp_path: Path) -> None:
    settings = replace(SETTINGS, space="unbounded", loss="simclr", dim=8)
    causal = ImageVariant(name="causal", settings=settings, world=World("causal3dident"), size=16, train=140, test=140)
    small = replace(CAUSAL3DIDENT, profiles={"tiny": (causal,)})
    rendered(causal, tmp_path)
    rows = ["da-rotation+colour", "lt-positions+hues"]
    folder, markdown = reproduce(
        "", profile="tiny", rows=rows, root=tmp_path, experiment=small, say=lambda _: None, show_progress=False
    )
    results = json.loads((folder / "table.json").read_text())["results"]
    assert [set(result["figures"]) for result in results] == [set(small.columns)] * 2
    assert "| 0.59 " in markdown


def test_every_row_is_accepted_for_every_profile() -> None:
    for experiment in (TABLE4, CAUSAL3DIDENT):
        assert EXPERIMENTS[experiment.name] is experiment
        assert set(experiment.scores) == set(experiment.columns)
        for profile in experiment.profiles:
            for variant in experiment.variants(profile):
                for row in experiment.rows_of(variant):
                    if row.change is not None:
                        settings = variant.settings_of(row, 0)
                        assert with_defaults(settings, variant.world, variant.size, variant.train).loss
                        assert set(row.paper) == set(experiment.columns)
    assert len(TABLE4.rows) == 7
    assert len(CAUSAL3DIDENT.rows) == 12
    assert [variant.name for variant in TABLE4.variants("mini")] == ["seven", "all-ten", "wrapped"]
    (published,) = TABLE4.variants("paper")
    s = published.settings_of(TABLE4.row("box-normal"), 0)
    assert (s.negatives, s.bound, s.batch, s.steps, s.lr, s.encoder) == ("batch", 1.0, 512, 30_000, 1e-4, "resnet18")


def test_the_papers_defaults_are_the_papers_row() -> None:
    world = World()
    found = paper_row(with_defaults(TrainSettings(), world, 224, 250_000))
    assert found is not None
    assert found.paper["MCC"] == (98.31, 0.04)
    s = with_defaults(TrainSettings(), world, 224, 250_000)
    assert (s.batch, s.steps, s.lr, s.sigma, s.encoder, s.model_p, s.tau) == (512, 30_000, 1e-4, 0.1, "resnet18", 2, 1)
    assert paper_row(with_defaults(TrainSettings(model_p=1), world, 224, 250_000)) is None


def test_names_are_known(tmp_path: Path) -> None:
    for words, fact in (
        ({"name": "table5"}, "'table4'"),
        ({"name": "table4", "profile": "min"}, "'mini'"),
        ({"name": "table4", "rows": ["box-norm"]}, "'box-normal'"),
        ({"name": "table4", "rows": ["sphere", "sphere"]}, "--rows"),
        ({"name": "table4", "variants": ["sevn"]}, "'seven'"),
        ({"name": "table4", "seeds": []}, "--seeds"),
    ):
        with pytest.raises(UserError, match=fact):
            reproduce(**words, root=tmp_path)


def test_identity_finds_what_is_linear_in_the_pixels(tmp_path: Path) -> None:
    """A latent that is the brightness of a pixel is found, noise is not."""
    path = make_dataset(tmp_path / "set", 60)

    class Bright(ImageDataset):
        def latents(self, index):  # type: ignore[no-untyped-def]
            return self.images(index).reshape(len(index), -1)[:, :3].astype(np.float32)

    assert identity_r2(Bright(path)) > 0.95
    assert identity_r2(ImageDataset(path, latents=["rotation_phi"])) < 0.2
