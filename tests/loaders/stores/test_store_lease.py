"""The lease on a store with conditional writes: a local S3 server, and processes that are killed and stopped."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ident3d.errors import UserError
from ident3d.loaders.folders.store_transfer import refuse_strangers
from ident3d.loaders.stores.owners import start_time
from ident3d.loaders.stores.store import Store
from ident3d.loaders.stores.store_lease import LEASE_FOLDER, StoreClaims, lease_on_store

# Takes the lease when told to and says what came of it; then, at each line that it reads, whether it still holds it.
HOLD = """
import sys
from ident3d.errors import UserError
from ident3d.loaders.stores.store_lease import lease_on_store
from ident3d.loaders.stores.store import Store
store = Store(sys.argv[1])
store.sizes("")
print("ready", flush=True)
sys.stdin.readline()
try:
    with lease_on_store(store, beat_seconds=0.2) as held:
        print("held", flush=True)
        for _ in sys.stdin:
            held.check()
            print("ours", flush=True)
except UserError as error:
    print(error, flush=True)
"""


@contextmanager
def clients(store: Store, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, "-c", HOLD, store.url]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    try:
        assert [said(client) for client in started] == ["ready"] * count
        yield started
    finally:
        for client in started:
            client.kill()
            client.communicate()


def said(client: subprocess.Popen[str]) -> str:
    assert client.stdout
    return client.stdout.readline().strip()


def tell(client: subprocess.Popen[str]) -> None:
    assert client.stdin
    client.stdin.write("\n")
    client.stdin.flush()


def test_of_two_clients_one_holds_the_store_and_a_dead_one_is_followed_at_once(bucket: str) -> None:
    store = Store(f"{bucket}/data")
    with clients(store, 2) as contending:
        for client in contending:
            tell(client)
        answers = [said(client) for client in contending]
        (owner,) = [client for client, answer in zip(contending, answers, strict=True) if answer == "held"]
        refusals = [answer for answer in answers if answer != "held"]
        assert all(f"{store} is being written by " in answer or "Many processes" in answer for answer in refusals)
        with pytest.raises(UserError, match=f"process {owner.pid} on "), lease_on_store(store):
            pass
        tell(owner)
        assert said(owner) == "ours"
        owner.kill()
        while start_time(owner.pid):
            time.sleep(0.01)
        with lease_on_store(store) as held:
            held.check()
    assert store.sizes(LEASE_FOLDER) == {}


def test_a_stopped_owner_lapses_by_the_stores_own_clock_and_notices_when_it_wakes(bucket: str) -> None:
    store = Store(f"{bucket}/data")
    with clients(store, 1) as (owner,):
        tell(owner)
        assert said(owner) == "held"
        limit = time.monotonic() + 20
        while "1.beat" not in store.sizes(LEASE_FOLDER):
            assert time.monotonic() < limit
            time.sleep(0.05)
        owner.send_signal(signal.SIGSTOP)
        with pytest.raises(UserError, match=f"process {owner.pid} on "), lease_on_store(store):
            pass
        time.sleep(2)  # S3 tells times in whole seconds
        with lease_on_store(store, lapse_seconds=0.9) as held:
            owner.send_signal(signal.SIGCONT)
            tell(owner)
            answer = said(owner)
            assert f"process {os.getpid()} on " in answer
            assert "stops here" in answer
            held.check()
    assert store.sizes(LEASE_FOLDER) == {}


class Overwriting(Store):
    """A server of the S3 protocol that is too old for If-None-Match, and writes the object whatever there is."""

    def create(self, name: str, data: bytes) -> bool:
        self.put(name, data)
        return True


def test_a_server_that_takes_no_notice_of_the_condition_is_told_of(bucket: str) -> None:
    store = Overwriting(f"{bucket}/data")
    with pytest.warns(UserWarning, match="not guarded against a second writer: it overwrites"), lease_on_store(store):
        assert StoreClaims(store).read() == {}


def test_two_that_make_a_claim_at_the_same_moment_are_told_so_by_the_store(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amazon's S3 may answer 409 in place of 412, which s3fs knows as an error of input and output alone."""
    s3fs, store = pytest.importorskip("s3fs"), Store(f"{bucket}/data")

    async def conflict(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "An error occurred (ConditionalRequestConflict) when calling the PutObject operation")

    with monkeypatch.context() as patch:
        patch.setattr(s3fs.S3FileSystem, "_pipe_file", conflict)
        s3fs.S3FileSystem.clear_instance_cache()
        assert not StoreClaims(store).create(1, b"ours")
    s3fs.S3FileSystem.clear_instance_cache()
    assert StoreClaims(store).create(1, b"ours")


def test_a_heartbeat_that_comes_too_late_leaves_nothing(bucket: str) -> None:
    store = Store(f"{bucket}/data")
    claims = StoreClaims(store)
    claims.touch(1)
    assert store.sizes(LEASE_FOLDER) == {}
    assert claims.create(2, b"ours")
    claims.touch(2)
    assert store.sizes(LEASE_FOLDER).keys() == {"2", "2.beat"}


def test_the_mark_of_a_folder_made_by_hand_is_no_stranger(bucket: str) -> None:
    """A store's web page makes an object "data/" for a folder."""
    s3fs, store = pytest.importorskip("s3fs"), Store(f"{bucket}/data")
    name = bucket.removeprefix("s3://")
    s3fs.S3FileSystem(skip_instance_cache=True).call_s3("put_object", Bucket=name, Key="data/", Body=b"")
    assert store.sizes("") == {}
    refuse_strangers(store)
