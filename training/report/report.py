"""The report of a run: one HTML file with all that it shows inside it; names are escaped, nothing is loaded."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple

import numpy as np

from ident3d.latents.attainable import attainable_r2
from ident3d.latents.distributions.differences import expected_abs_difference
from ident3d.latents.factors import Factors
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.format.files import write_atomically
from ident3d.loaders.pairs.sampler import Pairs
from ident3d.metrics import mcc
from ident3d.metrics.catalogue import CATALOGUE
from ident3d.training.images.best_box import BestBox
from ident3d.training.images.evaluate import HEADLINE, Evaluation
from ident3d.training.images.run import Run, open_run, pairs_of
from ident3d.training.loop.log_file import read_log
from ident3d.training.report.advice import is_number, what_next
from ident3d.training.report.charts import curve, heat_map, line_chart, scatter
from ident3d.training.report.explained import chance, docs_link, meaning
from ident3d.training.report.gallery import neighbour_rows, pair_rows, row, walk_rows
from ident3d.training.report.paper import comparison, other_than_paper, paper_row
from ident3d.training.report.scored import Scored, read_scored, scored_of
from ident3d.training.report.tables import duration, html_table, number, paper_figure, score_table, sentences, tiles

REPORT_FILE: Final = "report.html"
SHOWN_NEIGHBOURS: Final = 5
SHOWN_PAIRS: Final = 7
WIDTH_PAIRS: Final = 2000  # drawn to measure how wide the pairs turned out


class DrawnPairs(NamedTuple):
    """The first pairs of a run, its images, and by latent the mean |z̃ - z| asked for and realised."""

    pairs: Pairs
    images: ImageDataset
    widths: dict[str, tuple[float, float]]

    def ratios(self) -> dict[str, float]:
        """Return how many times as wide as asked for the pairs turned out, of the latents that change."""
        return {name: realised / asked for name, (asked, realised) in self.widths.items() if asked}


def write_report(run: Run | Path | str, evaluation: Evaluation | None = None) -> Path:
    """Write ``report.html`` into the run's folder, from its log, scores, codes and images.

    `evaluation` is what `evaluate` has just returned; without it, scores and codes are read from the run's folder.
    """
    opened = run if isinstance(run, Run) else open_run(run)
    log, scored = read_log(opened.path), read_scored(opened) if evaluation is None else scored_of(evaluation)
    body = [run_tiles(opened, log, scored), *run_sections(opened, scored, log, curves(log))]
    s = opened.settings
    views = "supervised" if s.supervised else "augmentations" if s.cond == "augment" else f"{s.cond} pairs"
    title = f"{len(opened.latents)} latents, {views}, codes: {s.space}"
    return write_page(opened.path / REPORT_FILE, title, f"ident3d run {opened.path.name}", body)


def run_sections(run: Run, scored: Scored | None, log: Sequence[dict[str, Any]], after_scores: str = "") -> list[str]:
    """Return all that a page shows of a run, with `after_scores` below its scores."""
    drawn = drawn_pairs(run)
    return [
        shows_section(run, scored, log, drawn),
        score_section(run, scored),
        after_scores,
        precision_section(run, scored, log),
        *code_sections(scored),
        pairs_section(run, drawn),
        settings_section(run),
    ]


def drawn_pairs(run: Run) -> DrawnPairs | None:
    """Draw the first pairs that a run was trained on; None without pairs, or if its images are no longer there."""
    pairs = pairs_of(run)
    if pairs is None:
        return None
    sampler = pairs.sampler
    drawn, z = sampler.pairs(np.arange(WIDTH_PAIRS)), sampler.latents.astype(np.float64)
    asked = expected_abs_difference(sampler.conditional, z[drawn.anchor])
    realised = np.abs(z[drawn.positive] - z[drawn.anchor]).mean(0)
    widths = {name: (float(asked[k]), float(realised[k])) for k, name in enumerate(pairs.source.world.names)}
    return DrawnPairs(drawn, pairs.source, widths)


def attainable(run: Run) -> dict[str, float | None]:
    """Return by latent the R² of the best reader of the images, if the scene's rules say it."""
    return attainable_r2(run.world) if isinstance(run.world, World) else {}


def categorical(run: Run) -> list[str]:
    """Return the latents whose number is the name of a category."""
    return [run.world.names[k] for k in run.world.categorical] if isinstance(run.world, Factors) else []


