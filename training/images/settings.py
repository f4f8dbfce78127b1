"""Settings of a training on images: one frozen record that run.json keeps, completed and checked before the start."""

from dataclasses import asdict, dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

from ident3d.errors import UserError, check_known
from ident3d.latents.distributions.spaces import Sphere, parts_of
from ident3d.latents.worlds import AnyWorld
from ident3d.loaders.pairs.grid import check_grid
from ident3d.loaders.pairs.grid_draws import RATE
from ident3d.loaders.pairs.rules import RULES, check_rule, way_of
from ident3d.loaders.pairs.time import MAX_LAG, check_lag
from ident3d.training.encoders.choice import check_image_encoder, check_image_size, is_widths, usual_decoder
from ident3d.training.images.precisions import check_precisions, complete_precisions
from ident3d.training.loop.run_folder import with_new_names
from ident3d.training.loop.steps import SCHEDULES
from ident3d.training.losses.choice import (
    ALPHA,
    PERMUTATION,
    VARIATIONAL,
    check_loss,
    check_ranges,
    check_variational,
    checked,
    power_of,
    shown_settings,
    usual_negatives,
)
from ident3d.training.own.own_object import OwnOr
from ident3d.training.views.choice import UNCHANGED, augmentation

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


def with_defaults(settings: TrainSettings, world: AnyWorld, stored_size: int, images: int) -> TrainSettings:
    """Return the settings with every None decided. Raise UserError for the first that does not fit the rest."""
    s = settings if settings.rule else replace(settings, rule="nearest")
    space = s.space or usual_space(s, world)
    # Version 0.1 did not look at the start of a bound or a radius that the space does not have.
    unused = [name for name, kind in (("bound", "box"), ("radius", "sphere")) if kind not in space]
    check_ranges(s, supervised=s.supervised, unused=unused)
    # A user's own encoder is called first when the parts are built.
    if ":" not in s.encoder:
        check_image_encoder(s.encoder)
    check_known("conditional", s.cond, VIEWS)
    check_known("schedule", s.schedule, SCHEDULES)
    check_pair_rule(s)
    check_known("number format", s.dtype, DTYPES)
    augmentation(s.augment)
    size = stored_size if s.size is None else s.size
    if not 1 <= size <= stored_size:
        raise UserError(f"The images are {stored_size} pixels wide; --size makes them smaller, not {size}.")
    check_image_size(s.encoder, size)
    if s.batch > images:
        raise UserError(f"A batch of {s.batch} is larger than the training set of {images} images; lower --batch.")
    # The loss depends on the space, and what the loss takes on the loss: so they are decided in this order.
    check_conditional(s, world)
    loss = s.loss or usual_loss(s, space)
    weights = {name: getattr(s, name) for name in WEIGHTS}
    if s.supervised and space != "unbounded":
        raise UserError(f"Supervised codes are the latents themselves: --space unbounded, not {space}.")
    if loss == "simclr" and "box" in space:
        raise UserError(f"--loss simclr compares directions: take --space sphere or unbounded, not {space}.")
    check_loss(
        loss, space, supervised=s.supervised, model_p=s.model_p, tau=s.tau, alpha=s.alpha, negatives=s.negatives,
        others=(*VARIATIONAL, PERMUTATION),
    )  # fmt: skip
    check_variational(loss, space, size, weights, two=len(s.lambdas) > 1, any_size=is_widths(usual_decoder(s.encoder)))
    check_unchanged(s, loss)
    if s.drop_last and loss != "au":
        raise UserError(f"--drop-last is for --loss au, not for {loss}.")
    if s.drop_last and (s.dim or len(moving_latents(world))) < 2:
        raise UserError("--drop-last would leave no code: it needs --dim 2 or more.")
    if s.lambda_lr is not None and loss != "aninfonce" and ":" not in loss:
        raise UserError(f"--lambda-lr is for --loss aninfonce, whose Λ is learnt, not for {loss}.")
    moving = len(moving_latents(world))
    # A start is found from pairs of known latents. Without a box there is none to find.
    finds_start = "box" in space and loss in WITH_BEST_BOX and moving > 0 and not s.images_alone
    bound = s.bound if s.bound is not None or finds_start else PUBLIC_BOUND
    if not moving and (s.supervised or s.dim is None):
        raise UserError(
            "--supervised learns latents, and these images have none that vary."
            if s.supervised
            else "These images have no latents that vary: give --dim, and --cond augment, --rule time or --rule view."
        )
    if s.supervised and s.dim not in (None, moving):
        raise UserError(f"Supervised codes are the {moving} latents that vary, so --dim cannot be {s.dim}.")
    lambdas, hard = complete_precisions(s.lambdas, s.hard, sigma=s.sigma, loss=loss, latents=moving)
    return replace(
        s,
        **(VARIATIONAL.get(loss, {}) | {name: value for name, value in weights.items() if value is not None}),
        lambdas=lambdas,
        hard=hard,
        size=size,
        space=space,
        loss=loss,
        negatives=s.negatives or usual_negatives(loss),
        bound=bound,
        # A bound whose start is found goes on at a rate of its own.
        space_lr=BOUND_FASTER * s.lr if bound is None and s.space_lr is None else s.space_lr,
        model_p=power_of(loss, s.model_p),
        cond_p=3.0 if s.cond == "gennorm" and s.cond_p is None else s.cond_p,
        dim=moving if s.dim is None else s.dim,
    )


