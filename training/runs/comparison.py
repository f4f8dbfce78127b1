"""``compare``: runs that differ in their seed alone are one group; scores are shown as mean ± spread over its seeds."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final

from tabulate import tabulate

from ident3d.errors import UserError, check_known, os_errors
from ident3d.loaders.format.files import write_atomically
from ident3d.training.loop.run_folder import HEADLINE
from ident3d.training.own.own_record import identity_of, reason_for_doubt
from ident3d.training.runs.listing import FoundRun, runs
from ident3d.training.runs.picture import comparison_picture

ABSENT: Final = "–"


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone, in order of the seed, under a letter."""

    name: str
    runs: tuple[FoundRun, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.settings["seed"] for run in self.runs)

    def values(self, metric: str) -> list[float]:
        """Return a score for each seed that has one: the mean of its runs, so that a copy of a run adds no seed."""
        by_seed: dict[int, list[float]] = {}
        for seed, run in zip(self.seeds, self.runs, strict=True):
            if metric in run.scores:
                by_seed.setdefault(seed, []).append(run.scores[metric])
        return [mean(scores) for scores in by_seed.values()]

    def shown(self, metric: str) -> str:
        """Return mean ± sample standard deviation over the seeds; one seed has no spread."""
        values = self.values(metric)
        if not values:
            return ABSENT
        return f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


@dataclass(frozen=True)
class Comparison:
    """Groups of runs, the scores that are compared, and the settings in which the groups differ, a value for each.

    `doubts` are sentences about a user's own code of which ident3d cannot know whether it is equal.
    """

    groups: tuple[Group, ...]
    metrics: tuple[str, ...]
    differing: dict[str, tuple[Any, ...]]
    doubts: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        groups = [
            {
                "name": group.name,
                "seeds": list(group.seeds),
                "settings": {name: values[k] for name, values in self.differing.items()},
                "scores": {
                    metric: {"mean": mean(values), "spread": stdev(values) if len(values) > 1 else None}
                    for metric in self.metrics
                    if (values := group.values(metric))
                },
                "runs": [run.as_dict() for run in group.runs],
            }
            for k, group in enumerate(self.groups)
        ]
        return {"groups": groups, "metrics": list(self.metrics), "differing": list(self.differing),
                "doubts": list(self.doubts)}  # fmt: skip

    def table(self) -> str:
        """Return the scores of each group, the settings in which groups differ, and the runs of each group."""
        rows = [
            [group.name, ", ".join(map(str, group.seeds)), shown_steps(group), *map(group.shown, self.metrics)]
            for group in self.groups
        ]
        parts = [tabulate(rows, ["group", "seeds", "steps", *self.metrics], disable_numparse=True)]
        if self.differing:
            lines = [[name, *map(shown_value, values)] for name, values in self.differing.items()]
            heads = ["they differ in", *(group.name for group in self.groups)]
            parts.append(tabulate(lines, heads, disable_numparse=True))
        elif len(self.groups) == 1 and len(set(self.groups[0].seeds)) > 1:
            parts.append(f"These runs differ in their seed alone{', as far as is recorded' * bool(self.doubts)}.")
        parts += self.doubts
        parts.append("\n".join(f"{group.name}: {', '.join(str(r.path) for r in group.runs)}" for group in self.groups))
        if missing := [str(run.path) for group in self.groups for run in group.runs if not run.scores]:
            parts.append(f"Not scored, or on too few images for these scores: {', '.join(missing)}.")
        return "\n\n".join(parts)

    def write_csv(self, path: Path | str) -> Path:
        """Write a line for each run: its group, the settings that differ, seed, steps, and scores."""
        file, target = io.StringIO(), Path(path)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "group", *self.differing, "seed", "steps", *self.metrics])
        for k, group in enumerate(self.groups):
            own = ["" if values[k] is None else shown_value(values[k]) for values in self.differing.values()]
            for run in group.runs:
                figures = [run.scores.get(metric, "") for metric in self.metrics]
                writer.writerow([run.path, group.name, *own, run.settings["seed"], run.done, *figures])
        with os_errors(f"{target} cannot be written"):
            write_atomically(target, file.getvalue().encode())
        return target

    def plot(self, path: Path | str) -> Path:
        """Write a picture, a .png, .pdf or .svg file: for each score a dot a seed and a line at the mean, by group."""
        values = {metric: [group.values(metric) for group in self.groups] for metric in self.metrics}
        labels = [
            ", ".join([group.name, *(f"{name} {shown_value(given[k])}" for name, given in self.differing.items())])
            for k, group in enumerate(self.groups)
        ]
        return comparison_picture(values, labels, Path(path))


