"""What a training run is: one frozen record that goes into the run's JSON, and what is refused before it starts."""

from dataclasses import asdict, dataclass, replace
from typing import Any, get_type_hints

from ident3d.errors import UserError, unknown
from ident3d.latents.worlds import World
from ident3d.training.loop.recorded import with_new_names
from ident3d.training.loop.steps import SCHEDULES
from ident3d.training.losses.objective import NEGATIVES, OTHERS
from ident3d.training.views.augmentations import augmentation

CONDITIONALS = ("normal", "laplace", "gennorm", "vmf")
VIEWS = (*CONDITIONALS, "augment")
LOSSES = ("infonce", "delta", "simclr", "au", "aninfonce", "mse")
DTYPES = ("auto", "fp32", "bf16", "fp16")


@dataclass(frozen=True)
class Settings:
    """The options of `ident3d train` that decide what is learnt. None means what `with_defaults` makes of it."""

    space: str | None = None
    cond: str = "normal"
    cond_p: float | None = None
    sigma: float = 0.1
    loss: str | None = None
    model_p: float | None = None
    tau: float = 1.0
    alpha: float = 0.5
    negatives: str = "batch"
    supervised: bool = False
    only: tuple[str, ...] = ()
    same_class: bool = False
    search: str = "exact"
    augment: str = "simclr"
    encoder: str = "resnet18"
    dim: int | None = None
    bound: float = 1.0
    radius: float = 1.0
    learnable: bool | None = None
    space_lr: float | None = None
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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"only": list(self.only)}

    @classmethod
    def from_dict(cls, recorded: dict[str, Any]) -> "Settings":
        """The settings that a run recorded, every None of them decided; a TypeError for anything else."""
        settings = cls(**with_new_names(recorded) | {"only": tuple(map(str, recorded["only"]))})
        for name, kind in (get_type_hints(cls) | {"only": tuple}).items():
            given = getattr(settings, name)
            if not isinstance(float(given) if type(given) is int and isinstance(0.0, kind) else given, kind):
                raise TypeError(f"{name} is {given!r}")
        if None in (settings.space, settings.loss, settings.dim, settings.size) or settings.cond not in VIEWS:
            raise TypeError("its settings leave something open")
        return settings

    @property
    def images_alone(self) -> bool:
        """Whether a batch holds single images and no pairs."""
        return self.supervised or self.cond == "augment"


def with_defaults(settings: Settings, world: World, stored_size: int, images: int) -> Settings:
    """The settings with every None decided, or one sentence about the first that does not fit the data or another."""
    s = settings
    check_numbers(s)
    for kind, name, known in (
        ("conditional", s.cond, VIEWS),
        ("schedule", s.schedule, SCHEDULES),
        ("number format", s.dtype, DTYPES),
        ("set of negatives", s.negatives, NEGATIVES),
    ):
        if name not in known:
            raise unknown(kind, name, known)
    size = stored_size if s.size is None else s.size
    if not 1 <= size <= stored_size:
        raise UserError(f"The images are {stored_size} pixels wide; --size makes them smaller, not {size}.")
    if s.batch > images:
        raise UserError(f"A batch of {s.batch} is larger than the training set of {images} images; lower --batch.")
    s = replace(s, size=size, space=s.space or usual_space(s, world))
    return with_loss(with_conditional(s, world), world)


def usual_space(s: Settings, world: World) -> str:
    """Where nothing else is said: the latents' own space; the sphere for losses that compare directions."""
    if s.supervised:
        return "unbounded"
    if s.loss in ("simclr", "infonce") or (s.cond == "augment" and s.loss is None):
        return "sphere"
    return "box*sphere" if world.periodic else "box"


