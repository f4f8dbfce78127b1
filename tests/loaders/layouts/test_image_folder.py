"""A folder of pictures with a folder for each class becomes a dataset folder of squares."""

from pathlib import Path

import numpy as np
import pytest
from capped import capped
from click.testing import CliRunner
from PIL import Image

from ident3d import ImageDataset, from_image_folder, verify
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.layouts.image_folder import square


def make_pictures(folder: Path, classes: int, each: int = 2) -> Path:
    for kind in range(classes):
        (folder / f"n{kind:04}").mkdir(parents=True)
        for k in range(each):
            # Grey at the ends, and the class's own level in the middle square.
            pixels = np.full((8, 16, 3), 9, np.uint8)
            pixels[:, 4:12] = 100 + 10 * (kind % 10)
            Image.fromarray(pixels).save(folder / f"n{kind:04}" / f"{k}.png")
    return folder


def test_the_middle_of_each_picture_is_kept_and_classes_take_turns(tmp_path: Path) -> None:
    source = make_pictures(tmp_path / "pictures", 3)
    Image.new("L", (20, 30), 120).save(source / "n0002" / "1.JPEG")
    (source / "n0001" / "notes.txt").write_text("no picture")
    done = CliRunner().invoke(main, ["import", "--folder", str(source), str(tmp_path / "out"), "--size", "4"])
    assert done.exit_code == 0, done.output
    data = ImageDataset(tmp_path / "out")
    assert (data.size, len(data), data.factors.classes) == (4, 7, ("n0000", "n0001", "n0002"))
    classes = data.all_latents()[1]
    assert classes is not None
    assert classes.tolist() == [0, 1, 2, 0, 1, 2, 2]
    # Next to the edge bicubic weights add a level or two.
    np.testing.assert_allclose(data.images(np.arange(7))[:, 2, 2, 0], 100 + 10.0 * classes, atol=3)
    assert verify(tmp_path / "out", show_progress=False).sound


def test_the_square_is_that_of_the_whole_picture_made_smaller(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for height, width in ((41, 97), (97, 41), (7, 300), (5, 5)):
        picture = Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))
        picture.save(tmp_path / "0.png")
        small = [max(16, round(side * 16 / min(picture.size))) for side in picture.size]
        left, top = ((side - 16) // 2 for side in small)
        whole = picture.resize((small[0], small[1]), Image.Resampling.BICUBIC)
        middle = np.asarray(whole.crop((left, top, left + 16, top + 16)), int)
        # Pillow keeps the ends of a box with seven digits.
        np.testing.assert_allclose(square(tmp_path / "0.png", 16), middle, atol=1)


def test_a_long_thin_picture_takes_no_more_memory_than_another(tmp_path: Path) -> None:
    """318 bytes, which made as wide as 224 pixels would be 13 million long."""
    Image.new("RGB", (1, 60_000), (7, 8, 9)).save(tmp_path / "thin.png")
    code = """
from ident3d.loaders.layouts.image_folder import square
cap()
attempt(lambda path: square(Path(path), 224)[100, 100].tolist(), sys.argv[1])
"""
    assert capped(code, tmp_path / "thin.png") == ["result [7, 8, 9]"]


def test_grey_of_16_bits_is_refused_and_what_is_transparent_is_black(tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 8), 300, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(UserError, match=r"deep\.png.*8 bits"):
        square(tmp_path / "deep.png", 4)
    for mode, clear, full in (("RGBA", (250, 0, 0, 0), (250, 0, 0, 255)), ("LA", (250, 0), (250, 255))):
        picture = Image.new(mode, (8, 8), full)
        picture.paste(clear, (0, 0, 4, 8))
        picture.save(tmp_path / "half.png")
        assert square(tmp_path / "half.png", 8)[0, ::7, 0].tolist() == [0, 250]


@pytest.mark.parametrize("linked", ["n0001", "n0001/0.png"])
def test_links_are_not_followed(linked: str, tmp_path: Path) -> None:
    make_pictures(tmp_path / "outside", 2)
    source = make_pictures(tmp_path / "pictures", 1)
    (source / linked).parent.mkdir(exist_ok=True)
    (source / linked).symlink_to(tmp_path / "outside" / linked)
    with pytest.raises(UserError, match=f"{linked} is a link"):
        from_image_folder(source, tmp_path / "out", size=4, workers=1, show_progress=False)
    assert not (tmp_path / "out").exists()


def test_as_many_classes_as_imagenet_has(tmp_path: Path) -> None:
    source = make_pictures(tmp_path / "pictures", 300, each=1)
    made = from_image_folder(source, tmp_path / "out", size=2, workers=1, show_progress=False)
    for folder in (made.path, made.path):
        classes = ImageDataset(folder).all_latents()[1]
        assert classes is not None
        np.testing.assert_array_equal(classes, np.arange(300))
        # The second time without the table: from the shards.
        (made.path / "all_latents.npy").unlink(missing_ok=True)
    with pytest.raises(UserError, match="n0000"):
        from_image_folder(source, tmp_path / "few", class_names=["n0001"], workers=1, show_progress=False)


def test_an_interrupted_import_goes_on_and_other_pictures_do_not(tmp_path: Path) -> None:
    source = make_pictures(tmp_path / "pictures", 2)
    last = source / "n0001" / "1.png"
    whole = last.read_bytes()
    # What is no picture is found before any is decoded, and what is cut off when it is its turn.
    last.write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"1\.png.*no JPEG or PNG"):
        from_image_folder(source, tmp_path / "out", size=4, shard_size=1, workers=1, show_progress=False)
    assert not (tmp_path / "out").exists()
    last.write_bytes(whole[:-30])
    with pytest.raises(UserError, match=r"1\.png"):
        from_image_folder(source, tmp_path / "out", size=4, shard_size=1, workers=1, show_progress=False)
    assert (tmp_path / "out/shards/00000.h5").is_file()
    Image.new("RGB", (8, 8)).save(last)
    with pytest.raises(UserError, match="files_sha256"):
        from_image_folder(source, tmp_path / "out", size=4, shard_size=1, workers=1, show_progress=False)


def test_a_test_set_takes_the_classes_of_another_set(tmp_path: Path) -> None:
    make_pictures(tmp_path / "train", 3)
    (tmp_path / "few").mkdir()
    (make_pictures(tmp_path / "test", 2) / "n0001").rename(tmp_path / "few" / "n0001")
    for source, *more in (("train",), ("few", "--split", "test", "--like", str(tmp_path / "train-set"))):
        words = ["import", "--folder", str(tmp_path / source), str(tmp_path / f"{source}-set"), "--size", "4", *more]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    few = ImageDataset(tmp_path / "few-set")
    assert few.factors.classes == ("n0000", "n0001", "n0002")
    assert few.all_latents()[1].tolist() == [1, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--folder", "nowhere"], "nowhere"),
        (["--folder", "."], "no folder with pictures"),
        (["--folder", ".", "--size", "0"], "--size"),
        (["--folder", ".", "--names", "x"], "--names"),
        (["--arrays", "a.npy", "none", "--size", "4"], "--size"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["import", *words, str(tmp_path / "out")])
    assert (done.exit_code, says in done.output, done.output.count("\n")) == (2, True, 1), done.output
