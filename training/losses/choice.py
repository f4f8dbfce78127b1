"""Which loss goes with which space and numbers: the rules that the settings of both trainers share. No torch."""

from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import fields
from functools import cache, partial, wraps
from math import isfinite
from numbers import Integral, Real
from types import UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from ident3d.errors import UserError, check_known, unknown
from ident3d.training.own.own_object import OwnOr

LOSSES: Final = ("infonce", "delta", "simclr", "au", "aninfonce", "mse")
# Losses of autoencoders, for images alone, and the weights that each has: β, γ and the rate of a Laplace distribution.
# SlowVAE's and β-VAE's are those of SlowVAE's paper; Ada-GVAE's chose its β among 1, 2, 4, 6, 8 and 16.
VARIATIONAL: Final[dict[str, dict[str, float]]] = {
    "slowvae": {"beta": 1.0, "gamma": 10.0, "laplace_rate": 6.0},
    "betavae": {"beta": 8.0},
    "adagvae": {"beta": 1.0},
}
# Permutation contrastive learning, for images alone.
PERMUTATION: Final = "pcl"
# TriCL in its paper's form and in that of its code, for mixed latents alone.
TRICL: Final = ("tricl", "tricl-released")
WITH_POWER: Final = ("delta", "au")
WITH_TEMPERATURE: Final = ("infonce", "delta", "simclr", *TRICL)
ALPHA: Final = 0.5

# The width of the images that decoders give.
DECODED_SIZE: Final = 64

# Whose codes an anchor is compared with: all anchors of the batch but itself, as in the papers' formula, or all,
# itself among them, as in the public code.
NEGATIVES: Final = ("others", "batch")
WITH_NEGATIVES: Final = ("infonce", "delta")
# Whose anchors may have a negative of their own, drawn around them.
WITH_HARD: Final = ("aninfonce", "infonce", "delta")

# Numbers of either trainer's settings, by what they must be. Each trainer has most of them.
AT_LEAST_ONE: Final = ("batch", "steps", "chunk", "dim", "hard_count")
ABOVE_ZERO: Final = (
    "lr", "space_lr", "lambda_lr", "sigma", "cond_p", "marginal_sigma", "tau", "bound", "radius", "laplace_rate",
)  # fmt: skip
NOT_NEGATIVE: Final = ("kappa", "marginal_kappa", "beta", "gamma", "hard_after")


Settings = TypeVar("Settings")
# What a field of settings may hold, in words.
SETTING_KINDS: Final = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a name",
    tuple[str, ...]: "a tuple of names, such as ('x',)",
    tuple[float, ...]: "a tuple of numbers, such as (50.0,)",
    tuple[tuple[float, ...], ...]: "a tuple of tuples of numbers, such as ((400.0,),)",
    type(None): "None",
}


def checked(kind: type[Settings]) -> type[Settings]:
    """Make a class of settings raise UserError for a name that is no setting, and for a value of another kind."""
    made: Callable[..., None] = kind.__init__
    hints = cache(partial(get_type_hints, kind))

    @wraps(made)
    def init(self: object, *given: Any, **named: Any) -> None:
        for name in named:
            check_known(f"setting of {kind.__name__}", name, hints())
        made(self, *given, **named)
        for name, hint in hints().items():
            value = getattr(self, name)
            if not fits(value, hint):
                wanted = " or ".join(SETTING_KINDS[each] for each in choices(hint))
                raise UserError(f"{name} of {kind.__name__} is {wanted}, not {value!r}.")

    kind.__init__ = init  # type: ignore[method-assign]
    return kind


