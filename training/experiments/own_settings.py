"""Settings as a table of a user's own names them, by the names of options, each checked for its type."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, get_args, get_origin, get_type_hints

from ident3d.errors import UserError, unknown
from ident3d.training.images.settings import TrainSettings
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.own.own_object import OwnOr

# Options whose settings have another name, and the words of options that stand for None.
OPTIONS: Final = {"lambda": "lambdas", "hard_lambda": "hard"}
NONE_WORDS: Final[dict[type, dict[str, str]]] = {TrainSettings: {"bound": "auto"}, MixingSettings: {"bound": "match"}}


def changes(kind: type[TrainSettings] | type[MixingSettings], content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return settings as the file gives them, by the names of options, each checked for its type."""
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind) if field.name != "seed"]
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        name = OPTIONS.get(name, name)
        if name == "seed":
            raise UserError(f"The {where} names a seed; `seeds` of the file names them for all rows.")
        if name not in known:
            shown = {setting: option for option, setting in OPTIONS.items()}
            raise unknown("setting", key, [shown.get(each, each) for each in known])
        if name in NONE_WORDS[kind] and value == NONE_WORDS[kind][name]:
            found[name] = None
        else:
            found[name] = setting(name, value, hints[name], f"{key} of {where}")
    return found


def setting(name: str, value: Any, hint: Any, shown: str) -> Any:
    """Return a setting of the right type: a list as a tuple, a whole number as a number; raise UserError otherwise."""
    try:
        if name == "lambdas":
            several = value if isinstance(value, list) and isinstance(value[0], list) else [value]
            return tuple(numbers_of(each) for each in several)
        if name == "hard":
            return numbers_of(value)
        if name == "only":
            return tuple(map(str, value if isinstance(value, list) else [value]))
        hint = get_args(hint)[0] if get_origin(hint) is OwnOr else hint
        value = float(value) if type(value) is int and isinstance(0.0, hint) else value
        # True is a whole number in Python.
        if isinstance(value, hint) and (type(value) is not bool or not isinstance(2, hint)):
            return value
    except (TypeError, ValueError, IndexError):
        pass
    wanted = "; it is a number or a list of numbers, such as [5, 25]" if name in ("lambdas", "hard") else ""
    raise UserError(f"{shown} cannot be {value!r}{wanted}.")


def numbers_of(value: Any) -> tuple[float, ...]:
    return tuple(float(each) for each in (value if isinstance(value, list) else [value]))
