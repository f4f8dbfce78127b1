"""dSprites: its pictures against published ones and a plain point-in-polygon test, and the folders of them."""

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from matplotlib.path import Path as Polygon
from numpy.typing import NDArray
from PIL import Image, ImageSequence

import ident3d
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.sprites.dsprites import FACTORS, drawn_values, grid_size, grid_values, images
from ident3d.sprites.outlines import HALF_SIDE, SHAPES, SIZE, centre, outline, place
from ident3d.sprites.polygons import crossings

GIF = Path(__file__).parent.parent / "data" / "reference" / "dsprites.gif"
QUIET: dict[str, Any] = {"show_progress": False}


def walk() -> Iterator[tuple[int, ...]]:
    """The places of shape, scale, orientation, posX and posY in their lists, frame by frame."""
    now = dict(zip(FACTORS.names, (2, 0, 0, 0, 0), strict=True))
    scales = [("scale", range(6)), ("scale", range(5, -1, -1)), ("scale", range(6)), ("orientation", range(40))]
    there = [("posY", range(32)), ("posX", range(32)), ("posY", range(31, -1, -1)), ("posX", range(31, -1, -1))]
    for shape in (2, 1, 0):
        now |= {"shape": shape, "orientation": 0}
        for name, places in [*scales, *(there if shape == 2 else []), scales[1]]:
            for now[name] in places:
                yield tuple(now.values())


def files(folder: Path) -> dict[str, bytes]:
    """The files that a dataset's bytes are promised of."""
    names = ["dataset.json", "shards.jsonl", "all_latents.npy", "sample.png"]
    return {path.name: path.read_bytes() for path in [*(folder / n for n in names), *folder.glob("shards/*.h5")]}


def test_the_published_frames_are_met() -> None:
    with Image.open(GIF) as animation:
        frames = np.stack([np.asarray(frame.convert("L")) > 127 for frame in ImageSequence.Iterator(animation)])
    places = np.array(list(walk())).T
    values = np.column_stack([factor.positions[k] for factor, k in zip(FACTORS.factors, places, strict=True)])
    wrong = (images(values) != frames).sum((1, 2))
    assert len(frames) == len(values) == 320
    assert (wrong == 0).sum() >= 318
    assert wrong.sum() <= 4


def test_pixels_are_lit_whose_centre_is_inside() -> None:
    rng = np.random.default_rng(0)
    values = np.column_stack([np.arange(30) % 3, rng.uniform((0.5, 0, 0, 0), (1, 2 * np.pi, 1, 1), (30, 4))])
    column, row = np.meshgrid(np.arange(64) + 0.5, np.arange(64) + 0.5)
    for (shape, s, turn, x, y), image in zip(values, images(values), strict=True):
        dx, dy = column - 16 - 32 * x, row - 16 - 32 * y
        u, v = (np.cos(turn) * dx - np.sin(turn) * dy) / s, (np.sin(turn) * dx + np.cos(turn) * dy) / s
        inside = Polygon(outline(SHAPES[int(shape)])).contains_points(np.column_stack([u.ravel(), v.ravel()]))
        if shape == 0:
            np.testing.assert_array_equal(inside.reshape(64, 64), np.maximum(abs(u), abs(v)) <= HALF_SIDE)
        np.testing.assert_array_equal(image, inside.reshape(64, 64))


def test_images_are_numbered_as_published() -> None:
    assert grid_size(FACTORS) == 737_280
    numbers = np.random.default_rng(0).integers(0, 737_280, 50)
    found = np.concatenate([grid_values(FACTORS, int(i), 1) for i in numbers])
    shape, scale, turn, x, y = FACTORS.indices(FACTORS.to_raw(found)).T
    np.testing.assert_array_equal((((shape * 6 + scale) * 40 + turn) * 32 + x) * 32 + y, numbers)
    # the last orientation is the first again, and has its images
    whole_turn = found.copy()
    found[:, 2], whole_turn[:, 2] = 0, FACTORS.factors[2].positions[-1]
    np.testing.assert_array_equal(images(found), images(whole_turn))
    assert abs(whole_turn[0, 2] - 2 * np.pi) < 1e-12


