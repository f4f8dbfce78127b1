"""Exports for hubs, read by the libraries of the hubs themselves, without a network."""

import csv
import gc
import json
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from exported_sets import SHAPE, everything, export_to, files_of
from PIL import Image
from synthetic import make_dataset

import ident3d
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.latents.exact.names import CLASSES, NAMES
from ident3d.loaders.exports.exporting import MARK
from ident3d.loaders.exports.front_matter import size_category, yaml_lines
from ident3d.loaders.folders.folder import open_folder


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Hugging Face's library, which may not ask the hub."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        datasets = pytest.importorskip("datasets", reason="it comes with the extra hubs")
        patch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
        datasets.disable_progress_bars()
        yield datasets


def check_rows(ours: dict[str, np.ndarray], names: list[str], rows: list[dict[str, Any]], images: list[Any]) -> None:
    """Pixels, scene values and raw latents are equal, to the last bit."""
    np.testing.assert_array_equal(np.stack([np.asarray(image) for image in images]), np.squeeze(ours["images"]))
    for key, before in (("scene_latents", ""), ("raw_latents", "raw_")):
        found = np.array([[row[before + name] for name in names] for row in rows])
        np.testing.assert_array_equal(found.astype(np.float32), ours[key])
        assert (found == ours[key]).all()
    assert [row["index"] for row in rows] == ours["index"].tolist()


def test_hugging_face_loads_pixels_latents_and_classes(
    sources: dict[str, Path], datasets: ModuleType, tmp_path: Path
) -> None:
    out = export_to(sources["test"], tmp_path / "both", "huggingface")
    export_to(sources["causal"], out, "huggingface", licence="CC0 1.0")
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["train", "test"]
    for split, source in (("train", "causal"), ("test", "test")):
        rows, ours = loaded[split], everything(sources[source])
        assert rows.features["image"] == datasets.Image()
        assert rows.features["class"] == datasets.ClassLabel(names=list(CLASSES))
        assert rows.features["spotlight_hue"] == datasets.Value("float32")
        check_rows(ours, list(NAMES), list(rows.remove_columns("image")), rows["image"])
        assert rows["class"][:] == ours["class"].tolist()
    card = (out / "README.md").read_text()
    assert card.startswith("---\npretty_name: both\nlicense: cc0-1.0\n")
    assert "NeurIPS 2021" in card
    assert 'load_dataset("both", split="train")' in card
    assert "Images: train 40, test 12." in card
    # A user's own words in the card stay.
    (out / "README.md").write_text(card + "\n## Thanks\n\nto the cow\n")
    export_to(sources["causal"], out, "huggingface", licence="cc-by-4.0")
    again = (out / "README.md").read_text()
    assert "to the cow" in again
    assert again.count("## Columns") == 1
    assert "license: cc-by-4.0" in again


