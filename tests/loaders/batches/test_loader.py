"""PairDataset and make_loader: pairs and batches that do not depend on workers, and a position to resume from."""

import json
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from synthetic import make_dataset
from torch.utils.data import DataLoader

from ident3d.errors import UserError
from ident3d.loaders.batches import shared_slots as slots
from ident3d.loaders.batches.epochs import rank_batches
from ident3d.loaders.batches.loader import make_loader
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.folders.packed import pack

N = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("loader") / "set", N)


def flat(batches: Any) -> list[torch.Tensor]:
    """Every tensor of the batches, in order."""
    return [tensor for z, x in batches for tensor in (*z, *x)]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def test_a_pair_is_the_images_and_latents_that_the_sampler_names(path: Path) -> None:
    data, images = PairDataset(path, sigma=0.3, seed=4, space="box"), ImageDataset(path)
    assert len(data) == N
    pairs = data.sampler.pairs(np.arange(N))
    (z, z2), (x, x2) = data[7]
    for i, zi, xi in ((pairs.anchor[7], z, x), (pairs.positive[7], z2, x2)):
        assert torch.equal(zi, images[i][0])
        assert torch.equal(xi, images[i][1])
    assert same(flat([data[[7, 3]]]), [torch.stack([data[k][a][b] for k in (7, 3)]) for a in (0, 1) for b in (0, 1)])
    data.set_epoch(2)
    assert torch.equal(data[7][0][0], images[data.sampler.pairs([2 * N + 7]).anchor[0]][0])
    with pytest.raises(IndexError, match="60 pairs"):
        data[N]


def test_only_the_hues_change_the_most(path: Path) -> None:
    data = PairDataset(path, sigma=1.0, only=["hue"], negative={"cond": "uniform", "sigma": None})
    (z, z2, z3), (x, _, x3) = data[:]
    assert data.names == data.source.names
    assert len(z) == len(x3) == N
    drawn = data.sampler.pairs(np.arange(N)).drawn
    np.testing.assert_array_equal(drawn[:, :7], z[:, :7])
    assert not torch.equal(z2, z3)
    assert x.dtype == torch.uint8


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than cores
@pytest.mark.parametrize("form", ["loader", "plain"])
def test_the_same_pairs_with_any_number_of_workers(path: Path, form: str) -> None:
    def batches(workers: int, method: str | None = None) -> list[torch.Tensor]:
        data = PairDataset(path, seed=1)
        if form == "loader":
            loader: Any = make_loader(data, 8, workers=workers, start_method=method)
        else:
            loader = DataLoader(data, 8, drop_last=True, num_workers=workers, multiprocessing_context=method)
        return flat(loader)

    alone = batches(0)
    assert len(alone) == 4 * (N // 8)
    assert same(alone, batches(1))
    assert same(alone, batches(3))
    if form == "loader":
        assert same(alone, batches(2, "spawn"))


@pytest.mark.parametrize("workers", [0, 2])
def test_every_epoch_has_its_own_pairs(path: Path, workers: int) -> None:
    loader = make_loader(PairDataset(path), 8, workers=workers)
    first, second = flat(loader), flat(loader)
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    source = PairDataset(path)
    epochs = DataLoader(source, 8, drop_last=True, num_workers=workers, persistent_workers=workers > 0)
    for epoch in (1, 0):
        source.set_epoch(epoch)
        assert same(flat(epochs), (first, second)[epoch])


@pytest.mark.parametrize("workers", [0, 2])
def test_no_epoch_is_lost_by_taking_just_its_batches(path: Path, workers: int) -> None:
    loader = make_loader(PairDataset(path), 30, workers=workers)
    epochs = [flat(loader) for _ in range(3)]
    loader = make_loader(PairDataset(path), 30, workers=workers)
    for epoch in epochs:
        assert same(flat(islice(loader, len(loader))), epoch)
    assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (3, 0)
    resumed = make_loader(PairDataset(path), 30, workers=0)
    resumed.load_state_dict(loader.state_dict() | {"epoch": 0, "batch": len(loader)})
    assert same(flat(resumed), epochs[1])


def test_the_epoch_that_was_set_is_the_one_that_is_read(path: Path) -> None:
    data = PairDataset(path)
    plain = DataLoader(data, 30, num_workers=1, persistent_workers=True)
    epochs = []
    for epoch in (0, 3):
        data.set_epoch(epoch)
        epochs.append(flat(plain))
        assert same(epochs[-1], flat(make_loader(data, 30, workers=0)))  # starts from it
    assert not torch.equal(epochs[0][0], epochs[1][0])


def test_ranks_share_out_the_epoch(path: Path) -> None:
    one = flat(make_loader(PairDataset(path), 16, workers=0))
    ranks = [flat(make_loader(PairDataset(path), 8, workers=0, rank=r, world_size=2)) for r in range(2)]
    assert same(one, [torch.cat([a, b]) for a, b in zip(*ranks, strict=True)])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [ImageDataset, PairDataset])
