"""Experiments from nothing to a table: resumable, finished rows skipped, the paper's figures beside ours."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.loaders.images import ImageDataset
from ident3d.reproducing import FILE, dataset_path, reproduce
from ident3d.training import experiments
from ident3d.training.experiments import CAUSAL3DIDENT, EXPERIMENTS, TABLE4, Data, paper_row
from ident3d.training.identity import identity_r2
from ident3d.training.settings import Settings, completed

TINY = Data(World(), 16, 80, 64, Settings(encoder="tiny:plain", batch=32, steps=2))
SMALL = replace(TABLE4, profiles={"tiny": {"all-ten": TINY}})


def rendered(data: Data, root: Path) -> None:
    """The folders that rendering would make, with synthetic pictures."""
    scene, classes = data.world.scene, len(data.world.classes)
    for split, n in (("train", data.train), ("test", data.test)):
        path = dataset_path(data, split, root)
        make_dataset(path, n, size=data.size, split=split, scene=scene, classes=classes)


def test_all_rows_of_table_4(tmp_path: Path) -> None:
    rendered(TINY, tmp_path)
    said: list[str] = []
    options = {"profile": "tiny", "root": tmp_path, "experiment": SMALL, "say": said.append, "show_progress": False}
    folder, markdown = reproduce("table4", rows=["box-normal", "identity"], seeds=[0, 1], **options)
    assert said[0].startswith("4 rows to do; about ")
    assert "96.73 ± 0.10 / " in markdown
    assert [line.split("|")[1].strip() for line in markdown.splitlines() if "| 0, 1 " in line] == [
        "box-normal",
        "identity",
    ]
    before = (folder / "all-ten/box-normal-seed0" / FILE).stat().st_mtime_ns
    said.clear()
    folder, markdown = reproduce("table4", **options)
    assert said[0].startswith("5 rows to do")
    assert (folder / "all-ten/box-normal-seed0" / FILE).stat().st_mtime_ns == before
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
    assert "65.74" in page
    assert "<script" not in page
    said.clear()
    reproduce("table4", **options)
    assert said == ["All rows asked for are finished."]


@pytest.mark.slow
@pytest.mark.bpy
def test_what_is_missing_is_rendered(tmp_path: Path) -> None:
    data = Data(World(fixed={"rotation": 0.0}), 16, 24, 20, Settings(encoder="tiny:plain", batch=16, steps=2))
    small = replace(TABLE4, profiles={"tiny": {"seven": data}})
    said: list[str] = []
    folder, _ = reproduce(
        "table4", profile="tiny", rows=["sphere"], root=tmp_path, experiment=small, say=said.append, show_progress=False
    )
    assert said[0].startswith("44 images to render first")
    assert len(ImageDataset(dataset_path(data, "test", tmp_path))) == 20
    assert (folder / "report.html").is_file()


def test_the_twelve_views_of_the_causal_table(tmp_path: Path) -> None:
    data = Data(World("causal3dident"), 16, 140, 140, replace(TINY.settings, space="unbounded", loss="simclr", dim=8))
    small = replace(CAUSAL3DIDENT, profiles={"tiny": {"causal": data}})
    rendered(data, tmp_path)
    rows = ["da-rotation+colour", "lt-positions+hues"]
    folder, markdown = reproduce(
        "", profile="tiny", rows=rows, root=tmp_path, experiment=small, say=lambda _: None, show_progress=False
    )
    results = json.loads((folder / "table.json").read_text())["results"]
    assert [set(result["figures"]) for result in results] == [set(small.columns)] * 2
    assert "59.00 / " in markdown


def test_every_row_is_accepted_for_every_profile() -> None:
    for experiment in EXPERIMENTS.values():
        for worlds in experiment.profiles.values():
            for data in worlds.values():
                for row in experiments.rows_of(experiment, data, ()):
                    if row.change is not None:
                        done = completed(row.settings(data.settings, 0), data.world, data.size, data.train)
                        assert done.loss
                        assert set(row.paper) == set(experiment.columns)
    assert len(TABLE4.rows) == 7
    assert len(CAUSAL3DIDENT.rows) == 12
    assert list(TABLE4.profiles["mini"]) == ["seven", "all-ten"]


def test_the_papers_defaults_are_the_papers_row() -> None:
    world = World()
    found = paper_row(completed(Settings(), world, 224, 250_000))
    assert found is not None
    assert found.paper["MCC"] == (98.31, 0.04)
    s = completed(Settings(), world, 224, 250_000)
    assert (s.batch, s.steps, s.lr, s.sigma, s.encoder, s.model_p, s.tau) == (512, 30_000, 1e-4, 0.1, "resnet18", 2, 1)
    assert paper_row(completed(Settings(model_p=1), world, 224, 250_000)) is None


def test_names_are_known(tmp_path: Path) -> None:
    for words, sentence in (
        ({"name": "table5"}, "Did you mean 'table4'?"),
        ({"name": "table4", "profile": "min"}, "Did you mean 'mini'?"),
        ({"name": "table4", "rows": ["box-norm"]}, "Did you mean 'box-normal'?"),
        ({"name": "table4", "worlds": ["sevn"]}, "Did you mean 'seven'?"),
        ({"name": "table4", "seeds": []}, "Name at least one seed"),
    ):
        with pytest.raises(UserError, match=sentence.replace("?", r"\?")):
            reproduce(**words, root=tmp_path)


def test_identity_finds_what_is_linear_in_the_pixels(tmp_path: Path) -> None:
    """A latent that is the brightness of a pixel is found, noise is not."""
    path = make_dataset(tmp_path / "set", 60)

    class Bright(ImageDataset):
        def latents(self, index):  # type: ignore[no-untyped-def]
            return self.images(index).reshape(len(index), -1)[:, :3].astype(np.float32)

    assert identity_r2(Bright(path)) > 0.95
    assert identity_r2(ImageDataset(path, latents=["rotation_phi"])) < 0.2
