"""ImageDataset: the stored pixels and latents, however they are asked for, in whichever process."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from synthetic import make_dataset
from torch.utils.data import DataLoader

from ident3d.errors import UserError
from ident3d.loaders.datasets import stored_images as stored
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.lifecycle import remove_dataset
from ident3d.loaders.folders.packed import PACKED_FILE, PIXELS_FILE, pack
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format.files import sha256

N, SIZE = 40, 16


def by_h5py(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """All images and raw latents as plain h5py reads them."""
    images, latents = [], []
    for shard in sorted((path / "shards").glob("*.h5")):
        with h5py.File(shard) as file:
            images.append(file["images"][()])
            latents.append(file["raw_latents"][()])
    return np.concatenate(images), np.concatenate(latents)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("plain") / "set", N)


@pytest.fixture(scope="module", params=["shards", "packed"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ImageDataset:
    path = make_dataset(tmp_path_factory.mktemp("either") / "set", N)
    if request.param == "packed":
        pack(path, show_progress=False)
    opened = ImageDataset(path)
    assert opened.packed == (request.param == "packed")
    return opened


def test_pixels_and_latents_are_those_that_h5py_reads(dataset: ImageDataset) -> None:
    images, latents = by_h5py(dataset.parts[0].path)
    index = np.random.default_rng(0).integers(-N, N, 100)
    np.testing.assert_array_equal(dataset.images(index), images[index])
    np.testing.assert_array_equal(dataset.latents(index), latents[index])
    z, image = dataset[7]
    assert image.shape == (3, SIZE, SIZE)
    assert image.dtype == torch.uint8
    assert image.permute(1, 2, 0).is_contiguous()  # a view of the bytes as they are stored
    np.testing.assert_array_equal(image.permute(1, 2, 0), images[7])
    np.testing.assert_array_equal(z, latents[7])
    _, x = dataset[[3, 30, 3]]
    assert x.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_array_equal(x.permute(0, 2, 3, 1), images[[3, 30, 3]])
    assert torch.equal(dataset[-5:][1], x.new_tensor(images[-5:]).permute(0, 3, 1, 2))


def test_mean_and_std_are_those_of_the_pixels(dataset: ImageDataset) -> None:
    images, _ = by_h5py(dataset.parts[0].path)
    pixels = images.reshape(-1, 3) / 255
    np.testing.assert_allclose(dataset.mean, pixels.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(dataset.std, pixels.std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_plain_data_loader_read_the_same(dataset: ImageDataset, method: str) -> None:
    images, latents = by_h5py(dataset.parts[0].path)
    dataset[0]  # opened before the fork
    loader = DataLoader(dataset, 16, num_workers=2, multiprocessing_context=method, persistent_workers=True)
    for _ in range(2):
        z, x = (torch.cat(parts) for parts in zip(*loader, strict=True))
        np.testing.assert_array_equal(x.permute(0, 2, 3, 1), images)
        np.testing.assert_array_equal(z, latents)


def test_threads_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many more shards are read at once than may be open: no descriptor is closed under a reader."""
    monkeypatch.setattr(stored, "OPEN_FILES", 2)
    data = ImageDataset(make_dataset(tmp_path / "set", 40, shard_size=1))
    expected = ImageDataset(tmp_path / "set").images(range(40))
    orders = [np.random.default_rng(k).permutation(40) for k in range(30)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(data.images, orders))
    finally:
        sys.setswitchinterval(interval)
    assert all(np.array_equal(images, expected[order]) for images, order in zip(found, orders, strict=True))


def test_a_pickled_dataset_carries_neither_pixels_nor_open_files(dataset: ImageDataset) -> None:
    dataset[:]
    data = pickle.dumps(dataset)
    assert len(data) < SIZE * SIZE * 3 * N / 2
    assert torch.equal(pickle.loads(data)[5][1], dataset[5][1])


