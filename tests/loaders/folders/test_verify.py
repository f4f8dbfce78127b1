"""verify --repair takes out what is proven wrong and nothing else, whatever keeps it from reading the rest."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from synthetic import make_dataset

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.latents.draws import draw
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.lifecycle import begin
from ident3d.loaders.folders.verify import Verified, verify
from ident3d.loaders.format import latents_source, manifest
from ident3d.loaders.format.aside import REMOVED
from ident3d.loaders.format.description import (
    DATASET_FILE,
    SHARDS,
    digest,
    read_description,
    write_description,
)
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.inside import FOLLOW_VARIABLE
from ident3d.loaders.format.latents_source import LATENTS_FILE, npy_bytes, recorded_latents, source_of_copy
from ident3d.loaders.format.manifest import MANIFEST_FILE, entry_of
from ident3d.loaders.format.shard import Shard, encode_shard, read_shard

# A library that, loaded before the others, has a file system refuse locks, or a disk fail to read shards.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

int flock(int fd, int how) { errno = ENOLCK; return -1; }

ssize_t read(int fd, void *into, size_t most) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "read");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0 && getenv("UNREADABLE")) {
        path[length] = 0;
        if (strstr(path, getenv("UNREADABLE"))) { errno = EIO; return -1; }
    }
    return real(fd, into, most);
}
"""


def repaired(path: Path, **options: bool) -> Verified:
    return verify(path, repair=True, show_progress=False, **options)


def shards(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((path / SHARDS).iterdir())}


def taken_out(path: Path) -> dict[str, bytes]:
    """What repairs have moved away, by its name in the dataset."""
    found = {}
    for aside in path.glob(f"{REMOVED}*"):
        found |= {str(file.relative_to(aside)): file.read_bytes() for file in aside.rglob("*") if file.is_file()}
    return found


