"""Exports run again, or over what a crash has left; terms of several splits; what strangers may have written."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from exported_sets import everything, export_to, files_of

import ident3d
from ident3d import Factor
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.exports import reading
from ident3d.loaders.exports.parts import reader_of_shards
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.description import digest


def sign(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what is recorded of the split train, as somebody does who knows how it is signed."""
    content = json.loads((out / "dataset.json").read_text())
    del content["digest"]
    change(content["splits"]["train"])
    (out / "dataset.json").write_text(json.dumps(content | {"digest": digest(content)}))


def test_a_file_that_was_cut_short_is_written_again(sources: dict[str, Path], tmp_path: Path) -> None:
    out = export_to(sources["causal"], tmp_path / "out", "webdataset")
    due = files_of(out)
    (out / "train-00001.tar").write_bytes(due["train-00001.tar"][:3000])
    assert ident3d.export_to(sources["causal"], out, "webdataset", part_size=16, show_progress=False).written == 16
    assert files_of(out) == due


def test_a_shard_is_read_once_for_all_files_in_it(sources: dict[str, Path]) -> None:
    folder = open_folder(sources["declared"])
    read, (first, second, *_) = reader_of_shards(folder), folder.entries
    kept = read(first)
    assert read(first) is kept
    assert read(second) is read(second)
    assert read(first) is not kept  # one is in memory