def shows_section(run: Run, scored: Scored | None, log: Sequence[dict[str, Any]], drawn: DrawnPairs | None) -> str:
    """Return what the run shows and what to try next, with links to where more is explained."""
    # The least loss that a run recorded is that of pairs.
    best = BestBox.from_dict(run.facts.get("best_box")) if run.settings.views == 2 else None
    scores = scored.scores if scored else None
    found = what_next(
        run.settings, log, scores, attainable(run), drawn.ratios() if drawn else {}, best, categorical(run)
    )
    pages = [("tutorial", "how to read this page"), ("which-score", "which score answers what"),
             ("boxes", "boxes and plateaus"), ("train", "all options of train")]  # fmt: skip
    return f"<h2>What this run shows</h2>{sentences(found)}{read_more(run.path, pages)}"


def read_more(folder: Path, pages: Iterable[tuple[str, str]]) -> str:
    """Return a line of links to pages of the documentation, for a page that lies in `folder`."""
    links = " · ".join(docs_link(page, words, folder) for page, words in pages)
    return f'<p class="soft">Read more: {links}</p>'


def write_page(path: Path, title: str, subtitle: str, body: Iterable[str]) -> Path:
    """Fill the template; `body` is HTML, the rest plain text."""
    # The template forbids scripts and every address in its content policy. So a name that slipped through unescaped
    # could neither run nor load anything.
    template = Template((Path(__file__).parent / REPORT_FILE).read_text(encoding="utf-8"))
    page = template.substitute(title=escape(title), subtitle=escape(subtitle), body="\n".join(filter(None, body)))
    write_atomically(path, page.encode())
    return path


def run_tiles(run: Run, log: Sequence[dict[str, Any]], scored: Scored | None) -> str:
    """Return the run's most important numbers as large ones."""
    last, scores = log[-1] if log else {}, scored.scores["scores"] if scored else {}
    seconds = sum(line.get("seconds", 0) for line in log)
    shown = {
        "R² held out": number(scores.get("linear_r2_held_out", {}).get("score")),
        "MCC": number(scores.get("mcc_pearson", {}).get("score")),
        "steps": f"{last.get('step', 0):,} of {run.settings.steps:,}",
        "loss": number(last.get("loss")),
        "training": duration(seconds),
    }
    return tiles(shown)


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
    scores, paper = scored.scores, paper_row(run.settings, run.world)
    columns = {"linear_r2_held_out": "R²", "mcc_pearson": "MCC"}
    beside = {name: paper.paper.get(column) for name, column in columns.items()} if paper else {}
    sizes = (scores["count"], len(scores["latents"]), run.settings.dim or len(scores["latents"]))
    rows = []
    for name, score in in_order(scores["scores"]).items():
        if isinstance(score, dict):
            theirs = [paper_figure(beside.get(name))] if paper else []
            figures = [number(score.get("score"), 4), *theirs, chance(name, *sizes, score)]
            rows.append((name, meaning(name), figures))
    label = f'<p class="note">{escape(str(scores["label"]))}</p>' if scores.get("label") else ""
    where = f"{scores['count']:,} images of {scores['data']}, after step {scores['step']:,}"
    mode = ", batch norm by batch statistics" if scores.get("bn_batch_stats") else ""
    compared = f"<p class='note'>{escape(comparison(other_than_paper(run)))}</p>" if paper else ""
    return (
        f"<h2>Scores</h2>{label}<p class='soft'>{escape(where + mode)}</p>"
        + score_table(["score", "here", *(["paper, Table 4"] if paper else []), "by chance"], rows)
        + compared
        + read_more(run.path, [("metrics", "every score with its formula")])
        + latent_section(run, scores)
    )


def in_order(scores: dict[str, Any]) -> dict[str, Any]:
    """Return scores by name, those that the papers print first."""
    return {name: scores[name] for name in (*HEADLINE, *scores) if name in scores}


