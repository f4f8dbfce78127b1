"""The report of a run: one HTML file with all that it shows inside it; names are escaped, nothing is loaded."""

import io
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import Description, read_description
from ident3d.loaders.format.files import sha256, write_atomically
from ident3d.metrics import mcc
from ident3d.training.experiments.experiment import paper_row
from ident3d.training.images.evaluate import CODES, FILE
from ident3d.training.images.run import Run, open_run
from ident3d.training.images.setup import pair_dataset
from ident3d.training.loop.log import read_log
from ident3d.training.report.charts import heat_map, line_chart, scatter
from ident3d.training.report.gallery import neighbour_rows, pair_rows, walk_rows

NAME = "report.html"
SHOWN_PAIRS, SHOWN_NEIGHBOURS = 7, 5


def write_report(run: Path | str) -> Path:
    """Write ``report.html`` into the run's folder, from what is there: log, scores, codes, and the images if found."""
    opened = open_run(run)
    log, scores = read_log(opened.path), read_scores(opened.path)
    body = [tiles(opened, log, scores), curves(log), *run_sections(opened, scores)]
    title = f"{opened.settings.space} · {'supervised' if opened.settings.supervised else opened.settings.cond}"
    return write_page(opened.path / NAME, title, f"ident3d run {opened.path.name}", body)


def run_sections(run: Run, scores: dict[str, Any] | None) -> list[str]:
    """All that a page shows of a run below its curves."""
    return [score_section(run, scores), *code_sections(run, scores), pairs_section(run), settings_section(run)]


def write_page(path: Path, title: str, subtitle: str, body: Iterable[str]) -> Path:
    """Fill the template; `body` is HTML, the rest plain text."""
    template = Template((Path(__file__).parent / NAME).read_text(encoding="utf-8"))
    page = template.substitute(title=escape(title), subtitle=escape(subtitle), body="\n".join(filter(None, body)))
    write_atomically(path, page.encode())
    return path


def read_scores(run: Path) -> dict[str, Any] | None:
    path = run / FILE
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not found.keys() >= {"scores", "latents", "count", "data", "step", "codes_sha256"}:
            raise ValueError
    except (ValueError, AttributeError):
        raise UserError(f"{path} cannot be read; `ident3d evaluate {run}` writes it anew.") from None
    return found


def headline(scores: dict[str, Any] | None, name: str) -> float | None:
    value = None if scores is None else scores["scores"].get(name, {}).get("score")
    return None if value is None else float(value)


def tiles(run: Run, log: Sequence[dict[str, Any]], scores: dict[str, Any] | None) -> str:
    last = log[-1] if log else {}
    seconds = sum(line.get("seconds", 0) for line in log)
    shown = {
        "R² held out": number(headline(scores, "linear_r2_held_out")),
        "MCC": number(headline(scores, "mcc_pearson")),
        "steps": f"{last.get('step', 0):,} of {run.settings.steps:,}",
        "loss": number(last.get("loss")),
        "hours": f"{seconds / 3600:.2f}",
    }
    return f'<div class="tiles">{"".join(f"<div>{escape(k)}<b>{escape(v)}</b></div>" for k, v in shown.items())}</div>'


def curves(log: Sequence[dict[str, Any]]) -> str:
    def of(name: str) -> list[tuple[float, float]]:
        return [(line["step"], line[name]) for line in log if isinstance(line.get(name), int | float)]

    charts = [
        line_chart({"loss": of("loss")}, "loss over steps"),
        line_chart({"R²": of("r2"), "MCC": of("mcc")}, "of each logged batch", 0, 1),
        line_chart({"bound": of("bound")}, "mean bound of the box"),
        line_chart({"smallest": of("precision_min"), "largest": of("precision_max")}, "Λ̂ over steps"),
        line_chart({"per second": of("per_second")}, "pairs per second", 0),
    ]
    return f'<h2>Curves</h2><div class="grid">{"".join(charts)}</div>' if any(charts) else ""


