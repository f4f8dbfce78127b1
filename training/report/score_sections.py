"""The sections of a report on a run's scores: every score, R² by latent, Λ̂, and what the codes look like."""

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import numpy as np

from ident3d.errors import UserError
from ident3d.latents.attainable import attainable_r2
from ident3d.latents.factors import Factors
from ident3d.latents.worlds import World
from ident3d.loaders.format.files import read_json
from ident3d.metrics import mcc
from ident3d.metrics.catalogue import CATALOGUE
from ident3d.training.images.run import Run
from ident3d.training.loop.log_file import is_number
from ident3d.training.loop.run_folder import HEADLINE, READOUT_FILE
from ident3d.training.report.charts import heat_map, scatter
from ident3d.training.report.explained import chance, meaning, read_more
from ident3d.training.report.gallery import neighbour_rows, walk_rows
from ident3d.training.report.paper import comparison, other_than_paper, paper_row
from ident3d.training.report.scored import Scored
from ident3d.training.report.tables import html_table, number, paper_figure, score_table

SHOWN_NEIGHBOURS: Final = 5


def score_section(run: Run, scored: Scored | None) -> str:
    """Return every score, beside the paper's for a row of Table 4, and its values per latent."""
    if scored is None:
        command, what = f"ident3d evaluate {escape(str(run.path))}", "adds the scores, or says what it lacks"
        if not run.latents:
            command, what = f"{command} --readout all", "reads class and augmentations out of its features"
        return f'<h2>Scores</h2><p class="note">Not scored. <code>{command}</code> {what}.</p>'
    scores, paper = scored.scores, paper_row(run.settings, run.world)
    beside = {name: paper.paper.get(column) for column, name in HEADLINE.items()} if paper else {}
    sizes = (scores["count"], len(scores["latents"]), run.settings.dim or len(scores["latents"]))
    rows = []
    for name, score in papers_first(scores["scores"]).items():
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


def readout_section(run: Run) -> str:
    """Return what was read out of a run's features last, backbone beside codes; nothing if nothing was."""
    path = run.path / READOUT_FILE
    if not path.is_file():
        return ""
    try:
        found = read_json(path)
        rows = [[name, number(value), number(found["codes"][name])] for name, value in found["backbone"].items()]
        where = f"{found['scored']:,} images of {found['test']}, after step {found['step']:,}"
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise UserError(f"{path} cannot be read; `ident3d evaluate {run.path} --readout all` writes it anew.") from None
    why = (
        f"Accuracies on {where}: of a linear classifier for the class, of 200 nearest neighbours (kNN), and of a "
        "linear classifier for each augmentation, whose mean is the last line (.5 by chance)."
    )
    return f"<h2>Read-outs</h2><p class='soft'>{escape(why)}</p>{html_table(['of', 'backbone', 'codes'], rows)}"


def papers_first(scores: dict[str, Any]) -> dict[str, Any]:
    """Return scores by name, those that the papers print first."""
    return {name: scores[name] for name in (*HEADLINE.values(), *scores) if name in scores}


def latent_section(run: Run, scores: dict[str, Any]) -> str:
    """Return the scores that have one value per latent, beside what is attainable."""
    # Some scores hold a matrix, others a number per factor: they do not fit this table.
    per_latent = {
        name: values
        for name, score in papers_first(scores["scores"]).items()
        if len(values := score.get("per_latent") or []) == len(scores["latents"]) and not isinstance(values[0], list)
    }
    if not per_latent:
        return ""
    # A score's values per latent may be another one than its headline.
    names = [CATALOGUE[name].per_latent or name if name in CATALOGUE else name for name in per_latent]
    most = attainable_by_latent(run)
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
    if named := categorical_latents(run):
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


def attainable_by_latent(run: Run) -> dict[str, float | None]:
    """Return by latent the R² of the best reader of the images, if the scene's rules say it."""
    return attainable_r2(run.world) if isinstance(run.world, World) else {}


def categorical_latents(run: Run) -> list[str]:
    """Return the latents whose number is the name of a category."""
    return [run.world.names[k] for k in run.world.categorical] if isinstance(run.world, Factors) else []
