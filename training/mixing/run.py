"""The folder of a run on mixed latents: one process at a time holds it, and a run goes on with its own settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ident3d.errors import UserError
from ident3d.loaders.folders.folder import differences
from ident3d.loaders.stores.lease import Lease
from ident3d.training.loop import checkpoint
from ident3d.training.loop.devices import circumstances
from ident3d.training.loop.own_code import own_digests
from ident3d.training.loop.run_folder import held_folder, record_of, safe_name, short_hash, write_record
from ident3d.training.mixing.settings import MixingSettings

KIND = "ident3d-mixing"


@contextmanager
def start_or_resume(path: Path, settings: MixingSettings, device: torch.device, resume: bool) -> Iterator[Lease | None]:
    """Hold a run's folder, which is new or was started with the same settings, and write run.json into a new one."""
    with held_folder(path) as held:
        # run.json is written anew until there is a checkpoint: before that, nothing was learnt with the old settings.
        if not checkpoint.to_resume(path, resume):
            facts = circumstances(device)
            if own := own_digests(own_names(settings)):
                facts["own_code"] = own
            write_record(path, KIND, {"settings": settings.as_dict(), "facts": facts})
        elif found := differences(open_mixing(path).as_dict(), settings.as_dict()):
            raise UserError(f"{path} was started with other settings ({'; '.join(found)}).")
        yield held


def open_mixing(path: Path) -> MixingSettings:
    """Return the settings that a run's folder records."""
    with record_of(path, KIND) as content:
        return MixingSettings.from_dict(content["settings"])


def own_names(s: MixingSettings) -> dict[str, str]:
    """Return the settings that may name a user's own objects."""
    return {"mixing": s.mixing, "encoder": s.encoder, "loss": str(s.loss)}


def recorded_own_code(path: Path) -> object:
    """Return what a run's folder records of its user's own objects."""
    with record_of(path, KIND) as content:
        return content["facts"].get("own_code")


def default_name(s: MixingSettings) -> str:
    """Return <latent space>-<conditional>-<loss>-<model space>-<encoder>-seed<seed>-<hash of all settings>."""
    views = "supervised" if s.supervised else s.cond
    return safe_name(s.latent_space, views, s.loss, s.space, s.encoder, f"seed{s.seed}", short_hash(s.as_dict()))


def old_name(s: MixingSettings) -> str:
    """Return the name of version 0.1: <latent space>-<conditional>-<model space>-<hash of all settings>."""
    return f"{s.latent_space}-{'supervised' if s.supervised else s.cond}-{s.space}-{short_hash(s.as_dict())}"
