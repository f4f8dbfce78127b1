"""What was exported for a hub becomes a dataset folder again, or one sentence says why not."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from exported_sets import everything, export_to, files_of
from PIL import Image

import ident3d
from ident3d.cli import main
from ident3d.commands.score import blocks_of_folder
from ident3d.errors import UserError
from ident3d.loaders.cards.facts import facts
from ident3d.loaders.format.description import digest, read_description

KINDS = ("declared", "moving", "causal", "periodic", "views")


def bring(source: Path, out: Path, **given: str) -> Path:
    return ident3d.import_(source, out, workers=1, show_progress=False, **given).path  # type: ignore[arg-type]


@pytest.mark.parametrize("to", ["huggingface", "webdataset", "png"])
def test_there_and_back(to: str, sources: dict[str, Path], tmp_path: Path) -> None:
    if to == "huggingface":
        pytest.importorskip("pyarrow", reason="it comes with the extra hubs")
    for kind in KINDS:
        ours = everything(sources[kind])
        back = bring(export_to(sources[kind], tmp_path / kind, to), tmp_path / f"{kind}-back")
        theirs = everything(back)
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert ours[name].dtype == theirs[name].dtype, name
            np.testing.assert_array_equal(ours[name], theirs[name])
        assert kind != "views" or theirs["view"].tolist() == [0, 1] * 6
        old, new = read_description(sources[kind]).settings, read_description(back).settings
        assert new["world"] == old["world"]
        belongs = [
            {row for row in facts(read_description(path)) if row[0] != "latents"} for path in (sources[kind], back)
        ]
        assert {row for row in belongs[0] if row[0].startswith(("env", "shared", "private", "each"))} <= belongs[1]
        assert ident3d.ImageDataset(back).blocks == ident3d.ImageDataset(sources[kind]).blocks
        assert ident3d.verify(back, show_progress=False).sound
    card = (tmp_path / "declared-back/README.md").read_text()
    assert f"an export of ident3d for {to}" in card
    assert "CC BY 4.0" in card


def test_environments_and_blocks_come_back(sources: dict[str, Path], tmp_path: Path) -> None:
    moving, views = (
        bring(export_to(sources[name], tmp_path / name, "png"), tmp_path / f"{name}-back")
        for name in ("moving", "views")
    )
    images = ident3d.ImageDataset(moving)
    assert images.environments == ("plain", "right")
    for environments in ("within", "across"):
        pairs = ident3d.PairDataset(moving, sigma=0.3, environments=environments).sampler.pairs(range(36))
        label = images.column("environment")
        assert ((label[pairs.anchor] == label[pairs.positive]) == (environments == "within")).all()
    assert "y = 0.5" in ident3d.info(moving).table()
    # Exported again, it says the same once more.
    again = bring(export_to(moving, tmp_path / "more", "png"), tmp_path / "more-back")
    assert ident3d.ImageDataset(again).environments == ("plain", "right")
    edit("latents.csv", ",plain,", ",right,")(tmp_path / "more")
    with pytest.raises(UserError, match="environment of images 0 to 35 is not as"):
        bring(tmp_path / "more", tmp_path / "changed")
    (ours, instance), (theirs, _) = (blocks_of_folder(path / "all_latents.npy") for path in (views, sources["views"]))
    assert ours
    assert ours == theirs
    assert instance is not None
    assert instance.tolist() == np.repeat(range(6), 2).tolist()


def test_shards_of_any_size_and_any_split(sources: dict[str, Path], tmp_path: Path) -> None:
    out = export_to(sources["causal"], tmp_path / "both", "webdataset")
    export_to(sources["test"], out, "webdataset")
    words = ["import", str(out), str(tmp_path / "test"), "--split", "test", "--shard-size", "5", "--workers", "2"]
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["imported"] == 12
    assert json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["imported"] == 0
    assert read_description(tmp_path / "test").settings["source"]["split"] == "test"
    np.testing.assert_array_equal(everything(tmp_path / "test")["images"], everything(sources["test"])["images"])
    assert len(everything(bring(out, tmp_path / "train"))["index"]) == 40


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(out: Path) -> None:
        text = (out / name).read_text()
        assert old in text
        (out / name).write_text(text.replace(old, new))

    return change


def record(**given: object) -> Callable[[Path], None]:
    """The description of somebody who knows how it is signed."""

    def change(out: Path) -> None:
        content = json.loads((out / "dataset.json").read_text())
        content["splits"]["train"] |= given
        del content["digest"]
        (out / "dataset.json").write_text(json.dumps(content | {"digest": digest(content)}))

    return change


def repaint(out: Path) -> None:
    Image.new("RGB", (99, 99)).save(out / "images/00000/00000007.png")


def link(out: Path) -> None:
    (out / "images/00000/00000007.png").unlink()
    (out / "images/00000/00000007.png").symlink_to("00000008.png")


def cut(out: Path) -> None:
    data = (out / "train-00001.tar").read_bytes()
    (out / "train-00001.tar").write_bytes(data[:-2000])


def garble(out: Path) -> None:
    """Other bytes, as many as before."""
    size = (out / "train-00001.tar").stat().st_size
    (out / "train-00001.tar").write_bytes(b"x" * size)


WRONG = [
    ("png", edit("latents.csv", ",Cow,", ",Moose,"), "'Moose', none of Teapot"),
    ("png", edit("latents.csv", ",raw_z,", ",raw_w,"), "lacks raw_z"),
    ("png", edit("latents.csv", "/00000005.png", "/../../secret.png"), "row 6 is not that of images"),
    ("png", edit("latents.csv", "00003.png,3,Cow,", "00003.png,3,Cow,nan"), "cannot be read"),
    ("png", lambda out: (out / "images/00000/00000039.png").unlink(), "00000039.png is missing"),
    ("png", repaint, "99×99 RGB"),
    ("png", link, "is a link"),
    ("png", edit("dataset.json", '"part_size": ', '"part_size": 1'), "was changed after it was written"),
    ("png", record(n=41), "has 40 rows"),
    ("png", record(labels=["class", "secrets"]), "of a wrong kind"),
    ("webdataset", lambda out: (out / "train-00002.tar").unlink(), "train-00002.tar is missing"),
    ("webdataset", cut, "bytes instead of"),
    ("webdataset", garble, "train-00001.tar cannot be read"),
    ("webdataset", record(files={"../train-00000.tar": 9}), "which no export has"),
    ("webdataset", record(part_size=10**9), "3 files for 1"),
]


@pytest.mark.parametrize(("to", "change", "says"), WRONG, ids=[says for _, _, says in WRONG])
def test_what_is_wrong_with_an_export_is_one_sentence(
    to: str, change: Callable[[Path], None], says: str, sources: dict[str, Path], tmp_path: Path
) -> None:
    out = export_to(sources["causal"], tmp_path / "out", to)
    change(out)
    done = CliRunner().invoke(main, ["import", str(out), str(tmp_path / "back"), "--workers", "1", "--json"])
    assert done.exit_code == 2, done.output
    assert says in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1


def test_a_damaged_parquet_file_is_one_sentence(sources: dict[str, Path], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="it comes with the extra hubs")
    out = export_to(sources["causal"], tmp_path / "out", "huggingface")
    file = out / "data/train-00001-of-00003.parquet"
    size, table = file.stat().st_size, parquet.read_table(file)
    file.write_bytes(b"x" * size)
    with pytest.raises(UserError, match="cannot be read"):
        bring(out, tmp_path / "back")
    for k, wrong in enumerate((table.drop_columns("raw_x"), table.slice(1), table.drop_columns("image"))):
        parquet.write_table(wrong, file)
        content = json.loads((out / "dataset.json").read_text())
        files = content["splits"]["train"]["files"] | {"data/train-00001-of-00003.parquet": file.stat().st_size}
        record(files=files)(out)
        with pytest.raises(UserError, match=r"00001-of-00003.parquet cannot be read"):
            bring(out, tmp_path / f"back-{k}")


def test_an_export_is_no_dataset_folder_and_says_so(sources: dict[str, Path], tmp_path: Path) -> None:
    out = export_to(sources["causal"], tmp_path / "out", "png")
    before = files_of(out)
    for words in (["info", str(out)], ["import", str(out), str(out)]):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2
        assert "is an export" in done.stderr
    done = CliRunner().invoke(main, ["import", str(out), str(tmp_path / "new"), "--split", "tset"])
    assert "There is no split 'tset'" in done.stderr
    assert files_of(out) == before
