"""Folders, runs and checkpoints that version 0.1 made are read, continued and scored, with equal bytes and bits.

tests/data/v0.1 was made by commit 0d2f063: `train`, `test` and `periodic` by `ident3d render`, `run` by `ident3d train`
(2 steps; `run-resumed` is the same after 4), `mixing` and `mixing-resumed` likewise by `ident3d mixing`.
"""

import json
import re
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ident3d import PairDataset, evaluate, mixing, train, verify
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.machine import cpu_model
from ident3d.training.images.run import default_name as run_name
from ident3d.training.images.run import open_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.loop.devices import torch_threads
from ident3d.training.mixing.run import default_name as mixing_name
from ident3d.training.mixing.run import open_mixing
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.report.report import SHOWN_PAIRS, write_report

OLD = Path(__file__).parent / "data/v0.1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of everything, as the current folder: the runs name their data by relative paths."""
    shutil.copytree(OLD, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    return tmp_path / "old"


def same_processor(facts: dict[str, Any]) -> bool:
    """Whether the processor is of the recorded name. Version 0.1 recorded no family and no model."""
    return cpu_model().startswith(str(facts["cpu"]))


def same_machine(facts: dict[str, Any]) -> bool:
    """Whether this machine is of the kind that promises equal bits: processor, threads and versions."""
    versions = facts["versions"]
    same_torch = versions.get("torch", torch.__version__) == torch.__version__
    return same_processor(facts) and same_torch and facts["threads"] == torch.get_num_threads()


def assert_same_weights(ours: Path, theirs: Path, exact: bool) -> None:
    a, b = load_file(ours / "checkpoint.safetensors"), load_file(theirs / "checkpoint.safetensors")
    assert a.keys() == b.keys()
    assert len(a) > 5
    for name, expected in b.items():
        if exact:
            assert torch.equal(a[name], expected), name
        else:
            torch.testing.assert_close(a[name], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "n"), [("train", 16), ("test", 40), ("periodic", 2)])
def test_a_dataset_is_sound_and_reads_as_before(folder: Path, name: str, n: int) -> None:
    found = verify(folder / name)
    assert (found.good, found.problems) == (n, ())
    images = ImageDataset(folder / name)
    assert images.latents(np.arange(n)).tobytes() == np.load(folder / name / "all_latents.npy").tobytes()


def test_pairs_are_those_of_version_01(folder: Path) -> None:
    expected = json.loads((folder / "pairs.json").read_text())
    for name, shape in {"normal": {}, "laplace": {}, "gennorm": {"p": 3.0}}.items():
        pairs = PairDataset(folder / "train", cond=name, sigma=0.3, seed=5, **shape)
        anchors, positives, *_ = pairs.sampler.pairs(np.arange(32))
        assert [list(pair) for pair in zip(anchors.tolist(), positives.tolist(), strict=True)] == expected[name]


@pytest.mark.bpy
@pytest.mark.parametrize(("name", "n", "scene"), [("train", 16, "3dident"), ("periodic", 2, "3dident-periodic")])
def test_a_render_gives_the_same_pixels(folder: Path, name: str, n: int, scene: str) -> None:
    from ident3d.farm.recipe import Recipe
    from ident3d.farm.render import render

    facts = json.loads((folder / name / "provenance.json").read_text())["runs"][0]
    recipe = Recipe(World(scene), size=16, quality="draft")
    render(n, recipe, out=folder / "again", shard_size=8 if n > 8 else None, workers=1, show_progress=False)
    if same_processor(facts):
        assert (folder / "again/shards.jsonl").read_bytes() == (folder / name / "shards.jsonl").read_bytes()
        assert (folder / "again/dataset.json").read_bytes() == (folder / name / "dataset.json").read_bytes()
    ours, theirs = (ImageDataset(folder / x).batch(range(n))[1].numpy().astype(int) for x in ("again", name))
    assert np.abs(ours - theirs).mean() < 1


def test_a_run_goes_on_to_the_same_bits(folder: Path) -> None:
    run = open_run(folder / "run")
    with torch_threads(run.facts["threads"]):  # sums over several threads round in another order
        done = train(
            folder / "train", replace(run.settings, steps=4), out=folder / "run", resume=True, workers=0, device="cpu",
            show_progress=False,
        )  # fmt: skip
    assert_same_weights(done.path, folder / "run-resumed", same_machine(run.facts))


def test_a_run_has_the_same_scores(folder: Path) -> None:
    old = json.loads((folder / "run-resumed/evaluation.json").read_text())
    run = open_run(folder / "run-resumed")
    with torch_threads(run.facts["threads"]):
        found = evaluate(run.path, count=40, encoder="tiny:smallest", device="cpu", show_progress=False)
    assert found.data.name == "test"
    new = json.loads((folder / "run-resumed/evaluation.json").read_text())
    for name, score in old["scores"].items():
        assert new["scores"][name]["score"] == pytest.approx(score["score"], abs=1e-5)
    assert not same_machine(run.facts) or new["codes_sha256"] == old["codes_sha256"]


def test_the_report_of_a_run_shows_its_pairs(folder: Path) -> None:
    run = open_run(folder / "run")
    drawn = PairDataset(folder / "train", cond="gennorm", p=3.0, sigma=0.1, seed=0).sampler.pairs(
        np.arange(SHOWN_PAIRS)
    )
    page = write_report(run).read_text()
    shown = page[page.index("Training pairs") :]
    titles = [int(number) for number in re.findall(r'title="image (\d+)"', shown)]
    assert titles == [*drawn.anchor.tolist(), *drawn.positive.tolist()]
    shutil.move(folder / "train", folder / "moved")
    assert "Training pairs" not in write_report(run).read_text()


def test_a_run_on_mixed_latents_goes_on_to_the_same_bits(folder: Path) -> None:
    content = json.loads((folder / "mixing/run.json").read_text())
    settings = MixingSettings.from_dict(content["settings"])
    with torch_threads(content["facts"]["threads"]):
        mixing(settings, out=folder / "mixing", resume=True, device="cpu", show_progress=False)
    assert_same_weights(folder / "mixing", folder / "mixing-resumed", same_machine(content["facts"]))


def test_settings_of_version_01_are_read_under_todays_names(folder: Path) -> None:
    run = open_run(folder / "run")
    assert (run.settings.negatives, run.settings.dtype, run.dtype) == ("others", "fp32", "fp32")
    assert not {"candidates", "precision"} & run.settings.as_dict().keys()
    recorded = json.loads((folder / "aninfonce/run.json").read_text())["settings"]
    settings = MixingSettings.from_dict(recorded)
    assert (settings.negatives, settings.dtype, settings.lambda_lr) == ("batch", "fp32", recorded["precision_lr"])


def test_a_run_keeps_the_default_name_that_version_01_gave_it(folder: Path) -> None:
    for name, title, settings in (
        ("run", run_name(open_run(folder / "run").settings, folder / "train"), TrainSettings),
        ("mixing", mixing_name(open_mixing(folder / "mixing")), MixingSettings),
        ("aninfonce", mixing_name(open_mixing(folder / "aninfonce")), MixingSettings),
    ):
        recorded = json.loads((folder / name / "run.json").read_text())["settings"]
        assert recorded.keys() != settings.from_dict(recorded).as_dict().keys()
        assert title.endswith("-" + sha256(json.dumps(recorded, sort_keys=True).encode()).hexdigest()[:8])
