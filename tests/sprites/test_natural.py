"""Natural Sprites: their pictures against the public renderer's, their transitions, and the folders of them."""

import os
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import ident3d
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.sprites.canvas import SHAPES, draw
from ident3d.sprites.natural import choose_images
from ident3d.sprites.transitions import read_transitions

REFERENCE = Path(__file__).parent.parent / "data" / "reference" / "natural_sprites.npz"
QUIET: dict[str, Any] = {"show_progress": False}
Floats = NDArray[np.float64]


def random_table(objects: int = 12, times: int = 7) -> list[list[list[tuple[float, float, int] | None] | None]]:
    """Objects that walk through three windows, and are sometimes not seen at all, or not in a window."""
    rng = np.random.default_rng(3)
    table = []
    for _ in range(objects):
        row, column, area = rng.uniform(5, 58), rng.uniform(5, 58), rng.uniform(30, 900)
        cells: list[list[tuple[float, float, int] | None] | None] = []
        for _ in range(times):
            row, column = (np.clip(v + rng.laplace(0, 1.4), 0, 63) for v in (row, column))
            area = np.clip(area * rng.uniform(0.9, 1.1), 1, 4000)
            seen: list[tuple[float, float, int] | None] = [
                (row, float(column) / (k + 1), int(area)) if rng.uniform() < 0.8 else None for k in range(3)
            ]
            cells.append(seen if rng.uniform() < 0.8 else None)
        table.append(cells)
    return table


def write_table(path: Path, table: list[list[list[tuple[float, float, int] | None] | None]]) -> Path:
    lines = ["id,cat_id," + ",".join(f"t_{k}" for k in range(len(table[0])))]
    for number, cells in enumerate(table):
        texts = ["" if seen is None else '"[' + ", ".join(map(plain, seen)) + ']"' for seen in cells]
        lines.append(f"{number},{number % 5}," + ",".join(texts))
    path.write_text("\r\n".join(lines) + "\r\n")
    return path


def plain(window: tuple[float, float, int] | None) -> str:
    return "None" if window is None else f"({float(window[0])!r}, {float(window[1])!r}, {window[2]})"


def pairs_of(table: list[list[list[tuple[float, float, int] | None] | None]]) -> tuple[Floats, int]:
    """x, y and area at both times, as the definition says, and how many pairs there were before the filter."""
    found = []
    for cells in table:
        for before, after in pairwise(cells):
            for k in range(3):
                if before and after and (one := before[k]) and (other := after[k]):
                    found.append([(one[1], one[0], one[2]), (other[1], other[0], other[2])])
    every = np.array(found, np.float64)
    inside = np.ones(len(every), np.bool_)
    for time in (0, 1):
        area = every[:, time, 2]
        inside &= (area >= np.quantile(area, 0.05)) & (area <= np.quantile(area, 0.95))
    return every[inside], len(every)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("table") / "some.csv", random_table())