def test_the_position_resumes(path: Path, workers: int, kind: Any) -> None:
    def tensors(batch: Any) -> list[torch.Tensor]:
        return flat([batch]) if kind is PairDataset else list(batch)

    seed = 3 if kind is ImageDataset else None
    loader = make_loader(kind(path), 8, workers=workers, seed=seed)
    whole = [tensors(batch) for _ in range(2) for batch in loader]
    loader = make_loader(kind(path), 8, workers=workers, seed=seed)
    seen = [tensors(batch) for batch in loader]
    for batch in loader:
        seen.append(tensors(batch))
        if len(seen) == 10:
            break
    state = json.loads(json.dumps(loader.state_dict()))
    assert (state["epoch"], state["batch"]) == (1, 3)
    resumed = make_loader(kind(path), 8, workers=0, seed=seed)
    resumed.load_state_dict(state)
    rest = [tensors(batch) for batch in resumed]
    assert all(same(a, b) for a, b in zip(whole, seen + rest, strict=True))
    again = [tensors(batch) for batch in loader]  # without the state, the epoch begins afresh
    assert all(same(a, b) for a, b in zip(whole[len(loader) :], again, strict=True))


@pytest.mark.parametrize("workers", [0, 2])
def test_each_iteration_begins_its_epoch_afresh(path: Path, workers: int) -> None:
    loader = make_loader(PairDataset(path), 8, workers=workers)
    peeked = flat([next(iter(loader)), next(iter(loader))])
    epochs = [flat(loader), flat(loader)]
    assert same(peeked, 2 * epochs[0][:4])
    assert same(epochs[1], flat(make_loader(epoch_of(path, 1), 8, workers=0)))
    state = loader.state_dict() | {"epoch": 0, "batch": 5}
    loader.load_state_dict(state)
    loader.set_epoch(0)  # as Lightning does, which says the epoch that was loaded once more
    assert loader.state_dict() == state
    assert same([*flat(loader), *flat(loader)], [*epochs[0][20:], *epochs[1]])  # once from the middle
    loader.load_state_dict(state)
    loader.set_epoch(1)
    assert same(flat(loader), epochs[1])


def epoch_of(path: Path, epoch: int) -> PairDataset:
    data = PairDataset(path)
    data.set_epoch(epoch)
    return data


