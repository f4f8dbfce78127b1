"""What a run on mixed latents is: one frozen record, completed and checked before anything starts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Final

from ident3d.errors import UserError, unknown
from ident3d.latents.distributions.by_name import Marginal, conditional, marginal
from ident3d.latents.distributions.conditionals import Conditional
from ident3d.latents.distributions.spaces import Box, Factor, Sphere, Unbounded
from ident3d.training.encoders.output_spaces import SPACES
from ident3d.training.encoders.perceptron import PAPERS, widths
from ident3d.training.loop.recorded import with_new_names
from ident3d.training.loop.steps import SCHEDULES
from ident3d.training.losses.objective import NEGATIVES, OTHERS

LINE: Final = ("normal", "laplace", "gennorm")
MARGINALS: Final = {"box": ("uniform", *LINE), "sphere": ("uniform", *LINE, "vmf"), "unbounded": LINE}
CONDITIONALS: Final = {"box": LINE, "sphere": (*LINE, "vmf", "rejected_normal"), "unbounded": LINE}
DTYPES: Final = ("fp32", "bf16")
LOSSES: Final = ("infonce", "delta", "simclr", "au", "aninfonce", "mse")


@dataclass(frozen=True)
class MixingSettings:
    """The options of `ident3d mixing`, by default the papers'. None means what `with_defaults` makes of it.

    `lambdas` holds one precision Λ per process that draws pairs; with several, one encoder learns from all.
    """

    latent_space: str | None = None
    dim: int = 10
    marginal: str | None = None
    marginal_sigma: float = 1.0
    marginal_kappa: float = 1.0
    cond: str | None = None
    sigma: float = 0.05
    cond_p: float = 3.0
    kappa: float = 1.0
    lambdas: tuple[tuple[float, ...], ...] = ()
    hard: tuple[float, ...] = ()
    hard_count: int = 8
    space: str | None = None
    loss: str | None = None
    model_p: float | None = None
    tau: float = 1.0
    alpha: float = 0.5
    negatives: str = "batch"
    supervised: bool = False
    mixing: str = PAPERS
    encoder: str = PAPERS
    whiten: bool = False
    dtype: str = "fp32"
    bound: float | None = 1.0
    radius: float = 1.0
    learnable: bool | None = None
    space_lr: float | None = None
    lambda_lr: float = 1e-3
    batch: int = 6144
    steps: int | None = None
    lr: float = 1e-4
    schedule: str = "constant"
    seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, recorded: dict[str, Any]) -> "MixingSettings":
        lists = {"lambdas": tuple(map(tuple, recorded["lambdas"])), "hard": tuple(recorded["hard"])}
        return cls(**with_new_names(recorded) | lists)


def with_defaults(settings: MixingSettings) -> MixingSettings:
    """The settings with every None decided, or one sentence about the first that does not fit another."""
    s = settings
    check_numbers(s)
    s = replace(
        s,
        latent_space=s.latent_space or ("sphere" if s.lambdas else "box"),
        cond=s.cond or ("rejected_normal" if s.lambdas else "normal"),
        steps=s.steps or (100_000 if s.supervised else 300_000),
        lambdas=tuple(spread_out("lambda", values, s.dim) for values in s.lambdas),
        hard=spread_out("hard-lambda", s.hard, s.dim) if s.hard else (),
    )
    space = str(s.latent_space)
    if space not in MARGINALS:
        raise unknown("latent space", space, MARGINALS)
    s = replace(s, marginal=s.marginal or MARGINALS[space][0])
    fits("marginal", s.marginal, space, MARGINALS)
    if s.lambdas and space != "sphere":
        raise UserError(f"--lambda draws pairs on the sphere alone: leave --latent-space {space} away, or --lambda.")
    fits("conditional", s.cond, space, CONDITIONALS)
    if (s.cond == "rejected_normal") != bool(s.lambdas):
        raise UserError("The precision --lambda and the conditional rejected_normal belong together.")
    if s.hard and (not s.lambdas or len(s.lambdas) > 1):
        raise UserError("--hard-lambda goes with one --lambda: negatives come from the same sampler as positives.")
    for kind, name, known in (
        ("schedule", s.schedule, SCHEDULES),
        ("number format", s.dtype, DTYPES),
        ("set of negatives", s.negatives, NEGATIVES),
    ):
        if name not in known:
            raise unknown(kind, name, known)
    if ":" not in s.encoder:
        widths(s.encoder, s.dim)
    marginal_of(s), conditionals_of(s)  # refuse widths that cannot be
    s = with_loss(s)
    check_used(s)
    return s


def with_loss(s: MixingSettings) -> MixingSettings:
    """The loss that fits the model's space, where none is named."""
    space = s.space or ("unbounded" if s.supervised else s.latent_space)
    if space not in SPACES:
        raise unknown("output space", str(space), SPACES)
    usual = "mse" if s.supervised else "aninfonce" if s.lambdas else "infonce" if space == "sphere" else "delta"
    loss = s.loss or usual
    if loss not in LOSSES and ":" not in loss:
        raise unknown("loss", loss, [*LOSSES, "package.module:name"])
    if (loss == "mse") != s.supervised and ":" not in loss:
        raise UserError("The loss mse and --supervised belong together.")
    if space == "sphere" and (loss == "delta" or (s.model_p is not None and loss == "infonce")):
        raise UserError("On the sphere the loss is infonce, without a power p; L_δ is for --space box or unbounded.")
    if loss == "infonce" and space != "sphere":
        raise UserError(f"InfoNCE compares directions; on the space {space} take --loss delta, or --space sphere.")
    if s.model_p is not None and loss not in ("delta", "au"):
        raise UserError(f"--model-p is the power of an L_δ loss; the loss {loss} has none.")
    if s.tau != 1 and loss not in ("infonce", "delta", "simclr"):
        raise UserError(f"--tau is for the losses infonce, delta and simclr; the loss {loss} has no temperature.")
    if loss == "aninfonce" and not s.lambdas:
        raise UserError("The loss aninfonce learns the precision that --lambda draws pairs with; give one.")
    if s.hard and loss not in ("aninfonce", "infonce", "delta"):
        raise UserError(f"--hard-lambda works with the losses aninfonce, infonce and delta, not with {loss}.")
    if s.hard and loss == "aninfonce" and any(hard >= own for own, hard in zip(s.lambdas[0], s.hard, strict=True)):
        raise UserError("The best Λ̂ is Λ⁺ - Λ⁻, so --lambda is above --hard-lambda in every dimension.")
    if s.negatives == OTHERS and (s.hard or loss not in ("infonce", "delta")):
        raise UserError(f"--negatives others is for infonce and delta without --hard-lambda, not for {loss}.")
    power = 2.0 if s.model_p is None and loss in ("delta", "au") else s.model_p
    return replace(s, space=space, loss=loss, model_p=power)


