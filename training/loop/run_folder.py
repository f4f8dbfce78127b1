"""A run's folder: held by one process at a time, with run.json in it, which every version can read."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from ident3d.errors import UserError
from ident3d.loaders.format.files import new_folder, read_json, remove_partial_files, sha256, write_json
from ident3d.loaders.stores.lease import Lease, lease

RUN_FILE: Final = "run.json"
EVALUATION_FILE: Final = "evaluation.json"
READOUT_FILE: Final = "readout.json"
FORMAT_VERSION: Final = 1
# What a run was trained on, as run.json names it.
IMAGES_RUN: Final = "ident3d-run"
MIXING_RUN: Final = "ident3d-mixing"
# What each kind of run is trained on, in words.
RUN_KINDS: Final = {IMAGES_RUN: "images", MIXING_RUN: "mixed latents"}
# Columns by which runs are listed and compared, and the scores of images that stand there.
HEADLINE: Final = {"R²": "linear_r2_held_out", "MCC": "mcc_pearson"}
# A folder's name has at most 255 bytes.
LONGEST_PART: Final = 48

# today's name → the name in run.json and result.json of version 0.1
OLD_NAMES: Final = {"negatives": "candidates", "dtype": "precision", "lambda_lr": "precision_lr"}

# Settings whose defaults changed since: what a record without them was made with.
OLD_DEFAULTS: Final = {"negatives": "batch", "bound": 1.0}


@contextmanager
def hold_folder(folder: Path, *, first: bool = True) -> Iterator[Lease | None]:
    """Make a run's folder and hold its lease, on the first rank alone. Raise UserError if it cannot be written."""
    with new_folder(folder), lease(folder) if first else nullcontext() as held:
        # A run that was killed while it saved leaves a partial file. The lease's holder alone may delete it.
        if first:
            remove_partial_files(folder)
        yield held


def write_record(folder: Path, kind: str, content: Mapping[str, object]) -> None:
    """Write run.json. The kind names its format."""
    write_json(folder / RUN_FILE, {"format": kind, "format_version": FORMAT_VERSION, **content})


@contextmanager
def record_of(folder: Path, *kinds: str) -> Iterator[dict[str, Any]]:
    """Give the content of run.json, of one of the kinds. What fails as it is taken apart becomes a UserError."""
    path = folder / RUN_FILE
    if not path.is_file():
        raise UserError(f"{folder} is not a run's folder: it has no {RUN_FILE}.")
    try:
        content = read_json(path)
        if content["format"] in RUN_KINDS and content["format"] not in kinds:
            is_of, asked = RUN_KINDS[content["format"]], " or ".join(RUN_KINDS[kind] for kind in kinds)
            raise UserError(f"{folder} is a run on {is_of}; here it takes one on {asked}.")
        if content["format"] not in kinds or content["format_version"] != FORMAT_VERSION:
            raise UserError(f"{path} has another format than this ident3d reads.")
        yield content
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        # A UserError is a ValueError too, and is one clear sentence already.
        if isinstance(error, UserError):
            raise
        why = f"it does not say {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{path} is no valid record of a run: {why}.") from None


def with_new_names(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded settings under today's names, whichever version wrote them; what is not recorded was as then."""
    new_names = {old: new for new, old in OLD_NAMES.items()}
    return OLD_DEFAULTS | {new_names.get(name, name): value for name, value in recorded.items()}


def safe_name(*parts: object) -> str:
    """Return a folder's name made of these parts, each cut short, without signs that are no part of a file name."""
    short = (re.sub(r"[^\w.,+=-]+", ".", str(part).replace("*", "x"))[:LONGEST_PART] for part in parts)
    return "-".join(short)


def usual_folder(base: Path, name: str, old_name: str) -> Path:
    """Return the folder of a run below `base`: its old name's, if a version that named runs so began it there."""
    return base / old_name if (base / old_name / RUN_FILE).is_file() else base / name


def short_hash(settings: Mapping[str, Any]) -> str:
    """Return the eight hex digits that a run's default folder name ends with."""
    # The old names are hashed. So --resume finds a run that version 0.1 began under its default name.
    named = {OLD_NAMES.get(name, name): value for name, value in settings.items()}
    return sha256(json.dumps(named, sort_keys=True).encode())[:8]
