"""Settings of a run on mixed latents: one frozen record, completed and checked before anything starts."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ident3d.errors import UserError, check_known, unknown
from ident3d.latents.distributions.by_name import Marginal, conditional, marginal
from ident3d.latents.distributions.conditionals import Conditional
from ident3d.latents.distributions.spaces import Box, Part, Sphere, Unbounded
from ident3d.training.encoders.choice import PAPERS, SPACES, hidden_widths
from ident3d.training.loop.run_folder import with_new_names
from ident3d.training.loop.steps import SCHEDULES
from ident3d.training.losses.choice import (
    ALPHA,
    TRICL,
    check_hard,
    check_loss,
    check_ranges,
    checked,
    power_of,
    shown_settings,
    spread_out,
    usual_negatives,
)
from ident3d.training.own.own_object import OwnOr

# Distributions along a line, on each latent by itself.
LINE: Final = ("normal", "laplace", "gennorm")
MARGINALS: Final = {"box": ("uniform", *LINE), "sphere": ("uniform", *LINE, "vmf"), "unbounded": LINE}
CONDITIONALS: Final = {"box": LINE, "sphere": (*LINE, "vmf", "rejected_normal"), "unbounded": LINE}
DTYPES: Final = ("fp32", "bf16")
# What stands before the folder of an autoencoder's run whose decoder is the mixing.
DECODER: Final = "decoder:"


@checked
@dataclass(frozen=True, repr=False)
class MixingSettings:
    """The options of `ident3d mixing`, by default the papers'. None means what `with_defaults` makes of it.

    `loss`, `mixing` and `encoder` take a user's own function, class or module as well as a name.
    `lambdas` holds one precision Λ per process that draws pairs; with several, one encoder learns from all.
    Hard negatives come after `hard_after` steps, instead of the batch's other anchors or, with `hard_beside`, to them.

    Example:
        >>> from ident3d import MixingSettings
        >>> MixingSettings(dim=5, steps=2000).batch
        6144
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
    hard_beside: bool = False
    hard_after: int = 0
    space: str | None = None
    loss: OwnOr[str | None] = OwnOr(None)
    model_p: float | None = None
    tau: float = 1.0
    alpha: float = ALPHA
    negatives: str | None = None
    supervised: bool = False
    mixing: OwnOr[str] = OwnOr(PAPERS)
    encoder: OwnOr[str] = OwnOr(PAPERS)
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

    def __repr__(self) -> str:
        return shown_settings(self)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, recorded: dict[str, Any]) -> "MixingSettings":
        lists = {"lambdas": tuple(map(tuple, recorded["lambdas"])), "hard": tuple(recorded["hard"])}
        try:
            return cls(**with_new_names(recorded) | lists)
        except UserError as error:
            # The file is named by who reads it.
            raise TypeError(str(error)) from None


def with_defaults(settings: MixingSettings) -> MixingSettings:
    """Return the settings with every None decided. Raise UserError for the first that does not fit the rest."""
    s = settings
    if s.dim < 2:
        raise UserError(f"--dim is at least 2, not {s.dim}: there is nothing to mix in one dimension.")
    check_ranges(s, supervised=s.supervised)
    check_known("schedule", s.schedule, SCHEDULES)
    check_known("number format", s.dtype, DTYPES)
    # A name that cannot be read is refused here, before anything is drawn.
    if ":" not in s.encoder:
        hidden_widths(s.encoder, s.dim)
    s = with_distributions(s)
    if s.mixing.startswith(DECODER) and s.latent_space != "sphere":
        raise UserError(f"--mixing {s.mixing} takes latents of a sphere: --latent-space sphere, or a --lambda.")
    space = s.space or ("unbounded" if s.supervised else str(s.latent_space))
    check_known("output space", space, SPACES)
    loss = s.loss or usual_loss(s, space)
    check_loss(
        loss, space, supervised=s.supervised, model_p=s.model_p, tau=s.tau, alpha=s.alpha, negatives=s.negatives,
        others=TRICL,
    )  # fmt: skip
    check_lambdas(s, loss)
    s = replace(
        s,
        space=space,
        loss=loss,
        # Hard negatives are each anchor's own.
        negatives=s.negatives or ("batch" if s.hard else usual_negatives(loss)),
        model_p=power_of(loss, s.model_p),
        steps=s.steps or (100_000 if s.supervised else 300_000),
    )
    if s.hard and s.steps is not None and s.hard_after >= s.steps:
        raise UserError(f"--hard-after {s.hard_after} leaves no step of {s.steps} for hard negatives.")
    # Last, because what is used depends on the defaults.
    check_used(s)
    return s


