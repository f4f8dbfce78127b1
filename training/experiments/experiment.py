"""What a table of a paper is, as data: columns, rows, the variants that it is run on, and the paper's figures."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

from ident3d.errors import UserError, check_known
from ident3d.latents.worlds import AnyWorld
from ident3d.training.images.settings import TrainSettings
from ident3d.training.mixing.settings import MixingSettings

Figure = tuple[float, float]  # mean and spread over seeds, in percent; the spread is 0 if the paper gives none
# What ends the name of a figure of codes, where that of the backbone has the plain name.
CODES: Final = ", codes"
AnySettings = TypeVar("AnySettings", bound=TrainSettings | MixingSettings)

# What decides the latents of a row on mixed latents: rows that agree in it share a supervised baseline.
LATENT_SETTINGS: Final = ("latent_space", "dim", "marginal", "marginal_sigma", "marginal_kappa")


@dataclass(frozen=True)
class Row:
    """A row of a table: changes to a variant's settings (None: no training), and the paper's figures by column.

    `baseline` names the row whose figures stand in this one's columns such as "supervised R²".
    """

    name: str
    change: Mapping[str, Any] | None
    paper: Mapping[str, Figure]
    baseline: str | None = None


@dataclass(frozen=True, kw_only=True)
class Variant(Generic[AnySettings]):
    """What a table is run on: the settings that its rows change, and the rows that are run (none named: all).

    With `only_rows`, other rows belong to other variants, and are not run on this one even if they are named.
    `supervised` changes the settings of all supervised rows, `tuned` those of single rows by name. With `autoencoder`
    the table first trains a run of these settings on MNIST: its decoder is the mixing, or its codes are scored by.
    """

    name: str
    settings: AnySettings
    rows: tuple[str, ...] = ()
    only_rows: bool = False
    supervised: Mapping[str, Any] = field(default_factory=dict)
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    autoencoder: TrainSettings | None = None

    def settings_of(self, row: Row, seed: int) -> AnySettings:
        """Return a row's settings with a seed, from which all of its random draws follow."""
        change = dict(row.change or {})
        own = self.supervised if change.get("supervised") else {}
        # What the paper's row asks for comes first, and what a profile needs to reach it overrides it.
        return replace(self.settings, **change | dict(own) | dict(self.tuned.get(row.name, {})), seed=seed)


@dataclass(frozen=True, kw_only=True)
class ImageVariant(Variant[TrainSettings]):
    """A variant on images of a world, `size` pixels wide: `train` of them to train on, `test` to score on.

    `scored` is "test", or "validation" for as many other images, on which settings may be tuned. `folders` holds the
    folder of each split if these exist, and nothing is rendered. `fraction` is the share of a protocol's sample counts.
    """

    world: AnyWorld
    size: int
    train: int
    test: int
    scored: Literal["test", "validation"] = "test"
    channels: int = 3
    folders: Mapping[str, Path] = field(default_factory=dict)
    fraction: float = 1.0

    def count(self, split: str) -> int:
        """Return the number of images of the split train, test or validation."""
        return self.train if split == "train" else self.test


@dataclass(frozen=True, kw_only=True)
class StoredVariant(Variant[TrainSettings]):
    """A variant on a data set as it is published, by name: it becomes an `ImageVariant` once its folder is there.

    Rows are scored on the same images, or on those of the data set `scored_on`. `fraction` is the share of a protocol's
    sample counts, or of the images that are read out.
    """

    data: str
    scored_on: str = ""
    fraction: float = 1.0


@dataclass(frozen=True)
class Plot:
    """Curves of a column over a number that rows differ in, with a vertical line at `mark`."""

    title: str
    curves: Mapping[str, tuple[str, Mapping[str, float]]]  # label → the column, and rows → where on the axis
    mark: float


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table of a paper: its columns, its rows, and profiles → the variants that it is run on.

    The kind says what the rows are trained on. On images, `scores` says which score a column shows, and of which
    latents it is the mean (none named: the score itself). With a `protocol`, rows are scored by it, on the images
    that they were trained on. With a `readout`, rows are scored by what a linear classifier knows of the class and
    of these single augmentations. `further` are tables below the first, title → columns. `notes` stand below the
    table. With `ordered`, a table of rank correlations says how far its figures stand in the paper's order. `seeds`
    are those that are run if none are named, `file` is the TOML file that a user's own table was read from.
    """

    name: str
    title: str
    kind: Literal["images", "mixing"]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    profiles: Mapping[str, tuple[Variant[Any], ...]]
    scores: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    protocol: str = ""
    readout: tuple[str, ...] = ()
    further: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: str = ""
    plots: tuple[Plot, ...] = ()
    ordered: bool = False
    seeds: tuple[int, ...] = (0,)
    file: str = ""

    @property
    def usual_profile(self) -> str:
        return "mini" if "mini" in self.profiles else next(iter(self.profiles))

    def row(self, name: str) -> Row:
        """Return the row of this name; raise UserError if there is none."""
        known = {row.name: row for row in self.rows}
        check_known("row", name, known)
        return known[name]

    def variants(self, profile: str, names: Iterable[str] = ()) -> list[Variant[Any]]:
        """Return the profile's variants, or those of them that are named."""
        check_known("profile", profile, self.profiles)
        known = {variant.name: variant for variant in self.profiles[profile]}
        for name in names:
            check_known(f"variant of the profile {profile}", name, known)
        return [variant for name, variant in known.items() if not names or name in names]

    def rows_of(self, variant: Variant[Any], names: Iterable[str] = ()) -> list[Row]:
        """Return the rows that are run on a variant: those named, or all of its own."""
        rows = [self.row(name) for name in names or variant.rows or [row.name for row in self.rows]]
        if len({row.name for row in rows}) < len(rows):
            raise UserError("--rows names a row twice.")
        return [row for row in rows if not variant.only_rows or row.name in variant.rows]