def latent_section(run: Run, scores: dict[str, Any]) -> str:
    """Return the scores that have one value per latent, beside what is attainable."""
    # Some scores hold a matrix, others a number per factor: they do not fit this table.
    per_latent = {
        name: values
        for name, score in in_order(scores["scores"]).items()
        if len(values := score.get("per_latent") or []) == len(scores["latents"]) and not isinstance(values[0], list)
    }
    if not per_latent:
        return ""
    # A score's values per latent may be another one than its headline.
    names = [CATALOGUE[name].per_latent or name if name in CATALOGUE else name for name in per_latent]
    most = attainable(run)
    detail = [
        [latent, *([number(most.get(latent))] if most else []), *(number(values[i]) for values in per_latent.values())]
        for i, latent in enumerate(scores["latents"])
    ]
    why = (
        "Attainable is the R² of the best possible reader of the images: below 1 where two values of a latent give one "
        "picture. "
        if most
        else ""
    )
    why += f"A latent near {'its attainable R²' if most else '1'} is found; one near 0 is not."
    if named := categorical(run):
        why += (
            f" {', '.join(named)}: categorical, so equal in both images of a pair; the R² of a category's number is no "
            "finding."
        )
    return f"<h2>Per latent</h2><p class='soft'>{escape(why)}</p>" + html_table(
        ["latent", *(["attainable R²"] if most else []), *names], detail
    )


def precision_section(run: Run, scored: Scored | None, log: Sequence[dict[str, Any]]) -> str:
    """Return Λ̂ of both conditionals by code, beside Λ of the latent that the code is matched with."""
    rows = log[-1].get("precision") if log else None
    lambdas = run.settings.lambdas
    wanted = [run.settings.dim] * len(lambdas)
    if not rows or not isinstance(rows, list) or [len(row) for row in rows if isinstance(row, list)] != wanted:
        return ""
    if not all(is_number(value) for row in rows for value in row):
        return ""
    found = scored.scores.get("matching") if scored else None
    matching = found.get("assignment") if isinstance(found, dict) else None
    assigned = zip(matching if isinstance(matching, list) else [], range(len(run.latents)), strict=False)
    latents = {k: i for k, i in assigned if isinstance(k, int)}
    lines = []
    for k, ours in enumerate(zip(*rows, strict=True)):
        i = latents.get(k)
        asked = ["–" if i is None else f"{own[i]:g}" for own in lambdas]
        cells = [cell for pair in zip(asked, (f"{value:.3g}" for value in ours), strict=True) for cell in pair]
        lines.append([f"h{k}", "–" if i is None else run.latents[i], *cells])
    why = (
        "Where Λ is large, the latent hardly varies within a pair, and Λ̂ should be large too. Λ̂ is in units of the "
        "codes, Λ in those of the latents, so that only their order compares."
    )
    heads = ["code", "matched latent", "Λ, first", "Λ̂", "Λ, second", "Λ̂"]
    return f"<h2>Λ̂ of both conditionals</h2><p class='soft'>{why}</p>{html_table(heads, lines)}"


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


def pairs_section(run: Run, drawn: DrawnPairs | None) -> str:
    """Return pictures of the first pairs that the run was trained on, and how wide its pairs turned out."""
    if drawn is None:
        return ""
    some = slice(SHOWN_PAIRS)
    rows = [
        [name, number(asked), number(realised), f"×{realised / asked:.2f}" if asked else "–"]
        for name, (asked, realised) in drawn.widths.items()
        if name in run.latents
    ]
    third, also = "", drawn.pairs.negative
    if also is not None:
        third = row(drawn.images, also[some], "hard negative z⁻" if run.settings.hard else "positive of the second Λ")
    return (
        "<h2>Training pairs</h2>"
        + pair_rows(drawn.images, drawn.pairs.anchor[some], drawn.pairs.positive[some])
        + third
        + "<p class='soft'>Mean |z̃ - z| of a latent in a pair. The positive is the image nearest to what was drawn, so "
        f"pairs of few images are wider than asked for. {WIDTH_PAIRS:,} pairs.</p>"
        + html_table(["latent", "asked for", "as it turned out", "ratio"], rows)
        + read_more(run.path, [("pair-width", "finite data and pair width")])
    )


def settings_section(run: Run) -> str:
    """Return what the run was asked for, on which images, and what computed it."""
    s = run.settings
    words = {name: str(v) for name, v in s.as_dict().items() if v is not None and v is not False and v != []}
    words |= {"computed in": run.dtype, "training set": f"{run.data['path']} ({run.data['n']:,} images)"}
    for name, value in run.facts.items():
        words[name] = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
    return "<h2>Settings</h2>" + html_table([], [[name, value] for name, value in words.items()], "words")
