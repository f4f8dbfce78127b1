"""The start of a training: a run is begun or resumed, and checked before its parts are built."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_rules import check_environments, usual_rule
from ident3d.loaders.folders.folder import is_dataset, local_copy
from ident3d.loaders.format.description import differences
from ident3d.loaders.stores.data_root import data_root
from ident3d.loaders.stores.lease import Lease
from ident3d.training.images.defaults import asks_for_nearest, with_defaults
from ident3d.training.images.run import Run, data_facts, default_name, old_name, open_run
from ident3d.training.images.settings import TrainSettings, moving_latents
from ident3d.training.images.which_dataset import training_folder
from ident3d.training.loop import checkpoint
from ident3d.training.loop.devices import Rank
from ident3d.training.loop.run_folder import hold_folder, usual_folder
from ident3d.training.views.choice import check_colour


@dataclass(frozen=True)
class TrainingRequest:
    """A run that may start: its folder, its images, its settings, the run that it resumes, if any, and the lease.

    The first rank alone holds the folder's lease.
    """

    path: Path
    images: ImageDataset
    data: dict[str, Any]
    settings: TrainSettings
    resumed: Run | None
    held: Lease | None


@contextmanager
def start_or_resume(
    data: Path | str | None,
    settings: TrainSettings,
    here: Rank,
    *,
    out: Path | str | None,
    root: Path | str | None,
    resume: bool,
    allow_same: bool,
) -> Iterator[TrainingRequest]:
    """Open the training set and hold the run's folder, with everything checked that can be checked before the start."""
    path, description = training_folder(None if data is None else local_copy(data), root, allow_same=allow_same)
    # The one opening of the training set: all that follows, up to the report, is made of these images.
    images = ImageDataset(path)
    images = images.with_latents(moving_latents(images.world) or None)
    if settings.rule is None and not asks_for_nearest(settings):
        settings = replace(settings, rule=usual_rule(images))
    if settings.environments is not None:
        check_environments(images, settings.environments)
    settings = with_defaults(settings, images.world, images.size, len(images))
    check_colour(settings.augment, images.shape[2])
    # Gradients are averaged over ranks, which is the mean over the batch only if all shares are equal.
    if settings.batch % here.world_size:
        raise UserError(f"A batch of {settings.batch} cannot be shared out equally among {here.world_size} ranks.")
    if settings.sync_bn and (here.device.type != "cuda" or here.world_size == 1):
        raise UserError("--sync-bn is for several ranks on CUDA, under torchrun.")
    names = (default_name(settings, path), old_name(settings, path))
    folder = Path(out) if out else usual_folder(data_root(root) / "runs", *names)
    if is_dataset(folder):
        raise UserError(f"{folder} is a dataset; give the run another folder by --out.")
    # The lease is held from here to the end of the training: nobody else can write this run.
    facts, resumed = data_facts(path, description), None
    with hold_folder(folder, first=here.first) as held:
        # Only the lease's holder may ask for a checkpoint: another process may have written one until then.
        if checkpoint.to_resume(folder, resume):
            resumed = open_run(folder)
            check_same(resumed, settings, facts)
        yield TrainingRequest(folder, images, facts, settings, resumed, held)


def check_same(run: Run, settings: TrainSettings, data: dict[str, Any]) -> None:
    """Raise UserError unless a run goes on with its own settings and data; a constant rate may take more steps."""
    ours, theirs = settings.as_dict(), run.settings.as_dict()
    if settings.schedule == "constant" and settings.steps >= run.settings.steps:
        ours["steps"] = theirs["steps"]
    if found := differences(theirs, ours):
        raise UserError(f"{run.path} was started with other settings ({'; '.join(found)}).")
    if data["shards_sha256"] != run.data["shards_sha256"]:
        raise UserError(f"{run.path} was started on other images than {data['path']} holds now.")