def test_drawn_values_are_uniform_and_do_not_depend_on_how_many() -> None:
    drawn = drawn_values(FACTORS, 3, "train", 0, 20_000)
    np.testing.assert_array_equal(drawn_values(FACTORS, 3, "train", 700, 5), drawn[700:705])
    assert not np.array_equal(drawn_values(FACTORS, 3, "test", 0, 100), drawn[:100])
    for column, factor in zip(FACTORS.indices(FACTORS.to_raw(drawn)).T, FACTORS.factors, strict=True):
        m = len(factor.values)
        due = 20_000 / m
        squares = ((np.bincount(column, minlength=m) - due) ** 2 / due).sum()
        assert squares < m + 5 * np.sqrt(2 * m)


def test_a_part_of_the_grid_is_a_full_grid(tmp_path: Path) -> None:
    kept: dict[str, Any] = {"shape": ["heart", "square"], "scale": [1, 0.7], "orientation": 0, "posX": (0, 1)}
    made = ident3d.dsprites(tmp_path / "one", where=kept, workers=1, shard_size=50, **QUIET)
    assert (made.n, made.generated) == (256, 256)
    data = ident3d.ImageDataset(tmp_path / "one")
    assert [len(factor.values) for factor in data.factors.factors] == [2, 2, 1, 2, 32]
    assert data.factors.factors[0].values == ("square", "heart")
    shape, scale, _, x, y = data.factors.indices(data.latents(range(256))).T
    np.testing.assert_array_equal(((shape * 2 + scale) * 2 + x) * 32 + y, range(256))
    values = np.column_stack([2 * shape, np.array([0.7, 1])[scale], 0 * x, x, y / 31])
    np.testing.assert_array_equal(data.images(range(256))[..., 0], 255 * images(values))
    assert ident3d.verify(tmp_path / "one", **QUIET).sound
    ident3d.dsprites(tmp_path / "two", where=kept, workers=2, shard_size=50, **QUIET)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    shown = ident3d.info(tmp_path / "one").table()
    card = (tmp_path / "one" / "README.md").read_text()
    assert all(fact in text for fact in ("dSprites", "Apache-2.0", "generated") for text in (shown, card))


def test_an_interrupted_and_a_grown_folder_are_as_one_made_at_once(tmp_path: Path) -> None:
    more: dict[str, Any] = {"seed": 1, "split": "test", "shard_size": 20, "workers": 1, **QUIET}
    ident3d.dsprites(tmp_path / "once", n=70, **more)
    assert ident3d.dsprites(tmp_path / "grown", n=30, **more).generated == 30
    assert ident3d.dsprites(tmp_path / "grown", n=70, **more).generated == 50
    assert files(tmp_path / "grown") == files(tmp_path / "once")
    (tmp_path / "grown" / "shards" / "00001.h5").unlink()
    assert ident3d.dsprites(tmp_path / "grown", n=70, **more).generated == 20
    assert files(tmp_path / "grown") == files(tmp_path / "once")
    with pytest.raises(UserError, match="seed"):
        ident3d.dsprites(tmp_path / "grown", n=70, **(more | {"seed": 2}))