@pytest.mark.parametrize("workers", [0, 1])
def test_a_plain_data_loader_says_that_it_reads_an_epoch_again(
    path: Path, workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    data = PairDataset(path)
    # A spawned worker has none of pytest's filters: it writes to stderr, as a user's does.
    method = "spawn" if workers else None
    plain = DataLoader(
        data, 8, shuffle=True, num_workers=workers, persistent_workers=workers > 0, multiprocessing_context=method
    )
    with warnings.catch_warnings(record=True, action="always") as said:
        flat(plain)
        assert not said
        assert not capfd.readouterr().err
        flat(plain), flat(plain)
        found = "".join(str(one.message) for one in said) + capfd.readouterr().err
        assert found.count("epoch 0 again: call set_epoch") == 1
        data.set_epoch(1)
        flat(plain)
        assert len(said) <= 1
        assert not capfd.readouterr().err


def test_repr_says_what_it_is(path: Path) -> None:
    data = PairDataset(path, sigma=0.3, seed=4, latents=["x", "y"])
    words = (
        "Loader",
        "7 batches",
        "PairDataset",
        "60 pairs",
        "normal",
        "0.3",
        "seed=4",
        "60 images",
        "16x16",
        str(path),
    )
    for word in words:
        assert word in repr(make_loader(data, 8, workers=0))


def test_a_position_of_another_loader_is_refused(path: Path, tmp_path: Path) -> None:
    state = make_loader(PairDataset(path), 8, workers=0).state_dict()
    with pytest.raises(UserError, match=r"batch_size 8\b.*\b16"):
        make_loader(PairDataset(path), 16, workers=0).load_state_dict(state)
    with pytest.raises(UserError, match=r"seed 0\b.*\b1\b"):
        make_loader(PairDataset(path, seed=1), 8, workers=0).load_state_dict(state)
    for other in ({"sigma": 0.3}, {"cond": "laplace"}, {"negative": {"cond": "normal"}}, {"anchors": "marginal"}):
        with pytest.raises(UserError, match="other pairs"):
            make_loader(PairDataset(path, **other), 8, workers=0).load_state_dict(state)
    with pytest.raises(UserError, match="other images"):
        make_loader(PairDataset(make_dataset(tmp_path / "set", N, seed=1)), 8, workers=0).load_state_dict(state)
    for wrong in ({"batch": 8}, {"batch": -1}, {"epoch": -1}, {"epoch": 1.5}):
        with pytest.raises(UserError, match="There is no batch"):
            make_loader(PairDataset(path), 8, workers=0).load_state_dict(state | wrong)


def test_images_are_shuffled_each_epoch_and_all_seen(path: Path) -> None:
    loader = make_loader(ImageDataset(path), 10, workers=0)
    epochs = [torch.cat([z for z, _ in loader]) for _ in range(2)]
    assert not torch.equal(*epochs)
    expected = ImageDataset(path)[:][0]
    for epoch in epochs:
        assert torch.equal(epoch[epoch[:, 0].argsort()], expected[expected[:, 0].argsort()])
    assert torch.equal(
        torch.cat([z for z, _ in make_loader(ImageDataset(path), 10, workers=0, shuffle=False)]), expected
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_whole_dataset_is_delivered(path: Path, workers: int) -> None:
    expected = ImageDataset(path)[:]
    loader = make_loader(ImageDataset(path), 16, workers=workers, shuffle=False)
    assert [len(z) for z, _ in loader] == [16, 16, 16, 12]
    for whole, parts in zip(expected, zip(*loader, strict=True), strict=True):
        assert torch.equal(torch.cat(parts), whole)
    assert (
        len(make_loader(ImageDataset(path), 16, workers=0)) == len(make_loader(PairDataset(path), 16, workers=0)) == 3
    )
    assert len(make_loader(PairDataset(path), 16, workers=0, drop_last=False)) == 4
    ranks = [make_loader(ImageDataset(path), 16, workers=0, shuffle=False, rank=r, world_size=3) for r in range(3)]
    assert sum(len(z) for loader in ranks for z, _ in loader) == N


@pytest.mark.parametrize("workers", [0, 1])
def test_a_worker_says_what_is_wrong_in_one_sentence(tmp_path: Path, workers: int) -> None:
    data = ImageDataset(make_dataset(tmp_path / "set", 16))
    (tmp_path / "set/shards/00001.h5").unlink()
    loader = iter(make_loader(data, 8, workers=workers, shuffle=False))
    next(loader)
    with pytest.raises(UserError, match=r"^The shard [^\n]*00001.h5 is missing;[^\n]*$"):
        next(loader)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = PairDataset(make_dataset(tmp_path / "set", 16))
    for there, workers in ((1, 0), (3, 3), (64, 8)):
        monkeypatch.setattr(slots, "cores", lambda there=there: there)
        assert make_loader(data).num_workers == workers
    pack(tmp_path / "set", show_progress=False)
    loader = make_loader(PairDataset(tmp_path / "set"))
    assert loader.num_workers == 0
    assert len(loader) == 1  # an epoch shorter than a batch is one batch
    assert next(iter(loader))[1][0].shape == (16, 3, 16, 16)


def test_mistakes_get_one_sentence(path: Path) -> None:
    data = PairDataset(path)
    with pytest.raises(UserError, match="at least one sample, not 0"):
        make_loader(data, 0)
    with pytest.raises(UserError, match="no rank 2"):
        make_loader(data, 8, rank=2, world_size=2)
    with pytest.raises(UserError, match="does not fill one batch"):
        make_loader(data, 40, rank=0, world_size=2)
    with pytest.raises(UserError, match="0 or more workers"):
        make_loader(data, 8, workers=-1)
    with pytest.raises(UserError, match=r"seed 0\b.*seed=7"):
        make_loader(data, 8, workers=0, seed=7)
    with pytest.raises(UserError, match="no epoch -1"):
        data.set_epoch(-1)
    assert rank_batches(10, 3, 1, 2) == [(3, 6)]
