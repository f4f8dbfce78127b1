"""The parts of a training: pairs, model, objective and optimiser, built anew or from a checkpoint."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ident3d.loaders.batches.loader import make_loader
from ident3d.loaders.batches.resumable import Loader
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.training.encoders.autoencoders import decoder
from ident3d.training.encoders.choice import WITH_DECODER, usual_decoder
from ident3d.training.encoders.image_encoder import Encoder, parameter_groups
from ident3d.training.encoders.output_spaces import OutputSpace
from ident3d.training.images.best_box import BestBox, best_box, start_of
from ident3d.training.images.run import Run, dtype_beside, new_encoder, new_pairs
from ident3d.training.images.settings import DTYPES, TrainSettings
from ident3d.training.images.start import TrainingRequest
from ident3d.training.loop import checkpoint
from ident3d.training.loop.devices import Rank, agree, circumstances, on_device
from ident3d.training.loop.dtype import check_dtype, choose_dtype, formats_of, too_small
from ident3d.training.losses.autoencoder import Autoencoder
from ident3d.training.losses.choice import DECODED_SIZE, VARIATIONAL
from ident3d.training.losses.objective import HardNegative, Objective, TwoConditionals
from ident3d.training.own.own_code import own_records
from ident3d.training.views.choice import augmentation
from ident3d.training.views.pixels import Pixels
from ident3d.training.views.views import MakeViews, augmented_views, image_views, pair_views

# The rate of Λ̂, as in the papers, unless the run's own is higher.
LAMBDA_LR = 1e-3


Minimised: TypeAlias = Objective | HardNegative | TwoConditionals | Autoencoder


@dataclass
class Parts:
    """A run's parts. `network` is the model as the loop calls it, compiled or shared out among ranks."""

    run: Run
    box: BestBox | None
    loader: Loader
    views: MakeViews
    generator: torch.Generator
    model: Encoder
    network: nn.Module
    objective: Minimised
    optimiser: torch.optim.Optimizer
    rates: list[float]
    scaler: torch.amp.GradScaler


def build(request: TrainingRequest, here: Rank, workers: int | None) -> Parts:
    """Return the parts of a run at its first step. Nothing is written."""
    s, device, images = request.settings, here.device, request.images
    assert s.loss is not None
    pixels = pixels_of(s, images)
    # For augmentations. Each step seeds it anew.
    generator = torch.Generator()
    pairs = None if s.images_alone else new_pairs(s, images)
    share = s.batch // here.world_size
    loader = make_loader(
        images if pairs is None else pairs,
        share,
        workers=workers,
        seed=s.seed,
        rank=here.rank,
        world_size=here.world_size,
    )
    # The run's own record comes first: a run that goes on had its box measured at its start.
    box = best_of(request, pairs)
    bound = s.bound if s.bound is not None or box is None else start_of(box, s)
    model = on_device(new_encoder(replace(s, bound=bound), images.world, pixels.channels), device)
    objective = on_device(objective_of(s, pixels.channels), device)
    # A bound may need a higher rate than weights: it has a longer way to go.
    rates: dict[type[nn.Module], float] = {OutputSpace: s.space_lr} if s.space_lr else {}
    groups = parameter_groups(model, s.lr, rates)
    if learnt := list(objective.parameters()):
        usual = s.lr if s.loss in VARIATIONAL else max(s.lr, LAMBDA_LR)
        groups.append({"params": learnt, "lr": s.lambda_lr or usual})
    if request.resumed:
        # The run may have started on a GPU, in a format that this device lacks.
        check_dtype(request.resumed.dtype, device, pixels.size or images.size)
        run = replace(request.resumed, settings=s, images=images, pairs=pairs)
    else:
        beside = dtype_beside(request.path, s, request.data) if s.dtype == "auto" else None
        dtype = dtype_here(s, model, pixels, device, beside)
        facts = circumstances(device) | ({"best_box": box.as_dict()} if box else {})
        facts |= {"bound": bound} if box and "box" in str(s.space) else {}
        if own := own_records({"encoder": s.encoder, "loss": s.loss}):
            facts["own_code"] = own
        run = Run(request.path, s, request.data, pixels, dtype, facts, images, pairs)
    return Parts(
        run=run,
        box=box,
        loader=loader,
        views=views_for(s, pixels, generator),
        generator=generator,
        model=model,
        network=network_of(model, s, here),
        objective=objective,
        optimiser=torch.optim.Adam(groups, fused=device.type in ("cpu", "cuda")),
        rates=[group["lr"] for group in groups],
        scaler=torch.amp.GradScaler(device.type, enabled=run.dtype == "fp16"),
    )


