"""Addresses of stores, and datasets in one that is in this process's memory."""

import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex

import numpy as np
import pytest
from click.testing import CliRunner
from synthetic import make_dataset

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.exports.export_to import export_to
from ident3d.loaders.exports.exporting import export
from ident3d.loaders.folders.folder import local_copy, open_folder
from ident3d.loaders.folders.packed import pack
from ident3d.loaders.folders.store_transfer import refuse_strangers
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format import manifest
from ident3d.loaders.format.aside import REMOVED
from ident3d.loaders.format.description import DATASET_FILE, SHARDS
from ident3d.loaders.format.files import TEMPORARY
from ident3d.loaders.layouts.importing import import_
from ident3d.loaders.stores import cache as cached
from ident3d.loaders.stores.cache import ENTRIES, ORIGIN
from ident3d.loaders.stores.data_root import ENVIRONMENT_VARIABLE, data_root
from ident3d.loaders.stores.store import Store, store_or_folder
from ident3d.looking.info import info

pytest.importorskip("fsspec")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def store() -> Store:
    return Store(f"memory://{token_hex(8)}/data")


def upload(folder: Path, store: Store) -> None:
    """Put all of a folder's files into the store under their own names."""
    for file in folder.rglob("*"):
        if file.is_file():
            store.put(str(file.relative_to(folder)), file.read_bytes())


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("data/x", Path("data/x")),
        (Path("data/x"), Path("data/x")),
        ("file:///data/x/", Path("/data/x")),
        ("file://localhost/data/x", Path("/data/x")),
        ("s3://bucket/a/b/", Store("s3://bucket/a/b")),
        ("gs://bucket", Store("gs://bucket")),
    ],
)
def test_an_address_is_a_store_or_a_folder(given: str | Path, meant: Path | Store) -> None:
    assert store_or_folder(given) == meant


@pytest.mark.parametrize(
    "text",
    [
        "file://host/data",
        "s3://",
        "s3://b/../c",
        "s3://b//c",
        "zip://a::s3://b",
        "s3://b#c",
        "s3://b/run*/x",
        "s3://b/[1]/x",
    ],
)
def test_an_address_that_is_no_plain_folder_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"plain address|names the host"):
        store_or_folder(text)


def test_an_address_that_became_a_path_is_refused_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = make_dataset(tmp_path / "data", 8)
    for use in (
        lambda: store_or_folder(Path("s3://bucket/data")),
        lambda: data_root("s3://bucket"),
        lambda: export(folder, "s3://bucket/out", show_progress=False),
        lambda: import_(folder, "s3://bucket/out", show_progress=False),
    ):
        with pytest.raises(UserError, match=r"s3:/+bucket.* is an address"):
            use()
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "gs://bucket")
    with pytest.raises(UserError, match="gs://bucket is an address"):
        data_root()
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("text", ["s3://key:hunter2@bucket/data", "https://host/data?token=hunter2"])
def test_an_address_with_credentials_is_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(UserError, match="user name, password or query") as raised:
        ImageDataset(text)
    assert "hunter2" not in str(raised.value)


def test_what_a_file_system_says_is_told_without_credentials(store: Store) -> None:
    with pytest.raises(OSError, match="//…@host") as raised, store._open():
        raise OSError("no answer from https://key:hunter2@host/x?token=hunter2")
    assert "hunter2" not in str(raised.value)


def test_without_its_packages_one_sentence_says_what_to_install() -> None:
    code = """
import sys
sys.modules["fsspec"] = None
from ident3d.cli import main
main(["info", "s3://bucket/data"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'ident3d[cluster]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_objects_are_put_listed_fetched_and_made_only_once(store: Store) -> None:
    store.put("a/1", b"one")
    assert store.get("a/1") == b"one"
    assert store.get("a/2") is None
    assert store.create("a/2", b"two")
    assert not store.create("a/2", b"three")
    assert store.get_all(["a/2", "a/3", "a/1"]) == [b"two", b"one"]
    assert store.sizes("a") == {"1": 3, "2": 3}
    assert store.sizes("b") == {}
    assert store.modified("a/9") is None
    store.remove("a/1")
    store.remove("a/1")
    assert store.sizes("a") == {"2": 3}


def test_a_file_system_that_takes_no_options_of_ours_is_used(tmp_path: Path) -> None:
    """As sftp's, which hands all that it is given on to its connection."""
    fsspec = pytest.importorskip("fsspec")

    class Bare(fsspec.get_filesystem_class("local")):  # type: ignore[misc]
        protocol = "bare"

        def __init__(self) -> None:
            super().__init__()

    fsspec.register_implementation("bare", Bare, clobber=True)
    upload(make_dataset(tmp_path / "data", 8), Store(f"bare://{tmp_path}/far"))
    assert len(ImageDataset(f"bare://{tmp_path}/far")) == 8


def test_folders_of_others_are_strangers_and_our_own_are_none(store: Store) -> None:
    for ours in ("shards/00000.h5", "entries/00000.json", "lease/1", f"{TEMPORARY}0-dataset.json"):
        store.put(ours, b"")
    refuse_strangers(store)
    store.put("holiday/photo.jpg", b"")
    assert store.folders() == {"shards", "entries", "lease", "holiday"}
    with pytest.raises(UserError, match=f"{store} exists and is not a dataset"):
        refuse_strangers(store)


