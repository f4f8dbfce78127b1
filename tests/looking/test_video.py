"""Sequences as moving pictures and as rows of a sheet: each frame where it belongs, in any order of the images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import ident3d
from ident3d import Factor, Factors
from ident3d.cli import main
from ident3d.looking import video
from ident3d.looking.pictures import caption

LENGTHS = (3, 1, 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight images of sequences 5, 7 and 9, shuffled; image k of the film has the level 10 + 30 k."""
    order = np.random.default_rng(0).permutation(8)
    levels = np.arange(10, 250, 30, dtype=np.uint8)
    images = np.repeat(levels[order], 8 * 8 * 3).reshape(8, 8, 8, 3)
    sequence = np.repeat([5, 7, 9], LENGTHS)[order]
    frame = np.concatenate([np.arange(n) for n in LENGTHS])[order]
    z = np.linspace(-1, 1, 8)[order][:, None]
    columns = {"sequence": sequence, "frame": frame}
    ident3d.from_arrays(images, z, tmp_path / "film", columns=columns, show_progress=False)
    return tmp_path / "film"


def levels_of(path: Path) -> list[int]:
    with Image.open(path) as film:
        found = []
        for k in range(film.n_frames):  # type: ignore[attr-defined]
            film.seek(k)
            found.append(int(np.asarray(film.convert("RGB"))[4, 4, 0]))
        return found


@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_each_sequence_is_a_file_with_its_frames(kind: str, folder: Path, tmp_path: Path) -> None:
    done = ident3d.export_video(folder, tmp_path / "out", kind=kind, fps=5, show_progress=False)
    assert (done.n, done.written) == (8, 3)
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == [f"{k}.{kind}" for k in range(3)]
    assert [levels_of(file) for file in files] == [[10, 40, 70], [100], [130, 160, 190, 220]]
    with Image.open(files[0]) as film:
        film.load()
        assert film.info["duration"] == 200


def test_an_export_continues_and_refuses_other_folders(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ident3d.export_video(folder, out, count=2, show_progress=False)
    with pytest.raises(ident3d.UserError, match="already holds"):
        ident3d.export_video(folder, out, show_progress=False)
    assert len(list(out.iterdir())) == 2


def test_an_interrupted_export_continues_with_the_same_settings_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, make = tmp_path / "out", video.moving

    def interrupted(pictures: Sequence[Image.Image], kind: str, fps: float) -> bytes:
        if len(pictures) == LENGTHS[1]:
            raise KeyboardInterrupt
        return make(pictures, kind, fps)

    monkeypatch.setattr(video, "moving", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ident3d.export_video(folder, out, show_progress=False)
    monkeypatch.setattr(video, "moving", make)
    for other in ({"fps": 5.0}, {"kind": "webp"}):
        with pytest.raises(ident3d.UserError, match="already holds"):
            ident3d.export_video(folder, out, show_progress=False, **other)  # type: ignore[arg-type]
    assert ident3d.export_video(folder, out, show_progress=False).written == 2
    assert sorted(file.name for file in out.iterdir()) == ["0.gif", "1.gif", "2.gif"]


def test_sequences_side_by_side(folder: Path, tmp_path: Path) -> None:
    words = ["export", str(folder), str(tmp_path / "film.webp"), "--video", "webp"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    with Image.open(tmp_path / "film.webp") as film:
        assert film.n_frames == 4  # type: ignore[attr-defined]
        film.seek(3)
        last = np.asarray(film.convert("L"))
    # the last frame of each, also of those that ended before
    assert set(np.unique(last)) == {70, 100, 220, 255}


def test_a_row_for_each_sequence(folder: Path) -> None:
    sheet = np.asarray(ident3d.preview(folder, by_sequence=True, columns=4).convert("L")).astype(int)
    rows = [[v for v in row if v in range(10, 221, 30)] for row in sheet]
    found = {tuple(dict.fromkeys(row)) for row in rows if len(set(row)) > 0 and len(row) >= 128}
    assert {(10, 40, 70), (100,), (130, 160, 190, 220)} <= found


def test_a_row_has_all_frames_of_a_sequence_and_categories_have_names(tmp_path: Path) -> None:
    factors = (Factor("x", range=(-1, 1)), Factor("shape", "categorical", values=("ball", "cube")))
    z = np.column_stack([np.linspace(-1, 1, 16), np.arange(16) % 2])
    images, columns = np.zeros((16, 8, 8, 3), np.uint8), {"sequence": np.arange(16) // 8, "frame": np.arange(16) % 8}
    ident3d.from_arrays(images, z, tmp_path / "eight", factors=factors, columns=columns, show_progress=False)
    sheet = ident3d.preview(tmp_path / "eight", by_sequence=True)
    assert sheet.width > 8 * 128
    assert sheet.height < 3 * 128
    assert ident3d.preview(tmp_path / "eight").width < 7 * 128 + 100
    assert caption(Factors(factors), np.array([0.5, 1], np.float32)) == "x +0.50   shape cube"
    assert ident3d.preview(tmp_path / "eight", by_sequence=True, with_latents=True).height > sheet.height


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["out", "--video", "mp4"], "mp4"),
        (["out.gif", "--video", "webp"], ".webp"),
        (["out", "--video", "gif", "--fps", "1000"], "1000"),
        (["out", "--video", "gif", "--sequences", "0"], "not 0"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(words: list[str], said: str, folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["export", str(folder), str(tmp_path / words[0]), *words[1:]])
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / words[0]).exists()


def test_images_without_sequences_are_said_to_have_none(tmp_path: Path) -> None:
    images = np.zeros((4, 8, 8), np.uint8)
    ident3d.from_arrays(images, np.arange(4)[:, None], tmp_path / "still", show_progress=False)
    for show in (lambda p: ident3d.preview(p, by_sequence=True), lambda p: ident3d.export_video(p, tmp_path / "x")):
        with pytest.raises(ident3d.UserError, match="no sequences"):
            show(tmp_path / "still")