def test_latents_of_ones_own(tmp_path: Path) -> None:
    between = np.array([[0, 0.55, 0.1, 0.5, 0.5], [2, 1, 6, 0, 1.0]])
    ident3d.dsprites(tmp_path / "between", latents=between, workers=1, **QUIET)
    data = ident3d.ImageDataset(tmp_path / "between")
    assert [factor.values == () for factor in data.factors.factors] == [False, True, True, True, True]
    np.testing.assert_array_equal(data.images([0, 1])[..., 0], 255 * images(between))
    np.testing.assert_allclose(data.factors.to_scene(data.latents([0, 1])), between, rtol=1e-6)
    np.save(tmp_path / "z.npy", grid_values(FACTORS, 5000, 3).astype(np.float32))
    words = ["sprites", "dsprites", "--out", str(tmp_path / "of"), "--latents", str(tmp_path / "z.npy"), "--json"]
    done = CliRunner().invoke(main, [*words, "--workers", "1"])
    assert done.exit_code == 0, done.output
    data = ident3d.ImageDataset(tmp_path / "of")
    assert data.factors == FACTORS
    np.testing.assert_array_equal(data.images(range(3))[..., 0], 255 * images(grid_values(FACTORS, 5000, 3)))


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"where": {"colour": 1}}, "colour"),
        ({"where": {"shape": "star"}}, "star.*heart"),
        ({"where": {"shape": 1}}, "heart"),
        ({"where": {"scale": [0.5, 0.55]}}, "0.55.*0.6"),
        ({"where": {"posX": "left"}}, "left"),
        ({"where": {"posX": []}}, "posX"),
        ({"n": 0}, "0"),
        ({"n": 5, "seed": -1}, "seed.*-1"),
        ({"seed": 2**64}, "seed"),
        ({"workers": 0}, "worker"),
        ({"split": "all"}, "all"),
        ({"latents": np.zeros((3, 4))}, "5"),
        ({"latents": np.zeros(5)}, "5"),
        ({"latents": [[3, 1, 0, 0, 0]]}, "shape"),
        ({"latents": [[0, 0.4, 0, 0, 0]]}, "scale.*0.4"),
        ({"latents": [[0, np.nan, 0, 0, 0]]}, "nan"),
        ({"latents": [[0, 1, 0, 0, 0]], "n": 1}, "n"),
    ],
)
def test_what_cannot_be_generated(given: dict[str, Any], facts: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=facts):
        ident3d.dsprites(tmp_path / "out", **{"workers": 1, **QUIET, **given})
    assert not (tmp_path / "out").exists()


def test_a_factor_that_is_named_twice_keeps_the_values_of_both(tmp_path: Path) -> None:
    words = ["sprites", "dsprites", "--out", str(tmp_path / "two"), "--where", "posX=0,1", "--where", "shape=heart"]
    words += ["--where", "posY=0", "--where", "orientation=0", "--where", "shape=square", "--workers", "1", "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    data = ident3d.ImageDataset(tmp_path / "two")
    assert (len(data), data.factors.factors[0].values) == (2 * 6 * 2, ("square", "heart"))
    # There is no --fresh for what is not rendered.
    done = CliRunner().invoke(main, [*words, "--n", "3"])
    assert done.exit_code == 2
    assert "--fresh" not in done.stderr


@pytest.mark.slow
def test_no_pixel_centre_is_near_an_outline() -> None:
    """So the last bit of a sine cannot change a pixel: the whole set is equal on every machine."""
    scales, turns, positions = (factor.positions for factor in FACTORS.factors[1:4])
    nearest = 1.0
    for shape in SHAPES:
        for scale in scales:
            down, turn = np.meshgrid(positions, turns)
            outlines = place(shape, np.full(down.size, scale), turn.ravel(), down.ravel())
            found = crossings(outlines, SIZE)
            along = found[np.isfinite(found)]
            for distance in (outlines[..., 1] - 0.5, *(along + c - 0.5 for c in centre(positions))):
                nearest = min(nearest, float(np.abs(distance - np.rint(distance)).min()))
    print(f"nearest: {nearest:.2e} pixels")
    assert nearest > 1e-8


@pytest.mark.slow
def test_the_whole_set(tmp_path: Path) -> None:
    spent = {}
    for workers in (2, 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = ["-m", "ident3d", "sprites", "dsprites", "--out", str(tmp_path / f"{workers}"), "--json"]
        subprocess.run([sys.executable, *words, "--workers", str(workers)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent[workers] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert files(tmp_path / "2") == files(tmp_path / "1")
    size = sum(path.stat().st_size for path in (tmp_path / "2").rglob("*") if path.is_file())
    began = time.process_time()
    data = ident3d.ImageDataset(tmp_path / "2")
    first: tuple[Any, Any] = data[list(range(0, 737_280, 11_520))]
    opened = time.process_time() - began
    print(f"CPU seconds by workers: {spent}; {size / 1e6:.1f} MB; opened with 64 images in {opened:.2f}")
    assert max(spent.values()) < 600
    assert size < 80e6
    assert opened < 1
    assert isinstance(first[1], torch.Tensor)
    pixels: NDArray[np.uint8] = first[1].numpy()
    np.testing.assert_array_equal(pixels[5, 0], 255 * images(grid_values(FACTORS, 5 * 11_520, 1))[0])