def choices(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union; a type that is none is the one member."""
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)


def fits(value: object, hint: Any) -> bool:
    """Return whether a value is of a hint's kind: NumPy's numbers are numbers, and a list does for a tuple."""
    if get_origin(hint) is OwnOr:
        return True  # It checks what it is given by itself.
    if isinstance(hint, UnionType):
        return any(fits(value, each) for each in choices(hint))
    if get_origin(hint) is tuple:
        members = isinstance(value, Collection) and not isinstance(value, str | bytes)
        return members and all(fits(each, get_args(hint)[0]) for each in value)  # type: ignore[attr-defined]
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return isinstance(value, hint)


def check_loss(
    loss: str,
    space: str,
    *,
    supervised: bool,
    model_p: float | None,
    tau: float,
    alpha: float,
    negatives: str | None,
    others: Collection[str] = (),
) -> None:
    """Raise UserError if the loss does not exist, does not fit the output space, or takes no such number.

    Besides those of both trainers, a trainer may have `others`.
    """
    # A user's own loss may be anything: it is called first when the parts are built.
    is_own = ":" in loss
    # mse is what --supervised takes, so it is no choice to offer.
    known = (*LOSSES, *others)
    if not is_own and loss not in known:
        raise unknown("loss", loss, [*(name for name in known if name != "mse"), "package.module:name"])
    if negatives is not None:
        check_known("set of negatives", negatives, NEGATIVES)
    if (loss == "mse") != supervised and not is_own:
        raise UserError("--loss mse and --supervised belong together.")
    if loss == "delta" and space == "sphere":
        raise UserError("--loss delta is for --space box or unbounded; on the sphere take --loss infonce.")
    if loss == "infonce" and space != "sphere":
        raise UserError(f"--loss infonce compares directions: take --space sphere, or --loss delta on {space}.")
    for option, is_given, losses in (
        ("--model-p", model_p is not None, WITH_POWER),
        ("--tau", tau != 1, WITH_TEMPERATURE),
        ("--alpha", alpha != ALPHA, ("au",)),
        ("--negatives others", negatives == "others", WITH_NEGATIVES),
    ):
        if is_given and loss not in losses:
            raise UserError(f"{option} is for --loss {', '.join(losses)}, not for {loss}.")


def check_variational(
    loss: str, space: str, size: int, given: dict[str, float | None], *, two: bool, any_size: bool = False
) -> None:
    """Raise UserError if a loss is given weights that it has not, or an autoencoder what it cannot take.

    `any_size` says that its decoder makes images of any size.
    """
    for name, value in given.items():
        losses = [loss for loss, weights in VARIATIONAL.items() if name in weights]
        if value is not None and loss not in losses:
            raise UserError(f"--{name.replace('_', '-')} is for --loss {', '.join(losses)}, not for {loss}.")
    if loss not in VARIATIONAL:
        return
    if space != "unbounded":
        raise UserError(f"The codes of --loss {loss} are the means of normal distributions: take --space unbounded.")
    if size != DECODED_SIZE and not any_size:
        raise UserError(
            f"--loss {loss} decodes images of {DECODED_SIZE} pixels, not {size}: take --size {DECODED_SIZE}, of images "
            "that are as large or larger, or an --encoder of hidden widths, such as 512x2."
        )
    if two:
        raise UserError(f"Two --lambda give each anchor two positives; that does not go with --loss {loss}.")


def power_of(loss: str, model_p: float | None) -> float | None:
    """Return the power p of the loss, by default 2; None for a loss without one."""
    return 2.0 if model_p is None and loss in WITH_POWER else model_p


def usual_negatives(loss: str) -> str:
    """Return the negatives if none are named: the papers' for losses that have a choice, else all of the batch."""
    return "others" if loss in WITH_NEGATIVES else "batch"


def check_ranges(settings: object, *, supervised: bool, unused: Container[str] = ()) -> None:
    """Raise UserError for the first number of the settings that is out of its range, except the unused ones.

    None is in every range.
    """
    for names, least, is_open, wanted in (
        (AT_LEAST_ONE, 1, False, "at least 1"),
        (ABOVE_ZERO, 0, True, "a number above 0"),
        (NOT_NEGATIVE, 0, False, "a number of at least 0"),
        (("model_p",), 1, False, "a number of at least 1"),
    ):
        for name in names:
            value = None if name in unused else getattr(settings, name, None)
            if value is not None and not (least <= value < float("inf") and (value > least or not is_open)):
                raise UserError(f"--{name.replace('_', '-')} is {wanted}, not {value:g}.")
    alpha, batch, seed = (getattr(settings, name) for name in ("alpha", "batch", "seed"))
    if not 0 <= alpha <= 1:
        raise UserError(f"--alpha is a share from 0 to 1, not {alpha:g}.")
    if batch < 2 and not supervised:
        raise UserError(f"--batch is at least 2 pairs, not {batch}: the others are the negatives.")
    check_run_seed(seed)


def shown_settings(settings: Any) -> str:
    """Return the settings as Python that makes them, without those that are at their defaults."""
    given = ((field.name, getattr(settings, field.name), field.default) for field in fields(settings))
    changed = ", ".join(f"{name}={value!r}" for name, value, default in given if value != default)
    return f"{type(settings).__name__}({changed})"


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise UserError if there is no seed, or one that is named twice or is no seed."""
    if not seeds:
        raise UserError("--seeds names no seed; name at least one.")
    if len(set(seeds)) < len(seeds):
        raise UserError("--seeds names a seed twice.")
    for seed in seeds:
        check_run_seed(seed)


def check_run_seed(seed: int) -> None:
    """Raise UserError if the seed is not a whole number that fits into 63 bits."""
    if not 0 <= seed < 2**63:
        raise UserError(f"--seed is a whole number from 0 to 2**63 - 1, not {seed}.")


def check_hard(loss: str, positive: Sequence[float], negative: Sequence[float]) -> None:
    """Raise UserError if a loss has no hard negatives, or if their Λ⁻ leaves no precision to be learnt."""
    if loss not in WITH_HARD:
        raise UserError(f"--hard-lambda is for --loss {', '.join(WITH_HARD)}, not for {loss}.")
    if loss == "aninfonce" and any(hard >= own for own, hard in zip(positive, negative, strict=True)):
        raise UserError("--lambda is above --hard-lambda in every dimension, because the best Λ̂ is Λ⁺ - Λ⁻.")


def spread_out(option: str, values: Sequence[float], dim: int) -> tuple[float, ...]:
    """Return one value per dimension. Of k values, if k divides d, each holds for d/k dimensions in turn."""
    if bad := [value for value in values if not (isfinite(value) and value > 0)]:
        raise UserError(f"Every value of --{option} is a number above 0, not {bad[0]:g}.")
    if not values or dim % len(values):
        raise UserError(
            f"--{option} takes one value, one for each of the {dim} dimensions, or a number of values that divides "
            f"{dim}, for blocks of equal size; not {len(values)}."
        )
    return tuple(float(value) for value in values for _ in range(dim // len(values)))