def on_validation(experiment: Experiment) -> Experiment:
    """Return an experiment on images as it is scored for tuning: on validation images in place of the test set's."""
    if experiment.kind != "images":
        raise UserError(
            f"--validation is for experiments on images; {experiment.name} draws new latents for each score."
        )
    if experiment.protocol:
        raise UserError(
            f"--validation is for tables with a test set; {experiment.name} is scored on its training images."
        )
    if experiment.readout:
        raise UserError(f"--validation is for tables whose images are rendered, and not for {experiment.name}.")
    profiles = {
        name: tuple(replace(v, scored="validation") for v in variants if isinstance(v, ImageVariant))
        for name, variants in experiment.profiles.items()
    }
    return replace(experiment, profiles=profiles)


# The size for a CPU of every table on mixed latents. A whitened input, a small encoder and small batches reach in
# thousands of steps what the papers' need hundreds of thousands for. The box starts at the scale that is best for the
# size of the batch, and Λ̂ has a rate of its own to get to its place.
MINI_MIXING: Final = MixingSettings(
    encoder="256x2", whiten=True, dtype="bf16", negatives="batch", bound=None, batch=256, lr=2e-3, schedule="cosine",
    lambda_lr=2e-2,
)  # fmt: skip
# Of twenty latents: with a third layer, and 12,000 supervised steps, R² of the ceiling is .997.
TWENTY_MIXING: Final = replace(MINI_MIXING, encoder="256x3", batch=512)
TWENTY_SUPERVISED: Final = 12_000


def on_mixed_latents(
    paper: MixingSettings, rows: Iterable[Row], *, steps: int = 6_000,
    tuned: Mapping[str, Mapping[str, Any]] | None = None, mini: MixingSettings = MINI_MIXING,
    autoencoders: Mapping[str, TrainSettings] | None = None, supervised_steps: int = 4_000, **more: Any,
) -> Experiment:  # fmt: skip
    """Return an experiment on mixed latents, in the paper's size and in one for a CPU with its number of steps.

    Each row gets its supervised baseline, of `supervised_steps` in the small size. `tuned` holds what rows of the small
    size change, `autoencoders` by profile what makes the mixing, if it is a decoder.
    """
    small, made = replace(mini, steps=steps), autoencoders or {}
    kept: dict[str, Any] = {"supervised": {"steps": supervised_steps}, "tuned": tuned or {}}
    profiles: dict[str, tuple[Variant[Any], ...]] = {
        "paper": (Variant(name="mixing", settings=paper, autoencoder=made.get("paper")),),
        "mini": (Variant(name="mixing", settings=small, autoencoder=made.get("mini"), **kept),),
    }
    return Experiment(kind="mixing", rows=tuple(with_baselines(rows)), profiles=profiles, **more)


def with_baselines(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield each row with the name of its supervised baseline, and each baseline once, before its first row."""
    seen: set[str] = set()
    for row in rows:
        change = dict(row.change or {})
        if change.get("supervised"):
            yield row  # a ceiling itself
            continue
        kept = {name: change[name] for name in LATENT_SETTINGS if name in change}
        # Λ draws pairs on the sphere alone, so a row with a Λ need not name its space.
        if "latent_space" not in kept and "lambdas" in change:
            kept["latent_space"] = "sphere"
        name = "-".join(["supervised", *(str(value) for value in kept.values())])
        if name not in seen:
            seen.add(name)
            yield Row(name, kept | {"supervised": True, "space": "unbounded"}, {})
        yield replace(row, baseline=name)