def test_a_dataset_in_a_store_reads_as_the_folder_does(store: Store, tmp_path: Path, cache: Path) -> None:
    folder = make_dataset(tmp_path / "data", 40, classes=3)
    upload(folder, store)
    here, there = ImageDataset(folder), ImageDataset(store.url)
    every = range(40)
    np.testing.assert_array_equal(there.images(every), here.images(every))
    np.testing.assert_array_equal(there.latents(every), here.latents(every))
    assert there.mean == here.mean
    assert info(store.url).as_dict() == info(folder).as_dict() | {"path": store.url}
    copies = sorted((cache / "ident3d" / "objects").rglob("*.h5"))
    assert [copy.parent.name for copy in copies] == sorted(entry.sha256 for entry in open_folder(folder).entries)
    assert pack(store.url, show_progress=False).path.is_relative_to(cache)
    assert ImageDataset(store.url, packed=True).packed


def test_a_copy_is_used_only_with_its_hash_and_made_again_otherwise(store: Store, tmp_path: Path, cache: Path) -> None:
    upload(make_dataset(tmp_path / "data", 8), store)
    before = ImageDataset(store.url).images(range(8))
    (copy,) = (cache / "ident3d" / "objects").rglob("*.h5")
    copy.write_bytes(bytes(100))
    cached._checked.clear()  # as in another process
    np.testing.assert_array_equal(ImageDataset(store.url).images(range(8)), before)
    copy.unlink()
    np.testing.assert_array_equal(ImageDataset(store.url).images(range(8)), before)


def test_the_least_recently_used_copies_make_room(
    store: Store, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_dataset(tmp_path / "data", 40)
    upload(folder, store)
    here, there = ImageDataset(folder), ImageDataset(store.url)
    sizes = [entry.bytes for entry in open_folder(folder).entries]
    monkeypatch.setenv(cached.BOUND_VARIABLE, str(2.5 * max(sizes) / 1e9))
    copies = cache / "ident3d" / "objects"

    def read(shard: int) -> set[str]:
        image = [8 * shard]
        np.testing.assert_array_equal(ImageDataset(store.url).images(image), here.images(image))
        return {copy.name for copy in copies.rglob("*.h5")}

    there.images([0])
    assert [len(read(shard)) for shard in range(5)] == [1, 2, 3, 4, 5]  # all of them are new
    monkeypatch.setattr(cached, "MOMENT_SECONDS", 0.0)
    (copies / open_folder(folder).entries[4].sha256 / "00004.h5").unlink()
    assert read(4) == {"00003.h5", "00004.h5"}
    assert read(3) == {"00003.h5", "00004.h5"}
    assert read(1) == {"00003.h5", "00001.h5"}
    assert not [folder for folder in copies.iterdir() if not any(folder.iterdir())]
    np.testing.assert_array_equal(there.images(range(8)), here.images(range(8)))  # it is gone, but was open
    assert read(1) == {"00003.h5", "00001.h5"}
    monkeypatch.setenv(cached.BOUND_VARIABLE, "much")
    with pytest.raises(UserError, match=r"IDENT3D_CACHE_GB.*'much'"):
        read(0)


def test_processes_that_make_room_at_the_same_time_do_not_stumble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cached.BOUND_VARIABLE, "0")
    monkeypatch.setattr(cached, "MOMENT_SECONDS", 0.0)

    def fill(reader: int) -> None:
        for number in range(50):
            folder = tmp_path / "objects" / f"{reader}-{number}"
            folder.mkdir(parents=True)
            (folder / "00000.h5").write_bytes(bytes(10))
            cached.hold_to_bound(tmp_path / "objects", 10)

    with ThreadPoolExecutor(4) as readers:
        list(readers.map(fill, range(4)))
    assert not list((tmp_path / "objects").rglob("*.h5"))


