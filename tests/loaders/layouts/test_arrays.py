"""Anybody's arrays as dataset folders: grey with discrete factors, in colours with continuous ones."""

import json
import math
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray
from PIL import Image
from synthetic import make_dataset

import ident3d
from ident3d import Factor, Factors, ImageDataset, PairDataset, TrainSettings, from_arrays, make_loader
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.folders import make
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.description import (
    DATASET_FILE,
    Description,
    read_description,
    write_description,
)
from ident3d.loaders.format.manifest import read_entries, write_entries
from ident3d.loaders.format.shard import LONGEST_SETTINGS, Shard, encode_shard, read_settings
from ident3d.training.images.run import open_run
from ident3d.training.report.report import WIDTH_PAIRS, drawn_pairs, write_report

QUIET: dict[str, Any] = {"show_progress": False}
SPRITES = (
    Factor("shape", "categorical", values=("square", "disc")),
    Factor("size", values=(3.0, 5.0)),
    Factor("x", values=tuple(range(8)), group="position"),
    Factor("y", values=tuple(range(8)), group="position"),
)
ROOM = Factors((Factor("hue", "periodic", range=(0, 360)), Factor("x", range=(-2, 2)), Factor("y", range=(-2, 2))))


def sprites() -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """All 256 grey sprites of 28 pixels, black and white, and their factors."""
    grid = np.indices((2, 2, 8, 8)).reshape(4, -1).T
    z = np.column_stack([grid[:, 0], 3 + 2 * grid[:, 1], grid[:, 2:]]).astype(float)
    v, u = np.mgrid[0:28, 0:28]
    images = np.zeros((len(z), 28, 28), np.uint8)
    for image, (shape, size, x, y) in zip(images, z, strict=True):
        across, down = np.abs(u - 6 - 2 * x), np.abs(v - 6 - 2 * y)
        inside = across**2 + down**2 <= size**2 if shape else np.maximum(across, down) <= size
        image[inside] = 255
    return images, z