@pytest.fixture(scope="module")
def masks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of KITTI Masks: rectangles of our own, as the published pickle holds them."""
    rng, sequences, latents = np.random.default_rng(0), [], []
    for length in (9, 2, 1, 14):
        frames, rows = np.zeros((length, 64, 64), np.bool_), np.empty((length, 3), np.float32)
        for t in range(length):
            height, width = rng.integers(4, 16, 2)
            frames[t, 20 + t : 20 + t + height, 5 + t : 5 + t + width] = True
            rows[t] = 20 + t + (height - 1) / 2, 5 + t + (width - 1) / 2, height * width
        sequences.append(frames)
        latents.append(rows)
    place = tmp_path_factory.mktemp("masks")
    (place / "own.pickle").write_bytes(pickle.dumps({"pedestrians": sequences, "pedestrians_latents": latents}))
    with pytest.warns(UserWarning, match="4 sequences"):
        ident3d.import_(place / "own.pickle", place / "kitti", data="kitti-masks", workers=1, **QUIET)
    return place / "kitti"


def test_sprites_are_drawn_as_by_the_public_renderer() -> None:
    """The reference was drawn by Spriteworld 1.0.2 with Pillow 13.0.0."""
    with np.load(REFERENCE) as reference:
        values, theirs = reference["values"], reference["images"]
    assert len(values) == 400
    off = np.abs(draw(values).astype(int) - theirs)
    # Pillow 9 covers other pixels at the edges of a polygon: of 4,000 sprites, 521 differ then, by 11 at most.
    if PIL.__version__.startswith("13."):
        assert not off.any()
    assert off.max() <= 11
    # A sprite within the picture has the area that its scale says.
    middle = np.array([[0.5, 0.5, 0.3, 45.0, k] for k in range(4)])
    np.testing.assert_allclose(draw(middle).mean((1, 2)) / 255, 0.09, rtol=0.05)


def test_a_table_gives_the_transitions_of_its_definition(table: Path) -> None:
    found = read_transitions(table)
    steps, every = pairs_of(random_table())
    np.testing.assert_array_equal(found.steps, steps)
    assert found.found == every > len(steps) > 50
    assert "some.csv" in found.name
    assert f"{every:,}" in found.origin["source"]
    assert "234,652" in found.origin["source"]


def test_discrete_values_are_the_nearest_centres_of_bins(table: Path) -> None:
    steps, _ = pairs_of(random_table())
    choice = choose_images(read_transitions(table), "discrete", None, None, 0, "train", None)
    values = choice.values(0, choice.n).reshape(len(steps), 2, 5)
    for k, bins in enumerate((32, 32, 6)):
        column = steps[..., k]
        edges = np.linspace(column.min(), column.max(), bins + 1)
        centres = (edges[:-1] + edges[1:]) / 2
        nearest = np.abs(column[..., None] - centres).argmin(-1)
        due = centres[nearest] / 64 if k < 2 else np.sqrt(centres[nearest]) / 64
        np.testing.assert_allclose(values[..., k], due, rtol=1e-12)
        np.testing.assert_array_equal(choice.factors.indices(choice.factors.to_raw(values[:, 0]))[:, k], nearest[:, 0])
    np.testing.assert_array_equal(values[:, 0, 3:], values[:, 1, 3:])
    angle, shape = values[:, 0, 3] / 9, values[:, 0, 4]
    assert set(shape) == {0, 1, 2, 3}
    assert set(angle) <= set(range(40))
    assert len(set(angle)) > 20


def test_drawn_pairs_are_uniform_and_do_not_depend_on_how_many(table: Path) -> None:
    found = read_transitions(table)
    few, many = (choose_images(found, "continuous", None, n, 7, "train", None) for n in (20, 40_000))
    drawn = many.values(0, 40_000)
    np.testing.assert_array_equal(few.values(3, 9), drawn[3:12])
    steps, _ = pairs_of(random_table())
    places = drawn[::2, 3] / 9 * 4 + drawn[::2, 4]
    due = 20_000 / 160
    assert ((np.bincount(places.astype(int), minlength=160) - due) ** 2 / due).sum() < 160 + 5 * np.sqrt(320)
    firsts = np.unique(drawn[::2, :3], axis=0, return_counts=True)[1]
    assert len(firsts) == len(np.unique(steps[:, 0], axis=0))
    other = choose_images(found, "continuous", None, 20, 7, "test", None)
    assert not np.array_equal(other.values(0, 20), drawn[:20])


def test_a_folder_of_pairs_serves_the_rule_time(table: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"seed": 1, "shard_size": 64, **QUIET}
    made = ident3d.natural_sprites(tmp_path / "one", table, workers=1, **more)
    steps, _ = pairs_of(random_table())
    assert made.n == made.generated == 2 * len(steps)
    data = ident3d.ImageDataset(tmp_path / "one")
    assert (data.size, data.shape, data.names) == (64, (64, 64, 3), ("x", "y", "scale", "angle", "shape"))
    assert [len(factor.values) for factor in data.factors.factors] == [32, 32, 6, 40, 4]
    np.testing.assert_array_equal(data.column("sequence"), np.arange(made.n) // 2)
    np.testing.assert_array_equal(data.column("frame"), np.arange(made.n) % 2)
    values = data.factors.to_scene(data.latents(range(made.n))).astype(np.float64)
    grey = data.images(range(made.n))
    assert (grey == grey[..., :1]).all()
    # Latents are kept in single precision, and a vertex may fall to the other side of the edge of a pixel.
    assert (np.abs(draw(values).astype(int) - grey[..., 0]).max((1, 2)) == 0).mean() > 0.95
    pairs = ident3d.PairDataset(data, rule="time", max_lag=1)
    drawn = pairs.sampler.pairs(np.arange(200))
    assert (drawn.anchor % 2 == 0).all()
    np.testing.assert_array_equal(drawn.positive, drawn.anchor + 1)
    assert ident3d.verify(tmp_path / "one", **QUIET).sound
    # An interrupted folder, made on with other workers, has the same bytes.
    ident3d.natural_sprites(tmp_path / "two", table, workers=1, **more)
    (tmp_path / "two" / "shards" / "00001.h5").unlink()
    (tmp_path / "two" / "shards" / "00000.h5").unlink()
    assert ident3d.natural_sprites(tmp_path / "two", table, workers=2, **more).generated == 128
    for name in ["dataset.json", "shards.jsonl", "all_latents.npy", *(f"shards/{k:05d}.h5" for k in range(3))]:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    with pytest.raises(UserError, match="seed"):
        ident3d.natural_sprites(tmp_path / "two", table, **(more | {"seed": 2}))


def test_kitti_transitions_are_named_wherever_they_are(masks: Path, tmp_path: Path) -> None:
    steps = np.array([(one, other) for one, other in neighbours(masks)])
    found = read_transitions(masks)
    assert found.found == len(steps) == 8 + 1 + 13
    area = steps[..., 2]
    low, high = np.quantile(area, (0.05, 0.95), axis=0)
    np.testing.assert_allclose(found.steps, steps[((area >= low) & (area <= high)).all(1)], atol=1e-3)
    words = ["sprites", "natural", "--from", str(masks), "--root", str(tmp_path), "--images", "continuous"]
    done = CliRunner().invoke(main, [*words, "--where", "shape=square,spoke_4", "--workers", "1", "--json"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "natural-kitti-continuous"
    texts = [ident3d.info(folder).table(), (folder / "README.md").read_text(), (folder / "dataset.json").read_text()]
    assert all("Natural Sprites with KITTI transitions" in text and "CC BY-NC-SA" in text for text in texts)
    data = ident3d.ImageDataset(folder)
    values = data.factors.to_scene(data.latents(range(len(data))))
    np.testing.assert_allclose(values[:, 0], found.steps[..., 0].ravel() / 64, atol=1e-6)
    np.testing.assert_allclose(values[:, 2], np.sqrt(found.steps[..., 2].ravel()) / 64, atol=1e-6)
    assert data.factors.factors[4].values == ("square", "spoke_4")


def neighbours(folder: Path) -> list[tuple[Any, Any]]:
    """Column, row and area of each two neighbouring frames of a folder of masks."""
    data = ident3d.ImageDataset(folder)
    row, column, area = data.factors.to_scene(data.latents(range(len(data)))).T
    table, which = np.column_stack([column, row, area]), data.column("sequence")
    return [(table[i], table[i + 1]) for i in range(len(table) - 1) if which[i] == which[i + 1]]


def test_the_grid_has_the_values_of_the_discrete_pairs(table: Path, tmp_path: Path) -> None:
    discrete = choose_images(read_transitions(table), "discrete", None, 4, 0, "train", None)
    assert choose_images(read_transitions(table), "grid", None, None, 0, "train", None).n == 983_040
    x, y, scale = (factor.values for factor in discrete.factors.factors[:3])
    kept: dict[str, Any] = {"x": x[4], "y": y[:2], "scale": scale, "angle": [0, 45]}
    made = ident3d.natural_sprites(tmp_path / "grid", table, images="grid", where=kept, workers=1, **QUIET)
    assert made.n == 1 * 2 * 6 * 2 * 4
    data = ident3d.ImageDataset(tmp_path / "grid")
    _, b, s, a, shape = data.factors.indices(data.latents(range(made.n))).T
    np.testing.assert_array_equal(((b * 6 + s) * 2 + a) * 4 + shape, range(made.n))
    values = np.column_stack([np.full(made.n, x[4]), np.array(y)[b], np.array(scale)[s], 45 * a, shape])
    np.testing.assert_array_equal(data.images(range(made.n))[..., 0], draw(values))
    assert "sequence" not in data.columns
    few = ident3d.natural_sprites(tmp_path / "few", table, images="grid", n=5, workers=1, **QUIET)
    assert few.n == 5
    assert ident3d.ImageDataset(tmp_path / "few").factors == discrete.factors


def test_latents_of_ones_own(tmp_path: Path) -> None:
    z = np.array([[0.3, 0.7, 0.2, 10.5, 3], [0.5, 0.1, 0.4, 351, 1]])
    np.save(tmp_path / "z.npy", z)
    words = ["sprites", "natural", "--latents", str(tmp_path / "z.npy"), "--out", str(tmp_path / "of"), "--json"]
    done = CliRunner().invoke(main, [*words, "--workers", "1"])
    assert done.exit_code == 0, done.output
    data = ident3d.ImageDataset(tmp_path / "of")
    np.testing.assert_array_equal(data.images([0, 1])[..., 0], draw(z))
    assert data.factors.factors[4].values == SHAPES
    # y points upward: the second sprite lies in the lower half.
    assert data.images([1])[0, 40:].sum() > 0 == data.images([1])[0, :24].sum()


HEAD = "id,cat_id,t_0,t_1\n"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", "cat_id"),
        ("a,b,c\n", "cat_id"),
        ("id,cat_id,t_0\n", "t_1"),
        (HEAD + "1,2,\n", "line 2.*3.*4"),
        (HEAD + "1,2,,\n", "no transition"),
        (HEAD + '1,2,"[(1, 2, 3)]","__import__(\'os\')"\n', "line 2.*__import__"),
        (HEAD + '1,2,"[(1, 2, 3)]","[(1, 2)]"\n', "line 2"),
        (HEAD + '1,2,"[(1, 2, nan)]","[(1, 2, 3)]"\n', "line 2.*nan"),
        (HEAD + '1,2,"[(1, 2, 3)]","[(1, 2, 3), None]"\n', "line 2.*1.*2"),
        (HEAD + '1,2,"[(1, 2, 3)]","[(1, 65, 3)]"\n', "65"),
        (HEAD + '1,2,"[(1, 2, 0)]","[(1, 2, 3)]"\n', "0.0"),
        (HEAD + '1,2,"[(1, 2, 1e999)]","[(1, 2, 3)]"\n', "inf"),
        (HEAD + '1,2,"[(1, 2, 3)]","[(1, 2, 4)]"\n2,2,"[(1, 2, 4)]","[(1, 2, 3)]"\n', "2 transitions"),
        (HEAD + '1,2,"[(1', "some.csv"),
        ("\x80\x04\x95", "kitti-masks"),
    ],
)
def test_what_is_no_table(text: str, facts: str, tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=facts):
        ident3d.natural_sprites(tmp_path / "out", tmp_path / "some.csv", workers=1, **QUIET)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({}, "kitti-masks"),
        ({"transitions": "nowhere.csv"}, "nowhere.csv"),
        ({"images": "both"}, "both.*grid"),
        ({"where": {"x": 0.5}}, "x"),
        ({"where": {"shape": "heart"}}, "heart.*spoke_4"),
        ({"where": {"angle": 4}}, "4.*351"),
        ({"where": {"colour": 4}}, "colour"),
        ({"images": "grid", "where": {"x": 7}}, "7"),
        ({"n": 0}, "0"),
        ({"n": 7}, "7"),
        ({"images": "grid", "n": -1}, "-1"),
        ({"workers": 0}, "worker"),
        ({"split": "all"}, "all"),
        ({"latents": np.zeros((3, 5))}, "latents|Latents"),
        ({"transitions": None, "latents": np.zeros((3, 4))}, "5"),
        ({"transitions": None, "latents": [[0, 0, 0.5, 361, 0]]}, "angle.*361"),
        ({"transitions": None, "latents": [[0, 0, 0.5, 0, 4]]}, "shape.*4"),
    ],
)
def test_what_cannot_be_generated(given: dict[str, Any], facts: str, table: Path, tmp_path: Path) -> None:
    usual: dict[str, Any] = {"transitions": table} if given else {}
    with pytest.raises(UserError, match=facts):
        ident3d.natural_sprites(tmp_path / "out", **{"workers": 1, **QUIET, **usual, **given})
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_a_fifo_is_no_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for place in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(UserError, match="no table"):
            read_transitions(place)


def test_folders_without_masks_or_neighbours_are_refused(tmp_path: Path) -> None:
    black = np.zeros((3, 64, 64), np.uint8)
    values = np.array([[10.0, 10, 40], [20, 20, 50], [30, 30, 60]])
    named: dict[str, Any] = {"names": ["row", "column", "area"], **QUIET}
    ident3d.from_arrays(black, values, tmp_path / "still", **named)
    with pytest.raises(UserError, match="sequence"):
        read_transitions(tmp_path / "still")
    ident3d.from_arrays(black, values, tmp_path / "single", columns={"sequence": [0, 1, 2]}, **named)
    with pytest.raises(UserError, match="no pairs"):
        read_transitions(tmp_path / "single")
    ident3d.from_arrays(black, values[:, :2], tmp_path / "other", columns={"sequence": [0, 0, 0]}, **QUIET)
    with pytest.raises(UserError, match=r"area.*kitti-masks"):
        read_transitions(tmp_path / "other")