def test_numpy_access_needs_no_torch(plain: Path) -> None:
    code = f"""
import sys
from ident3d import ImageDataset
data = ImageDataset({str(plain)!r})
print(data.images([0, 1]).sum(), data.latents([0, 1]).shape, data.all_latents()[0].shape, data.mean)
assert 'torch' not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"(2, 10) ({N}, 10)" in done.stdout


def test_latents_are_selected_by_name(plain: Path, tmp_path: Path) -> None:
    everything = ImageDataset(plain)
    chosen = ImageDataset(plain, latents=["object_hue", "x"])
    assert chosen.names == ("object_hue", "x")
    np.testing.assert_array_equal(chosen.latents([4, 9]), everything.latents([4, 9])[:, [7, 0]])
    np.testing.assert_array_equal(chosen[4][0], everything[4][0][[7, 0]])
    chosen.all_latents()
    np.testing.assert_array_equal(chosen.latents([4, 9]), everything.latents([4, 9])[:, [7, 0]])
    with pytest.raises(UserError, match="Did you mean 'object_hue'"):
        ImageDataset(plain, latents=["objct_hue"])
    with pytest.raises(UserError, match="have no class"):
        ImageDataset(plain, latents=["class"])[0]


def test_the_class_is_the_last_latent_where_there_is_one(tmp_path: Path) -> None:
    data = ImageDataset(make_dataset(tmp_path / "set", 20, classes=7))
    assert data.names[-1] == "class"
    assert data[9][0][-1] == 2
    np.testing.assert_array_equal(
        ImageDataset(tmp_path / "set", latents=["class"]).latents([6, 13, 8]), [[6], [6], [1]]
    )
    np.testing.assert_array_equal(data.all_latents()[1], np.arange(20) % 7)


def test_a_transform_is_applied_to_each_image(plain: Path) -> None:
    inverted = ImageDataset(plain, transform=lambda image: 255 - image)
    assert torch.equal(inverted[3][1], 255 - ImageDataset(plain)[3][1])
    assert torch.equal(inverted[[3, 4]][1], 255 - ImageDataset(plain)[[3, 4]][1])


@pytest.mark.parametrize("classes", [0, 7])
def test_all_latents_are_read_without_opening_the_shards(tmp_path: Path, classes: int) -> None:
    scene = "causal3dident" if classes else "3dident"
    path = make_dataset(tmp_path / "set", 20, scene=scene, classes=classes)
    raw, kinds = by_h5py(path)[1], np.arange(20) % 7 if classes else None
    shards = [(shard, shard.read_bytes()) for shard in (path / "shards").iterdir()]
    for shard, data in shards:
        shard.write_bytes(bytes(len(data)))  # the size is right, and nothing else
    found = ImageDataset(path).all_latents()
    np.testing.assert_array_equal(found[0], raw)
    np.testing.assert_array_equal(found[1], kinds)
    for shard, data in shards:
        shard.write_bytes(data)
    assert verify(path, show_progress=False).sound
    table = bytearray((path / "all_latents.npy").read_bytes())
    table[-1] ^= 1
    (path / "all_latents.npy").write_bytes(table)
    np.testing.assert_array_equal(ImageDataset(path).all_latents()[0], raw)  # from the shards
    problems = [problem.what for problem in verify(path, show_progress=False).problems]
    assert problems == ["all_latents.npy is missing or does not match its sha256"]
    verify(path, repair=True, show_progress=False)
    assert not (path / "all_latents.npy").exists()


def test_folders_are_joined_in_order(plain: Path, tmp_path: Path) -> None:
    other = make_dataset(tmp_path / "other", 10, seed=1)
    joined, first, second = ImageDataset([plain, other]), ImageDataset(plain), ImageDataset(other)
    assert len(joined) == N + 10
    index = np.array([N + 9, 0, N, N - 1])
    expected = np.concatenate([second.images([9]), first.images([0]), second.images([0]), first.images([N - 1])])
    np.testing.assert_array_equal(joined.images(index), expected)
    np.testing.assert_array_equal(joined.latents(index)[[0, 2]], second.latents([9, 0]))
    pixels = np.concatenate([first.images(range(N)), second.images(range(10))]).reshape(-1, 3) / 255
    np.testing.assert_allclose(joined.mean, pixels.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(joined.std, pixels.std(axis=0), rtol=1e-12)


def test_joined_folders_must_fit_together(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"8×8×3 .*16×16×3"):
        ImageDataset([plain, make_dataset(tmp_path / "small", 8, size=8)])
    with pytest.raises(UserError, match="show different worlds"):
        ImageDataset([plain, make_dataset(tmp_path / "periodic", 8, scene="3dident-periodic")])
    with pytest.raises(UserError, match="classes"):
        ImageDataset([plain, make_dataset(tmp_path / "classes", 8, classes=7)])


def test_numbers_beyond_the_data_are_refused(dataset: ImageDataset) -> None:
    for index in (N, -N - 1):
        with pytest.raises(IndexError, match="there are 40 images"):
            dataset[index]
    with pytest.raises(UserError, match="whole numbers"):
        dataset[0.5]
    assert len(list(iter(dataset))) == N  # ends by IndexError, as sequences do


def test_what_is_not_a_finished_dataset_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="is not a dataset folder"):
        ImageDataset(tmp_path / "folder")
    with pytest.raises(UserError, match="There is no folder"):
        ImageDataset(tmp_path / "nowhere")
    with pytest.raises(UserError, match="8 of 8"):
        ImageDataset(make_dataset(tmp_path / "half", 8, finished=False))
    with pytest.raises(UserError, match="no folder to read"):
        ImageDataset([])
    with pytest.raises(UserError, match="no packed file"):
        ImageDataset(make_dataset(tmp_path / "whole", 8), packed=True)


def test_a_missing_or_damaged_shard_is_named(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    opened = ImageDataset(path)
    shard = path / "shards/00001.h5"
    data = bytearray(shard.read_bytes())
    offset = int(opened.parts[0]._chunks_of(1)[3, 0])
    data[offset + 20] ^= 1
    shard.write_bytes(data)
    fresh = ImageDataset(path)
    fresh[10]
    with pytest.raises(UserError, match=r"00001.h5 seems damaged"):
        fresh[11]
    shard.unlink()
    with pytest.raises(UserError, match=r"00001.h5 is missing"):
        ImageDataset(path)[11]
    with pytest.raises(UserError, match=r"00001.h5 is missing"):
        ImageDataset(path)


def test_the_packed_file_is_used_only_while_it_matches(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    packed = pack(path, show_progress=False)
    assert packed.bytes == (path / PIXELS_FILE).stat().st_size == 16 * SIZE * SIZE * 3
    assert packed.sha256 == sha256((path / PIXELS_FILE).read_bytes()) == sha256(by_h5py(path)[0].tobytes())
    written = (path / PIXELS_FILE).stat().st_mtime_ns
    assert pack(path, show_progress=False) == packed
    assert (path / PIXELS_FILE).stat().st_mtime_ns == written  # kept
    assert ImageDataset(path).packed
    assert not ImageDataset(path, packed=False).packed
    (path / PACKED_FILE).write_text((path / PACKED_FILE).read_text().replace(packed.sha256, "0" * 64))
    assert not ImageDataset(path).packed  # its record's own digest no longer matches
    (path / PACKED_FILE).unlink()
    pack(path, show_progress=False)
    with (path / PIXELS_FILE).open("ab") as file:
        file.write(b"x")
    assert not ImageDataset(path).packed
    assert not list(path.glob(".partial*"))


def test_a_packed_file_with_other_pixels_is_found_and_made_again(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    pack(path, show_progress=False)
    good = (path / PIXELS_FILE).read_bytes()
    assert verify(path, show_progress=False).sound
    (path / PIXELS_FILE).write_bytes(bytes([good[0] ^ 1]) + good[1:])
    found = verify(path, show_progress=False)
    assert not found.sound
    (problem,) = found.problems
    assert "images.u8 does not match its sha256" in problem.what
    assert "ident3d pack" in problem.what
    pack(path, show_progress=False)
    assert (path / PIXELS_FILE).read_bytes() == good
    (path / PIXELS_FILE).write_bytes(bytes([good[0] ^ 1]) + good[1:])
    assert verify(path, repair=True, show_progress=False).repaired
    assert not [name for name in (PIXELS_FILE, PACKED_FILE) if (path / name).exists()]
    assert verify(path, show_progress=False).sound  # the shards were never touched


@pytest.mark.parametrize("harm", ["flip", "fifo", "gone"])
def test_pixels_whose_record_is_damaged_are_never_deleted(harm: str, tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    pack(path, show_progress=False)
    good, written = (path / PIXELS_FILE).read_bytes(), bytearray((path / PACKED_FILE).read_bytes())
    written[len(written) // 2] ^= 1
    (path / PACKED_FILE).unlink()
    if harm == "flip":
        (path / PACKED_FILE).write_bytes(written)
    elif harm == "fifo":
        os.mkfifo(path / PACKED_FILE)
    found = verify(path, repair=True, delete=True, show_progress=False)
    assert [PACKED_FILE in each.what for each in found.problems] == [True] * (harm != "gone")
    assert [PIXELS_FILE in each.what and "ident3d pack" in each.what for each in found.unjudged] == [True]
    assert (path / PIXELS_FILE).read_bytes() == good
    assert not any("Deleted" in line for line in found.done)
    pack(path, show_progress=False)
    assert verify(path, show_progress=False).sound


def test_pixels_that_their_record_proves_wrong_are_deleted_on_request(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    pack(path, show_progress=False)
    (path / PIXELS_FILE).write_bytes(b"\0" * (path / PIXELS_FILE).stat().st_size)
    found = verify(path, repair=True, delete=True, show_progress=False)
    assert any("Deleted" in line and PIXELS_FILE in line for line in found.done)
    assert not (path / PIXELS_FILE).exists()
    assert verify(path, show_progress=False).sound


def test_a_packed_file_of_other_shards_is_not_used(tmp_path: Path) -> None:
    first, second = make_dataset(tmp_path / "a", 8), make_dataset(tmp_path / "b", 8, seed=1)
    pack(first)
    for name in (PIXELS_FILE, PACKED_FILE):
        (second / name).write_bytes((first / name).read_bytes())
    assert not ImageDataset(second).packed


def test_a_packed_file_that_is_gone_is_named(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    pack(path, show_progress=False)
    data = ImageDataset(path)
    (path / PIXELS_FILE).unlink()
    with pytest.raises(UserError, match=r"images.u8 is gone or damaged"):
        data[0]


def test_a_fresh_start_removes_the_packed_file_too(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    pack(path, show_progress=False)
    remove_dataset(path)
    assert not [p for p in path.rglob("*") if p.is_file()]


def test_what_a_killed_pack_left_goes_with_the_next(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 8)
    (path / ".partial-0123456789abcdef").write_bytes(b"pixels")
    pack(path, show_progress=False)
    assert not list(path.glob(".*"))


def test_pack_refuses_damage_and_leaves_nothing(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    shard = open_folder(path).shard_path(open_folder(path).entries[1])
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(UserError, match=r"00001.h5 does not match its hash"):
        pack(path, show_progress=False)
    assert not [p for p in path.iterdir() if p.name in (PIXELS_FILE, PACKED_FILE) or p.name.startswith(".")]
