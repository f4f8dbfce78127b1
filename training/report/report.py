"""The report of a run: one HTML file with all that it shows inside it; names are escaped, nothing is loaded."""

import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.format.arrays import load_array
from ident3d.loaders.format.files import read_json, sha256, write_atomically
from ident3d.metrics import mcc
from ident3d.training.experiments.experiment import Row
from ident3d.training.experiments.icml2021 import TABLE4
from ident3d.training.images.evaluate import CODES_FILE, EVALUATION_FILE, Evaluation
from ident3d.training.images.run import Run, open_run, pairs_of
from ident3d.training.images.settings import TrainSettings
from ident3d.training.loop.log import LARGEST_FIGURE, read_log
from ident3d.training.report.charts import curve, heat_map, line_chart, scatter
from ident3d.training.report.gallery import neighbour_rows, pair_rows, walk_rows
from ident3d.training.report.tables import html_table, number, paper_figure

REPORT_FILE: Final = "report.html"
SHOWN_NEIGHBOURS: Final = 5
SHOWN_PAIRS: Final = 7


class Scored(NamedTuple):
    """A run's scores as evaluation.json holds them, and the codes and images that they are of, if they are found."""

    scores: dict[str, Any]
    codes: NDArray[np.float64] | None
    images: ImageDataset | None


def write_report(run: Run | Path | str, evaluation: Evaluation | None = None) -> Path:
    """Write ``report.html`` into the run's folder, from its log, scores, codes and images.

    `evaluation` is what `evaluate` has just returned; without it, scores and codes are read from the run's folder.
    """
    opened = run if isinstance(run, Run) else open_run(run)
    log, scored = read_log(opened.path), read_scored(opened) if evaluation is None else scored_of(evaluation)
    body = [tiles(opened, log, scored), curves(log), *run_sections(opened, scored)]
    title = f"{opened.settings.space} · {'supervised' if opened.settings.supervised else opened.settings.cond}"
    return write_page(opened.path / REPORT_FILE, title, f"ident3d run {opened.path.name}", body)


def run_sections(run: Run, scored: Scored | None) -> list[str]:
    """Return all that a page shows of a run below its curves."""
    return [score_section(run, scored), *code_sections(scored), pairs_section(run), settings_section(run)]


def write_page(path: Path, title: str, subtitle: str, body: Iterable[str]) -> Path:
    """Fill the template; `body` is HTML, the rest plain text."""
    # The template forbids scripts and every address in its content policy. So a name that slipped through unescaped
    # could neither run nor load anything.
    template = Template((Path(__file__).parent / REPORT_FILE).read_text(encoding="utf-8"))
    page = template.substitute(title=escape(title), subtitle=escape(subtitle), body="\n".join(filter(None, body)))
    write_atomically(path, page.encode())
    return path


def scored_of(evaluation: Evaluation) -> Scored:
    return Scored(evaluation.as_dict(), evaluation.codes.astype(np.float64), evaluation.images)


def read_scored(run: Run) -> Scored | None:
    """Return the scores in a run's folder, with their codes and images; None if it has not been scored."""
    path = run.path / EVALUATION_FILE
    if not path.is_file():
        return None
    try:
        scores = read_json(path)
        check_scores(scores)
    except (ValueError, KeyError):
        raise UserError(f"{path} cannot be read; `ident3d evaluate {run.path}` writes it anew.") from None
    # The file is read once: what is hashed is what is shown.
    file = run.path / CODES_FILE
    content = file.read_bytes() if file.is_file() else b""
    # A kill between the two writes leaves codes of another evaluation than the scores: those are not shown.
    if sha256(content) != scores["codes_sha256"]:
        return Scored(scores, None, None)
    try:
        images = ImageDataset(scores["data"], latents=run.latents)
    except UserError:
        return Scored(scores, None, None)  # the folder was moved or deleted since
    codes = codes_in(content, file)
    return Scored(scores, codes, images) if len(images) >= len(codes) else Scored(scores, None, None)


