"""The folder of a run on mixed latents: one process at a time holds it, and a run goes on with its own settings."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ident3d.errors import UserError
from ident3d.loaders.folders.folder import differences
from ident3d.loaders.format.files import remove_partial_files, write_json
from ident3d.loaders.stores.lease import Lease, lease
from ident3d.training.loop import checkpoint
from ident3d.training.loop.devices import circumstances
from ident3d.training.loop.recorded import digest
from ident3d.training.mixing.settings import MixingSettings

RUN_FILE = "run.json"
FORMAT, FORMAT_VERSION = "ident3d-mixing", 1


@contextmanager
def start_or_resume(path: Path, settings: MixingSettings, device: torch.device, resume: bool) -> Iterator[Lease]:
    """Hold a run's folder, which is new or was started with the same settings, and write run.json into a new one."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None
    with lease(path) as held:
        remove_partial_files(path)  # a run that was killed while it saved leaves one
        if not (path / checkpoint.CHECKPOINT_FILE).exists():
            content: dict[str, object] = {"format": FORMAT, "format_version": FORMAT_VERSION}
            write_json(path / RUN_FILE, content | {"settings": settings.as_dict(), "facts": circumstances(device)})
        elif not resume:
            raise UserError(f"{path} holds a run already; go on with --resume, or choose another --out.")
        elif found := differences(open_mixing(path).as_dict(), settings.as_dict()):
            raise UserError(f"{path} was started with other settings ({'; '.join(found)}).")
        yield held


def open_mixing(path: Path) -> MixingSettings:
    """Return the settings that a run's folder records."""
    try:
        content = json.loads((path / RUN_FILE).read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["format_version"] != FORMAT_VERSION:
            raise UserError(f"{path / RUN_FILE} has another format than this ident3d reads.")
        return MixingSettings.from_dict(content["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path / RUN_FILE} is no valid record of a run on mixed latents: {error!r}.") from None


def default_name(s: MixingSettings) -> str:
    """Return <latent space>-<conditional>-<model space>-<hash of all settings>."""
    return f"{s.latent_space}-{'supervised' if s.supervised else s.cond}-{s.space}-{digest(s.as_dict())}"
