"""The paper's figures beside a run's: which row it is an instance of, and in what it is not the paper's run."""

from collections.abc import Mapping
from typing import Any, Final

from ident3d.latents.worlds import AnyWorld, World
from ident3d.training.experiments.experiment import Experiment, Row
from ident3d.training.experiments.icml2021 import ALL_TEN, TABLE1, TABLE2, TABLE4
from ident3d.training.images.run import Run
from ident3d.training.images.settings import TrainSettings, moving_latents
from ident3d.training.mixing.settings import MixingSettings, with_defaults

# Settings on which a figure depends besides those that choose the row, each with the word that a reader knows.
OF_IMAGES: Final = {
    "steps": "steps",
    "batch": "pairs a step",
    "encoder": "encoder",
    "sigma": "σ",
    "lr": "learning rate",
}
OF_MIXING: Final = {
    "dim": "latents", "steps": "steps", "batch": "pairs a step", "encoder": "encoder", "whiten": "whitened",
    "mixing": "mixing", "sigma": "σ", "lr": "learning rate",
}  # fmt: skip
# What makes a run on mixed latents an instance of a row.
CHOOSE: Final = (
    "latent_space", "marginal", "marginal_sigma", "cond", "cond_p", "kappa", "lambdas", "hard", "space", "loss",
    "model_p", "supervised",
)  # fmt: skip


def paper_row(settings: TrainSettings, world: AnyWorld | None = None) -> Row | None:
    """Return the row of Table 4 that a run's settings are an instance of, if there is one and it shows 3DIdent."""
    usual_loss = settings.loss in (None, "delta", "infonce", "simclr", "mse") and settings.model_p in (None, 2.0)
    other_world = world is not None and not (isinstance(world, World) and world.scene == "3dident")
    if settings.only or settings.same_class or settings.lambdas or settings.hard or not usual_loss or other_world:
        return None
    for row in TABLE4.rows:
        plain = TrainSettings(**row.change or {})
        # The supervised row leaves its space to the defaults.
        same = ("cond", "supervised") if plain.supervised else ("space", "cond", "supervised")
        if row.change is not None and all(getattr(plain, name) == getattr(settings, name) for name in same):
            return row
    return None


def other_than_paper(run: Run) -> list[str]:
    """Return in what a run on images is not the paper's, each as "what: here, paper's"."""
    theirs = ALL_TEN.settings
    facts: dict[str, tuple[Any, Any]] = {
        "latents that vary": (len(run.latents), len(moving_latents(ALL_TEN.world))),
        "images": (run.data["n"], ALL_TEN.train),
        "pixels": (run.settings.size, ALL_TEN.size),
    }
    facts |= {word: (getattr(run.settings, name), getattr(theirs, name)) for name, word in OF_IMAGES.items()}
    return list_differences(facts)


def mixing_rows(s: MixingSettings) -> list[tuple[Experiment, Row]]:
    """Return the rows of Tables 1 and 2 that complete settings are an instance of."""
    found = []
    for table in (TABLE1, TABLE2):
        for row in table.rows:
            theirs = with_defaults(table.profiles["paper"][0].settings_of(row, s.seed))
            if row.paper and all(getattr(theirs, name) == getattr(s, name) for name in CHOOSE):
                found.append((table, row))
    return found


def other_than_paper_mixing(s: MixingSettings, table: Experiment, row: Row) -> list[str]:
    """Return in what a run on mixed latents is not the paper's."""
    theirs = with_defaults(table.profiles["paper"][0].settings_of(row, s.seed))
    return list_differences({word: (getattr(s, name), getattr(theirs, name)) for name, word in OF_MIXING.items()})


def list_differences(facts: Mapping[str, tuple[Any, Any]]) -> list[str]:
    return [
        f"{word} {word_of(here)} (paper {word_of(paper)})" for word, (here, paper) in facts.items() if here != paper
    ]


def word_of(value: Any) -> str:
    return f"{value:,}" if type(value) is int else f"{value:g}" if type(value) is float else str(value)


def comparison(differences: list[str]) -> str:
    """Return a sentence that says whether the paper's figures may be compared with a run's."""
    if not differences:
        return "The paper's figures are of the same size, latents and settings; its spread is over seeds."
    return f"The paper's figures are not comparable with these. Different here: {', '.join(differences)}."
