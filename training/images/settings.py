"""Settings of a training on images: one frozen record that run.json keeps, completed and checked before the start."""

from dataclasses import asdict, dataclass
from typing import Any, get_args, get_origin, get_type_hints

from ident3d.errors import UserError
from ident3d.latents.distributions.spaces import Sphere, parts_of
from ident3d.latents.worlds import AnyWorld
from ident3d.loaders.pairs.grid_draws import RATE
from ident3d.loaders.pairs.rules import RULES
from ident3d.loaders.pairs.time import MAX_LAG
from ident3d.training.loop.run_folder import with_new_names
from ident3d.training.losses.choice import (
    ALPHA,
    checked,
    shown_settings,
)
from ident3d.training.own.own_object import OwnOr
from ident3d.training.views.choice import UNCHANGED

CONDITIONALS = ("normal", "laplace", "gennorm", "vmf")
VIEWS = (*CONDITIONALS, "augment")
DTYPES = ("auto", "fp32", "bf16", "fp16")
MOST_CODES = 100_000
# How much faster than the weights a bound moves whose start is found: it has a longer way to go.
BOUND_FASTER = 20
# The public code's start.
PUBLIC_BOUND = 1.0
# Losses of differences of codes, whose scale says how wide a box is best.
WITH_BEST_BOX = ("delta", "au", "aninfonce")
# Newer than some runs.
NEWER = ("lambdas", "hard", "drop_last", "environments")
WEIGHTS = ("beta", "gamma", "laplace_rate")
IF_GIVEN = (*WEIGHTS, "lambda_lr")
# pair rule → its settings, and their options
OF_RULE = {
    "nearest": {"cond": "--cond", "cond_p": "--cond-p", "sigma": "--sigma", "lambdas": "--lambda",
                "hard": "--hard-lambda", "only": "--only", "same_class": "--same-class", "search": "--search",
                "environments": "--environments"},
    "grid": {"grid": "--grid", "rate": "--rate"},
    "time": {"max_lag": "--max-lag"},
    "view": {},
}  # fmt: skip


