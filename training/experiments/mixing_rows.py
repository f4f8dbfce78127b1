"""What tables of experiments on mixed latents are put together from: profiles, figures, supervised baselines."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ident3d.training.experiments.experiment import Figure, Row
from ident3d.training.mixing.settings import MixingSettings

LATENT_SETTINGS: Final = ("latent_space", "dim", "marginal", "marginal_sigma", "marginal_kappa")


@dataclass(frozen=True)
class Latents:
    """A profile of an experiment on mixed latents: its settings, and what single rows or all supervised ones change."""

    settings: MixingSettings
    rows: tuple[str, ...] = ()
    supervised: Mapping[str, Any] = field(default_factory=dict)
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def settings_of(self, row: Row, seed: int) -> MixingSettings:
        """A row's settings with a seed, which is that of the mixing, the weights and the samples."""
        change = dict(row.change or {})
        own = self.supervised if change.get("supervised") else {}
        return replace(self.settings, **(change | dict(own) | dict(self.tuned.get(row.name, {}))), seed=seed)


def percent(**figures: float | Figure) -> dict[str, Figure]:
    """Figures of a paper by column, with the underscores of a name as spaces."""
    columns = {"R2": "R²", "identity": "identity R²", "supervised": "supervised R²"}
    return {columns.get(k, k): v if isinstance(v, tuple) else (v, 0.0) for k, v in figures.items()}


def supervised(rows: Iterable[Row], space: str = "unbounded") -> Iterator[Row]:
    """Each row with the name of its supervised baseline, and each baseline once, before the first row that has it."""
    seen: set[str] = set()
    for row in rows:
        change = dict(row.change or {})
        kept = {name: change[name] for name in LATENT_SETTINGS if name in change}
        if "latent_space" not in kept and "lambdas" in change:
            kept["latent_space"] = "sphere"
        name = "-".join(["supervised", *(str(value) for value in kept.values())])
        if name not in seen:
            seen.add(name)
            yield Row(name, kept | {"supervised": True, "space": space}, {})
        yield replace(row, baseline=name)