def pixels_of(s: TrainSettings, images: ImageDataset) -> Pixels:
    """Return how pixels are prepared: normalised, or left in [0, 1] for autoencoders and the encoders of their papers.

    A decoder's sigmoid gives pixels in [0, 1], and what it is compared with is what the encoder sees.
    """
    if s.loss in VARIATIONAL or s.encoder in WITH_DECODER:
        channels = len(images.mean)
        return Pixels((0.0,) * channels, (1.0,) * channels, s.size)
    return Pixels(images.mean, images.std, s.size)


def objective_of(s: TrainSettings, channels: int = 3) -> Minimised:
    """Return what complete settings minimise, as it is at the first step.

    The weights of a decoder are drawn after those of the encoder, which begin with the seed.
    """
    assert s.loss is not None
    assert s.dim is not None
    if s.loss in VARIATIONAL:
        net = decoder(usual_decoder(s.encoder), s.dim, channels, s.size or DECODED_SIZE)
        return Autoencoder(s.loss, net, beta=s.beta or 0.0, gamma=s.gamma, rate=s.laplace_rate)
    make = partial(
        Objective, s.loss, s.dim, space=str(s.space), p=s.model_p, tau=s.tau, alpha=s.alpha, drop_last=s.drop_last,
        negatives=str(s.negatives), seed=s.seed,
    )  # fmt: skip
    if s.hard:
        return HardNegative(make())
    return TwoConditionals(make(), make()) if len(s.lambdas) > 1 else make()


def best_of(request: TrainingRequest, pairs: PairDataset | None) -> BestBox | None:
    """Return the best box of the pairs, as the run recorded it if it goes on; None if its loss or pairs have none."""
    if request.resumed:
        return BestBox.from_dict(request.resumed.facts.get("best_box"))
    return best_box(request.settings, pairs) if pairs else None


def restore(work: Parts) -> int:
    """Copy the folder's checkpoint into the parts, and return the step that it stands at."""
    s = work.run.settings
    names = {"encoder": s.encoder, "loss": str(s.loss)}
    kept = checkpoint.restore_all(work.run.path, work.model, work.objective, work.optimiser, **names)
    work.loader.load_state_dict(kept.loader)
    if work.scaler.is_enabled():
        work.scaler.load_state_dict(kept.scaler)
    return kept.step


def views_for(s: TrainSettings, pixels: Pixels, generator: torch.Generator) -> MakeViews:
    """Return what makes the encoder's views of a batch: pairs, augmentations, or the images as they are, once."""
    if s.views == 1:
        return partial(image_views, pixels)
    if s.images_alone:
        return partial(augmented_views, pixels, augmentation(s.augment), generator)
    return partial(pair_views, pixels)


def dtype_here(s: TrainSettings, model: Encoder, pixels: Pixels, device: torch.device, beside: str | None) -> str:
    """Return the number format that every rank uses: the first rank's choice, which may hang on its clock.

    With "auto" that is the format `beside`, of another seed's run, if the device has it: seeds are compared.
    """
    size = pixels.size or 1
    images = torch.randn(min(2 * s.batch, 64), pixels.channels, size, size, device=device)
    images = images.to(memory_format=torch.channels_last)
    if beside in formats_of(device) and not (beside == "bf16" and too_small(device, size)):
        chosen = beside
    else:
        chosen, _ = choose_dtype(s.dtype, model, images)
    return DTYPES[agree(DTYPES.index(chosen), device)]


def network_of(model: Encoder, s: TrainSettings, here: Rank) -> nn.Module:
    """Return the model as the loop calls it: compiled, or shared out among ranks."""
    network: nn.Module = model
    if s.sync_bn:
        network = nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
    if here.world_size > 1:
        network = DistributedDataParallel(network, [here.device] if here.device.type == "cuda" else None)
    if s.compile:
        # In place, so that accumulation still sees whether it is a DistributedDataParallel.
        network.compile()
    return network
