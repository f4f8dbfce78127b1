"""Links and FIFOs inside a dataset folder: nothing is written, deleted or read through them, and nothing blocks."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.lifecycle import begin, remove_dataset
from ident3d.loaders.folders.output import hold_output
from ident3d.loaders.folders.packed import PACKED_FILE, PIXELS_FILE, pack
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format import manifest
from ident3d.loaders.format.description import DATASET_FILE, SHARDS
from ident3d.loaders.format.files import TEMPORARY, remove_partial_files, write_atomically
from ident3d.loaders.format.inside import FOLLOW_VARIABLE, NotPlain
from ident3d.loaders.format.latents_table import TABLE_FILE
from ident3d.loaders.stores.lease import LEASE_PREFIX, lease


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """End a test that blocks."""

    def end(*_: object) -> None:
        raise AssertionError("blocked")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def state(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of somebody else, with shards that match the dataset's in name, and a partial file."""
    folder = make_dataset(tmp_path / "elsewhere", 16) / SHARDS
    (folder / f"{TEMPORARY}theirs").write_bytes(b"theirs")
    (folder / "00000.h5").write_bytes(b"theirs")
    return folder


def with_linked_shards(path: Path, outside: Path) -> Path:
    make_dataset(path, 16)
    for file in (path / SHARDS).iterdir():
        file.unlink()
    (path / SHARDS).rmdir()
    (path / SHARDS).symlink_to(outside)
    return path


def resume(path: Path) -> None:
    with hold_output(path) as output:
        opened = manifest.read_entries(path)
        description = begin(path, read_settings(path), 16, 8)
        output.resume(description, opened)


def read_settings(path: Path) -> dict[str, object]:
    from ident3d.loaders.format.description import read_description

    return read_description(path).settings


@pytest.mark.parametrize(
    "act",
    [
        lambda path: verify(path, repair=True, show_progress=False),
        lambda path: verify(path, show_progress=False),
        open_folder,
        remove_dataset,
        resume,
        lambda path: remove_partial_files(path, SHARDS),
        lambda path: write_atomically(path / SHARDS / "00001.h5", b"ours", within=path),
    ],
    ids=["repair", "verify", "open", "clear", "resume", "partial files", "write"],
)
def test_linked_shards_are_refused_and_nothing_changes_behind_them(
    act: Callable[[Path], object], outside: Path, tmp_path: Path
) -> None:
    path, before = with_linked_shards(tmp_path / "set", outside), state(outside)
    with pytest.raises(UserError, match=r"shards is a link"):
        act(path)
    assert state(outside) == before


def test_linked_shards_are_read_where_the_user_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make_dataset(tmp_path / "whole", 16)
    path = with_linked_shards(tmp_path / "set", whole / SHARDS)
    monkeypatch.setenv(FOLLOW_VARIABLE, "0")
    with pytest.raises(UserError, match=FOLLOW_VARIABLE):
        ImageDataset(path)
    monkeypatch.setenv(FOLLOW_VARIABLE, "1")
    assert (ImageDataset(path).images([9]) == ImageDataset(whole).images([9])).all()
    assert verify(path, show_progress=False).sound
    before = state(whole)
    (whole / SHARDS / "00001.h5").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"shards is a link"):
        verify(path, repair=True, show_progress=False)
    assert state(whole) == before | {f"{SHARDS}/00001.h5": b"broken"}


