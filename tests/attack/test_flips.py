"""Single bit flips over every file of a dataset that a reader reads."""

import fcntl
import time
from pathlib import Path

import deflate
import numpy as np
import pytest
from attack.flips import N, flip_and_use, flipped_dataset
from synthetic import make_dataset

from ident3d import from_arrays
from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.stored_images import StoredImages
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.packed import PIXELS_FILE, checksums_of, pack
from ident3d.loaders.format.latents_table import TABLE_FILE


@pytest.mark.parametrize("count", [160, pytest.param(None, marks=pytest.mark.slow)])
def test_every_flip_is_noticed_or_harmless(tmp_path: Path, count: int | None, request: pytest.FixtureRequest) -> None:
    path = flipped_dataset(tmp_path / "set")
    found, failures = flip_and_use(path, count or request.config.getoption("--flips"), seed=15)
    print(dict(found))
    assert not failures


def test_a_packed_image_is_checked_by_its_own_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = flipped_dataset(tmp_path / "set")
    data = bytearray((path / PIXELS_FILE).read_bytes())
    checksums = checksums_of(open_folder(path))
    assert checksums is not None
    size = len(data) // N
    assert checksums.tolist() == [deflate.crc32(bytes(data[k * size : (k + 1) * size])) for k in range(N)]
    data[7 * size + 5] ^= 4
    (path / PIXELS_FILE).write_bytes(data)
    images = ImageDataset(path, packed=True)
    images.images([6, 8])
    with pytest.raises(UserError, match=f"Image 7 .*{PIXELS_FILE}.*ident3d pack"):
        images.images([7])
    monkeypatch.setenv("IDENT3D_CHECK_IMAGES", "0")
    assert ImageDataset(path, packed=True).images([7]).tobytes() == data[7 * size : 8 * size]
    monkeypatch.delenv("IDENT3D_CHECK_IMAGES")
    # `pack` makes the file anew.
    pack(path, show_progress=False)
    np.testing.assert_array_equal(ImageDataset(path).images([7]), ImageDataset(path, packed=False).images([7]))


def test_latents_of_a_shard_are_used_only_if_its_hash_matches(tmp_path: Path) -> None:
    path = flipped_dataset(tmp_path / "set")
    shard = path / "shards/00001.h5"
    value = ImageDataset(path).latents([4])[0, :1].tobytes()
    assert shard.read_bytes().count(value) == 1
    shard.write_bytes(shard.read_bytes().replace(value, np.float32(0.5).tobytes()))
    # With the table nothing is read from the shard.
    assert ImageDataset(path).latents([4])[0, 0].tobytes() == value
    (path / TABLE_FILE).unlink()
    ImageDataset(path).latents([3])
    with pytest.raises(UserError, match=r"00001\.h5.*--repair"):
        ImageDataset(path).latents([4])


def test_a_column_is_read_only_from_a_shard_whose_hash_matches(tmp_path: Path) -> None:
    images, frames = np.zeros((12, 8, 8), np.uint8), np.arange(12) + 1_000_003
    latents, columns = np.arange(12.0)[:, None], {"frame": frames}
    from_arrays(images, latents, tmp_path, columns=columns, shard_size=4, show_progress=False)
    shard = tmp_path / "shards/00001.h5"
    with shard.open("rb") as held:
        # A lock of another process is no reason not to read.
        fcntl.flock(held, fcntl.LOCK_EX)
        np.testing.assert_array_equal(ImageDataset(tmp_path).column("frame"), frames)
    value = np.int64(1_000_009).tobytes()
    assert shard.read_bytes().count(value) == 1
    shard.write_bytes(shard.read_bytes().replace(value, np.int64(7).tobytes()))
    with pytest.raises(UserError, match=r"00001\.h5.*--repair"):
        ImageDataset(tmp_path).column("frame")


@pytest.mark.slow
def test_what_the_checksums_cost(tmp_path: Path) -> None:
    """CPU time of reading packed images of 224 pixels, once they are checked and the first time, over that without."""
    path = make_dataset(tmp_path / "set", 1024, size=224, shard_size=64)
    pack(path, show_progress=False)
    out = np.empty((512, 224, 224, 3), np.uint8)
    rng = np.random.default_rng(0)

    def seconds(images: StoredImages) -> float:
        order, start = rng.permutation(1024), time.process_time()
        for k in (0, 512):
            images.read(order[k : k + 512], out)
        return time.process_time() - start

    plain, checked = StoredImages(path, True), StoredImages(path, True)
    plain.__dict__["_unread"] = None  # as if the record had no checksums
    seconds(checked)
    times = [(seconds(plain), seconds(checked), seconds(StoredImages(path, True))) for _ in range(25)]
    without, later, first = np.median(times, axis=0)
    print(f"later {later / without:.3f}, first {first / without:.3f}")
    assert later < 1.03 * without
