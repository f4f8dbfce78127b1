"""The names of the pair rules, and which options belong to which."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from ident3d.errors import UserError, check_known
from ident3d.loaders.pairs.grid_draws import RATE
from ident3d.loaders.pairs.time import MAX_LAG

RULES: Final = ("nearest", "grid", "time", "view")
# column of a dataset → the rule that pairs its images if none is named
OWN_PAIRS: Final = {"instance": "view", "sequence": "time"}
# How pairs of the rule nearest may be restricted by environment, and what that is called.
ENVIRONMENTS: Final = ("within", "across")
WAYS: Final = "way to restrict pairs by environment"
# Between a way and the names of the environments that it is for.
COLON: Final = ":"
# rule → its options: each with the value that was given, and the default
Options: TypeAlias = Mapping[str, Mapping[str, tuple[object, object]]]


def options_of(grid: str, rate: float | None, max_lag: int) -> Options:
    """Return the options of the rules grid and time, beside their defaults."""
    return {"grid": {"grid": (grid, "lap"), "rate": (rate, RATE)}, "time": {"max_lag": (max_lag, MAX_LAG)}}


def check_rule(rule: str, options: Options) -> None:
    """Raise UserError if there is no such pair rule, or if an option was given that belongs to another one."""
    check_known("pair rule", rule, RULES)
    for other, own in options.items():
        for name, (given, default) in own.items():
            if other != rule and not is_default(given, default):
                raise UserError(f"{name} belongs to the pair rule {other}, and these pairs are drawn by {rule}.")


def way_of(environments: str) -> tuple[str, list[str]]:
    """Return the way of within:a,b and the names in it; none are named in within. Raise UserError for another way."""
    way, named, names = str(environments).partition(COLON)
    check_known(WAYS, way, ENVIRONMENTS)
    found = [name.strip() for name in names.split(",")] if named else []
    if named and not all(found):
        raise UserError(f"{environments!r} names no environment; it is {way}, or as in {way}:plain,right.")
    return way, found


def is_default(given: object, default: object) -> bool:
    """Return whether an option has its default. An array has none: it would compare element by element."""
    return given is default or (isinstance(given, int | float | str | tuple) and given == default)