def test_hugging_face_loads_declared_factors(sources: dict[str, Path], datasets: ModuleType, tmp_path: Path) -> None:
    out, ours = export_to(sources["declared"], tmp_path / "out", "huggingface"), everything(sources["declared"])
    rows = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    features = rows.features
    assert features["shape"].names == ["square", "yes", "heart, broken"]
    assert features["its_frame"].names == ["1.0", "4.0", "9.0"]
    assert features["class"].names == ["cat", "dog"]
    np.testing.assert_array_equal(np.stack([np.asarray(i) for i in rows["image"]]), ours["images"][..., 0])
    for column, theirs in (("turn", ours["scene_latents"][:, 1]), ("raw_turn", ours["raw_latents"][:, 1])):
        np.testing.assert_array_equal(np.array(rows[column][:], np.float32), theirs)
    assert rows["shape"][:] == ours["scene_latents"][:, 2].tolist()
    assert [(1, 4, 9)[k] for k in rows["its_frame"]] == ours["scene_latents"][:, 3].tolist()
    assert rows["frame"][:] == ours["frame"].tolist()
    streamed = datasets.load_dataset(str(out), split="train", streaming=True)
    assert [row["turn"] for row in streamed] == rows["turn"][:]
    yaml = pytest.importorskip("yaml")
    front = yaml.safe_load((out / "README.md").read_text().split("---\n")[1])
    assert front["license"] == "cc-by-4.0"
    assert front["citation"] == 'Someone: "A title",\nsomewhere'


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_webdataset_reads_rows_in_order(sources: dict[str, Path], tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="it comes with the extra hubs")
    out, ours = export_to(sources["moving"], tmp_path / "out", "webdataset"), everything(sources["moving"])
    assert sorted(p.name for p in out.glob("*.tar")) == [f"train-0000{k}.tar" for k in range(3)]
    pattern = f"{out}/train-{{00000..00002}}.tar"
    samples = list(webdataset.WebDataset(pattern, shardshuffle=False).decode("pil"))
    gc.collect()  # the library leaves its files open
    assert [sample["__key__"] for sample in samples] == [f"{i:08d}" for i in range(36)]
    check_rows(ours, list(NAMES), [sample["json"] for sample in samples], [sample["png"] for sample in samples])
    for column in ("sequence", "frame"):
        assert [sample["json"][column] for sample in samples] == ours[column].tolist()
    assert [sample["json"]["environment"] for sample in samples[:6]] == ["plain"] * 3 + ["right"] * 3
    with tarfile.open(out / "train-00000.tar") as archive:
        assert {(m.mtime, m.uid, m.gid, m.uname, m.mode) for m in archive} == {(0, 0, 0, "", 0o644)}


def test_hugging_face_loads_tars_and_tables_by_their_cards(
    sources: dict[str, Path], datasets: ModuleType, tmp_path: Path
) -> None:
    for to in ("webdataset", "png"):
        out = export_to(sources["causal"], tmp_path / to, to)
        rows = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
        assert len(rows) == 40
        first = rows[1]["json"] if to == "webdataset" else rows[1]
        assert first["class"] == "Hare"


