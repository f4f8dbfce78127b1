"""Scores of a run, codes of a folder, and the report: what is scored, refused and labelled."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result
from synthetic import make_dataset

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.loaders.format.description import Description, read_description
from ident3d.loaders.format.files import write_json
from ident3d.sprites.generate import dsprites
from ident3d.training.images.encode import encode
from ident3d.training.images.evaluate import evaluate
from ident3d.training.images.run import open_run, trained_encoder
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.images.which_dataset import is_trained_on
from ident3d.training.report.finish import finish
from ident3d.training.report.report import write_report

SETTINGS = TrainSettings(encoder="tiny:plain", batch=32, steps=3)


def ident3d(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_batch_statistics_and_unknown_scores_are_said(root: Path) -> None:
    options = {"encoder": "tiny:plain", "show_progress": False}
    found = evaluate(root / "run", root / "test", metrics="mcc_spearman", bn_batch_stats=True, **options)
    # R² and MCC, which `runs` and `compare` show, are there besides what was asked for.
    assert set(found.report.scores) == {"mcc_spearman", "mcc_pearson", "linear_r2_held_out"}
    assert found.label == "Batch norm took each batch's statistics."
    with pytest.raises(UserError, match="'mcc_pearson'"):
        evaluate(root / "nothing", metrics=["mcc_pearsn"])


def test_a_broken_test_set_is_not_replaced_by_the_training_set(root: Path, tmp_path: Path) -> None:
    make_dataset(tmp_path / "train", 40)
    broken = make_dataset(tmp_path / "test", 20, split="test")
    run = train(tmp_path / "train", SETTINGS, out=tmp_path / "run", workers=0, show_progress=False).path
    for shard in broken.rglob("*.h5"):
        shard.write_bytes(b"no shard")
    finished = finish(run, root=tmp_path, allow_same=True, encoder="tiny:plain")
    assert finished.evaluation is None
    assert finished.not_scored
    assert "Not scored." in finished.report.read_text()


def test_evaluate_refuses_what_was_trained_on(root: Path) -> None:
    with pytest.raises(UserError, match=r"--allow-same"):
        evaluate(root / "run", root / "train", encoder="tiny:plain")
    labelled = evaluate(
        root / "run", root / "train", encoder="tiny:plain", allow_same=True, show_progress=False, metrics="default"
    )
    assert labelled.label == "Scored on images that the run was trained on."
    assert "Scored on images that the run was trained on." in labelled.table()
    assert "Scored on images that the run was trained on." in write_report(root / "run").read_text()


def another(path: Path, **settings: object) -> Path:
    """The same images under other settings, as if they had been rendered so."""
    found = read_description(path)
    write_json(path / "dataset.json", replace(found, settings=found.settings | settings).as_dict())
    return path


def test_images_of_another_world_are_scored_and_labelled(root: Path, tmp_path: Path) -> None:
    metal = another(make_dataset(tmp_path / "metal", 20, split="test"), material="metal")
    held = World(fixed={"object_hue": 0.5}).as_dict()
    fixed = another(make_dataset(tmp_path / "fixed", 20, split="test"), world=held)
    for path, words in ((metal, "material: metal there, none in training"), (fixed, "world.fixed.object_hue: 0.5")):
        found = evaluate(root / "run", path, encoder="tiny:plain", metrics="mcc_pearson", show_progress=False)
        assert found.label is not None
        assert "another world" in found.label
        assert words in found.label


def test_the_matching_test_set_has_the_training_sets_material(root: Path, tmp_path: Path) -> None:
    make_dataset(tmp_path / "train", 40)
    another(make_dataset(tmp_path / "metal", 20, split="test"), material="metal")
    run = train(tmp_path / "train", SETTINGS, out=tmp_path / "run", workers=0, show_progress=False).path
    options = {"encoder": "tiny:plain", "metrics": "mcc_pearson", "root": tmp_path, "show_progress": False}
    with pytest.raises(UserError, match="--split test"):
        evaluate(run, **options)
    plain = make_dataset(tmp_path / "plain", 20, split="test")
    assert evaluate(run, **options).data == plain
    # images for tuning, of another seed, are newer, and do not take the test set's place
    tuning = make_dataset(tmp_path / "tuning", 20, split="test", seed=1)
    assert evaluate(run, **options).data == plain
    (plain / "dataset.json").unlink()
    assert evaluate(run, **options).data == tuning


def test_latents_from_a_file_are_the_same_in_both_splits() -> None:
    trained = {"world": {}, "source": {"kind": "file", "sha256": "a", "seed": 0, "split": "train"}}
    for source, same in (({"sha256": "a", "split": "test"}, True), ({"sha256": "b", "split": "train"}, False)):
        other = Description({"world": {}, "source": trained["source"] | source}, 1, 1)
        assert is_trained_on(trained, other) == same


@pytest.mark.parametrize("digest", ["latents_sha256", "files_sha256"])
def test_images_of_the_same_latents_or_pictures_are_the_same_in_both_splits(digest: str) -> None:
    source = {"kind": "generate", "from": "dsprites", "split": "train", "images": "given latents"}
    trained = {"world": {}, "source": source | {digest: "a"}}
    for change, same in (({digest: "a", "split": "test"}, True), ({digest: "b"}, False)):
        assert is_trained_on(trained, Description({"world": {}, "source": source | change}, 1, 1)) == same


def test_images_drawn_from_the_training_grid_are_called_so(tmp_path: Path) -> None:
    kept = {"shape": "heart", "scale": 1, "orientation": 0}
    few: dict[str, Any] = {"where": kept, "workers": 1, "show_progress": False}
    dsprites(tmp_path / "grid", **few)
    dsprites(tmp_path / "drawn", n=1024, **few)
    dsprites(tmp_path / "test", n=8, split="test", **few)
    settings = replace(SETTINGS, encoder="higgins", batch=8, dim=3, rule="grid")
    run = train(tmp_path / "grid", settings, out=tmp_path / "run", workers=0, show_progress=False)
    scored = evaluate(run, tmp_path / "test", metrics="mcc_pearson", show_progress=False)
    assert "training grid" in str(scored.label)
    assert "training grid" in scored.table()
    # as many images as the grid has, drawn from it, leave some of it out
    settings = replace(settings, rule="nearest")
    drawn = train(tmp_path / "drawn", settings, out=tmp_path / "other", workers=0, show_progress=False)
    assert evaluate(drawn, tmp_path / "test", metrics="mcc_pearson", show_progress=False).label is None


def test_a_report_shows_the_seed_and_no_codes_of_another_evaluation(root: Path, tmp_path: Path) -> None:
    run = train(root / "train", SETTINGS, out=tmp_path / "run", workers=0, show_progress=False).path
    evaluate(run, root / "test", encoder="tiny:plain", show_progress=False)
    page = write_report(run).read_text()
    assert "<td>seed</td><td>0</td>" in page
    assert "after step 3" in page
    assert "Walks along" in page
    np.save(run / "evaluation-codes.npy", np.zeros((70, 10), np.float32))
    assert "Walks along" not in write_report(run).read_text()
    (run / "evaluation.json").write_text("[]")
    with pytest.raises(UserError, match=r"evaluation\.json.*ident3d evaluate"):
        write_report(run)


def test_evaluate_refuses_other_scenes_and_smaller_images(root: Path, tmp_path: Path) -> None:
    other = make_dataset(tmp_path / "periodic", 20, scene="3dident-periodic", split="test")
    with pytest.raises(UserError, match=r"3dident-periodic.*3dident"):
        evaluate(root / "run", other, encoder="tiny:plain")
    small = make_dataset(tmp_path / "small", 20, size=8, split="test")
    with pytest.raises(UserError, match=r"8 pixels.*16"):
        evaluate(root / "run", small, encoder="tiny:plain")
    with pytest.raises(UserError, match=r"run\.json"):
        evaluate(root / "train", small)


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("settings", "dim", "x"),
        ("settings", "batch", "64"),
        ("settings", "bound", "a"),
        ("settings", "encoder", 5),
        ("settings", "space", None),
        ("settings", "size", None),
        ("settings", "only", None),
        ("settings", "cond", "other"),
        ("settings", "new", 1),
        ("data", "shards_sha256", None),
        ("data", "n", "many"),
        ("data", "settings", {"world": {"scene": "3dident"}, "size": 16, "material": "rubber"}),
        ("data", "settings", {"world": {"scene": "3dident"}, "size": 16, "source": {}}),
    ],
)
def test_a_changed_run_file_is_one_sentence(root: Path, tmp_path: Path, where: str, name: str, value: object) -> None:
    content = json.loads((root / "run/run.json").read_text())
    content[where][name] = value
    (tmp_path / "run.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"run\.json is no valid record"):
        open_run(tmp_path)


def test_an_import_path_is_never_taken_from_a_file(root: Path) -> None:
    with pytest.raises(UserError, match="--encoder tiny:plain"):
        trained_encoder(open_run(root / "run"))


def test_evaluate_scores_the_test_set_of_the_root(root: Path) -> None:
    done = ident3d("evaluate", root / "run", "--encoder", "tiny:plain", "--metrics", "mcc_pearson", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["data"] == str((root / "test").resolve())
    assert list(found["scores"]) == ["mcc_pearson", "linear_r2_held_out"]
    assert (root / "run/correlation.png").stat().st_size > 1000


def test_batch_statistics_change_the_codes(root: Path, tmp_path: Path) -> None:
    settings = TrainSettings(encoder="tiny:convolution", batch=32, steps=2)
    run = train(root / "train", settings, out=tmp_path / "run", workers=0, show_progress=False).path
    before = trained_encoder(open_run(run), "tiny:convolution")[0].state_dict()
    scores = [
        evaluate(run, root / "test", bn_batch_stats=how, encoder="tiny:convolution", show_progress=False)
        for how in (False, True)
    ]
    assert float(scores[0].report.scores["linear_r2"]) != float(scores[1].report.scores["linear_r2"])
    after = trained_encoder(open_run(run), "tiny:convolution")[0].state_dict()
    assert all(bool((before[name] == after[name]).all()) for name in before)


def test_encode_writes_codes_in_the_images_order(root: Path, tmp_path: Path) -> None:
    done = ident3d("encode", root / "run", root / "test", "--out", tmp_path / "codes.npy", "--encoder", "tiny:plain")
    assert done.exit_code == 0, done.output
    codes = np.load(tmp_path / "codes.npy", allow_pickle=False)
    assert codes.shape == (70, 10)
    assert codes.dtype == np.float32
    encode(root / "run", root / "test", tmp_path / "codes.h5", encoder="tiny:plain", show_progress=False)
    with h5py.File(tmp_path / "codes.h5") as file:
        np.testing.assert_array_equal(file["codes"], codes)
        assert file["raw_latents"].shape == (70, 10)
    for name, sentence in {"codes.txt": "written as .npy or .h5", "none/codes.npy": "There is no folder"}.items():
        with pytest.raises(UserError, match=sentence):
            encode(root / "run", root / "test", tmp_path / name, encoder="tiny:plain")


class Seen(HTMLParser):
    """What a page would fetch, and its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "data", "srcset")]


def test_a_report_shows_everything_and_loads_nothing(root: Path, tmp_path: Path) -> None:
    wicked = tmp_path / "<script>alert(1)<"
    run = train(root / "train", SETTINGS, out=wicked, workers=0, show_progress=False).path
    evaluate(run, root / "test", encoder="tiny:plain", show_progress=False)
    page = write_report(run).read_text()
    seen = Seen()
    seen.feed(page)
    assert "script" not in seen.tags
    assert {"svg", "table", "img"} <= seen.tags
    assert seen.addresses
    # What is not inside the page is a page of the documentation, which is opened on a click.
    pages = [address for address in seen.addresses if not address.startswith("data:image/png;base64,")]
    assert pages
    assert all((run / page).resolve().is_file() for page in pages)
    for part in ("Curves", "Scores", "0.9673 ±&nbsp;0.0010", "Walks along", "Nearest in code space", "Training pairs",
                 "What this run shows", "by chance", "attainable", "not comparable", "ratio"):  # fmt: skip
        assert part in page
    assert "&lt;script&gt;" in page