def test_shards_that_are_links_are_not_called_missing(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    (path / SHARDS / "00001.h5").rename(tmp_path / "blob")
    (path / SHARDS / "00001.h5").symlink_to(tmp_path / "blob")
    with pytest.raises(NotPlain, match=rf"00001\.h5 is a link.*{FOLLOW_VARIABLE}") as caught:
        open_folder(path)
    assert "--repair" not in str(caught.value)


def test_a_linked_packed_file_is_read_where_the_user_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_dataset(tmp_path / "set", 16)
    pack(path, show_progress=False)
    (path / PIXELS_FILE).rename(tmp_path / "blob")
    (path / PIXELS_FILE).symlink_to(tmp_path / "blob")
    assert not ImageDataset(path).packed
    monkeypatch.setenv(FOLLOW_VARIABLE, "1")
    assert ImageDataset(path, packed=True).images([9]).any()
    assert verify(path, show_progress=False).sound


def test_a_linked_manifest_is_neither_read_nor_appended_to(tmp_path: Path) -> None:
    path, theirs = make_dataset(tmp_path / "set", 16, finished=False), tmp_path / "theirs"
    (path / manifest.MANIFEST_FILE).rename(theirs)
    (path / manifest.MANIFEST_FILE).symlink_to(theirs)
    entries, before = [manifest.parse_line(line) for line in theirs.read_text().splitlines()], theirs.read_bytes()
    with pytest.raises(UserError, match=r"shards\.jsonl is a link"):
        manifest.append_entry(path, entries[0])
    with pytest.raises(UserError, match=r"shards\.jsonl is a link"):
        open_folder(path)
    verify(path, repair=True, show_progress=False)
    assert theirs.read_bytes() == before
    assert not (path / manifest.MANIFEST_FILE).is_symlink()
    assert open_folder(path).entries == tuple(entries)


def test_the_folder_itself_may_be_a_link_because_the_user_named_it(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    (tmp_path / "link").symlink_to(path)
    (path / SHARDS / "00001.h5").write_bytes(b"broken")
    assert verify(tmp_path / "link", repair=True, show_progress=False).repaired
    assert open_folder(path).finished == 8


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [fifo, device])
@pytest.mark.parametrize("name", [manifest.MANIFEST_FILE, DATASET_FILE, TABLE_FILE, PACKED_FILE, f"{SHARDS}/00001.h5"])
@pytest.mark.parametrize("follow", ["0", "1"])
def test_no_reader_waits_for_what_is_no_file(
    put: Callable[[Path], None], name: str, follow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLLOW_VARIABLE, follow)
    path = make_dataset(tmp_path / "set", 16)
    pack(path, show_progress=False)
    (path / name).unlink()
    put(path / name)
    if name in (TABLE_FILE, PACKED_FILE):  # the shards hold the same
        assert len(ImageDataset(path).all_latents()[0]) == 16
        assert not ImageDataset(path).packed or name == TABLE_FILE
    else:
        with pytest.raises(UserError, match=Path(name).name):
            open_folder(path)
    assert not verify(path, show_progress=False).sound
    verify(path, repair=True, show_progress=False)
    assert not verify(path, show_progress=False).problems
    assert not (path / name).is_fifo()
    assert not (path / name).is_symlink()


def test_a_fifo_is_said_to_be_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / manifest.MANIFEST_FILE)
    with pytest.raises(NotPlain, match="a FIFO"):
        manifest.read_manifest(tmp_path)
    with pytest.raises(NotPlain, match="a FIFO"):
        manifest.append_entry(tmp_path, manifest.read_entries(make_dataset(tmp_path / "set", 8))[0])


@pytest.mark.parametrize("put", [fifo, device, Path.mkdir], ids=["fifo", "device", "folder"])
def test_what_has_the_name_of_a_lease_and_is_no_file_holds_nobody_up(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    for name in ("1", "2", "0007", "9" * 40, "two"):
        put(tmp_path / f"{LEASE_PREFIX}{name}")
    with lease(tmp_path) as held:
        held.check()
        with pytest.raises(UserError, match=f"process {os.getpid()} on "), lease(tmp_path):
            pass
    assert len(list(tmp_path.iterdir())) == 5


def test_a_lease_dated_in_the_future_lapses(tmp_path: Path) -> None:
    claim = tmp_path / f"{LEASE_PREFIX}1"
    claim.write_bytes(b"{}")
    os.utime(claim, (2**33, 2**33))
    with pytest.raises(UserError, match="another process"), lease(tmp_path):
        pass
    with lease(tmp_path, lapse_seconds=0) as held:  # as after a minute
        held.check()
    assert not claim.exists()
