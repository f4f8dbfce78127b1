"""The report of a run on mixed latents: its scores beside the paper's and the loss's minimum, and what to try next."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from math import hypot
from pathlib import Path
from statistics import mean
from typing import Any, Final

from ident3d.errors import UserError
from ident3d.loaders.format.files import read_json
from ident3d.training.loop.log_file import read_log
from ident3d.training.loop.run_folder import EVALUATION_FILE
from ident3d.training.mixing.by_lambda import as_lambda, beside_lambda, blocks
from ident3d.training.mixing.decoded import SAMPLES_FILE
from ident3d.training.mixing.run import open_mixing
from ident3d.training.mixing.scores import COUNT
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.report.advice import APART, best_mcc, last_quarters
from ident3d.training.report.charts import curve, line_chart
from ident3d.training.report.explained import chance_mcc, read_more
from ident3d.training.report.paper import comparison, mixing_rows, other_than_paper_mixing
from ident3d.training.report.report import REPORT_FILE, write_page
from ident3d.training.report.tables import (
    duration,
    html_table,
    number,
    paper_figure,
    score_table,
    sentences,
    tiles,
    used_settings,
)

MEANINGS: Final = {
    "R²": "share of the latents' variance that a linear map of the codes explains, held out: 1 means that all latents "
    "are in the codes, perhaps mixed",
    "MCC": "each latent is given one code of its own; the mean absolute correlation of these pairs: 1 means that the "
    "codes are the latents, up to order, sign and scale",
    "R² content": "R² of the latents that vary less in a pair (the larger Λ)",
    "R² style": "R² of the latents that vary more in a pair (the smaller Λ)",
    "identity R²": "R² of the mixed latents themselves, without an encoder: what a run has to surpass",
    "identity MCC": "MCC of the mixed latents themselves",
    "kNN": "share of real test images whose class the 200 nearest training images' codes vote for, by cosine",
    "mass to move": "how far the marginal is from uniform, which theory assumes: 0 is uniform",
    "overlap": "share of anchors with something nearer in the batch than their positive: theory wants none",
    "R² other pole": "R² of latents around the pole opposite to that of training",
    "domain accuracy": "share of latents of both poles that a linear classifier gives to the right one; 0.5 is chance",
    "Λ̂ off": "largest relative deviation of Λ̂ from the one that minimises the loss; 0 is perfect",
}
# R² that counts as found, and as not; how much R² may still rise at the end, and how many standard errors tell two
# losses apart.
FOUND, MISSED, SLIGHT_RISE, SURE = 0.95, 0.3, 0.01, 3
# How far the loss of a run that has found its latents may be from its minimum, as a share of the way that it had to go.
ABOVE: Final = 0.05


def write_mixing_report(folder: Path | str, found: Mapping[str, Any] | None = None) -> Path:
    """Write ``report.html`` into the folder of a run on mixed latents, from its settings, its log and its scores.

    `found` is what `evaluate_mixing` has just returned; without it, the scores are read from the folder.
    """
    folder = Path(folder)
    if found is not None:
        return write_page_of(folder, found)
    # What a file holds is looked at where it is shown: nothing is written before all of it was.
    found = read_found(folder)
    try:
        return write_page_of(folder, found)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        if isinstance(error, UserError):
            raise
        raise unreadable(folder / EVALUATION_FILE) from None


def write_page_of(folder: Path, found: Mapping[str, Any]) -> Path:
    """Write the page of a run's scores."""
    s, log = open_mixing(folder), read_log(folder)
    figures, facts = found["figures"], found["facts"]
    pages = [("mixing", "what is drawn and learnt"), ("which-score", "which score answers what"),
             ("negatives", "negatives and the global minimum")]  # fmt: skip
    body = [
        run_tiles(s, log, figures, facts),
        f"<h2>What this run shows</h2>{sentences(what_next(s, log, figures, facts))}{read_more(folder, pages)}",
        scores_section(s, figures),
        samples_section(folder),
        latents_section(s, facts),
        lambda_section(s, facts),
        curves(s, log, facts),
        settings_section(s),
    ]
    pairs = "supervised" if s.supervised else f"{s.cond} pairs"
    title = f"{s.dim} latents of the {s.latent_space}, {pairs}, codes: {s.space}"
    return write_page(folder / REPORT_FILE, title, f"ident3d mixing, run {folder.name}", body)


def read_found(folder: Path) -> dict[str, Any]:
    """Return the scores in a run's folder; raise UserError if there are none, or if they cannot be shown."""
    path = folder / EVALUATION_FILE
    if not path.is_file():
        raise UserError(f"{folder} holds no {EVALUATION_FILE}: the run is not finished, and goes on with --resume.")
    try:
        found = read_json(path)
        if not all(isinstance(value, float) for value in found["figures"].values()) or not found["facts"]:
            raise ValueError
    except (ValueError, KeyError, AttributeError):
        raise unreadable(path) from None
    return found