def room(n: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Pictures of 32 pixels in colours: a disc of a hue somewhere."""
    rng = np.random.default_rng(seed)
    z = np.column_stack([rng.uniform(0, 360, n), rng.uniform(-2, 2, (n, 2))])
    v, u = np.mgrid[0:32, 0:32] / 8 - 2
    images = np.full((n, 32, 32, 3), 40, np.uint8)
    for image, (hue, x, y) in zip(images, z, strict=True):
        colour = 127 + 127 * np.cos(np.radians(hue) + np.array([0, 2, 4]))
        image[(u - x) ** 2 + (v - y) ** 2 < 0.5] = colour.astype(np.uint8)
    return images, z


@pytest.fixture(scope="module")
def grey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    images, z = sprites()
    folder = tmp_path_factory.mktemp("grey")
    labels = np.array(["even", "odd"])[(z[:, 2].astype(int) + z[:, 3].astype(int)) % 2]
    columns = {"sequence": np.arange(256) // 8, "frame": np.arange(256) % 8}
    more: dict[str, Any] = {"factors": SPRITES, "classes": labels, "columns": columns, **QUIET}
    from_arrays(images, z, folder / "train", shard_size=50, **more)
    # a test set of the same world takes the declaration of the training set
    declared = ImageDataset(folder / "train").factors
    from_arrays(images[::3], z[::3], folder / "test", split="test", factors=declared, classes=labels[::3], **QUIET)
    return folder


@pytest.fixture(scope="module")
def colour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("colour")
    for seed, (name, n) in enumerate({"train": 200, "test": 60}.items()):
        from_arrays(*room(n, seed), folder / name, factors=ROOM, split=name, licence="CC0", name="Room", **QUIET)
    return folder


def test_a_grey_folder_holds_what_was_given(grey: Path) -> None:
    images, z = sprites()
    data = ImageDataset(grey / "train")
    np.testing.assert_array_equal(data.images(range(256))[..., 0], images)
    latents, x = data[[3, 200]]
    assert x.shape == (2, 1, 28, 28)
    assert data.names == ("shape", "size", "x", "y", "class")
    raw, classes = data.all_latents()
    np.testing.assert_allclose(data.factors.to_scene(raw), z)
    np.testing.assert_array_equal(data.factors.indices(raw)[:, 2:], z[:, 2:])
    assert classes is not None
    np.testing.assert_array_equal(classes, (z[:, 2] + z[:, 3]) % 2)
    np.testing.assert_array_equal(latents[:, -1], classes[[3, 200]])
    np.testing.assert_array_equal(data.column("sequence"), np.arange(256) // 8)
    np.testing.assert_array_equal(data.column("frame"), np.arange(256) % 8)
    with pytest.raises(UserError, match="environment"):
        data.column("environment")
    assert data.factors.classes == ("even", "odd")
    assert data.mean == (pytest.approx(images.mean() / 255),)
    # any HDF5 library reads it, and it says what the values were
    with h5py.File(grey / "train/shards/00001.h5") as file:
        np.testing.assert_array_equal(file["images"][0, ..., 0], images[50])
        np.testing.assert_array_equal(file["scene_latents"], z[50:100])
        np.testing.assert_array_equal(file["frame"], np.arange(50, 100) % 8)


def test_a_folder_in_colours_holds_what_was_given(colour: Path) -> None:
    images, z = room(200, 0)
    data = ImageDataset(colour / "train")
    np.testing.assert_array_equal(data.images(range(200)), images)
    np.testing.assert_allclose(data.factors.to_scene(data.all_latents()[0]), z, atol=1e-4)
    # one more optional field says that images are grey, and those in colours have none
    assert "channels" not in json.loads((colour / "train/dataset.json").read_text())["settings"]


@pytest.mark.parametrize(("name", "channels"), [("grey", 1), ("colour", 3)])
def test_what_a_folder_is_made_for(name: str, channels: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder = request.getfixturevalue(name)
    found = ident3d.verify(folder / "train", **QUIET)
    assert found.sound, found.problems
    n = found.good
    packed = ident3d.pack(folder / "train", **QUIET)
    side = ImageDataset(folder / "train").size
    assert packed.bytes == n * side * side * channels
    flat, shards = (ImageDataset(folder / "train", packed=packed).images([5, 1]) for packed in (True, False))
    np.testing.assert_array_equal(flat, shards)
    assert ident3d.verify(folder / "train", **QUIET).sound
    shown = ident3d.info(folder / "train").table()
    card = (folder / "train/README.md").read_text()
    for fact in ["square, disc", "even, odd"] if name == "grey" else ["0 to 360", "CC0", "Room"]:
        assert fact in shown + card, fact
    assert ident3d.info(folder / "train").as_dict()["attainable_r2"] is None
    assert "| periodic |" in card or name == "grey"
    assert ident3d.preview(folder / "train", count=4, with_latents=True).width > 200
    ident3d.export(folder / "test", tmp_path / "out", **QUIET)
    with Image.open(min((tmp_path / "out").glob("images*/*.png"))) as picture:
        again = np.asarray(picture)
    np.testing.assert_array_equal(again.reshape(side, side, channels), ImageDataset(folder / "test").images([0])[0])


def test_pairs_of_discrete_factors_keep_the_categorical_ones(grey: Path) -> None:
    pairs = PairDataset(grey / "train", cond="laplace", sigma=0.3, same_class=True)
    anchor, positive, *_ = pairs.sampler.pairs(np.arange(3000))
    z = ImageDataset(grey / "train").latents(range(256))
    assert (z[anchor, 0] == z[positive, 0]).all()
    assert (z[anchor, 4] == z[positive, 4]).all()
    assert (np.abs(z[anchor] - z[positive])[:, 1:4].mean(0) > 0.05).all()
    only = PairDataset(grey / "train", sigma=0.5, only=["position"])
    anchor, positive, *_ = only.sampler.pairs(np.arange(500))
    assert (z[anchor, 1] == z[positive, 1]).mean() > 0.99
    with pytest.raises(UserError, match="shape is categorical"):
        PairDataset(grey / "train", only=["shape"])
    found = ident3d.pairs(grey / "train", sigma=0.3, count=500)
    assert (found.asked_mean[0], found.realised_mean[0]) == (0, 0)


def test_pairs_of_a_periodic_factor_go_round(colour: Path) -> None:
    pairs = PairDataset(colour / "train", sigma=0.2)
    z = pairs.sampler.latents.astype(float)
    drawn = pairs.sampler.pairs(np.arange(2000))
    # the positive is the nearest on the circle: the same as by brute force over every image
    apart = np.abs(drawn.drawn[:, None] - z[None])
    apart[..., 0] = np.minimum(apart[..., 0], 2 - apart[..., 0])
    apart = (apart**2).sum(-1)
    apart[np.arange(2000), drawn.anchor] = np.inf
    np.testing.assert_array_equal(drawn.positive, apart.argmin(1))
    over_the_seam = np.abs(z[drawn.anchor, 0] - z[drawn.positive, 0]) > 1
    assert 0.02 < over_the_seam.mean() < 0.3
    found = ident3d.pairs(colour / "train", sigma=0.2, count=2000)
    assert found.realised_mean[0] < 0.5
    with pytest.raises(UserError, match="flat"):
        PairDataset(colour / "train", search="flat")


@pytest.mark.parametrize("name", ["grey", "colour"])
def test_a_loader_with_workers_gives_the_same(name: str, request: pytest.FixtureRequest) -> None:
    pairs = PairDataset(request.getfixturevalue(name) / "train", sigma=0.3)
    here, there = (next(iter(make_loader(pairs, 32, workers=workers))) for workers in (0, 1))
    for a, b in zip((*here[0], *here[1]), (*there[0], *there[1]), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("grey", {"cond": "laplace", "sigma": 0.3}),
        ("grey", {"cond": "augment"}),
        ("colour", {"sigma": 0.3}),
        ("colour", {"supervised": True}),
    ],
)
def test_a_run_trains_resumes_and_is_scored(
    name: str, settings: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder, more = request.getfixturevalue(name), {"device": "cpu", "workers": 0, **QUIET}
    chosen = TrainSettings(batch=16, steps=2, dtype="fp32", **settings)
    ident3d.train(folder / "train", chosen, out=tmp_path / "run", **more)
    longer = TrainSettings(batch=16, steps=3, dtype="fp32", **settings)
    ident3d.train(folder / "train", longer, out=tmp_path / "run", resume=True, **more)
    found = ident3d.evaluate(tmp_path / "run", metrics="mcc_pearson", device="cpu", **QUIET)
    assert found.data.name == "test"
    kinds = ["discrete"] * 4 if name == "grey" else [2.0, "continuous", "continuous"]
    assert found.report.settings["kinds"] == kinds
    assert math.isfinite(float(found.report.scores["mcc_pearson"]))
    assert "images" in write_report(tmp_path / "run").read_text()
    if drawn := drawn_pairs(open_run(tmp_path / "run")):
        # of a periodic factor as well: the shorter way round
        measured = ident3d.pairs(folder / "train", **settings, count=WIDTH_PAIRS)
        assert [width for _, width in drawn.widths.values()] == pytest.approx(measured.realised_mean)
    other = request.getfixturevalue("colour" if name == "grey" else "grey") / "test"
    with pytest.raises(UserError, match="hue, x, y"):
        ident3d.evaluate(tmp_path / "run", other, device="cpu", **QUIET)


def test_equal_arrays_give_equal_folders_however_they_come(tmp_path: Path) -> None:
    images, z = sprites()
    np.save(tmp_path / "x.npy", images)
    given: dict[str, Any] = {
        "array": images,
        "memory map": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "truth values": images > 0,
        "int64": images.astype(np.int64),
        "list": list(images),
    }
    folders = {}
    for name, one in given.items():
        made = from_arrays(one, z, tmp_path / name, factors=SPRITES, name="sprites", shard_size=100, **QUIET)
        assert (made.n, made.imported) == (256, 256)
        folders[name] = [(tmp_path / name / f"shards/0000{k}.h5").read_bytes() for k in range(3)]
    assert all(shards == folders["array"] for shards in folders.values())
    from_arrays(images, z, tmp_path / "two", factors=SPRITES, name="sprites", shard_size=100, workers=2, **QUIET)
    assert [(tmp_path / f"two/shards/0000{k}.h5").read_bytes() for k in range(3)] == folders["array"]
    unit = from_arrays(images / 255, z, tmp_path / "unit", unit=True, factors=SPRITES, **QUIET)
    np.testing.assert_array_equal(ImageDataset(unit.path).images(range(256))[..., 0], images)


def test_images_that_are_compressed_together(tmp_path: Path) -> None:
    images, z = sprites()
    given: dict[str, Any] = {"factors": SPRITES, "shard_size": 100, **QUIET}
    from_arrays(images, z, tmp_path / "one", **given)
    from_arrays(images, z, tmp_path / "many", images_per_chunk=32, **given)
    many = ImageDataset(tmp_path / "many")
    chosen = np.random.default_rng(0).permutation(256)
    np.testing.assert_array_equal(many.images(chosen)[..., 0], images[chosen])
    assert ident3d.verify(tmp_path / "many", **QUIET).sound
    one, together = (open_folder(tmp_path / name).description for name in ("one", "many"))
    assert one.pixel_mean == together.pixel_mean
    # any HDF5 library reads them; the last chunk of the last shard is not full
    with h5py.File(tmp_path / "many/shards/00002.h5") as file:
        assert file["images"].chunks == (32, 28, 28, 1)
        np.testing.assert_array_equal(file["images"][..., 0], images[200:])
        small = file["images"].id.get_storage_size()
    with h5py.File(tmp_path / "one/shards/00002.h5") as file:
        assert 3 * small < file["images"].id.get_storage_size()
    ident3d.pack(tmp_path / "many", **QUIET)
    np.testing.assert_array_equal(ImageDataset(tmp_path / "many", packed=True).images(chosen)[..., 0], images[chosen])
    for broken in (0, 100_000):
        with pytest.raises(UserError, match=f"not {broken}"):
            from_arrays(images, z, tmp_path / "bad", images_per_chunk=broken, **QUIET)


def test_an_iterator_of_blocks_is_written_as_it_comes(tmp_path: Path) -> None:
    images, z = sprites()
    held: list[int] = []

    def blocks(sizes: list[int]) -> Iterator[NDArray[np.uint8]]:
        first = 0
        for size in sizes:
            held.append(len(list((tmp_path / "out").glob("shards/*.h5"))))
            yield images[first : first + size]
            first += size

    made = from_arrays(blocks([7, 0, 93, 100, 56]), z, tmp_path / "out", factors=SPRITES, shard_size=50, **QUIET)
    assert made.n == 256
    # shards are on disk before the last block is asked for
    assert held[0] == 0
    assert held[-1] >= 3
    np.testing.assert_array_equal(ImageDataset(tmp_path / "out").images(range(256))[..., 0], images)
    assert ident3d.verify(tmp_path / "out", **QUIET).sound
    with pytest.raises(UserError, match="already"):
        from_arrays(blocks([256]), z, tmp_path / "out", factors=SPRITES, **QUIET)
    for sizes, named in {(200,): "200", (256, 1): "more"}.items():
        more = np.concatenate([images, images])
        short = (more[sum(sizes[:k]) : sum(sizes[: k + 1])] for k in range(len(sizes)))
        with pytest.raises(UserError, match=named):
            from_arrays(short, z, tmp_path / "bad", factors=SPRITES, shard_size=50, **QUIET)
        assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("whose", ["another's dataset", "somebody's folder"])
def test_blocks_delete_nothing_that_is_not_theirs(whose: str, tmp_path: Path) -> None:
    images, z = sprites()
    out = tmp_path / "out"
    if whose == "another's dataset":
        from_arrays(images, z, out, shard_size=50, **QUIET)
        done = open_folder(out).description
        # of which shards are still to be made
        write_description(out, Description(done.settings, done.n + 50, 50))
    else:
        out.mkdir()
        (out / "README.md").write_text("my project")
        (out / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="out"):
        from_arrays(iter([images]), z, out, factors=SPRITES, **QUIET)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_blocks_delete_nothing_in_a_folder_that_another_process_took_over(tmp_path: Path) -> None:
    images, z = sprites()
    out = tmp_path / "out"

    def blocks() -> Iterator[NDArray[np.uint8]]:
        yield images[:100]
        claim = out / ".lease-1"
        claim.write_text(claim.read_text().replace('"', " "))
        yield images[100:]

    with pytest.raises(UserError, match="took over"):
        from_arrays(blocks(), z, out, factors=SPRITES, shard_size=50, **QUIET)
    assert (out / "dataset.json").exists()
    assert (out / "shards/00000.h5").exists()


def test_settings_that_no_shard_can_record_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    z, rows = np.arange(6.0)[:, None], np.zeros((6, 1), np.float32)
    longest = {"a": "x" * (LONGEST_SETTINGS - len('{"a": ""}'))}
    shard = encode_shard(Shard(X[..., None], rows, rows, np.arange(6)), longest)
    assert read_settings(tmp_path, shard) == longest
    long = [Factor("name", "categorical", values=[f"{k:0{LONGEST_SETTINGS // 6}}" for k in range(6)])]
    with pytest.raises(UserError, match="64,000"):
        from_arrays(X, z, tmp_path / "out", factors=long, **QUIET)
    assert not (tmp_path / "out").exists()


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("more", [(), ("notes.txt",), ("shards.jsonl",)], ids=["", "notes", "manifest"])
def test_a_users_own_files_outlive_a_refused_call(more: tuple[str, ...], blocks: bool, tmp_path: Path) -> None:
    images, z = sprites()
    own = tmp_path / "own"
    own.mkdir()
    for name in ("README.md", "latents.npy", "sample.png", *more):
        (own / name).write_text("mine")
    before = files_in(own)
    with pytest.raises(UserError):
        from_arrays(iter([images]) if blocks else images, z, own, factors=SPRITES, **QUIET)
    assert files_in(own) == before


@pytest.mark.parametrize("lost", ["nothing", DATASET_FILE])
def test_blocks_never_replace_an_unfinished_dataset_of_another_kind(lost: str, tmp_path: Path) -> None:
    images, z = sprites()
    path = make_dataset(tmp_path / "rendered", 16, finished=False)
    (path / lost).unlink(missing_ok=True)
    before = files_in(path)
    with pytest.raises(UserError, match="rendered"):
        from_arrays(iter([images]), z, path, factors=SPRITES, **QUIET)
    assert files_in(path) == before


def test_blocks_whose_folder_was_taken_over_delete_nothing(tmp_path: Path) -> None:
    images, z = sprites()
    out = tmp_path / "out"

    def blocks() -> Iterator[NDArray[np.uint8]]:
        yield images[:128]
        # Another process has taken the claim over meanwhile.
        next(out.glob(".lease-*")).write_bytes(b"{}")
        yield images[128:]

    with pytest.raises(UserError, match="took over"):
        from_arrays(blocks(), z, out, factors=SPRITES, shard_size=50, **QUIET)
    assert {"shards/00000.h5", "shards/00001.h5", "dataset.json"} <= set(files_in(out))


def test_an_interrupted_call_goes_on_and_other_images_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, z = sprites()
    real, made = make.write_shard, []

    def stopping(*arguments: Any) -> Any:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(arguments)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(make, "write_shard", stopping)
        with pytest.raises(KeyboardInterrupt):
            from_arrays(images, z, tmp_path / "out", factors=SPRITES, shard_size=50, **QUIET)
    with pytest.raises(UserError, match="100 of 256"):
        ImageDataset(tmp_path / "out")
    assert from_arrays(images, z, tmp_path / "out", factors=SPRITES, **QUIET).imported == 156
    assert from_arrays(images, z, tmp_path / "out", factors=SPRITES, **QUIET).imported == 0
    with pytest.raises(UserError, match="images_sha256"):
        from_arrays(255 - images, z, tmp_path / "out", factors=SPRITES, **QUIET)
    # a broken shard is made again from the same arrays
    shard = tmp_path / "out/shards/00002.h5"
    data = bytearray(shard.read_bytes())
    data[-100] ^= 1
    shard.write_bytes(data)
    assert not ident3d.verify(tmp_path / "out", repair=True, **QUIET).sound
    assert from_arrays(images, z, tmp_path / "out", factors=SPRITES, **QUIET).imported == 50
    assert ident3d.verify(tmp_path / "out", **QUIET).sound


def test_nothing_of_earlier_blocks_is_taken_for_these(tmp_path: Path) -> None:
    images, z = sprites()
    out = tmp_path / "out"

    def call(given: NDArray[np.uint8]) -> Any:
        return from_arrays(iter([given]), z, out, factors=SPRITES, shard_size=50, **QUIET)

    call(images)
    (out / DATASET_FILE).rename(tmp_path / DATASET_FILE)
    before = files_in(out)
    with pytest.raises(UserError, match="already"):
        call(images)
    assert files_in(out) == before
    (tmp_path / DATASET_FILE).rename(out / DATASET_FILE)
    # As after a kill: the first shard is entered, four others are not.
    (out / "shards/00004.h5").unlink()
    write_description(out, read_description(out).as_incomplete())
    write_entries(out, read_entries(out)[:1])
    assert call(255 - images).imported == 256
    np.testing.assert_array_equal(ImageDataset(out).images(range(256))[..., 0], 255 - images)


def test_lost_shards_and_a_lost_manifest_are_made_good_by_the_same_call(tmp_path: Path) -> None:
    images, z = sprites()
    out = tmp_path / "out"
    again = partial(from_arrays, images, z, out, factors=SPRITES, shard_size=50, **QUIET)
    again()
    before = files_in(out)
    (out / "shards/00002.h5").unlink()
    assert again().imported == 50
    shutil.rmtree(out / "shards")
    assert again().imported == 256
    (out / "shards.jsonl").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"shards\.jsonl"):
        assert again().imported == 0
    assert {**files_in(out), "provenance.json": b""} == {**before, "provenance.json": b""}
    (out / "shards/00002.h5").rename(tmp_path / "blob")
    (out / "shards/00002.h5").symlink_to(tmp_path / "blob")
    with pytest.raises(UserError, match=r"00002\.h5 is a link"):
        again()
    assert (out / "shards/00002.h5").is_symlink()
    assert read_description(out).complete


def test_images_with_classes_and_no_latents(tmp_path: Path) -> None:
    images, _ = room(64, 0)
    names = ["cat", "dog", "bird"]
    labels = np.arange(64) % 3
    from_arrays(images, None, tmp_path / "out", classes=labels, class_names=names, **QUIET)
    data = ImageDataset(tmp_path / "out")
    assert data.names == ("class",)
    np.testing.assert_array_equal(data.latents(range(64))[:, 0], labels)
    assert data.factors.classes == ("cat", "dog", "bird")
    assert ident3d.verify(tmp_path / "out", **QUIET).sound
    assert "cat, dog, bird" in ident3d.info(tmp_path / "out").table()
    ident3d.preview(tmp_path / "out", with_latents=True)
    with pytest.raises(UserError, match="no latents"):
        PairDataset(tmp_path / "out")
    more: dict[str, Any] = {"out": tmp_path / "run", "device": "cpu", "workers": 0, **QUIET}
    with pytest.raises(UserError, match="--dim"):
        ident3d.train(tmp_path / "out", TrainSettings(cond="augment", batch=16, steps=1), **more)
    alone = from_arrays(images, None, tmp_path / "alone", **QUIET).path
    for path in (tmp_path / "out", alone):
        more["out"] = path.with_suffix(".run")
        ident3d.train(path, TrainSettings(cond="augment", dim=4, batch=16, steps=1, dtype="fp32"), **more)
    with pytest.raises(UserError, match="encode"):
        ident3d.evaluate(more["out"], path, device="cpu", **QUIET)


@pytest.mark.parametrize("labels", [["c", "a"], [2, 0]])
def test_a_test_set_numbers_its_classes_as_the_training_set_does(labels: list[Any], tmp_path: Path) -> None:
    z = np.linspace(0, 1, 6)[:, None]
    names = {"class_names": list("abc")} if isinstance(labels[0], int) else {}
    from_arrays(
        X, z, tmp_path / "train", classes=[*labels, *labels, *(["b"] if not names else [1]) * 2], **names, **QUIET
    )
    declared = ImageDataset(tmp_path / "train").factors
    test = from_arrays(X, z, tmp_path / "test", classes=labels * 3, factors=declared, split="test", **QUIET).path
    assert ImageDataset(test).factors == declared
    assert ImageDataset(test).latents(range(6))[:, -1].tolist() == [2, 0] * 3


X, Z = np.zeros((6, 8, 8), np.uint8), np.linspace(0, 1, 6)[:, None]


@pytest.mark.parametrize(
    ("images", "latents", "more", "named"),
    [
        (X, Z[:5], {}, "6 images.* 5 rows"),
        (X, Z, {"classes": [0] * 5}, "latents have 6, classes have 5"),
        (X, Z, {"columns": {"frame": [0] * 7}}, "frame have 7"),
        (X, Z, {"columns": {"time": [0] * 6}}, "time"),
        (X, Z, {"columns": {"frame": [0.5] * 6}}, "frame"),
        (X, Z, {"classes": [5000] * 6}, "4095"),
        (X, Z, {"classes": [-1, *range(5)]}, "0 to 4095.* class -1"),
        (X, Z, {"classes": [10**15] * 6}, "class 1000000000000000"),
        (X, Z, {"classes": [0] * 6, "class_names": list(map(str, range(4097)))}, "4096 classes"),
        (X, Z, {"classes": [1] * 6, "class_names": ["one"]}, "class 1"),
        (X, Z, {"classes": ["a"] * 6, "class_names": ["b"]}, "'a'"),
        (X.astype(np.float32), Z, {}, "float32"),
        (X + 0.5, Z, {"unit": True, "names": ["a"]}, None),
        (X + 2.0, Z, {"unit": True}, "Image 0.* 0 to 1"),
        (np.where(np.arange(6)[:, None, None] == 4, np.nan, X), Z, {"unit": True}, "Image 4"),
        (np.where(np.arange(6)[:, None, None] == 3, 256, X.astype(int)), Z, {}, "Image 3.* 255"),
        (X.astype(int) - 1, Z, {}, "Image 0"),
        (X.astype(str), Z, {}, "numbers"),
        (X[:, :4], Z, {}, "4×8"),
        (np.zeros((6, 3, 8, 8), np.uint8), Z, {}, "last"),
        (np.zeros((6, 8, 8, 2), np.uint8), Z, {}, r"\(6, 8, 8, 2\)"),
        (X[0], Z, {}, r"\(8, 8\)"),
        (X[:0], Z[:0], {}, "no rows"),
        (3, Z, {}, "int"),
        (iter([X]), None, {}, "how many"),
        (iter([]), Z, {}, "no images"),
        (iter([X[:3], X[:3, :4, :4]]), Z, {}, "number 3"),
        (X, np.full((6, 1), np.nan), {}, "column 0 of image 0"),
        (X, Z[:, 0], {}, r"\(6,\)"),
        (X, Z.astype(str), {}, "numbers"),
        (X, np.hstack([Z, Z]), {"names": ["a", "a"]}, "'a'"),
        (X, Z, {"names": ["a", "b"]}, "2 names"),
        (X, Z, {"kinds": ["round"]}, "round"),
        (X, Z, {"factors": [Factor("a", range=(0, 0.5))]}, "a of image 3"),
        (X, Z, {"factors": [Factor("a", range=(0, 1))], "names": ["a"]}, "not both"),
        (X, Z, {"split": "valid"}, "valid"),
        (X, Z, {"shard_size": 0}, "at least one"),
    ],
)
def test_what_is_refused(images: Any, latents: Any, more: dict[str, Any], named: str | None, tmp_path: Path) -> None:
    if named is None:
        assert from_arrays(images, latents, tmp_path / "out", **more, **QUIET).n == 6
        return
    with pytest.raises(UserError, match=named):
        from_arrays(images, latents, tmp_path / "out", **more, **QUIET)
    assert not (tmp_path / "out").exists()


def test_import_arrays_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    images, z = sprites()
    given = {"x": images, "z": z, "y": np.arange(256) % 3, "frame": np.arange(256), "levels": images / 255.0}
    for name, array in given.items():
        np.save(f"{name}.npy", array)
    np.save("object.npy", np.array([{}]), allow_pickle=True)

    def run(words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["import", *words.split()])
        assert done.exit_code == code, done.output
        return done.stderr if code else done.stdout

    kinds = "--names shape,size,x,y --kinds categorical,box,box,box"
    assert "256" in run(f"--arrays x.npy z.npy a {kinds} --class-file y.npy --column frame=frame.npy --workers 1")
    data = ImageDataset("a")
    assert data.factors.classes == ("0", "1", "2")
    assert [factor.kind for factor in data.factors.factors] == ["categorical", "box", "box", "box"]
    np.testing.assert_array_equal(data.column("frame"), np.arange(256))
    run("--arrays levels.npy z.npy b --like a --unit --split test")
    np.testing.assert_array_equal(ImageDataset("b").images(range(256))[..., 0], images)
    assert ImageDataset("b").factors == data.factors
    assert json.loads(run("--arrays x.npy none c --class-file y.npy --json"))["imported"] == 256
    assert "x.npy, z.npy" in Path("a/README.md").read_text()
    for words, named in {
        "a b": "a",
        "x.npy": "SRC",
        "--arrays x.npy z.npy a b": "OUT",
        "a b --unit": "--unit",
        "a b --kinds box": "--kinds",
        "a b --column frame=frame.npy": "--column",
        "--arrays x.npy object.npy d": "object.npy",
        "--arrays gone.npy z.npy d": "gone.npy",
        "--arrays x.npy z.npy d --column frame": "--column",
        "--arrays x.npy z.npy d --like gone": "gone",
        "--arrays levels.npy z.npy d": "unit",
    }.items():
        assert named in run(words, code=2), words
    assert not Path("d").exists()


def test_a_folder_with_another_channel_count_is_not_joined(grey: Path, colour: Path) -> None:
    with pytest.raises(UserError, match="28×28×1"):
        ImageDataset([colour / "train", grey / "train"])


def test_a_description_with_wrong_channels_is_refused(grey: Path, tmp_path: Path) -> None:
    description = open_folder(grey / "test").description
    for channels in (2, "1", True):
        broken = Description(description.settings | {"channels": channels}, description.n, description.shard_size)
        (tmp_path / "bad").mkdir(exist_ok=True)
        write_description(tmp_path / "bad", broken)
        with pytest.raises(UserError, match="channels"):
            open_folder(tmp_path / "bad")
