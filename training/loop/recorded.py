"""Settings on disk: read under today's names, and hashed under the names that they always had."""

import json
from collections.abc import Mapping
from typing import Any, Final

from ident3d.loaders.format.files import sha256

# today's name → the name in run.json and result.json of version 0.1
OLD_NAMES: Final = {"negatives": "candidates", "dtype": "precision", "lambda_lr": "precision_lr"}


def with_new_names(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded settings under today's names, whichever version wrote them."""
    new_names = {old: new for new, old in OLD_NAMES.items()}
    return {new_names.get(name, name): value for name, value in recorded.items()}


def digest(settings: Mapping[str, Any]) -> str:
    """Return the eight hex digits that a run's default folder name ends with."""
    # The old names are hashed. So --resume finds a run that version 0.1 began under its default name.
    named = {OLD_NAMES.get(name, name): value for name, value in settings.items()}
    return sha256(json.dumps(named, sort_keys=True).encode())[:8]