def with_distributions(s: MixingSettings) -> MixingSettings:
    """Return the settings with the latents' space, p(z) and p(z̃ | z) decided, each checked against the others."""
    space = s.latent_space or ("sphere" if s.lambdas else "box")
    check_known("latent space", space, MARGINALS)
    s = replace(
        s,
        latent_space=space,
        marginal=s.marginal or MARGINALS[space][0],
        cond=s.cond or ("rejected_normal" if s.lambdas else "normal"),
        lambdas=tuple(spread_out("lambda", values, s.dim) for values in s.lambdas),
        hard=spread_out("hard-lambda", s.hard, s.dim) if s.hard else (),
    )
    check_distribution("marginal", s.marginal, space, MARGINALS)
    if s.lambdas and space != "sphere":
        raise UserError(f"--lambda draws pairs on the sphere: leave --latent-space {space} away, or --lambda.")
    check_distribution("conditional", s.cond, space, CONDITIONALS)
    if (s.cond == "rejected_normal") != bool(s.lambdas):
        raise UserError("--lambda and --cond rejected_normal belong together.")
    if s.hard and len(s.lambdas) != 1:
        raise UserError("--hard-lambda goes with one --lambda: negatives come from the same sampler as positives.")
    # Made once to refuse widths that cannot be.
    marginal_of(s), conditionals_of(s)
    return s


def usual_loss(s: MixingSettings, space: str) -> str:
    """Return the loss if none is named: the papers' for the pairs and the output space."""
    if s.supervised:
        return "mse"
    if s.lambdas:
        return "aninfonce"
    return "infonce" if space == "sphere" else "delta"


def check_lambdas(s: MixingSettings, loss: str) -> None:
    """Raise UserError if the loss cannot use --lambda and --hard-lambda."""
    if loss == "aninfonce" and not s.lambdas:
        raise UserError("--loss aninfonce learns the Λ that --lambda draws pairs with; give one.")
    if loss in TRICL and not (s.lambdas and (s.space or s.latent_space) == "sphere"):
        raise UserError(f"--loss {loss} weighs directions: take --space sphere and pairs of a --lambda.")
    if not s.hard:
        return
    check_hard(loss, s.lambdas[0], s.hard)
    if s.negatives not in (None, "batch"):
        raise UserError(f"--negatives {s.negatives} does not go with --hard-lambda, which draws its own negatives.")


def check_used(s: MixingSettings) -> None:
    """Raise UserError for a number that these settings do not use: its author expects another distribution or loss."""
    for name, used, where in (
        ("sigma", s.cond in LINE, "--cond normal, laplace or gennorm"),
        ("kappa", s.cond == "vmf", "--cond vmf"),
        ("cond_p", "gennorm" in (s.cond, s.marginal), "--cond or --marginal gennorm"),
        ("marginal_sigma", s.marginal in LINE, "--marginal normal, laplace or gennorm"),
        ("marginal_kappa", s.marginal == "vmf", "--marginal vmf"),
        ("hard_count", bool(s.hard), "--hard-lambda"),
        ("hard_beside", bool(s.hard), "--hard-lambda"),
        ("hard_after", bool(s.hard), "--hard-lambda"),
        ("radius", s.space == "sphere", "--space sphere"),
    ):
        if not used and getattr(s, name) != getattr(MixingSettings, name):
            raise UserError(
                f"--{name.replace('_', '-')} is for {where}; here the marginal is {s.marginal}, the conditional "
                f"{s.cond}, the output space {s.space}, the loss {s.loss}."
            )


def check_distribution(kind: str, name: str | None, space: str, known: dict[str, tuple[str, ...]]) -> None:
    """Raise UserError for a distribution that does not exist, or not on this space."""
    # A name of another space gets another sentence than a typing mistake.
    if name not in {any_name for names in known.values() for any_name in names}:
        raise unknown(kind, str(name), known[space])
    if name not in known[space]:
        where = "unbounded space" if space == "unbounded" else space
        raise UserError(f"The {where} has no {kind} {name}; choose one of {', '.join(known[space])}.")


def space_of(s: MixingSettings) -> Part:
    """Return the space of the latents; the box is [0, 1]^d, as in the public code."""
    if s.latent_space == "box":
        return Box(s.dim, 0.0, 1.0)
    return Sphere(s.dim) if s.latent_space == "sphere" else Unbounded(s.dim)


def marginal_of(s: MixingSettings) -> Marginal:
    """Return p(z)."""
    return marginal(str(s.marginal), space_of(s), sigma=s.marginal_sigma, p=s.cond_p, kappa=s.marginal_kappa)


def conditionals_of(s: MixingSettings) -> list[Conditional]:
    """Return p(z̃ | z) of every process that draws pairs."""
    name, space = str(s.cond), space_of(s)
    if s.lambdas:
        return [conditional(name, space, precision=values) for values in s.lambdas]
    return [conditional(name, space, sigma=s.sigma, p=s.cond_p, kappa=s.kappa)]
