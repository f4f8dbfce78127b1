"""What the trainer's loop works with: the order for a run, checked, and the parts built from it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.loaders.batches.loader import Loader, make_loader
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.folders.data_root import data_root
from ident3d.loaders.folders.folder import differences, is_dataset, local_copy
from ident3d.loaders.format.files import remove_partial_files
from ident3d.loaders.stores.lease import Lease, lease
from ident3d.training.encoders.image_encoder import Encoder, parameter_groups
from ident3d.training.encoders.output_spaces import OutputSpace
from ident3d.training.images.run import Run, data_facts, default_name, new_encoder, open_run, write_run
from ident3d.training.images.settings import DTYPES, Settings, moving_latents, with_defaults
from ident3d.training.images.which_dataset import training_folder
from ident3d.training.loop import checkpoint
from ident3d.training.loop.devices import Rank, agreed, circumstances, on_device
from ident3d.training.loop.dtype import check_dtype, choose_dtype
from ident3d.training.losses.objective import Objective
from ident3d.training.views.choice import augmentation
from ident3d.training.views.pixels import Pixels
from ident3d.training.views.views import AugmentedViews, ImageViews, MakeViews, PairViews

SHOWN_PAIRS = 7  # in the report


@dataclass(frozen=True)
class TrainingRequest:
    """A run that may begin: its folder, its data, its settings, the run that it resumes, if any, and the lease.

    The first rank alone holds the folder's lease.
    """

    path: Path
    images: ImageDataset
    data: dict[str, Any]
    settings: Settings
    resumed: Run | None
    held: Lease | None


@dataclass
class Parts:
    """A run's parts. `network` is the model as the loop calls it, compiled or shared out among ranks."""

    run: Run
    step: int
    loader: Loader
    views: MakeViews
    generator: torch.Generator
    model: Encoder
    network: nn.Module
    objective: Objective
    optimiser: torch.optim.Optimizer
    rates: list[float]
    scaler: torch.amp.GradScaler


@contextmanager
def opened(
    data: Path | str | None,
    settings: Settings,
    here: Rank,
    *,
    out: Path | str | None,
    root: Path | None,
    resume: bool,
    allow_same: bool,
) -> Iterator[TrainingRequest]:
    """Check everything that can be checked before anything is written, and hold the run's folder."""
    path, description = training_folder(None if data is None else local_copy(data), root, allow_same=allow_same)
    images = ImageDataset(path, latents=moving_latents(ImageDataset(path).world))
    settings = with_defaults(settings, images.world, images.size, len(images))
    if settings.batch % here.world:
        raise UserError(f"A batch of {settings.batch} cannot be shared out equally among {here.world} ranks.")
    if settings.sync_bn and (here.device.type != "cuda" or here.world == 1):
        raise UserError("--sync-bn is for several ranks on CUDA, under torchrun.")
    folder = Path(out) if out else data_root(root) / "runs" / default_name(settings, path)
    if is_dataset(folder):
        raise UserError(f"{folder} is a dataset; a run takes a folder of its own, --out.")
    facts, made = data_facts(path, description), not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        holding = lease(folder) if here.first else nullcontext()
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        with holding as held:
            if here.first:
                remove_partial_files(folder)  # of a run that was killed while it saved
            resumed = None
            if (folder / checkpoint.FILE).exists():  # asked by the lock's holder: another process may just have ended
                if not resume:
                    raise UserError(f"{folder} holds a run already; go on with --resume, or choose another --out.")
                resumed = open_run(folder)
                check_same(resumed, settings, facts)
            yield TrainingRequest(folder, images, facts, settings, resumed, held)
    finally:
        if made:  # and nothing was written: a folder that holds something is not removed
            with suppress(OSError):
                folder.rmdir()


def check_same(run: Run, settings: Settings, data: dict[str, Any]) -> None:
    """A run goes on with the settings and the data that it began with; a constant rate may take more steps."""
    ours, theirs = settings.as_dict(), run.settings.as_dict()
    if settings.schedule == "constant" and settings.steps >= run.settings.steps:
        ours["steps"] = theirs["steps"]
    if found := differences(theirs, ours):
        raise UserError(f"{run.path} was begun with other settings ({'; '.join(found)}).")
    if data["shards_sha256"] != run.data["shards_sha256"]:
        raise UserError(f"{run.path} was begun on other images than {data['path']} holds now.")


