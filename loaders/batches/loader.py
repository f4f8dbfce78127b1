"""`make_loader`: how many workers, which order, and what a position depends on, for a `Loader` of a dataset."""

import multiprocessing
from typing import Any

import torch

from ident3d.errors import UserError
from ident3d.latents.exact.streams import check_seed
from ident3d.loaders.batches.epochs import EpochSampler, RankSampler, rank_batches
from ident3d.loaders.batches.resumable import Batches, Loader
from ident3d.loaders.batches.shared_slots import Dataset, default_workers, image_dataset_of, slot_shape
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.format.files import sha256


def digests(dataset: Dataset) -> dict[str, str]:
    """Return a hash of the images, and one of how pairs are drawn among them: a position depends on both."""
    shards = [part.folder.description.shards_sha256 for part in image_dataset_of(dataset).parts]
    found = {"images": sha256(repr(shards).encode())}
    if isinstance(dataset, PairDataset):
        found["pairs"] = sha256(repr(dataset.sampler.settings).encode())
    return found


def as_it_is(batch: Any) -> Any:
    return batch


def make_loader(
    dataset: Dataset,
    batch_size: int = 256,
    *,
    workers: int | None = None,
    prefetch: int = 1,
    seed: int | None = None,
    shuffle: bool = True,
    drop_last: bool | None = None,
    rank: int = 0,
    world_size: int = 1,
    pin_memory: bool | None = None,
    start_method: str | None = None,
) -> Loader:
    """Return a DataLoader of whole batches.

    Batches and their order depend on the dataset, `batch_size`, `seed`, `rank` and `world_size` alone, not on workers.
    `state_dict` and `load_state_dict` save and restore the position.

    Args:
        dataset: Images, or pairs of them.
        batch_size: Samples of one rank's batch.
        workers: Processes that fetch batches; by default one a core, and 0 if the data are packed. They take the memory
            of workers · prefetch + 1 batches while the consumer holds one batch.
        prefetch: Batches that each worker fetches ahead.
        seed: Of the order of an ImageDataset's images, by default 0. A PairDataset has a seed of its own.
        shuffle: Draw the order of an ImageDataset's images anew for each epoch.
        drop_last: Leave out a last batch that is not full; the default, except for images in their own order, of which
            the last batch of a rank may be short or missing.
        rank: This process among the `world_size` processes that share out each epoch.
        world_size: The number of those processes.
        pin_memory: Copy batches to pinned memory; by default if there is a GPU.
        start_method: How workers are started, such as "spawn"; by default Python's.

    Returns:
        A `Loader` to iterate over, an epoch at a time.

    Example:
        >>> from ident3d import PairDataset, make_loader
        >>> loader = make_loader(PairDataset(dataset, sigma=0.3), batch_size=8, workers=0)
        >>> (z, z_tilde), (x, x_tilde) = next(iter(loader))
        >>> z.shape, x.shape[:2]
        (torch.Size([8, 10]), torch.Size([8, 3]))
    """
    if not isinstance(dataset, ImageDataset | PairDataset):
        raise UserError(
            f"make_loader takes an ImageDataset or a PairDataset, such as PairDataset(DIR), not {dataset!r}."
        )
    pairs = isinstance(dataset, PairDataset)
    drop_last = pairs or shuffle if drop_last is None else drop_last
    ranges = rank_batches(len(dataset), batch_size, rank, world_size, drop_last)
    # An epoch shorter than a batch is one short batch.
    share = min(batch_size, len(dataset))
    if workers is None:
        workers = default_workers(dataset, slot_shape(dataset, share), max(1, prefetch))
    if workers < 0 or prefetch < 1:
        raise UserError("A loader has 0 or more workers, and each fetches at least 1 batch ahead.")
    if isinstance(dataset, PairDataset):
        if seed not in (None, dataset.sampler.seed):
            raise UserError(f"These pairs have the seed {dataset.sampler.seed}; give the PairDataset seed={seed}.")
        seed = dataset.sampler.seed
        method = start_method or multiprocessing.get_start_method()
        if workers and dataset.sampler.on_gpu and method == "fork":
            raise UserError("FAISS cannot use a GPU in a forked worker: use workers=0 or start_method='spawn'.")
        # Built before the workers start: forked ones share the index, instead of each building its own.
        dataset.sampler.build()
    seed = check_seed(seed or 0)
    settings = digests(dataset) | {
        "length": len(dataset),
        "seed": seed,
        "shuffle": shuffle,
        "drop_last": drop_last,
        "batch_size": batch_size,
    }
    given = (dataset, ranges, seed, shuffle)
    position = RankSampler(*given, rank=rank, world_size=world_size) if world_size > 1 else EpochSampler(*given)
    return Loader(
        Batches(dataset, position, settings),
        batch_size=share,
        sampler=position,
        drop_last=drop_last,
        collate_fn=as_it_is,
        pin_memory=torch.cuda.is_available() if pin_memory is None else pin_memory,
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        persistent_workers=workers > 0,
        multiprocessing_context=start_method if workers else None,
    )