def test_a_damaged_or_missing_shard_is_named_and_not_kept(store: Store, tmp_path: Path, cache: Path) -> None:
    upload(make_dataset(tmp_path / "data", 16), store)
    name = f"{SHARDS}/00001.h5"
    data = store.get(name)
    assert data
    store.put(name, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(UserError, match=rf"{store.url}/{name} does not match its sha256"):
        ImageDataset(store.url).images([9])
    assert not list((cache / "ident3d" / "objects").rglob("00001.h5"))
    found = verify(store.url, show_progress=False)
    assert [problem.shard for problem in found.problems] == ["00001.h5"]
    assert found.good == 8
    store.put(name, data[:-1])
    with pytest.raises(UserError, match=rf"{store.url}/{name} has {len(data) - 1} bytes instead of {len(data)}"):
        ImageDataset(store.url)
    store.remove(name)
    with pytest.raises(UserError, match=rf"{store.url}/{name} is missing"):
        ImageDataset(store.url)


@pytest.mark.parametrize("victim", ["shards/00001.h5", "all_latents.npy", "shards.jsonl"])
def test_repair_in_a_store_leaves_what_is_sound(store: Store, tmp_path: Path, victim: str) -> None:
    upload(make_dataset(tmp_path / "data", 24), store)
    assert verify(store.url, show_progress=False).sound
    data = store.get(victim)
    assert data
    place = data.index(b'"count": 8') + 9 if victim.endswith("l") else len(data) - 1
    store.put(victim, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert not verify(store.url, show_progress=False).sound
    assert store.get(victim) != data
    repaired = verify(store.url, repair=True, show_progress=False)
    assert repaired.repaired
    assert not any(str(tmp_path) in problem.what or "/tmp" in problem.what for problem in repaired.problems)
    opened = open_folder(store.url)
    # The shards say what a damaged manifest said. They do not replace each other, nor the table.
    assert opened.description.complete == (victim == "shards.jsonl")
    assert (store.get(victim) == data) == opened.description.complete
    aside = [name for name in store.folders() if name.startswith(REMOVED)]
    assert len(aside) == 1
    assert store.get(f"{aside[0]}/{victim}") == data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    assert not verify(store.url, show_progress=False).problems
    assert opened.finished == sum(entry.count for entry in opened.entries)
    assert opened.finished >= 8
    assert {entry.name for entry in opened.entries} <= set(store.sizes(SHARDS))


def test_an_unfinished_dataset_is_its_manifest_and_the_entries_beside_it(store: Store, tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "data", 24, finished=False)
    upload(folder, store)
    first, *later = (folder / manifest.MANIFEST_FILE).read_text().splitlines(keepends=True)
    store.put(manifest.MANIFEST_FILE, first.encode())
    assert open_folder(store.url).finished == 8
    for line in later:
        store.put(f"{ENTRIES}/{manifest.parse_line(line).name}.json", line.encode())
    assert open_folder(store.url).entries == open_folder(folder).entries
    with pytest.raises(UserError, match=f"{store.url} is not closed yet"):
        ImageDataset(store.url)
    store.put(f"{ENTRIES}/00009.json", b"{}\n")
    with pytest.raises(UserError, match="damaged in line 4"):
        open_folder(store.url)


def test_two_states_of_a_dataset_do_not_share_a_copy(store: Store, tmp_path: Path) -> None:
    upload(make_dataset(tmp_path / "one", 16, seed=1), store)
    first = local_copy(store.url)
    upload(make_dataset(tmp_path / "two", 16, seed=2), store)
    assert local_copy(store.url) != first
    np.testing.assert_array_equal(ImageDataset(store.url).images([3]), ImageDataset(tmp_path / "two").images([3]))


def test_a_dataset_cannot_send_its_reader_to_a_store(store: Store, tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "data", 8)
    upload(folder, store)
    (folder / ORIGIN).write_text(store.url)
    (folder / SHARDS / "00000.h5").unlink()
    with pytest.raises(UserError, match=rf"{folder}/{SHARDS}/00000.h5 is missing"):
        open_folder(folder)


def test_nothing_there_is_said_to_be_nothing(store: Store) -> None:
    with pytest.raises(UserError, match=f"{store.url} is not a dataset"):
        ImageDataset(store.url)
    with pytest.raises(UserError, match="is not a dataset"):
        verify(store.url)


def test_a_store_without_conditional_writes_is_written_whole_and_told_of_once(tmp_path: Path) -> None:
    """fsspec's own `local` stands for all the file systems of which we do not know that they have such writes."""
    store = Store(f"local://{tmp_path}/far/data")
    upload(make_dataset(tmp_path / "data", 16), store)
    assert verify(store.url, show_progress=False).sound
    store.put(DATASET_FILE, store.get(DATASET_FILE) or b"")
    assert not list((tmp_path / "far").rglob(".partial-*"))
    store.put("all_latents.npy", b"")
    with pytest.warns(UserWarning, match="is not guarded against a second writer") as told:
        verify(store.url, repair=True, show_progress=False)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_folder(store.url).finished == 16


def test_the_command_line_says_that_a_store_is_unguarded(tmp_path: Path) -> None:
    store = Store(f"local://{tmp_path}/data")
    upload(make_dataset(tmp_path / "made", 8), store)
    done = CliRunner().invoke(main, ["verify", store.url, "--repair"])
    assert done.exit_code == 0
    notes = [line for line in done.stderr.splitlines() if line.startswith("Note: ")]
    assert len(notes) == 1
    assert f"{store} is not guarded against a second writer" in notes[0]


def test_a_dataset_in_a_store_is_exported_as_that_of_a_folder_is(store: Store, tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "data", 20)
    (folder / "README.md").write_text("# data\n\nmy own words\n")
    upload(folder, store)
    found = []
    for k, source in enumerate((folder, str(store))):
        out = export_to(source, tmp_path / f"{k}/out", "webdataset", show_progress=False).path
        found.append({file.name: file.read_bytes() for file in out.iterdir()})
    assert found[0] == found[1]
    assert len(found[0]) == 4
    assert b"# out\n\nmy own words\n" in found[1]["README.md"]