@checked
@dataclass(frozen=True, repr=False)
class TrainSettings:
    """The options of `ident3d train` that decide what is learnt. None means what `with_defaults` makes of it.

    A box's `bound` may stay None: then its start is found from the pairs, and the run's facts hold it.
    `lambdas` holds Λ of the conditional, or of two; `hard` is Λ of hard negatives.
    `rule` names the pair rule: nearest, to a draw from the conditional, or grid (with `grid` and `rate`), time (with
    `max_lag`) or view, which take none of the conditional's settings. None is view for images that were rendered as
    views, unless something of nearest is set, and nearest for all others.
    `environments` keeps pairs of the rule nearest "within" one environment, or takes them "across" two; "within:a,b"
    names the environments that pairs are taken from.
    `loss` and `encoder` take a user's own function, class or module as well as a name. `beta`, `gamma` and
    `laplace_rate` are weights of the losses slowvae, betavae and adagvae; `drop_last` is for au.

    Example:
        >>> from ident3d import TrainSettings
        >>> TrainSettings(space="sphere", steps=2000).batch
        512
    """

    space: str | None = None
    cond: str = "normal"
    cond_p: float | None = None
    sigma: float = 0.1
    lambdas: tuple[tuple[float, ...], ...] = ()
    hard: tuple[float, ...] = ()
    loss: OwnOr[str | None] = OwnOr(None)
    model_p: float | None = None
    tau: float = 1.0
    alpha: float = ALPHA
    drop_last: bool = False
    beta: float | None = None
    gamma: float | None = None
    laplace_rate: float | None = None
    negatives: str | None = None
    supervised: bool = False
    only: tuple[str, ...] = ()
    same_class: bool = False
    environments: str | None = None
    rule: str | None = None
    grid: str = "lap"
    rate: float | None = RATE
    max_lag: int = MAX_LAG
    search: str = "exact"
    augment: str = "simclr"
    encoder: OwnOr[str] = OwnOr("resnet18")
    dim: int | None = None
    bound: float | None = None
    radius: float = 1.0
    learnable: bool | None = None
    space_lr: float | None = None
    lambda_lr: float | None = None
    size: int | None = None
    batch: int = 512
    chunk: int | None = None
    steps: int = 30_000
    lr: float = 1e-4
    schedule: str = "constant"
    seed: int = 0
    dtype: str = "auto"
    compile: bool = False
    sync_bn: bool = False

    def __repr__(self) -> str:
        return shown_settings(self)

    def as_dict(self) -> dict[str, Any]:
        content = asdict(self) | {"only": list(self.only)}
        # Not recorded unless they are given: a run's name is made of its record, and they are newer than some runs.
        absent = {name for name in NEWER if not content[name]} | {name for name in IF_GIVEN if content[name] is None}
        absent |= {name for rule in ("grid", "time") if rule != self.rule for name in OF_RULE[rule]}
        absent |= {"rule"} if self.rule in (None, "nearest") else set()
        return {name: value for name, value in content.items() if name not in absent}

    @classmethod
    def from_dict(cls, recorded: dict[str, Any]) -> "TrainSettings":
        """Return the settings that a run recorded, complete. Raise TypeError for anything else."""
        lists: dict[str, Any] = {"only": tuple(map(str, recorded["only"]))}
        lists["lambdas"] = tuple(tuple(map(float, values)) for values in recorded.get("lambdas", ()))
        # Runs of the rule nearest do not say so.
        lists["rule"] = recorded.get("rule", "nearest")
        lists["hard"] = tuple(map(float, recorded.get("hard", ())))
        try:
            settings = cls(**with_new_names(recorded) | lists)
        except UserError as error:
            # The file is named by who reads it.
            raise TypeError(str(error)) from None
        # JSON has one kind of number, so an int is accepted for a float, and never the other way round.
        for name, hint in (get_type_hints(cls) | dict.fromkeys(("only", "lambdas", "hard"), tuple)).items():
            given, kind = getattr(settings, name), get_args(hint)[0] if get_origin(hint) is OwnOr else hint
            if not isinstance(float(given) if type(given) is int and isinstance(0.0, kind) else given, kind):
                raise TypeError(f"{name} is {given!r}")
        decided = (settings.space, settings.loss, settings.negatives, settings.dim, settings.size)
        if None in decided or settings.cond not in VIEWS or settings.rule not in RULES:
            raise TypeError("its settings leave something open")
        # An encoder of this width is made before its checkpoint shows that no such one was trained.
        if not 1 <= (settings.dim or 0) <= MOST_CODES:
            raise TypeError(f"dim is {settings.dim}")
        return settings

    @property
    def pair_kind(self) -> str:
        """How pairs are drawn, in a word: the conditional, the grid, or the longest lag; supervised without pairs."""
        if self.supervised:
            return "supervised"
        return {"grid": self.grid, "time": f"time{self.max_lag}", "view": "view"}.get(self.rule or "", self.cond)

    @property
    def images_alone(self) -> bool:
        """Whether a batch holds single images and no pairs."""
        return self.supervised or self.cond == "augment"

    @property
    def images_as_they_are(self) -> bool:
        """Whether an autoencoder learns from single images that nothing happens to."""
        return self.loss == "betavae" and self.cond == "augment" and self.augment == UNCHANGED

    @property
    def views(self) -> int:
        """Images that the encoder sees of each anchor: a pair has a third with hard negatives or two conditionals."""
        return 1 if self.supervised or self.images_as_they_are else 3 if self.hard or len(self.lambdas) > 1 else 2


def on_sphere(world: AnyWorld) -> bool:
    """Return whether some raw latents of a world share a sphere, as those of the periodic variant do."""
    # Images may have no latents at all.
    return bool(world.names) and any(isinstance(part, Sphere) for part in parts_of(world.space))


def moving_latents(world: AnyWorld) -> tuple[str, ...]:
    """Return the raw latents that vary in a world: what is to be identified."""
    return tuple(name for name in world.names if name not in world.held)