def unreadable(path: Path) -> UserError:
    return UserError(f"{path} cannot be read; the run's command with --resume writes it anew.")


def run_tiles(s: MixingSettings, log: Sequence[Mapping[str, Any]], figures: Mapping[str, float], facts: Any) -> str:
    least = facts.get("minimum") or {}
    shown = {
        "R²": number(figures.get("R²")),
        "MCC": number(figures.get("MCC")),
        "steps": f"{log[-1]['step'] if log else 0:,} of {s.steps or 0:,}",
        "loss": number(facts.get("loss")),
        "loss at f = g⁻¹": number(least.get("loss")),
        "training": duration(sum(line.get("seconds", 0) for line in log)),
    }
    return tiles(shown)


def scores_section(s: MixingSettings, figures: Mapping[str, float]) -> str:
    """Return the figures with their meaning and chance level, beside the paper's if its table has such a row."""
    rows = mixing_rows(s)
    theirs = {name: value for _, row in rows for name, value in row.paper.items()}
    chances = dict.fromkeys(("R²", "R² content", "R² style"), "0") | {"MCC": number(chance_mcc(COUNT, s.dim, s.dim))}
    lines = [
        (
            name,
            MEANINGS.get(name, ""),
            [number(value, 4), *([paper_figure(theirs.get(name))] if rows else []), chances.get(name, "–")],
        )
        for name, value in figures.items()
    ]
    where = f"{COUNT:,} fresh latents; R² fitted on one half, scored on the other."
    compared = "".join(
        f'<p class="note">{escape(table.name)}, row {escape(row.name)}. '
        f"{escape(comparison(other_than_paper_mixing(s, table, row)))}</p>"
        for table, row in rows
    )
    heads = ["score", "here", *(["paper"] if rows else []), "by chance"]
    return f"<h2>Scores</h2><p class='soft'>{where}</p>{score_table(heads, lines)}{compared}"


def samples_section(folder: Path) -> str:
    """Return the picture of pairs that a decoder makes at several Λ, if the run has one."""
    path = folder / SAMPLES_FILE
    if not path.is_file():
        return ""
    data = base64.b64encode(path.read_bytes()).decode()
    said = "Decoded anchors, each with positives behind it, where all latents have the same Λ."
    picture = f'<img alt="pairs" style="max-width: 100%" src="data:image/png;base64,{data}">'
    return f"<h2>Pairs</h2><p class='soft'>{said}</p>{picture}"


def latents_section(s: MixingSettings, facts: Mapping[str, Any]) -> str:
    """Return R² of each latent, with the Λ that its pairs were drawn with."""
    values = facts.get("per_latent") or []
    heads = ["latent", *(f"Λ of process {k + 1}" if len(s.lambdas) > 1 else "Λ" for k in range(len(s.lambdas))), "R²"]
    rows = [[f"z{i}", *(f"{own[i]:g}" for own in s.lambdas), number(value)] for i, value in enumerate(values[: s.dim])]
    why = "The mixing is invertible, so that all latents are attainable: R² 1."
    return f"<h2>Per latent</h2><p class='soft'>{why}</p>{html_table(heads, rows)}" if rows else ""


def lambda_section(s: MixingSettings, facts: Mapping[str, Any]) -> str:
    """Return Λ, the best Λ̂ and ours, of each process."""
    rows = [list(row) for row in beside_lambda(s.lambdas, facts, as_lambda(s.loss, s.tau))]
    heads = ["Λ", "Λ̂ that minimises the loss at f = g⁻¹", "and with f stretched", "Λ̂ here"]
    means = "<p class='soft'>The mean of each block of equal Λ.</p>"
    return f"<h2>Λ̂</h2>{means}{html_table(heads, rows)}" if rows else ""


