"""Settings of a training on images, completed and checked before the start.

Pairs by precision Λ: Λ_k is 1/σ_k² of a normal conditional on each latent. --lambda gives Λ⁺ of positives,
--hard-lambda Λ⁻ of negatives drawn around the anchor. With two --lambda each anchor has a positive of either
conditional, and the loss a Λ̂ for each.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ident3d.errors import UserError, check_known
from ident3d.latents.worlds import AnyWorld
from ident3d.loaders.pairs.grid import check_grid
from ident3d.loaders.pairs.rules import check_rule, way_of
from ident3d.loaders.pairs.time import check_lag
from ident3d.training.encoders.choice import check_image_encoder, check_image_size, is_widths, usual_decoder
from ident3d.training.images.settings import (
    BOUND_FASTER,
    DTYPES,
    OF_RULE,
    PUBLIC_BOUND,
    VIEWS,
    WEIGHTS,
    WITH_BEST_BOX,
    TrainSettings,
    moving_latents,
    on_sphere,
)
from ident3d.training.loop.steps import SCHEDULES
from ident3d.training.losses.choice import (
    PERMUTATION,
    VARIATIONAL,
    check_hard,
    check_loss,
    check_ranges,
    check_variational,
    power_of,
    spread_out,
    usual_negatives,
)
from ident3d.training.views.choice import UNCHANGED, augmentation

MOST_CONDITIONALS: Final = 2
Precisions = tuple[tuple[float, ...], ...]


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


def complete_precisions(
    lambdas: Precisions, hard: Sequence[float], *, sigma: float, loss: str, latents: int
) -> tuple[Precisions, tuple[float, ...]]:
    """Return Λ⁺ of every conditional and Λ⁻, a value for each latent that varies; UserError if they do not fit."""
    if len(lambdas) > MOST_CONDITIONALS:
        raise UserError(f"--lambda is given at most twice in training on images, not {len(lambdas)} times.")
    if len(lambdas) > 1 and (hard or loss == "mse" or ":" in loss):
        other = "--hard-lambda" if hard else f"--loss {loss}"
        raise UserError(f"Two --lambda give each anchor two positives; that does not go with {other}.")
    positives = tuple(spread_out("lambda", values, latents) for values in lambdas)
    if not hard:
        return positives, ()
    negatives = spread_out("hard-lambda", hard, latents)
    check_hard(loss, positives[0] if positives else (sigma**-2,) * latents, negatives)
    return positives, negatives


def check_precisions(given: bool, *, cond: str, sigma: float, usual_sigma: float, sphere: bool, lambdas: bool) -> None:
    """Raise UserError if Λ is given where pairs are not normal ones on a box."""
    if not given:
        return
    if cond != "normal" or sphere:
        where = "latents that share a sphere" if sphere else f"--cond {cond}"
        raise UserError(f"--lambda and --hard-lambda are precisions of --cond normal on a box, not of {where}.")
    if lambdas and sigma != usual_sigma:
        raise UserError(f"--lambda gives the pairs their width, 1/√Λ; leave --sigma {sigma:g} away.")