def usual_space(s: TrainSettings, world: AnyWorld) -> str:
    """Return the space if none is named: the latents' own, or the sphere for losses that compare directions."""
    if s.supervised or s.loss in VARIATIONAL:
        return "unbounded"
    if s.loss in ("simclr", "infonce") or (s.cond == "augment" and s.loss in (None, "aninfonce")):
        return "sphere"
    return "box*sphere" if on_sphere(world) else "box"


def usual_loss(s: TrainSettings, space: str) -> str:
    """Return the loss if none is named: SimCLR's for augmentations, else the papers' for the pairs and the space."""
    if s.supervised:
        return "mse"
    if s.lambdas:
        return "aninfonce"
    if s.cond == "augment":
        return "simclr"
    return "infonce" if space == "sphere" else "delta"


def check_pair_rule(s: TrainSettings) -> None:
    """Raise UserError for an option that belongs to another pair rule, and for a rule where there are no pairs."""
    given = {
        rule: {option: (getattr(s, name), getattr(TrainSettings, name)) for name, option in own.items()}
        for rule, own in OF_RULE.items()
    }
    check_rule(s.rule or "nearest", given)
    if s.supervised and s.rule not in (None, "nearest"):
        raise UserError(f"--supervised has no pairs: leave --rule {s.rule} away.")
    check_grid(s.grid, s.rate)
    check_lag(s.max_lag)


def asks_for_nearest(s: TrainSettings) -> bool:
    """Return whether a setting of the rule nearest was given, or of a training without pairs."""
    return s.supervised or any(getattr(s, name) != getattr(TrainSettings, name) for name in OF_RULE["nearest"])


def check_unchanged(s: TrainSettings, loss: str) -> None:
    """Raise UserError if two views that are the same image are to be told apart."""
    if s.cond == "augment" and s.augment == UNCHANGED and loss != "betavae":
        raise UserError(f"--augment {UNCHANGED} leaves both views alike: it is for --loss betavae, not for {loss}.")


def check_conditional(s: TrainSettings, world: AnyWorld) -> None:
    """Raise UserError if the world has no such pairs, or if the settings need none."""
    if s.environments is not None:
        way_of(s.environments)
        if s.images_alone:
            raise UserError("--environments is for pairs, and this training has none: leave it away.")
    if s.supervised and (s.cond != "normal" or s.only or s.same_class):
        raise UserError("--supervised has no pairs: leave --cond, --only and --same-class away.")
    if s.cond == "vmf" and not on_sphere(world):
        others = ", ".join(name for name in VIEWS if name != "vmf")
        raise UserError(f"--cond vmf is for the sphere of 3dident-periodic; these latents take {others}.")
    check_precisions(
        bool(s.lambdas or s.hard), cond="supervised" if s.supervised else s.cond, sigma=s.sigma,
        usual_sigma=TrainSettings.sigma, sphere=on_sphere(world), lambdas=bool(s.lambdas),
    )  # fmt: skip
    if s.cond_p is not None and s.cond != "gennorm":
        raise UserError(f"--cond-p is the power of --cond gennorm, not of {s.cond}.")


def on_sphere(world: AnyWorld) -> bool:
    """Return whether some raw latents of a world share a sphere, as those of the periodic variant do."""
    # Images may have no latents at all.
    return bool(world.names) and any(isinstance(part, Sphere) for part in parts_of(world.space))


def moving_latents(world: AnyWorld) -> tuple[str, ...]:
    """Return the raw latents that vary in a world: what is to be identified."""
    return tuple(name for name in world.names if name not in world.held)