def score_section(run: Run, scores: dict[str, Any] | None) -> str:
    if scores is None:
        return (
            '<h2>Scores</h2><p class="note">Not scored. '
            f"<code>ident3d evaluate {escape(str(run.path))}</code> adds the scores, or says what it lacks.</p>"
        )
    paper = paper_row(run.settings)
    columns = {"linear_r2_held_out": "R²", "mcc_pearson": "MCC"}
    beside = {name: paper.paper.get(column) for name, column in columns.items()} if paper else {}
    rows = [
        [name, number(score.get("score")), percent(beside.get(name))]
        for name, score in scores["scores"].items()
        if isinstance(score, dict)
    ]
    label = f'<p class="note">{escape(str(scores["label"]))}</p>' if scores.get("label") else ""
    where = f"{scores['count']:,} images of {scores['data']}, after step {scores['step']:,}"
    mode = ", batch norm by batch statistics" if scores.get("bn_batch_stats") else ""
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
        + table(["score", "here", "paper, Table 4"], rows)
        + "<h2>Per latent</h2>"
        + table(["latent", *per_latent], detail)
    )


def code_sections(run: Run, scores: dict[str, Any] | None) -> list[str]:
    """Correlations and clouds, and where the scored images are still there, walks and neighbours."""
    images = scored_images(run, scores)
    if scores is None or images is None:
        return []
    file = (run.path / CODES).read_bytes()
    if sha256(file) != scores["codes_sha256"]:
        return []  # of another evaluation than the scores
    codes = np.load(io.BytesIO(file), allow_pickle=False).astype(np.float64)
    z = images.latents(np.arange(len(codes))).astype(np.float64)
    matching = mcc(z, codes)
    assignment = [int(k) for k in matching.assignment]
    names, columns = list(images.names), [f"h{k}" for k in range(codes.shape[1])]
    clouds = [
        scatter(z[:, i], codes[:, k], f"{names[i]} → h{k}, r\u00a0=\u00a0{matching.correlation[i, k]:.2f}")
        for i, k in enumerate(assignment)
        if k >= 0
    ]
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


def scored_images(run: Run, scores: dict[str, Any] | None) -> ImageDataset | None:
    if scores is None or not (run.path / CODES).is_file():
        return None
    try:
        images = ImageDataset(scores["data"], latents=run.latents)
    except UserError:
        return None  # the folder was moved or deleted since
    return images if len(images) >= scores["count"] else None


def pairs_section(run: Run) -> str:
    if run.settings.images_alone:
        return ""
    try:
        description: Description = read_description(Path(run.data["path"]))
        if description.shards_sha256 != run.data["shards_sha256"]:
            return ""
        data = pair_dataset(run.data["path"], run.settings, run.world)
    except UserError:
        return ""
    drawn = data.sampler.pairs(np.arange(SHOWN_PAIRS))
    pairs = list(zip(drawn.anchor.tolist(), drawn.positive.tolist(), strict=True))
    return "<h2>Training pairs</h2>" + pair_rows(data.source, pairs)


def settings_section(run: Run) -> str:
    s = run.settings
    words = {name: str(v) for name, v in s.as_dict().items() if v is not None and v is not False and v != []}
    words |= {"computed in": run.dtype, "training set": f"{run.data['path']} ({run.data['n']:,} images)"}
    for name, value in run.facts.items():
        words[name] = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
    return "<h2>Settings</h2>" + table([], [[name, value] for name, value in words.items()], "words")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    names = (escape(name).replace("_", "_<wbr>") for name in head)  # long names of scores may break there
    first = f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>" if head else ""
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in rows)
    return f'<div class="wide"><table class="{kind}">{first}{lines}</table></div>'


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def percent(value: tuple[float, float] | None) -> str:
    return "" if value is None else f"{value[0] / 100:.4f} ± {value[1] / 100:.4f}"