def check_scores(content: dict[str, Any]) -> None:
    """Raise ValueError or KeyError if scores are not of the kinds that a page shows."""
    kinds = {"scores": dict, "latents": list, "count": int, "data": str, "step": int, "codes_sha256": str}
    if wrong := next((name for name, kind in kinds.items() if type(content[name]) is not kind), None):
        raise ValueError(f"its {wrong} are of a wrong kind")
    if not all(isinstance(name, str) for name in content["latents"]):
        raise ValueError("a latent's name is no text")
    for name, score in content["scores"].items():
        values = score.get("per_latent") or [] if isinstance(score, dict) else None
        # Some scores hold a matrix, whose rows are not shown.
        rows = isinstance(values, list) and all(isinstance(row, list) for row in values)
        if not (isinstance(values, list) and is_shown(score.get("score")) and (rows or all(map(is_shown, values)))):
            raise ValueError(f"the score {name} is of a wrong kind")


def is_shown(value: object) -> bool:
    return value is None or isinstance(value, float) or (type(value) is int and abs(value) < LARGEST_FIGURE)


def codes_in(content: bytes, file: Path) -> NDArray[np.float64]:
    """Return the codes (n, d) of a .npy file's bytes."""
    try:
        codes = load_array(io.BytesIO(content))
        if codes.dtype.kind != "f" or codes.ndim != 2 or not codes.size or not (np.abs(codes) < LARGEST_FIGURE).all():
            raise ValueError(f"an array of {codes.dtype} of shape {codes.shape}")
    except ValueError as error:
        raise UserError(f"{file} does not hold codes ({error}); `ident3d evaluate` writes it anew.") from None
    return codes.astype(np.float64)


def paper_row(settings: TrainSettings) -> Row | None:
    """Return the row of Table 4 that a run's settings are an instance of, if there is one."""
    usual_loss = settings.loss in (None, "delta", "infonce", "simclr", "mse") and settings.model_p in (None, 2.0)
    if settings.only or settings.same_class or not usual_loss:
        return None
    for row in TABLE4.rows:
        plain = TrainSettings(**row.change or {})
        # The supervised row leaves its space to the defaults.
        same = ("cond", "supervised") if plain.supervised else ("space", "cond", "supervised")
        if row.change is not None and all(getattr(plain, name) == getattr(settings, name) for name in same):
            return row
    return None


def tiles(run: Run, log: Sequence[dict[str, Any]], scored: Scored | None) -> str:
    """Return the run's most important numbers as large ones."""
    last, scores = log[-1] if log else {}, scored.scores["scores"] if scored else {}
    seconds = sum(line.get("seconds", 0) for line in log)
    shown = {
        "R² held out": number(scores.get("linear_r2_held_out", {}).get("score")),
        "MCC": number(scores.get("mcc_pearson", {}).get("score")),
        "steps": f"{last.get('step', 0):,} of {run.settings.steps:,}",
        "loss": number(last.get("loss")),
        "hours": f"{seconds / 3600:.2f}",
    }
    return f'<div class="tiles">{"".join(f"<div>{escape(k)}<b>{escape(v)}</b></div>" for k, v in shown.items())}</div>'


def curves(log: Sequence[dict[str, Any]]) -> str:
    charts = [
        line_chart({"loss": curve(log, "loss")}, "loss over steps"),
        line_chart({"R²": curve(log, "r2"), "MCC": curve(log, "mcc")}, "of each logged batch", 0, 1),
        line_chart({"bound": curve(log, "bound")}, "mean bound of the box"),
        line_chart({"smallest": curve(log, "precision_min"), "largest": curve(log, "precision_max")}, "Λ̂ over steps"),
        line_chart({"per second": curve(log, "per_second")}, "pairs per second", 0),
    ]
    return f'<h2>Curves</h2><div class="grid">{"".join(charts)}</div>' if any(charts) else ""


