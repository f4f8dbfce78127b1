"""``runs``: the runs below a folder, on images and on mixed latents, each with what it is and how far it came."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tabulate import tabulate

from ident3d.errors import UserError
from ident3d.loaders.format.files import read_json
from ident3d.loaders.stores.data_root import data_root
from ident3d.training.images.settings import TrainSettings
from ident3d.training.loop.log_file import LARGEST_FIGURE, read_log
from ident3d.training.loop.run_folder import EVALUATION_FILE, HEADLINE, IMAGES_RUN, MIXING_RUN, RUN_FILE, record_of
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.own.own_object import is_own
from ident3d.training.own.own_record import check_record

# How deep a run may lie: a table's rows are at ROOT/reproduce/TABLE/VARIANT/ROW.
DEPTH: Final = 4
# Settings that may name a user's own code.
OWN: Final = ("loss", "encoder", "mixing")


@dataclass(frozen=True)
class FoundRun:
    """What a run's folder says: its settings, what it was trained on, the steps done, and its scores by name.

    `kind` is images or mixing. `digest` tells training sets apart. `own_code` is what is recorded of a
    user's own encoder, loss and mixing.
    """

    path: Path
    kind: str
    settings: dict[str, Any]
    data: str
    digest: str
    dtype: str
    own_code: dict[str, Mapping[str, Any] | str | None]
    done: int
    scores: dict[str, float]

    @property
    def conditional(self) -> str:
        return "supervised" if self.settings["supervised"] else str(self.settings["cond"])

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "path": str(self.path)}


@dataclass(frozen=True)
class Runs:
    """The runs below a folder, in order of their paths; `unreadable` are sentences about folders that are none."""

    folder: Path
    runs: tuple[FoundRun, ...]
    unreadable: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        found = [run.as_dict() for run in self.runs]
        return {"folder": str(self.folder), "runs": found, "unreadable": list(self.unreadable)}

    def table(self) -> str:
        heads = ["run", "data", "loss", "encoder", "conditional", "space", "seed", "steps", *HEADLINE]
        rows = []
        for run in self.runs:
            s, done = run.settings, f"{run.done:,}"
            steps = done if run.done == s["steps"] else f"{done} of {s['steps']:,}"
            named = [shown_path(run.path, self.folder), run.data, s["loss"], s["encoder"], run.conditional, s["space"]]
            figures = [f"{run.scores[name]:.3f}" if name in run.scores else "–" for name in HEADLINE]
            rows.append([*named, s["seed"], steps, *figures])
        shown = tabulate(rows, heads, disable_numparse=True) if rows else f"There are no runs below {self.folder}."
        return "\n\n".join([shown, *self.unreadable])


def runs(directory: Path | str | None = None, *, root: Path | str | None = None) -> Runs:
    """Return the runs in a folder and up to four levels below it, with what they are, how far they came, their scores.

    Args:
        directory: The folder, or a run's own; by default the data root.
        root: The data root.

    Returns:
        The `Runs`, with a `table()`.

    Example:
        >>> import ident3d
        >>> found = ident3d.runs("run").runs[0]
        >>> found.settings["loss"], found.settings["seed"], found.done
        ('delta', 0, 2)
    """
    folder = data_root(root) if directory is None else Path(directory)
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}.")
    found, unreadable = [], []
    for path in run_folders(folder):
        try:
            found.append(read_run(path))
        # One broken folder must not hide all others.
        except UserError as error:
            unreadable.append(str(error))
    return Runs(folder, tuple(found), tuple(unreadable))


def run_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders with a run.json, in order of their paths."""
    found = {path.parent for depth in range(DEPTH + 1) for path in folder.glob("*/" * depth + RUN_FILE)}
    yield from sorted(found)


def read_run(path: Path) -> FoundRun:
    """Return what a run's folder says; raise UserError if it cannot be read."""
    with record_of(path, IMAGES_RUN, MIXING_RUN) as content:
        is_images = content["format"] == IMAGES_RUN
        kind: type[TrainSettings | MixingSettings] = TrainSettings if is_images else MixingSettings
        settings = kind.from_dict(content["settings"]).as_dict()
        words = [settings[name] for name in ("loss", "encoder", "space", "cond")]
        if not all(isinstance(word, str) for word in words) or not all(
            type(settings[name]) is int for name in ("seed", "steps")
        ):
            raise TypeError("a setting is of a wrong kind")
        if is_images:
            data, digest = Path(content["data"]["path"]).name, str(content["data"]["shards_sha256"])
        else:
            data, digest = f"{settings['dim']} mixed latents, {settings['latent_space']}", "mixing"
        dtype = str(content.get("dtype", settings["dtype"]))
        own = {str(name): check_record(value) for name, value in content["facts"].get("own_code", {}).items()}
        own |= {what: None for what in OWN if is_own(str(settings.get(what, ""))) and what not in own}
    done = max((line["step"] for line in read_log(path)), default=0)
    return FoundRun(
        path, "images" if is_images else "mixing", settings, data, digest, dtype, own, done, scores_in(path)
    )


def scores_in(path: Path) -> dict[str, float]:
    """Return a run's scores by name, R² and MCC first; those that are no single number are left out."""
    file = path / EVALUATION_FILE
    if not file.is_file():
        return {}
    try:
        content = read_json(file)
        scored = {name: score["score"] for name, score in content.get("scores", {}).items()}
        figures = {column: scored.get(name) for column, name in HEADLINE.items()} | content.get("figures", {}) | scored
    except (ValueError, AttributeError, KeyError, TypeError):
        raise UserError(f"{file} cannot be read; `ident3d evaluate {path}` writes it anew.") from None
    numbers = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    return {name: float(value) for name, value in numbers.items() if abs(value) <= LARGEST_FIGURE}


def shown_path(path: Path, folder: Path) -> str:
    """Return a run's path below a folder, or its name if it is the folder itself."""
    inside = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
    return path.resolve().name if inside == "." else inside