def compare(paths: Sequence[Path | str] | Path | str, *, metrics: str | Sequence[str] = "default") -> Comparison:
    """Compare runs: those that differ in their seed alone are one group, over whose seeds the spread is taken.

    Args:
        paths: Folders of runs, or folders that hold such folders; or one of them.
        metrics: "default" (R² and MCC), "all", or names of scores.

    Returns:
        A `Comparison`, with `table()`, `write_csv()` and `plot()`.

    Example:
        >>> import ident3d
        >>> found = ident3d.compare(["run"])
        >>> [group.seeds for group in found.groups], found.differing
        ([(0,)], {})
    """
    opened: dict[Path, FoundRun] = {}
    for path in [paths] if isinstance(paths, Path | str) else paths:
        found = runs(path)
        if found.unreadable or not found.runs:
            raise UserError(found.unreadable[0] if found.unreadable else f"There are no runs in {path}.")
        opened |= {run.path.resolve(): run for run in found.runs}
    if not opened:
        raise UserError("Name at least one run to compare.")
    grouped: dict[str, list[FoundRun]] = {}
    for run in opened.values():
        grouped.setdefault(json.dumps(decisive_settings(run), sort_keys=True), []).append(run)
    groups = tuple(
        Group(letter(k), tuple(sorted(own, key=lambda run: int(run.settings["seed"]))))
        for k, own in enumerate(grouped.values())
    )
    return Comparison(groups, choose_metrics(metrics, groups), differences_of(groups), doubts_of(groups))


def decisive_settings(run: FoundRun) -> dict[str, Any]:
    """Return all that decides a run but its seed: settings, number format, training set, and a user's own code."""
    own = {f"code of the {what}": word for what, kept in run.own_code.items() if (word := identity_of(kept))}
    settings = {name: value for name, value in run.settings.items() if name not in ("seed", "dtype")}
    return {"trained on": run.kind, "data": [run.data, run.digest[:8]], "dtype": run.dtype, **settings, **own}


def differences_of(groups: Sequence[Group]) -> dict[str, tuple[Any, ...]]:
    """Return the settings whose values are not the same in all groups; None where a group has no such setting."""
    settings = [decisive_settings(group.runs[0]) for group in groups]
    names = dict.fromkeys(name for each in settings for name in each)
    values = {name: tuple(each.get(name) for each in settings) for name in names}
    return {name: given for name, given in values.items() if any(value != given[0] for value in given)}


def doubts_of(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return a sentence for each own loss, encoder or mixing that several runs name, if it may not be the same one."""
    named: dict[tuple[str, str], list[tuple[str, Mapping[str, Any] | str | None]]] = {}
    for group in groups:
        for run in group.runs:
            for what, record in run.own_code.items():
                named.setdefault((what, str(run.settings[what])), []).append((group.name, record))
    found = []
    for (what, name), kept in named.items():
        reasons = dict.fromkeys(reason for _, record in kept if (reason := reason_for_doubt(record)))
        # One object of one process trained them all.
        same = all(isinstance(record, Mapping) for _, record in kept) and len({identity_of(r) for _, r in kept}) == 1
        if len(kept) > 1 and reasons and not same:
            where = ", ".join(dict.fromkeys(letter for letter, _ in kept))
            plural = "losses" if what == "loss" else f"{what}s"
            found.append(f"It cannot be known whether the {plural} {name} of {where} are equal: {'; '.join(reasons)}.")
    return tuple(found)


def choose_metrics(metrics: str | Sequence[str], groups: Sequence[Group]) -> tuple[str, ...]:
    """Return the names of scores to compare; raise UserError for one that no run has."""
    if metrics == "default":
        return tuple(HEADLINE)
    known = list(dict.fromkeys(name for group in groups for run in group.runs for name in run.scores))
    if metrics == "all":
        return tuple(name for name in known if name not in HEADLINE.values())
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    for name in names:
        check_known("score of these runs", name, known)
    return names


def letter(k: int) -> str:
    """Return A to Z, then A1 and so on."""
    return chr(ord("A") + k % 26) + (str(k // 26) if k >= 26 else "")


def shown_steps(group: Group) -> str:
    return ", ".join(dict.fromkeys(f"{run.done:,}" for run in group.runs))


def shown_value(value: Any) -> str:
    if value is None or value in ([], ()):
        return ABSENT
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
