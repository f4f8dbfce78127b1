"""Batches in shared memory: few slots serve all, and no batch changes while somebody holds it or a part of it."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import torch
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.loaders.batches import shared_slots as slots
from ident3d.loaders.batches.loader import make_loader
from ident3d.loaders.batches.resumable import Loader
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.pairs import search

N, BATCH = 60, 4
EPOCH = N // BATCH


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("slots") / "set", N)


@pytest.fixture(scope="module")
def expected(path: Path) -> list[torch.Tensor]:
    """The pixels of three epochs, each batch in memory of its own."""
    loader = make_loader(PairDataset(path), BATCH, workers=0)
    return [pixels(batch) for _ in range(3) for batch in loader]


def pixels(batch: Any) -> torch.Tensor:
    return torch.cat(batch[1])


def shared_by(loader: Loader) -> slots.Slots:
    assert loader._slots
    return loader._slots


@pytest.mark.parametrize(("workers", "prefetch"), [(1, 1), (2, 1), (2, 2)])
def test_a_plain_loop_has_one_slot_more_than_are_fetched_ahead(
    path: Path, expected: list[torch.Tensor], workers: int, prefetch: int
) -> None:
    loader = make_loader(PairDataset(path), BATCH, workers=workers, prefetch=prefetch)
    seen = set()
    for epoch in range(3):
        for k, (_, x) in enumerate(loader):
            seen.add(x[0].data_ptr())
            assert torch.equal(torch.cat(x), expected[epoch * EPOCH + k])
    slot = [memory.data_ptr() for memory in shared_by(loader).memory]
    assert seen == set(slot[: workers * prefetch + 1])


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kept", [2, 3, EPOCH])
def test_no_batch_changes_while_it_is_held(path: Path, expected: list[torch.Tensor], workers: int, kept: int) -> None:
    loader = make_loader(PairDataset(path), BATCH, workers=workers)
    held: deque[tuple[Any, torch.Tensor]] = deque(maxlen=kept)
    for epoch in range(3):
        for k, batch in enumerate(loader):
            held.append((batch, expected[epoch * EPOCH + k]))
            assert all(torch.equal(pixels(one), wanted) for one, wanted in held)


def test_a_part_of_a_batch_keeps_its_slot(path: Path, expected: list[torch.Tensor]) -> None:
    loader = make_loader(PairDataset(path), BATCH, workers=2)
    part = next(iter(loader))[1][1][1:3].numpy()[:, ::2]
    before = part.copy()
    assert len(shared_by(loader).lent) == 1
    assert all(torch.equal(pixels(b), wanted) for b, wanted in zip(loader, expected[:EPOCH], strict=True))
    assert (part == before).all()
    del part
    assert not shared_by(loader).lent


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("held", [0, 1, 2, 3])
def test_batches_that_were_never_taken_cost_no_slot(
    path: Path, expected: list[torch.Tensor], workers: int, held: int
) -> None:
    loader = make_loader(PairDataset(path), BATCH, workers=workers, prefetch=2)
    kept: deque[Any] = deque(maxlen=held)
    for _ in range(5):  # the workers are ahead whenever it stops
        batches = iter(loader)
        for k in range(3):
            kept.append((next(batches), expected[k]))
        del batches
    assert all(torch.equal(pixels(batch), wanted) for batch, wanted in kept)
    assert len(shared_by(loader).lent) <= held


def test_an_iteration_may_start_while_another_is_open(path: Path, expected: list[torch.Tensor]) -> None:
    loader = make_loader(PairDataset(path), BATCH, workers=2)
    first = iter(loader)
    held = [next(first), next(first)]
    held += list(loader)
    wanted = [*expected[:2], *expected[:EPOCH]]
    assert all(torch.equal(pixels(batch), one) for batch, one in zip(held, wanted, strict=True))
    with pytest.raises(UserError, match="workers=0"):  # it would take its batches from the other one
        next(first)
    alone = make_loader(PairDataset(path), BATCH, workers=0)
    assert all(torch.equal(pixels(a), pixels(b)) for a, b in zip(alone, alone, strict=True))


def test_a_batch_outlives_its_loader(path: Path, expected: list[torch.Tensor]) -> None:
    loader = make_loader(PairDataset(path), BATCH, workers=2)
    batch = next(iter(loader))
    del loader
    assert torch.equal(pixels(batch), expected[0])
    del batch  # its slot goes back to nobody


def test_workers_end_by_themselves_though_batches_are_held(path: Path) -> None:
    loader = make_loader(PairDataset(path), BATCH, workers=2)
    batches = iter(loader)
    held = [next(batches), next(batches)]
    workers = list(loader._iterator._workers)
    batches.close()  # type: ignore[attr-defined]
    del loader, batches
    assert [worker.exitcode for worker in workers] == [0, 0]  # and not stopped by a signal
    assert len(held) == 2


@pytest.mark.parametrize("held", [0, 1, 2])
def test_a_failed_batch_costs_no_slot(tmp_path: Path, held: int) -> None:
    data = ImageDataset(make_dataset(tmp_path / "set", 16))
    (tmp_path / "set/shards/00001.h5").unlink()
    loader = make_loader(data, 2, workers=1, shuffle=False)
    kept: deque[Any] = deque(maxlen=held)
    for _ in range(5):
        with pytest.raises(UserError, match=r"00001\.h5 is missing"):
            kept.extend(loader)


def test_a_worker_that_waits_for_a_slot_ends_with_its_parent(path: Path) -> None:
    code = f"""
import sys
from ident3d.loaders.batches import shared_slots as slots
from ident3d.loaders.batches.loader import make_loader
from ident3d.loaders.datasets.pair_dataset import PairDataset
slots.PATIENCE = 0.1
loader = make_loader(PairDataset({str(path)!r}), {BATCH}, workers=2)
batches = iter(loader)
held = [next(batches), next(batches)]  # one worker has no slot now
print(*(worker.pid for worker in loader._iterator._workers), flush=True)
sys.stdin.read()
"""
    done = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert done.stdout
    assert done.stdin
    workers = [int(word) for word in done.stdout.readline().split()]
    assert len(workers) == 2
    done.send_signal(signal.SIGKILL)
    done.wait()
    done.stdout.close()
    done.stdin.close()
    for _ in range(600):
        if not any(alive(worker) for worker in workers):
            return
        time.sleep(0.1)
    pytest.fail("a worker outlived its parent by a minute")


def alive(process: int) -> bool:
    """Whether there is such a process, and not just an entry that nobody has collected."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_workers_take_no_more_shared_memory_than_there_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "cores", lambda: 4)
    data, shape, slot = ImageDataset(path), (8, 16, 16, 3), 8 * 16 * 16 * 3
    assert slots.default_workers(data, shape, 2) == 4
    monkeypatch.setattr(slots, "free_shared_memory", lambda: 6 * slot)
    assert slots.default_workers(data, shape, 2) == 2
    assert make_loader(data, 8, prefetch=2).num_workers == 2
    with pytest.raises(UserError, match=r"workers=0.*--shm-size"):
        make_loader(data, 8, workers=5)
    monkeypatch.setattr(slots, "free_shared_memory", lambda: 0)
    assert make_loader(data, 8).num_workers == 0


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_a_gpu_index_is_not_searched_in_forks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "faiss_gpus", lambda: 1)
    data = PairDataset(path, search="flat")
    assert slots.default_workers(data, (1,), 2) == 0
    with pytest.raises(UserError, match="workers=0"):
        make_loader(data, 8, workers=1, start_method="fork")