def run(code: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_dataset(tmp_path / "set", 24)


@contextmanager
def locked(files: Iterator[Path]) -> Iterator[None]:
    """Another process holds an exclusive lock on each file."""
    code = """
import fcntl, sys
held = [open(name, "rb+") for name in sys.argv[1:]]
for file in held:
    fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", code, *map(str, files)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.kill()


def test_a_lock_that_another_process_holds_is_no_damage(path: Path) -> None:
    before = shards(path)
    with locked((path / SHARDS).iterdir()):
        assert repaired(path).sound
        assert len(ImageDataset(path).images([0, 9, 17])) == 3
    assert shards(path) == before


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    if not shutil.which("gcc"):
        pytest.skip("the faulty file system is a library that gcc compiles")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl"],
        check=True,
        capture_output=True,
    )
    return str(folder / "shim.so")


REPAIR = """
import sys
from ident3d.cli import main
main(["verify", sys.argv[1], "--repair"])
"""


def test_a_file_system_without_locks_is_no_damage(path: Path, shim: str) -> None:
    before = shards(path)
    done = run(REPAIR, path, LD_PRELOAD=shim)
    assert done.returncode == 0, done.stdout + done.stderr
    assert shards(path) == before


def test_what_the_disk_does_not_give_is_not_judged_and_what_it_gives_is(path: Path, shim: str) -> None:
    before = shards(path)
    (path / SHARDS / "00002.h5").write_bytes(b"broken")
    done = run(REPAIR, path, LD_PRELOAD=shim, UNREADABLE="00001.h5")
    assert done.returncode == 1
    assert f"not judged: 00001.h5: {os.strerror(errno.EIO)}" in done.stdout
    assert shards(path) == {name: before[name] for name in ("00000.h5", "00001.h5")}
    assert taken_out(path)["shards/00002.h5"] == b"broken"
    done = run(REPAIR.replace(', "--repair"', ""), path, LD_PRELOAD=shim, UNREADABLE="0000")
    assert done.returncode == 1  # images are missing


def test_the_exit_code_of_what_is_only_unjudged_is_3(path: Path, shim: str) -> None:
    done = run(REPAIR, path, LD_PRELOAD=shim, UNREADABLE="00001.h5")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert not taken_out(path)
    assert verify(path, show_progress=False).sound


@pytest.mark.parametrize("unreadable", [MANIFEST_FILE, DATASET_FILE, "all_latents.npy", "packed.json", "images.u8"])
def test_a_small_file_that_cannot_be_read_costs_nothing(path: Path, shim: str, unreadable: str) -> None:
    CliRunner().invoke(main, ["pack", str(path)])
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    done = run(REPAIR, path, LD_PRELOAD=shim, UNREADABLE=unreadable)
    assert done.returncode in (2, 3)
    assert os.strerror(errno.EIO) in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_too_little_memory_is_no_damage(tmp_path: Path) -> None:
    """At whatever moment memory ends, no shard goes; with ever more of it, all of them are sound at last."""
    path = make_dataset(tmp_path / "set", 8, size=256, shard_size=4)
    before = shards(path)
    code = """
import resource, sys
from pathlib import Path
from ident3d.errors import UserError
from ident3d.loaders.folders.verify import verify
path = Path(sys.argv[1])
assert verify(path, show_progress=False).sound
kept = set((path / "shards").iterdir())
pages = int(Path("/proc/self/statm").read_text().split()[0])
for megabytes in (*range(0, 8), 64):
    most = pages * resource.getpagesize() + megabytes * 2**20 // 2
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    try:
        found = verify(path, repair=True, show_progress=False)
        print(len(found.problems), len(found.unjudged), found.sound)
    except (MemoryError, UserError, OSError, RuntimeError) as error:
        print("0 1", type(error).__name__)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert set((path / "shards").iterdir()) == kept, megabytes
    for claim in path.glob(".lease-*"):  # it could not be released, and would lapse in a minute
        claim.unlink()
"""
    done = run(code, path, OMP_NUM_THREADS="1", MALLOC_ARENA_MAX="1", OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert shards(path) == before
    lines = done.stdout.splitlines()
    assert all(line.startswith("0 ") for line in lines)
    assert any(not line.startswith("0 0") for line in lines)
    assert lines[-1] == "0 0 True"


@pytest.mark.parametrize("megabytes", [60, 90])
def test_too_little_memory_to_begin_is_one_sentence(megabytes: int, path: Path) -> None:
    before = shards(path)
    limit = f'ulimit -v {megabytes * 1024}; exec "$@"'
    command = ["sh", "-c", limit, "sh", sys.executable, "-m", "ident3d", "verify", str(path), "--repair"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    # The OpenBLAS of NumPy 2 ends the process itself, in its own words.
    assert done.returncode == (1 if "OpenBLAS error" in done.stderr else 2), done.stderr
    assert "memory" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert shards(path) == before


def test_too_many_open_files_are_no_damage(path: Path) -> None:
    before = shards(path)
    code = """
import os, resource, sys
from pathlib import Path
from ident3d.errors import UserError
from ident3d.loaders.folders.verify import verify
from ident3d.looking.pictures import preview
path = Path(sys.argv[1])
verify(path, show_progress=False), preview(path)
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
most = max(map(int, os.listdir("/proc/self/fd")))
for number in range(most + 8):
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    for act in (lambda: verify(path, repair=True, show_progress=False), lambda: preview(path)):
        try:
            found = act()
            said = [] if not hasattr(found, "problems") else [*found.problems, *found.unjudged]
        except (OSError, UserError) as error:
            said = [error]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        print(*said)
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
"""
    done = run(code, path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert os.strerror(errno.EMFILE) in done.stdout
    assert "damage" not in done.stdout
    assert "--repair" not in done.stdout
    assert shards(path) == before
    assert not taken_out(path)
    assert verify(path, show_progress=False).sound


def test_what_is_broken_is_moved_or_on_request_deleted(path: Path) -> None:
    before = shards(path)
    (path / SHARDS / "00001.h5").write_bytes(b"broken")
    manifest_before = (path / MANIFEST_FILE).read_bytes()
    found = repaired(path)
    assert [problem.shard for problem in found.problems] == ["00001.h5"]
    assert (found.good, found.repaired) == (16, True)
    assert taken_out(path) == {"shards/00001.h5": b"broken", MANIFEST_FILE: manifest_before}
    assert any(REMOVED in line and "00001.h5" in line for line in found.done)
    assert open_folder(path).finished == 16
    (path / SHARDS / "00002.h5").write_bytes(b"broken too")
    assert [problem.shard for problem in repaired(path, delete=True).problems] == ["00002.h5"]
    assert shards(path) == {"00000.h5": before["00000.h5"]}
    assert "shards/00002.h5" not in taken_out(path) or taken_out(path)["shards/00002.h5"] == b"broken too"


def test_delete_without_repair_is_refused(path: Path) -> None:
    with pytest.raises(UserError, match="--delete"):
        verify(path, delete=True)


def test_a_shard_whose_hash_matches_is_never_deleted(path: Path) -> None:
    """Its latents are not those of the seed, and all hashes were changed with them: it is moved, whatever is asked."""
    description, entries = read_description(path), manifest.read_entries(path)
    shard = read_shard(path / SHARDS / "00001.h5")
    other = Shard(np.asarray(shard.images), shard.raw_latents / 2, shard.scene_latents, shard.index)
    data = encode_shard(other, description.settings)
    (path / SHARDS / "00001.h5").write_bytes(data)
    digest = manifest.write_entries(path, [entries[0], entry_of("00001.h5", other, data), entries[2]])
    changed = {**vars(description), "shards_sha256": digest, "all_latents": None}
    write_description(path, type(description)(**changed))
    assert [problem.shard for problem in repaired(path, delete=True).problems] == ["00001.h5"]
    assert taken_out(path)["shards/00001.h5"] == data
    assert sha256(data) == entry_of("00001.h5", other, data).sha256


def emptied(path: Path) -> None:
    (path / MANIFEST_FILE).write_bytes(b"")


def gone(path: Path) -> None:
    (path / MANIFEST_FILE).unlink()


def shortened(path: Path) -> None:
    (path / MANIFEST_FILE).write_bytes((path / MANIFEST_FILE).read_bytes()[:500])


def of_another(path: Path) -> None:
    other = make_dataset(path.parent / "other", 24, seed=1)
    shutil.copy(other / MANIFEST_FILE, path)


@pytest.mark.parametrize("lose", [emptied, gone, shortened, of_another])
def test_a_lost_manifest_is_rebuilt_from_the_shards_to_the_same_bytes(path: Path, lose: Callable[[Path], None]) -> None:
    before, lines = shards(path), (path / MANIFEST_FILE).read_bytes()
    lose(path)
    found = verify(path, show_progress=False)
    assert (found.good, found.missing, len(found.problems)) == (24, 0, 1)
    assert not found.sound
    found = repaired(path)
    assert any(MANIFEST_FILE in line and "3 shards" in line for line in found.done)
    assert (path / MANIFEST_FILE).read_bytes() == lines
    assert shards(path) == before
    assert verify(path, show_progress=False).sound
    assert len(ImageDataset(path)) == 24


def test_a_lost_manifest_and_a_broken_shard(path: Path) -> None:
    gone(path)
    data = bytearray((path / SHARDS / "00001.h5").read_bytes())
    data[len(data) // 2] ^= 1
    (path / SHARDS / "00001.h5").write_bytes(data)
    repaired(path)
    assert open_folder(path).finished in (16, 24)  # 24: the flip is where HDF5 keeps nothing
    assert not open_folder(path).description.complete
    assert not verify(path, show_progress=False).problems


def test_lost_shards_are_missing_and_the_folder_stays_usable(path: Path) -> None:
    shutil.rmtree(path / SHARDS)
    found = repaired(path)
    assert (found.good, found.missing) == (0, 0)
    found = verify(path, show_progress=False)
    assert (found.good, found.missing, found.problems) == (0, 24, ())


def test_description_and_manifest_are_both_rebuilt(path: Path) -> None:
    before = read_description(path)
    (path / MANIFEST_FILE).unlink()
    (path / DATASET_FILE).write_bytes(b"{")
    assert repaired(path).good == 24
    assert read_description(path) == before.as_incomplete()
    assert open_folder(path).finished == 24
    (path / MANIFEST_FILE).unlink()
    (path / DATASET_FILE).unlink()
    assert repaired(path).good == 24
    assert read_description(path) == before.as_incomplete()


def test_a_manifest_is_rebuilt_only_when_all_shards_can_be_read(path: Path, shim: str) -> None:
    """Else it would forget those that are there and cannot be read."""
    gone(path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    done = run(REPAIR, path, LD_PRELOAD=shim, UNREADABLE="00001.h5")
    assert done.returncode == 1
    assert "Nothing was changed" in done.stdout
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    assert repaired(path).good == 24


def test_a_description_of_a_later_version_is_left_alone(path: Path) -> None:
    content = json.loads((path / DATASET_FILE).read_text())
    del content["digest"]
    later = [content | {"format_version": 2}, content | {"settings": content["settings"] | {"world": {"scene": "new"}}}]
    for each in later:
        (path / DATASET_FILE).write_text(json.dumps(each | {"digest": digest(each)}))
        before = shards(path) | {DATASET_FILE: (path / DATASET_FILE).read_bytes()}
        with pytest.raises(UserError, match=r"format 2|new"):
            repaired(path)
        assert shards(path) | {DATASET_FILE: (path / DATASET_FILE).read_bytes()} == before
        assert not taken_out(path)
    # A version that no digest goes with is damage.
    (path / DATASET_FILE).write_text(json.dumps(later[0] | {"digest": digest(content)}))
    assert repaired(path).good == 24


def test_a_description_is_rebuilt_from_shards_that_the_manifest_vouches_for(path: Path) -> None:
    settings = read_description(path).settings
    for hurt, other in (("00000.h5", settings | {"size": 32}), ("00002.h5", settings)):
        good = shards(path)[hurt]
        shard = read_shard(path / SHARDS / hurt)
        index = np.zeros(len(shard.index), np.int64)
        lying = Shard(np.asarray(shard.images), shard.raw_latents, shard.scene_latents, index)
        (path / SHARDS / hurt).write_bytes(encode_shard(lying, other))
        (path / DATASET_FILE).unlink()
        repaired(path)
        description = read_description(path)
        assert (description.settings, description.n, description.shard_size) == (settings, 24, 8)
        assert hurt not in shards(path)
        assert len(shards(path)) == 2
        (path / SHARDS / hurt).write_bytes(good)
        (path / MANIFEST_FILE).unlink()
        assert repaired(path).good == 24


@pytest.mark.parametrize("change", ["settings", "index"])
def test_shards_that_contradict_one_another_rebuild_nothing(change: str, path: Path) -> None:
    settings = read_description(path).settings
    shard = read_shard(path / SHARDS / "00002.h5")
    index = shard.index if change == "settings" else shard.index - 10
    lying = Shard(np.asarray(shard.images), shard.raw_latents, shard.scene_latents, index)
    data = encode_shard(lying, settings | {"size": 32} if change == "settings" else settings)
    (path / SHARDS / "00002.h5").write_bytes(data)
    (path / DATASET_FILE).unlink()
    (path / MANIFEST_FILE).unlink()
    before = shards(path)
    with pytest.raises(UserError, match="0 and 2"):
        repaired(path)
    assert shards(path) == before


def test_without_a_description_no_shard_is_written_over_another(path: Path) -> None:
    """Of 24 images in three shards, others would get the names of those that are there."""
    settings = read_description(path).settings
    (path / DATASET_FILE).unlink()
    for n, size, named in ((24, 4, "00000"), (24, 16, "00001"), (16, 8, "00002"), (24, None, "00001")):
        with pytest.raises(UserError, match=named):
            begin(path, settings, n, size)
    (path / SHARDS / "00000.h5").write_bytes(b"broken")
    with pytest.raises(UserError, match="another dataset"):
        begin(path, settings | {"size": 32}, 24, 8)
    assert begin(path, settings, 32, 8).shard_size == 8


def test_settings_of_shards_are_checked_before_they_are_used(path: Path) -> None:
    for name in shards(path):
        shard = read_shard(path / SHARDS / name)
        (path / SHARDS / name).write_bytes(encode_shard(shard, {"size": "large"}))
    (path / DATASET_FILE).unlink()
    (path / MANIFEST_FILE).unlink()
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)
    assert "world" in done.stderr


def test_a_shard_that_no_line_lists_and_nobody_can_take_apart_costs_no_other(path: Path) -> None:
    before = shards(path)
    (path / SHARDS / "00002.h5").write_bytes(b"broken")
    (path / DATASET_FILE).unlink()
    (path / MANIFEST_FILE).unlink()
    repaired(path)
    (path / SHARDS / "00002.h5").write_bytes(before["00002.h5"])
    (path / MANIFEST_FILE).unlink()
    assert repaired(path).good == 24
    assert shards(path) == before


def test_a_copy_of_the_latents_that_only_a_rebuilt_description_calls_wrong_is_kept(path: Path) -> None:
    (path / LATENTS_FILE).write_bytes(b"theirs")
    settings = read_description(path).settings
    for name in shards(path):
        shard = read_shard(path / SHARDS / name)
        other = settings | {"source": source_of_copy(b"others", 0, "train")}
        (path / SHARDS / name).write_bytes(encode_shard(shard, other))
    (path / DATASET_FILE).unlink()
    (path / MANIFEST_FILE).unlink()
    repaired(path, delete=True)
    assert taken_out(path)[LATENTS_FILE] == b"theirs"


@pytest.mark.parametrize("finished", [True, False])
def test_no_flip_in_a_manifest_costs_a_shard(finished: bool, tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 12, size=8, shard_size=4, finished=finished)
    before, lines = shards(path), (path / MANIFEST_FILE).read_bytes()
    rng = random.Random(0)
    for _ in range(60):
        flipped = bytearray(lines)
        flipped[rng.randrange(len(lines))] ^= 1 << rng.randrange(8)
        (path / MANIFEST_FILE).write_bytes(flipped)
        repaired(path, delete=True)
        assert shards(path) == before
        if manifest.read_entries(path) != [manifest.parse_line(line) for line in lines.splitlines()]:
            # a flip of the last newline cuts the line short, and the next run enters its shard again
            assert not finished
            assert len(manifest.read_entries(path)) == 2
        assert read_description(path).complete == finished


def test_a_lock_or_a_lack_of_files_is_no_reason_to_repair(path: Path) -> None:
    """The advice of the commands that read shards is --repair only for what is proven."""
    data = bytearray((path / SHARDS / "00000.h5").read_bytes())
    data[-1] ^= 1
    (path / SHARDS / "00000.h5").write_bytes(data)
    for words in (["preview", str(path), "--out", str(path.parent / "x.png")], ["pack", str(path)]):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2
        assert "hash" in done.stderr
        assert "--repair" in done.stderr
    (path / SHARDS / "00000.h5").chmod(0)
    if os.access(path / SHARDS / "00000.h5", os.R_OK):
        return  # root may read everything
    done = CliRunner().invoke(main, ["pack", str(path)])
    assert "--repair" not in done.stderr


def test_json_says_what_was_not_judged(path: Path, shim: str) -> None:
    done = run(REPAIR.replace('"--repair"', '"--json"'), path, LD_PRELOAD=shim, UNREADABLE="00001.h5")
    found = json.loads(done.stdout)
    assert [each["shard"] for each in found["unjudged"]] == ["00001.h5"]
    assert (found["good"], found["sound"], found["problems"]) == (16, False, [])


def test_a_dataset_whose_run_was_killed_before_it_closed_is_not_sound(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 24, finished=False)
    found = verify(path, show_progress=False)
    assert (found.good, found.missing, found.problems, found.closed, found.sound) == (24, 0, (), False, False)
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert done.exit_code == 1
    assert "not closed" in done.stdout
    assert "ident3d render" in done.stdout
    with pytest.raises(UserError, match=r"24 of 24 images.*ident3d render.* closes it"):
        ImageDataset(path)


def test_a_shard_that_is_as_recorded_but_not_understood_or_a_link_stays_where_it_is(path: Path) -> None:
    """A later version may have written the first; the second is the user's own doing."""
    description, entries = read_description(path), manifest.read_entries(path)
    later = b"of a later version"
    (path / SHARDS / "00001.h5").write_bytes(later)
    entries[1] = replace(entries[1], sha256=sha256(later), bytes=len(later))
    write_description(path, replace(description, shards_sha256=manifest.write_entries(path, entries)))
    (path / SHARDS / "00002.h5").rename(path.parent / "blob")
    (path / SHARDS / "00002.h5").symlink_to(path.parent / "blob")
    found = repaired(path, delete=True)
    assert [each.shard for each in found.unjudged] == ["00001.h5", "00002.h5"]
    assert "a link" in found.unjudged[1].what
    assert (path / SHARDS / "00001.h5").read_bytes() == later
    assert (path / SHARDS / "00002.h5").is_symlink()
    assert not taken_out(path)


def test_a_lost_description_is_rebuilt_and_every_command_says_how(path: Path) -> None:
    (path / DATASET_FILE).unlink()
    for command in ("info", "pack", "preview"):
        done = CliRunner().invoke(main, [command, str(path)])
        assert done.exit_code == 2
        assert "ident3d verify --repair" in done.stderr
    done = CliRunner().invoke(main, ["verify", str(path), "--repair"])
    assert done.exit_code == 1
    assert f"{DATASET_FILE} is written anew" in done.stdout
    assert read_description(path).n == 24
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert done.exit_code == 1
    assert "not closed" in done.stdout
    (path / DATASET_FILE).unlink()
    os.mkfifo(path / DATASET_FILE)
    assert "a FIFO" in CliRunner().invoke(main, ["info", str(path)]).stderr


def test_every_image_is_in_one_of_the_numbers(path: Path) -> None:
    shutil.rmtree(path / SHARDS)
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert "24 are lost" in done.stdout
    emptied(path)
    assert "ident3d verify --repair" in CliRunner().invoke(main, ["info", str(path)]).stderr


def test_a_link_is_not_said_to_be_readable_where_it_is_read_already(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path / SHARDS).rename(path.parent / "elsewhere")
    (path / SHARDS).symlink_to(path.parent / "elsewhere")
    monkeypatch.setenv(FOLLOW_VARIABLE, "1")
    with pytest.raises(UserError, match="nothing is written or deleted") as caught:
        repaired(path)
    assert FOLLOW_VARIABLE not in str(caught.value)


def test_the_copy_of_the_latents_is_read_once_for_all_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("3dident")
    raw = draw(world, seed=0, split="train", start=0, count=24).raw
    (tmp_path / LATENTS_FILE).write_bytes(data := npy_bytes(raw))
    settings = {"world": world.as_dict(), "source": source_of_copy(data, 0, "train")}
    reads = list[str]()
    real = latents_source.read_plain
    monkeypatch.setattr(latents_source, "read_plain", lambda path, name: reads.append(name) or real(path, name))
    for first in (0, 8, 16):
        found = recorded_latents(tmp_path, settings, first, 8)
        assert found
        assert np.array_equal(found.raw, raw[first : first + 8])
    assert reads == [LATENTS_FILE]
    (tmp_path / LATENTS_FILE).write_bytes(data[:-1] + b"x")
    with pytest.raises(UserError, match=LATENTS_FILE):
        recorded_latents(tmp_path, settings, 0, 8)