def with_conditional(s: Settings, world: World) -> Settings:
    if s.supervised and (s.cond != "normal" or s.only or s.same_class):
        raise UserError("Supervised training has no pairs, so --supervised takes no conditional.")
    if s.cond == "vmf" and not world.periodic:
        others = ", ".join(name for name in VIEWS if name != "vmf")
        raise UserError(f"The conditional vmf is for the sphere of 3dident-periodic; these latents take {others}.")
    if s.cond_p is not None and s.cond != "gennorm":
        raise UserError(f"--cond-p is the power of the conditional gennorm, not of {s.cond}.")
    augmentation(s.augment)  # refuses names that there are not
    return replace(s, cond_p=3.0 if s.cond == "gennorm" and s.cond_p is None else s.cond_p)


def with_loss(s: Settings, world: World) -> Settings:
    assert s.space is not None
    usual = "infonce" if s.space == "sphere" else "delta"
    if s.supervised:
        usual = "mse"
    elif s.cond == "augment":
        usual = "simclr"
    loss = s.loss or usual
    if loss not in LOSSES and ":" not in loss:
        raise unknown("loss", loss, [*LOSSES, "package.module:name"])
    if (loss == "mse") != s.supervised and ":" not in loss:
        raise UserError("The loss mse and --supervised belong together.")
    if s.supervised and s.space != "unbounded":
        raise UserError(f"Supervised codes are the latents themselves: --space unbounded, not {s.space}.")
    if s.space == "sphere" and (loss == "delta" or s.model_p is not None):
        raise UserError(
            "On the sphere the loss is InfoNCE, which has no power p: leave --model-p and --loss delta away, or take "
            "--space box or unbounded."
        )
    if loss == "infonce" and s.space != "sphere":
        raise UserError(f"InfoNCE compares directions; on the space {s.space} take --loss delta, or --space sphere.")
    if loss == "simclr" and "box" in s.space:
        raise UserError(
            f"SimCLR's loss compares directions, which a {s.space} does not hold: --space sphere or unbounded."
        )
    if s.tau != 1 and loss not in ("infonce", "delta", "simclr"):
        raise UserError(f"--tau is the temperature of infonce, delta and simclr; the loss {loss} has none.")
    if s.alpha != Settings.alpha and loss != "au":
        raise UserError(f"--alpha shares out the two parts of the loss au; the loss {loss} has none.")
    if s.model_p is not None and loss not in ("delta", "au"):
        raise UserError(f"--model-p is the power of an L_δ loss; the loss {loss} has none.")
    if s.negatives == OTHERS and loss not in ("infonce", "delta"):
        raise UserError(f"--negatives others is for the losses infonce and delta, not for {loss}.")
    power = 2.0 if s.model_p is None and loss in ("delta", "au") else s.model_p
    moving = len(moving_latents(world))
    if s.supervised and s.dim not in (None, moving):
        raise UserError(f"Supervised codes are the {moving} latents that vary, so --dim cannot be {s.dim}.")
    return replace(s, loss=loss, model_p=power, dim=moving if s.dim is None else s.dim)


def check_numbers(s: Settings) -> None:
    for name in ("batch", "steps", "chunk", "dim"):
        value = getattr(s, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} is at least 1, not {value}.")
    for name in ("lr", "sigma", "tau", "space_lr", "cond_p"):
        value = getattr(s, name)
        if value is not None and not 0 < value < float("inf"):
            raise UserError(f"--{name.replace('_', '-')} is a number above 0, not {value:g}.")
    if s.model_p is not None and not 1 <= s.model_p < float("inf"):
        raise UserError(f"--model-p is a number from 1 on, not {s.model_p:g}.")
    if not 0 <= s.alpha <= 1:
        raise UserError(f"--alpha is a share from 0 to 1, not {s.alpha:g}.")
    if s.batch < 2 and not s.supervised:
        raise UserError("A contrastive batch has at least 2 pairs: the others are the negatives.")
    check_seed(s.seed)


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise UserError(f"The seed is a whole number from 0 to 2**63 - 1, not {seed}.")


def moving_latents(world: World) -> tuple[str, ...]:
    """The raw latents that vary in a world: what is to be identified."""
    return tuple(name for name in world.names if name not in world.fixed)
