"""The folder of a run on mixed latents: one process at a time holds it, and a run goes on with its own settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch

from ident3d.errors import UserError
from ident3d.loaders.format.description import differences
from ident3d.loaders.stores.lease import Lease
from ident3d.training.loop import checkpoint
from ident3d.training.loop.devices import circumstances
from ident3d.training.loop.run_folder import MIXING_RUN, hold_folder, record_of, safe_name, short_hash, write_record
from ident3d.training.mixing.settings import DECODER, MixingSettings
from ident3d.training.own.own_code import own_records, records_after_resume
from ident3d.training.own.own_record import check_record

# Settings that came after runs had been named: at their defaults they change no name.
LATER: Final = ("hard_beside", "hard_after")


@contextmanager
def start_or_resume(path: Path, settings: MixingSettings, device: torch.device, resume: bool) -> Iterator[Lease | None]:
    """Hold a run's folder, which is new or was started with the same settings, and write run.json into a new one."""
    with hold_folder(path) as held:
        # run.json is written anew until there is a checkpoint: before that, nothing was learnt with the old settings.
        if not checkpoint.to_resume(path, resume):
            facts = circumstances(device)
            if own := own_records(own_names(settings)):
                facts["own_code"] = own
            write_record(path, MIXING_RUN, {"settings": settings.as_dict(), "facts": facts})
        else:
            theirs, ours = open_mixing(path).as_dict(), settings.as_dict()
            # The checkpoint holds the decoder, and tells it by its weights, wherever its run lies now.
            if all(str(s["mixing"]).startswith(DECODER) for s in (theirs, ours)):
                theirs["mixing"] = ours["mixing"]
            if found := differences(theirs, ours):
                raise UserError(f"{path} was started with other settings ({'; '.join(found)}).")
        yield held


def open_mixing(path: Path) -> MixingSettings:
    """Return the settings that a run's folder records."""
    with record_of(path, MIXING_RUN) as content:
        return MixingSettings.from_dict(content["settings"])


def own_names(s: MixingSettings) -> dict[str, str]:
    """Return the settings that may name a user's own objects."""
    return {"mixing": s.mixing, "encoder": s.encoder, "loss": str(s.loss)}


def go_on_with(path: Path, s: MixingSettings, *, trains: bool) -> list[str]:
    """Record the user's own objects with which a run goes on; return what is to be said of them."""
    with record_of(path, MIXING_RUN) as content:
        facts = content["facts"]
        for recorded in facts.get("own_code", {}).values():
            check_record(recorded)
        own, said = records_after_resume(facts.get("own_code"), own_names(s), trains=trains)
        if own and own != facts.get("own_code"):
            write_record(path, MIXING_RUN, {"settings": content["settings"], "facts": facts | {"own_code": own}})
    return said


def named_by(s: MixingSettings) -> dict[str, Any]:
    """Return the settings that a folder's name is made from: later ones only if they are not at their defaults."""
    usual = MixingSettings()
    return {k: v for k, v in s.as_dict().items() if k not in LATER or v != getattr(usual, k)}


def default_name(s: MixingSettings) -> str:
    """Return <latent space>-<conditional>-<loss>-<model space>-<encoder>-seed<seed>-<hash of all settings>."""
    views = "supervised" if s.supervised else s.cond
    return safe_name(s.latent_space, views, s.loss, s.space, s.encoder, f"seed{s.seed}", short_hash(named_by(s)))


def old_name(s: MixingSettings) -> str:
    """Return the name of version 0.1: <latent space>-<conditional>-<model space>-<hash of all settings>."""
    return f"{s.latent_space}-{'supervised' if s.supervised else s.cond}-{s.space}-{short_hash(named_by(s))}"
