"""The report of a run: one HTML file with all that it shows inside it; names are escaped, nothing is loaded."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple

import numpy as np

from ident3d.latents.distributions.differences import expected_abs_difference
from ident3d.latents.distributions.spaces import distance
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.format.files import write_atomically
from ident3d.loaders.format.latents_source import blocks_of, views_of
from ident3d.loaders.pairs.sampler import Pairs, PairSampler
from ident3d.training.images.best_box import BestBox
from ident3d.training.images.by_protocol import ProtocolEvaluation
from ident3d.training.images.evaluate import Evaluation
from ident3d.training.images.run import Run, open_run, pairs_of
from ident3d.training.loop.log_file import read_log
from ident3d.training.report.advice import what_next
from ident3d.training.report.charts import curve, latent_charts, line_chart
from ident3d.training.report.explained import read_more
from ident3d.training.report.gallery import pair_rows, row
from ident3d.training.report.score_sections import (
    attainable_by_latent,
    categorical_latents,
    code_sections,
    precision_section,
    readout_section,
    score_section,
)
from ident3d.training.report.scored import Scored, read_scored, scored_of
from ident3d.training.report.tables import duration, html_table, number, sentences, tiles, used_settings
from ident3d.training.report.traversals import decoder_sections, protocol_sections

REPORT_FILE: Final = "report.html"
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


def write_report(run: Run | Path | str, evaluation: Evaluation | ProtocolEvaluation | None = None) -> Path:
    """Write ``report.html`` into the run's folder, from its log, scores, codes and images.

    `evaluation` is what `evaluate` or `evaluate_by_protocol` has just returned; without it, scores and codes are read
    from the run's folder.
    """
    opened = run if isinstance(run, Run) else open_run(run)
    log, scored, by_protocol = read_log(opened.path), None, None
    if isinstance(evaluation, ProtocolEvaluation):
        by_protocol = evaluation
    else:
        scored = read_scored(opened) if evaluation is None else scored_of(evaluation)
    sections = run_sections(opened, scored, log, curves(log, opened.latents), by_protocol)
    body = [run_tiles(opened, log, scored), *sections]
    s = opened.settings
    views = "supervised" if s.supervised else "augmentations" if s.images_alone else f"{s.pair_kind} pairs"
    title = f"{len(opened.latents)} latents, {views}, codes: {s.space}"
    return write_page(opened.path / REPORT_FILE, title, f"ident3d run {opened.path.name}", body)


def run_sections(
    run: Run,
    scored: Scored | None,
    log: Sequence[dict[str, Any]],
    after_scores: str = "",
    by_protocol: ProtocolEvaluation | None = None,
) -> list[str]:
    """Return all that a page shows of a run, with `after_scores` below its scores."""
    drawn = drawn_pairs(run)
    return [
        shows_section(run, scored, log, drawn),
        *(protocol_sections(run, by_protocol) if by_protocol else [score_section(run, scored)]),
        readout_section(run),
        after_scores,
        precision_section(run, scored, log),
        *decoder_sections(run, scored),
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
    # The other rules ask for no width: what they draw is an image.
    world, asked = pairs.source.world, np.zeros(z.shape[1])
    if isinstance(sampler, PairSampler):
        asked = expected_abs_difference(sampler.conditional, z[drawn.anchor])
    realised = distance(world.space, z[drawn.positive], z[drawn.anchor]).mean(0) if world.names else asked
    widths = {name: (float(asked[k]), float(realised[k])) for k, name in enumerate(pairs.source.world.names)}
    return DrawnPairs(drawn, pairs.source, widths)


def shows_section(run: Run, scored: Scored | None, log: Sequence[dict[str, Any]], drawn: DrawnPairs | None) -> str:
    """Return what the run shows and what to try next, with links to where more is explained."""
    # The least loss that a run recorded is that of pairs.
    best = BestBox.from_dict(run.facts.get("best_box")) if run.settings.views == 2 else None
    scores = scored.scores if scored else None
    found = what_next(
        run.settings,
        log,
        scores,
        attainable_by_latent(run),
        drawn.ratios() if drawn else {},
        best,
        categorical_latents(run),
        private_latents(run),
    )
    pages = [("tutorial", "how to read this page"), ("which-score", "which score answers what"),
             ("boxes", "boxes and plateaus"), ("train", "all options of train")]  # fmt: skip
    return f"<h2>What this run shows</h2>{sentences(found)}{read_more(run.path, pages)}"


def private_latents(run: Run) -> tuple[str, ...]:
    """Return the latents that the views of a run's pairs draw anew from the marginal, so that no pair tells of them."""
    views = views_of(run.data["settings"])
    is_free = run.settings.rule == "view" and views is not None and views.cond is None
    return blocks_of(run.data["settings"]).get("private", ()) if is_free else ()


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


def curves(log: Sequence[dict[str, Any]], latents: Sequence[str]) -> str:
    charts = [
        line_chart({"loss": curve(log, "loss")}, "loss over steps"),
        line_chart({"R²": curve(log, "r2"), "MCC": curve(log, "mcc")}, "of each logged batch", 0, 1),
        line_chart({"of an image": curve(log, "reconstruction")}, "reconstruction error over steps"),
        line_chart({"KL": curve(log, "kl")}, "divergence of posteriors from N(0, I)", 0),
        *latent_charts(log, latents),
        line_chart({"bound": curve(log, "bound")}, "mean bound of the box"),
        line_chart({"smallest": curve(log, "precision_min"), "largest": curve(log, "precision_max")}, "Λ̂ over steps"),
        line_chart({"per second": curve(log, "per_second")}, "pairs per second", 0),
    ]
    return f'<h2>Curves</h2><div class="grid">{"".join(charts)}</div>' if any(charts) else ""


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
    pictures = pair_rows(drawn.images, drawn.pairs.anchor[some], drawn.pairs.positive[some])
    words = f"Mean |z̃ - z| of a latent in a pair; {WIDTH_PAIRS:,} pairs. "
    pages = [("pair-rules", "pair rules")]
    if run.settings.rule == "nearest":
        words += "The positive is the image nearest to what was drawn, so pairs of few images are wider than asked for."
        heads = ["latent", "asked for", "as it turned out", "ratio"]
        pages = [("pair-width", "finite data and pair width")]
    else:
        words += f"They are drawn by the rule {run.settings.rule}, which finds each positive exactly."
        heads, rows = ["latent", "mean |z̃ - z|"], [[name, realised] for name, _, realised, _ in rows]
    page = html_table(heads, rows) if rows else ""
    return f"<h2>Training pairs</h2>{pictures}{third}<p class='soft'>{words}</p>{page}{read_more(run.path, pages)}"


def settings_section(run: Run) -> str:
    """Return what the run was asked for, on which images, and what computed it."""
    s = run.settings
    words = {name: str(value) for name, value in used_settings(s).items()}
    words |= {"computed in": run.dtype, "training set": f"{run.data['path']} ({run.data['n']:,} images)"}
    for name, value in run.facts.items():
        words[name] = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
    return "<h2>Settings</h2>" + html_table([], [[name, value] for name, value in words.items()], "words")