def test_a_folder_of_pngs_has_a_row_for_each(sources: dict[str, Path], tmp_path: Path) -> None:
    out, ours = export_to(sources["declared"], tmp_path / "out", "png"), everything(sources["declared"])
    with (out / "latents.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[36]["file"] == "images/00000/00000036.png"
    images = [Image.open(out / row["file"]) for row in rows]
    np.testing.assert_array_equal(np.stack([np.asarray(i) for i in images]), ours["images"][..., 0])
    np.testing.assert_array_equal(np.float32([row["turn"] for row in rows]), ours["scene_latents"][:, 1])
    assert {row["shape"] for row in rows} == set(SHAPE.values)
    assert [row["class"] for row in rows[:3]] == ["dog", "cat", "cat"]
    record = json.loads((out / "dataset.json").read_text())["splits"]["train"]
    assert record["settings"]["world"]["factors"][1]["range"] == [0, 360]
    assert record["n"] == 37


# Kills its own process just before the k-th file takes its name.
DYING = """
import os, signal, sys
from ident3d.cli import main
left = int(sys.argv[1])
def hook(event, args):
    global left
    if event == "os.rename":
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
main(sys.argv[2:])
"""


@pytest.mark.parametrize(("to", "renames"), [("huggingface", (3, 3)), ("webdataset", (1, 3, 4)), ("png", (12, 21))])
def test_a_killed_export_goes_on_and_ends_the_same(
    to: str, renames: tuple[int, ...], sources: dict[str, Path], tmp_path: Path
) -> None:
    if to == "huggingface":
        pytest.importorskip("pyarrow", reason="it comes with the extra hubs")
    due = files_of(export_to(sources["moving"], tmp_path / "due/out", to))
    out = tmp_path / "killed/out"
    words = ["export", str(sources["moving"]), str(out), "--to", to, *([] if to == "png" else ["--part-size", "16"])]
    for count in renames:
        dying = subprocess.run([sys.executable, "-c", DYING, str(count), *words], capture_output=True, check=False)
        assert dying.returncode == -signal.SIGKILL, dying.stderr.decode()
        left = {name: data for name, data in files_of(out).items() if not Path(name).name.startswith(".")}
        assert left.keys() < due.keys()
        assert all(data == due[name] for name, data in left.items())
    if len(renames) > 1:
        with pytest.raises(UserError, match="unfinished"):
            export_to(sources["causal"], out, to)
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["written"] < 36 or to == "webdataset"
    assert files_of(out) == due
    assert not list(out.rglob(".*"))


def test_a_missing_file_is_written_again_and_nothing_else(sources: dict[str, Path], tmp_path: Path) -> None:
    out = export_to(sources["causal"], tmp_path / "out", "webdataset")
    due = files_of(out)
    (out / "train-00001.tar").unlink()
    assert ident3d.export_to(sources["causal"], out, "webdataset", part_size=16, show_progress=False).written == 16
    assert files_of(out) == due
    assert ident3d.export_to(sources["causal"], out, "webdataset", part_size=16, show_progress=False).written == 0


def test_what_cannot_be_exported_is_one_sentence(
    sources: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, theirs = str(sources["causal"]), tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work")
    tars = export_to(sources["causal"], tmp_path / "tars", "webdataset")
    pngs = export_to(sources["causal"], tmp_path / "pngs", "png")
    unfinished = make_dataset(tmp_path / "unfinished", 9, finished=False)
    other = make_dataset(tmp_path / "other", 9, split="test")
    new = str(tmp_path / "new")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for words, says in (
        ((source, str(theirs), "--to", "png"), "already holds something else"),
        ((source, str(theirs / "thesis.tex"), "--to", "png"), "is a file"),
        ((source, new, "--to", "hugingface"), "Did you mean 'huggingface'?"),
        ((source, new, "--to", "huggingface"), "pip install 'ident3d[hubs]'"),
        ((source, new, "--to", "webdataset", "--part-size", "0"), "at least one image"),
        ((source, new, "--to", "png", "--part-size", "9"), "no part size"),
        ((source, new, "--to", "png", "--video", "gif"), "not both"),
        ((source, new, "--to", "png", "--fps", "3"), "--fps belongs to --video"),
        ((source, new, "--licence", "mit"), "--licence belongs to --to"),
        ((str(unfinished), new, "--to", "png"), "is not finished"),
        ((source, str(tars), "--to", "png"), "an export for webdataset"),
        ((source, str(tars), "--to", "webdataset"), "another part size"),
        ((str(other), str(tars), "--to", "webdataset"), "other latents or labels"),
        ((str(sources["test"]), str(pngs), "--to", "png"), "has one split"),
        ((str(sources["moving"]), str(pngs), "--to", "png"), "of other images"),
    ):
        before = files_of(tmp_path)
        done = CliRunner().invoke(main, ["export", *words])
        assert done.exit_code == 2, words
        assert says in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert files_of(tmp_path) == before
        assert not Path(new).exists()


def test_an_export_follows_no_link_that_lies_in_its_folder(sources: dict[str, Path], tmp_path: Path) -> None:
    """Somebody who knows the dataset has prepared the folder, so that it looks like an interrupted export."""
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    theirs.mkdir()
    due = files_of(export_to(sources["causal"], tmp_path / "due/out", "webdataset"))
    out.mkdir()
    (out / "train-00000.tar").symlink_to(theirs / "stolen")
    mark = {"to": "webdataset", "split": "train", "part_size": 16}
    mark["shards_sha256"] = open_folder(sources["causal"]).description.shards_sha256 or ""
    (out / MARK).write_text(json.dumps(mark))
    export_to(sources["causal"], out, "webdataset")
    assert files_of(out) == due
    assert not list(theirs.iterdir())


@pytest.mark.parametrize(
    "text", ["yes", "12", "a: b", "# no", "é\x7f\x85\u2028\U0001f600", "", " x", "-", "a\nb", "1e3", "y"]
)
def test_every_text_comes_through_yaml(text: str) -> None:
    yaml = pytest.importorskip("yaml")
    content = {"a": text, "list": [{"name": text, "n": 3}, {"deep": {text or "k": [text]}}]}
    assert yaml.safe_load(yaml_lines(content)) == content


def test_size_categories() -> None:
    assert [size_category(n) for n in (999, 1000, 10**4, 250_000, 10**12)] == [
        "n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "n>1T",
    ]  # fmt: skip