def built(order: TrainingRequest, here: Rank, workers: int | None) -> Parts:
    """The parts of a new run, or of one that stands where its checkpoint does."""
    s, device = order.settings, here.device
    pixels = Pixels(order.images.mean, order.images.std, s.size)
    generator = torch.Generator()  # for augmentations; each step seeds it
    loader = loader_for(order, here, workers)
    data = (order.resumed.data if order.resumed else order.data) | {"first_pairs": first_pairs(loader)}
    model = on_device(new_encoder(s, order.images.world), device)
    objective = Objective(s).to(device)
    rates: dict[type[nn.Module], float] = {OutputSpace: s.space_lr} if s.space_lr else {}
    groups = parameter_groups(model, s.lr, rates)
    if own := list(objective.parameters()):
        groups.append({"params": own, "lr": max(s.lr, 1e-3)})  # Λ̂'s rate in the papers
    optimiser = torch.optim.Adam(groups, fused=device.type in ("cpu", "cuda"))
    scaler = torch.amp.GradScaler(device.type, enabled=False)
    step, resumed = 0, order.resumed
    if resumed:
        run = replace(resumed, settings=s, data=data)
        check_dtype(run.dtype, device, pixels.size or order.images.size)  # it may have begun on a GPU
    else:
        run = Run(order.path, s, data, pixels, dtype_here(s, model, pixels, device), circumstances(device))
    if run.dtype == "fp16":
        scaler = torch.amp.GradScaler(device.type)
    if resumed:
        kept = checkpoint.load(run.path)
        checkpoint.restore(model, kept.part(checkpoint.MODEL), f"encoder {s.encoder}")
        checkpoint.restore(objective, kept.part(checkpoint.OBJECTIVE), f"loss {s.loss}")
        checkpoint.restore_optimiser(optimiser, kept.part(checkpoint.OPTIMISER))
        loader.load_state_dict(kept.loader | {"rank": here.rank})
        if scaler.is_enabled():
            scaler.load_state_dict(kept.scaler)
        step = kept.step
    if here.first:
        write_run(run)
    return Parts(
        run=run,
        step=step,
        loader=loader,
        views=views_for(s, pixels, generator),
        generator=generator,
        model=model,
        network=network_of(model, s, here),
        objective=objective,
        optimiser=optimiser,
        rates=[group["lr"] for group in groups],
        scaler=scaler,
    )


def loader_for(order: TrainingRequest, here: Rank, workers: int | None) -> Loader:
    s = order.settings
    return make_loader(
        order.images if s.images_alone else pair_dataset(order.data["path"], s, order.images.world),
        s.batch // here.world,
        workers=workers,
        seed=s.seed,
        rank=here.rank,
        world_size=here.world,
    )


def first_pairs(loader: Loader) -> list[tuple[int, int]]:
    """Return the numbers of anchor and positive of a run's first pairs, for run.json; none for a run without pairs."""
    # The report shows these pairs. It would have to search for them again if they were not written down.
    dataset = loader.fetch.dataset
    if not isinstance(dataset, PairDataset):
        return []
    drawn = dataset.sampler.pairs(np.arange(SHOWN_PAIRS))
    return list(zip(drawn.anchor.tolist(), drawn.positive.tolist(), strict=True))


def pair_dataset(path: Path | str, s: Settings, world: World) -> PairDataset:
    """The pairs that the settings ask for."""
    return PairDataset(path, **pairing(s, world), latents=moving_latents(world))


def pairing(s: Settings, world: World) -> dict[str, Any]:
    """How pairs are drawn and matched. On the periodic variant vmf is for the sphere, with a normal on the box."""
    both = world.periodic and s.cond == "vmf"
    shape = {} if s.cond_p is None else {"p": s.cond_p}
    return shape | {
        "cond": "normal,vmf" if both else s.cond,
        "sigma": s.sigma,
        "kappa": 1 / s.sigma if both else None,
        "only": s.only or None,
        "same_class": s.same_class,
        "search": s.search,
        "seed": s.seed,
    }


def views_for(s: Settings, pixels: Pixels, generator: torch.Generator) -> MakeViews:
    if s.supervised:
        return ImageViews(pixels)
    return AugmentedViews(pixels, augmentation(s.augment), generator) if s.images_alone else PairViews(pixels)


def dtype_here(s: Settings, model: Encoder, pixels: Pixels, device: torch.device) -> str:
    """The precision that every rank uses."""
    size = pixels.size or 1
    images = torch.randn(min(2 * s.batch, 64), 3, size, size, device=device).to(memory_format=torch.channels_last)
    chosen, _ = choose_dtype(s.dtype, model, images)
    return DTYPES[agreed(DTYPES.index(chosen), device)]


def network_of(model: Encoder, s: Settings, here: Rank) -> nn.Module:
    network: nn.Module = model
    if s.sync_bn:
        network = nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
    if here.world > 1:
        network = DistributedDataParallel(network, [here.device] if here.device.type == "cuda" else None)
    if s.compile:
        network.compile()  # in place: what it is, a DistributedDataParallel or not, still shows
    return network