def check_used(s: MixingSettings) -> None:
    """Refuse a number that completed settings do not use: who gives it believes in another distribution or loss."""
    for name, used, where in (
        ("sigma", s.cond in LINE, "--cond normal, laplace or gennorm"),
        ("kappa", s.cond == "vmf", "--cond vmf"),
        ("cond_p", "gennorm" in (s.cond, s.marginal), "--cond or --marginal gennorm"),
        ("marginal_sigma", s.marginal in LINE, "--marginal normal, laplace or gennorm"),
        ("marginal_kappa", s.marginal == "vmf", "--marginal vmf"),
        ("hard_count", bool(s.hard), "--hard-lambda"),
        ("alpha", s.loss == "au", "--loss au"),
        ("radius", s.space == "sphere", "--space sphere"),
    ):
        if not used and getattr(s, name) != getattr(MixingSettings, name):
            raise UserError(
                f"--{name.replace('_', '-')} is for {where}; here the marginal is {s.marginal}, the conditional "
                f"{s.cond}, the output space {s.space}, the loss {s.loss}."
            )


def check_numbers(s: MixingSettings) -> None:
    if s.dim < 2:
        raise UserError(f"There is nothing to mix in {s.dim} dimension{'s' * (s.dim != 1)}; --dim is at least 2.")
    for name in ("steps", "hard_count"):
        if (count := getattr(s, name)) is not None and count < 1:
            raise UserError(f"--{name.replace('_', '-')} is at least 1, not {count}.")
    if s.batch < 2:
        raise UserError("A batch has at least 2 pairs: the others are the negatives.")
    for name in ("marginal_sigma", "sigma", "tau", "bound", "radius", "space_lr", "lambda_lr", "lr", "cond_p"):
        if (value := getattr(s, name)) is not None and not 0 < value < float("inf"):
            raise UserError(f"--{name.replace('_', '-')} is a number above 0, not {value:g}.")
    for name in ("kappa", "marginal_kappa"):
        if not 0 <= (value := getattr(s, name)) < float("inf"):
            raise UserError(f"--{name.replace('_', '-')} is a number of at least 0, not {value:g}.")
    if s.model_p is not None and not 1 <= s.model_p < float("inf"):
        raise UserError(f"--model-p is a number of at least 1, not {s.model_p:g}.")
    if not 0 <= s.alpha <= 1:
        raise UserError(f"--alpha shares out alignment and uniformity, so it lies between 0 and 1, not at {s.alpha:g}.")
    if not 0 <= s.seed < 2**63:
        raise UserError(f"The seed is a whole number from 0 to 2**63 - 1, not {s.seed}.")


def spread_out(option: str, values: Sequence[float], dim: int) -> tuple[float, ...]:
    """One value per dimension: k values where k divides d each hold for d/k dimensions in turn."""
    if bad := [value for value in values if not (isfinite(value) and value > 0)]:
        raise UserError(f"Every value of --{option} is a number above 0, not {bad[0]:g}.")
    if not values or dim % len(values):
        raise UserError(
            f"--{option} takes one value, one for each of the {dim} dimensions, or a number of values that divides "
            f"{dim}, for blocks of equal size; not {len(values)}."
        )
    return tuple(float(value) for value in values for _ in range(dim // len(values)))


def fits(kind: str, name: str | None, space: str, known: dict[str, tuple[str, ...]]) -> None:
    """Refuse a distribution that there is not, or not on this space."""
    if name not in {any_name for names in known.values() for any_name in names}:
        raise unknown(kind, str(name), known[space])
    if name not in known[space]:
        where = "unbounded space" if space == "unbounded" else space
        raise UserError(f"The {where} has no {kind} {name}; choose one of {', '.join(known[space])}.")


def space_of(s: MixingSettings) -> Factor:
    """Where the latents live; the box is [0, 1]^d, as in the public code."""
    if s.latent_space == "box":
        return Box(s.dim, 0.0, 1.0)
    return Sphere(s.dim) if s.latent_space == "sphere" else Unbounded(s.dim)


def marginal_of(s: MixingSettings) -> Marginal:
    """p(z)."""
    return marginal(str(s.marginal), space_of(s), sigma=s.marginal_sigma, p=s.cond_p, kappa=s.marginal_kappa)


def conditionals_of(s: MixingSettings) -> list[Conditional]:
    """p(z̃ | z) of every process that draws pairs."""
    name, space = str(s.cond), space_of(s)
    if s.lambdas:
        return [conditional(name, space, precision=values) for values in s.lambdas]
    return [conditional(name, space, sigma=s.sigma, p=s.cond_p, kappa=s.kappa)]