@pytest.mark.parametrize("published", [False, True])
def test_pictures_that_a_crash_left_are_written_again(
    published: bool, sources: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def again() -> int:
        if published:
            return ident3d.export(sources["declared"], out, show_progress=False).written
        return ident3d.export_to(sources["declared"], out, "png", show_progress=False).written

    if published:
        # A finished export of this layout takes no more; one that was killed does.
        due = files_of(ident3d.export(sources["declared"], tmp_path / "due", show_progress=False).path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ident3d.loaders.exports.exporting.remove", lambda *_: None)
            assert again() == 37
    else:
        assert again() == 37
        due = files_of(out)
    empty, cut, link, *_ = sorted(out.rglob("*.png"))[1:]
    empty.write_bytes(b"")
    cut.write_bytes(cut.read_bytes()[:-5])
    link.unlink()
    link.symlink_to("elsewhere.png")
    assert again() == 3
    assert files_of(out) == due


def test_a_second_run_keeps_the_terms_and_each_split_has_its_own(sources: dict[str, Path], tmp_path: Path) -> None:
    out = export_to(sources["causal"], tmp_path / "out", "webdataset", licence="mit", citation="We, 2026")
    export_to(sources["causal"], out, "webdataset")
    card = (out / "README.md").read_text()
    assert "license: mit\n" in card
    assert "- citation: We, 2026\n" in card
    export_to(sources["test"], out, "webdataset", licence="ours alone")
    yaml = pytest.importorskip("yaml")
    front = yaml.safe_load((out / "README.md").read_text().split("---\n")[1])
    assert front["license"] == ["mit", "other"]
    assert front["license_name"] == "ours alone"
    assert "- licence: mit (train)\n- licence: ours alone (test)\n" in (out / "README.md").read_text()


def test_a_licence_of_the_second_split_reaches_the_card(sources: dict[str, Path], tmp_path: Path) -> None:
    out = export_to(sources["causal"], tmp_path / "out", "webdataset")
    assert "license: unknown\n" in (out / "README.md").read_text()
    export_to(sources["test"], out, "webdataset", licence="mit")
    card = (out / "README.md").read_text()
    assert "license: mit\n" in card
    assert "- licence: mit (test)\n" in card


def test_names_stay_in_their_cell(tmp_path: Path) -> None:
    odd = Factor('a "b"', "categorical", values=("x|y", "z\n## Columns\n"))
    ident3d.from_arrays(
        np.zeros((4, 8, 8), np.uint8), [[0], [1], [0], [1]], tmp_path / "odd", factors=[odd], show_progress=False
    )
    card = (export_to(tmp_path / "odd", tmp_path / "out", "png") / "README.md").read_text()
    columns = card.partition("## Columns\n")[2]
    assert "categorical: x\\|y, z ## Columns |\n" in columns
    assert 'table["a \\"b\\""]' in card


def rewritten(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Path], None]:
    """The first tar file with other rows, signed."""

    def write(out: Path) -> None:
        tar = out / "train-00000.tar"
        with tarfile.open(tar) as archive:
            files = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
        with tarfile.open(tar, "w") as archive:
            for name, data in files.items():
                new = json.dumps(change(json.loads(data))).encode() if name.endswith(".json") else data
                member = tarfile.TarInfo(name)
                member.size = len(new)
                archive.addfile(member, io.BytesIO(new))
        sign(out, lambda split: split["files"].update({tar.name: tar.stat().st_size}))

    return write


STRANGE = [
    (rewritten(lambda row: row | {"class": ["Cow"]}), "class of image 0 is ['Cow'], which is none"),
    (rewritten(lambda row: row | {"class": {}}), "class of image 0 is {}, which is none"),
    (rewritten(lambda row: row | {"x": 1e300}), "x has a number that is too large"),
    (rewritten(lambda row: row | {"x": row["x"] + 0.01}), "by its raw latent"),
    (lambda out: sign(out, lambda split: split.update(origin={})), "of a wrong kind"),
    (lambda out: sign(out, lambda split: split.update(labels=["class", "class"])), "of a wrong kind"),
]


@pytest.mark.parametrize(("change", "says"), STRANGE)
def test_what_strangers_wrote_is_one_sentence(
    change: Callable[[Path], None], says: str, sources: dict[str, Path], tmp_path: Path
) -> None:
    out = export_to(sources["causal"], tmp_path / "out", "webdataset")
    change(out)
    done = CliRunner().invoke(main, ["import", str(out), str(tmp_path / "back"), "--workers", "1", "--json"])
    assert done.exit_code == 2, done.output
    assert says in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1


def test_one_picture_in_many_rows_fills_no_memory(
    sources: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow = pytest.importorskip("pyarrow", reason="it comes with the extra hubs")
    out = export_to(sources["causal"], tmp_path / "out", "huggingface")
    file = out / "data/train-00000-of-00003.parquet"
    table = arrow.parquet.read_table(file)
    type_of_image = table.schema.field("image").type
    pictures = arrow.array([{"bytes": b"x" * 50_000, "path": "a"}] * 16, type_of_image)
    arrow.parquet.write_table(table.set_column(0, "image", pictures), file)
    size = file.stat().st_size
    assert size < 100_000
    sign(out, lambda split: split["files"].update({"data/" + file.name: size}))
    # 800 kB of pictures from a file of 60 kB, with a limit between the two.
    monkeypatch.setattr(reading, "LARGEST_GROUP", 2 * size)
    with pytest.raises(UserError, match="a group of its rows has more than"):
        ident3d.import_(out, tmp_path / "back", show_progress=False)


def test_pictures_that_are_texts_are_one_sentence(sources: dict[str, Path], tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="it comes with the extra hubs")
    out = export_to(sources["causal"], tmp_path / "out", "huggingface")
    file = out / "data/train-00000-of-00003.parquet"
    table = arrow.parquet.read_table(file)
    arrow.parquet.write_table(table.set_column(0, "image", arrow.array([{"bytes": "x"}] * 16)), file)
    sign(out, lambda split: split["files"].update({"data/" + file.name: file.stat().st_size}))
    with pytest.raises(UserError, match="its pictures are no bytes"):
        ident3d.import_(out, tmp_path / "back", show_progress=False)


def test_angles_that_are_a_turn_apart_are_one(tmp_path: Path) -> None:
    """Values in scene units are kept as they were given, though raw latents are within one turn, and rounded."""
    turn, far = Factor("turn", "periodic", range=(0, 360)), Factor("far", range=(1e6, 1e6 + 1))
    z = np.array([[0, 1e6], [360, 1e6 + 1], [725, 1e6 + 0.3], [-90, 1e6 + 0.7]])
    ident3d.from_arrays(np.zeros((4, 8, 8), np.uint8), z, tmp_path / "z", factors=[turn, far], show_progress=False)
    back = ident3d.import_(export_to(tmp_path / "z", tmp_path / "out", "png"), tmp_path / "back", show_progress=False)
    ours, theirs = everything(tmp_path / "z"), everything(back.path)
    for name in ("raw_latents", "scene_latents"):
        np.testing.assert_array_equal(ours[name], theirs[name])