def curves(s: MixingSettings, log: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """Return the charts of the log; the loss with the line that it cannot fall below by much."""
    losses = {"loss": curve(log, "loss")}
    if log and facts.get("minimum"):
        losses["at f = g⁻¹"] = [(log[0]["step"], facts["minimum"]["loss"]), (log[-1]["step"], facts["minimum"]["loss"])]
    charts = [
        line_chart(losses, "loss over steps"),
        line_chart({"R²": curve(log, "r2"), "MCC": curve(log, "mcc")}, "of each logged batch", 0, 1),
        line_chart({"bound": curve(log, "bound")}, "mean bound of the box"),
        line_chart({name: curve(log, name) for name in ("R² content", "R² style")}, "R² of both halves", 0, 1),
        *(lambda_chart(s, log, k) for k in range(len(s.lambdas))),
    ]
    return f'<h2>Curves</h2><div class="grid">{"".join(charts)}</div>' if any(charts) else ""


def lambda_chart(s: MixingSettings, log: Sequence[Mapping[str, Any]], process: int) -> str:
    """Return Λ̂ of a process over steps: the mean of each of up to four blocks of equal Λ."""
    truth, factor = s.lambdas[process], as_lambda(s.loss, s.tau)
    lines = [line for line in log if len(line.get("precision") or []) > process]
    curves = {
        f"for Λ = {level:g}": [
            (line["step"], factor * mean(blocks(truth, line["precision"][process])[k])) for line in lines
        ]
        for k, level in enumerate(sorted(set(truth))[:4])
    }
    name = f" of process {process + 1}" if len(s.lambdas) > 1 else ""
    return line_chart(curves, f"Λ̂{name} over steps", 0)


def what_next(
    s: MixingSettings, log: Sequence[Mapping[str, Any]], figures: Mapping[str, float], facts: Mapping[str, Any]
) -> list[str]:
    """Return what the run shows and what to try next, the most important first."""
    found, r2, mcc = list[str](), figures.get("R²", 0.0), figures.get("MCC", 0.0)
    missing = [f"z{i}" for i, value in enumerate(facts.get("per_latent") or []) if value < MISSED]
    if missing:
        found.append(
            f"Not found, though the mixing is invertible: {', '.join(missing)}. More --steps, a wider --encoder, or "
            "--whiten, which makes the start easier."
        )
    if sentence := beside_minimum(log, r2, facts):
        found.append(sentence)
    values = facts.get("per_latent") or []
    if values and best_mcc(values) - mcc > APART:
        found.append(why_mixed(s, best_mcc(values), mcc))
    before, last = last_quarters([line.get("r2") or 0.0 for line in log]) or (0.0, 0.0)
    if last - before > SLIGHT_RISE:
        found.append(f"R² of the batches still rose at the end, from {before:.2f} to {last:.2f}: more --steps.")
    if r2 < figures.get("identity R²", 0.0):
        found.append("The observations themselves score higher than the codes: nothing has been identified yet.")
    return found or ["All latents are identified as far as theory promises for this space."]


def beside_minimum(log: Sequence[Mapping[str, Any]], r2: float, facts: Mapping[str, Any]) -> str | None:
    """Return what the loss says beside that of f = g⁻¹, if it says anything; both are estimates with an error."""
    least, loss = facts.get("minimum") or {}, facts.get("loss")
    if loss is None or "loss" not in least:
        return None
    error = hypot(least.get("error", 0.0), facts.get("loss_error", 0.0))
    off, both = loss - least["loss"], f"The loss is {loss:.4g}, at f = g⁻¹ it would be {least['loss']:.4g}"
    start = max((line["loss"] for line in log if line.get("loss") is not None), default=loss)
    if off > SURE * error:
        # A run that has found its latents comes ever nearer to the minimum, and never to the end.
        if r2 >= FOUND and off <= ABOVE * (start - least["loss"]):
            return None
        return (
            f"{both}: the run is not at the minimum. More --steps, a higher --lr with --schedule cosine, or a wider "
            "--encoder."
        )
    if r2 >= FOUND:
        return None
    beside = "below that" if off < -SURE * error else f"no more than {SURE} standard errors ({error:.2g}) above that"
    return (
        f"{both}. Ours is {beside}, though R² is {r2:.2f}: for these latents, pairs and this batch, the loss has "
        "minima besides the truth. A larger --batch or a marginal nearer to uniform."
    )


def why_mixed(s: MixingSettings, allowed: float, mcc: float) -> str:
    """Return why MCC is far below what R² allows."""
    start = f"MCC is {mcc:.2f} where R² of the latents allows {allowed:.2f}: they are in the codes, but mixed."
    if s.space == "sphere" and not s.lambdas:
        return f"{start} On the sphere theory promises a rotation, no more; --lambda 5,25 breaks the symmetry."
    if s.space == "unbounded" and s.cond == "normal":
        return f"{start} Without bounds, with a normal conditional, theory promises no more; try --space box."
    if len(s.lambdas) == 1 and len(set(s.lambdas[0])) < s.dim:
        return f"{start} Latents of equal Λ may be rotated among themselves; give each a Λ of its own."
    return f"{start} A loss whose --model-p fits the conditional, and a box that the codes fill, undo the rotation."


def settings_section(s: MixingSettings) -> str:
    words = [[name, str(value)] for name, value in used_settings(s).items()]
    return "<h2>Settings</h2>" + html_table([], words, "words")