def score_section(run: Run, scored: Scored | None) -> str:
    """Return every score, beside the paper's for a row of Table 4, and its values per latent."""
    if scored is None:
        return (
            '<h2>Scores</h2><p class="note">Not scored. '
            f"<code>ident3d evaluate {escape(str(run.path))}</code> adds the scores, or says what it lacks.</p>"
        )
    scores, paper = scored.scores, paper_row(run.settings)
    columns = {"linear_r2_held_out": "R²", "mcc_pearson": "MCC"}
    beside = {name: paper.paper.get(column) for name, column in columns.items()} if paper else {}
    rows = [
        [name, number(score.get("score"), 4), paper_figure(beside.get(name))]
        for name, score in scores["scores"].items()
        if isinstance(score, dict)
    ]
    label = f'<p class="note">{escape(str(scores["label"]))}</p>' if scores.get("label") else ""
    where = f"{scores['count']:,} images of {scores['data']}, after step {scores['step']:,}"
    mode = ", batch norm by batch statistics" if scores.get("bn_batch_stats") else ""
    # Only scores with one number per latent fit this table: some hold a matrix, others a number per factor.
    per_latent = {
        name: values
        for name, score in scores["scores"].items()
        if len(values := score.get("per_latent") or []) == len(scores["latents"]) and not isinstance(values[0], list)
    }
    detail = [
        [latent, *(number(values[i]) for values in per_latent.values())] for i, latent in enumerate(scores["latents"])
    ]
    return (
        f"<h2>Scores</h2>{label}<p class='soft'>{escape(where + mode)}</p>"
        + html_table(["score", "here", "paper, Table 4"], rows)
        + "<h2>Per latent</h2>"
        + html_table(["latent", *per_latent], detail)
    )


def code_sections(scored: Scored | None) -> list[str]:
    """Return correlations and clouds of latents and codes, walks along codes, and neighbours in code space."""
    if scored is None or scored.codes is None or scored.images is None:
        return []
    codes, images = scored.codes, scored.images
    z = images.latents(np.arange(len(codes))).astype(np.float64)
    matching = mcc(z, codes)
    assignment = [int(k) for k in matching.assignment]
    names, columns = list(images.names), [f"h{k}" for k in range(codes.shape[1])]
    clouds = [
        scatter(z[:, i], codes[:, k], f"{names[i]} → h{k}, r\u00a0=\u00a0{matching.correlation[i, k]:.2f}")
        for i, k in enumerate(assignment)
        if k >= 0
    ]
    # Evenly spread over the set, so that the same images are shown whatever the codes are.
    some = np.linspace(0, len(codes) - 1, SHOWN_NEIGHBOURS).astype(int).tolist()
    return [
        "<h2>Correlation of latents and codes</h2><p class='soft'>Framed: each latent's matched code.</p>",
        heat_map(matching.correlation, names, columns, assignment),
        f'<h2>Each latent and its code</h2><div class="grid small">{"".join(clouds)}</div>',
        "<h2>Walks along single codes</h2><p class='soft'>Held-out images from low to high in one code, the "
        "other codes near their middle: what changes is what the code has learnt.</p>",
        walk_rows(images, codes, names, assignment),
        "<h2>Nearest in code space</h2><p class='soft'>The first image of each row, then those with the "
        "nearest codes.</p>",
        neighbour_rows(images, codes, some),
    ]


def pairs_section(run: Run) -> str:
    """Return pictures of the first pairs that the run was trained on, if its images are still there."""
    pairs = pairs_of(run)
    if pairs is None:
        return ""
    drawn = pairs.sampler.pairs(np.arange(SHOWN_PAIRS))
    return "<h2>Training pairs</h2>" + pair_rows(pairs.source, drawn.anchor, drawn.positive)


def settings_section(run: Run) -> str:
    """Return what the run was asked for, on which images, and what computed it."""
    s = run.settings
    words = {name: str(v) for name, v in s.as_dict().items() if v is not None and v is not False and v != []}
    words |= {"computed in": run.dtype, "training set": f"{run.data['path']} ({run.data['n']:,} images)"}
    for name, value in run.facts.items():
        words[name] = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
    return "<h2>Settings</h2>" + html_table([], [[name, value] for name, value in words.items()], "words")
