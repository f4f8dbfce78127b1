"""What a run shows, and what to try next: sentences from its log, its scores and its pairs."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, Final

from ident3d.training.images.best_box import BestBox
from ident3d.training.images.plateau import advice, is_scored, plateau
from ident3d.training.images.settings import TrainSettings
from ident3d.training.loop.log_file import is_number
from ident3d.training.losses.choice import VARIATIONAL

# Differences that a reader would act on. A latent below AT_ZERO is not found; KNOWABLE is what makes that remarkable.
RISE, APART, AT_ZERO, KNOWABLE, NEAR, WIDER = 0.02, 0.1, 0.1, 0.5, 0.03, 1.5
# With fewer rows for each code that a linear map is fitted on, R² says little.
ROWS_A_CODE: Final = 4


def what_next(
    s: TrainSettings,
    log: Sequence[Mapping[str, Any]],
    scores: Mapping[str, Any] | None,
    attainable: Mapping[str, float | None],
    ratios: Mapping[str, float],
    best: BestBox | None,
    categorical: Sequence[str] = (),
    private: Sequence[str] = (),
) -> list[str]:
    """Return sentences about a run, the most important first.

    `scores` is what evaluation.json holds, `attainable` the attainable R² by latent where known, `ratios` how many
    times as wide as asked for the pairs turned out, `best` the best box of the pairs, `categorical` the latents
    whose number is a name, and `private` those that the views of one z do not share.
    """
    found = [*left_to_do(s, log), *of_the_curve(s, log, best)]
    if scores and (few := few_rows(s, scores)):
        found += few
    elif scores:
        left = latents_left(s, scores, attainable, categorical, private)
        found += [*left, *mixed_codes(s, scores), *on_new_images(s, log, scores)]
    found += wide_pairs(ratios)
    # Without latents nothing is scored, and nothing could be supervised.
    ceiling = " A run with --supervised shows the ceiling." if any(is_number(line.get("r2")) for line in log) else ""
    return found or [f"Nothing is amiss that this page could tell.{ceiling}"]


def left_to_do(s: TrainSettings, log: Sequence[Mapping[str, Any]]) -> list[str]:
    done = log[-1]["step"] if log else 0
    left = "The run is not finished: it stands at step {:,} of {:,}. The same command with --resume goes on."
    return [left.format(done, s.steps)] if done < s.steps else []


def of_the_curve(s: TrainSettings, log: Sequence[Mapping[str, Any]], best: BestBox | None) -> list[str]:
    """Return whether R² of the batches rests on a plateau, or still rose at the end."""
    if best and (reached := plateau(log, best, s)):
        return [advice(reached, best, s)]
    quarters = last_quarters([line["r2"] for line in log if is_scored(line)])
    if quarters is None or s.batch < ROWS_A_CODE * (s.dim or 1):
        return []
    before, last = quarters
    if last - before < RISE:
        return []
    return [
        f"R² of the batches still rose at the end, from {before:.2f} to {last:.2f} over the last quarter: "
        f"more --steps than {s.steps:,} should help."
    ]


def last_quarters(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the means of the third and of the last quarter of a log's values; None if they are too few to compare."""
    quarter = len(values) // 4
    return (mean(values[-2 * quarter : -quarter]), mean(values[-quarter:])) if quarter > 1 else None


def few_rows(s: TrainSettings, scores: Mapping[str, Any]) -> list[str]:
    """Return that there are too few images to score by, if so: R² is fitted on one half of them."""
    rows, codes = scores["count"] // 2, s.dim or 1
    if rows >= ROWS_A_CODE * codes:
        return []
    return [
        f"R² held out is fitted on {rows} rows for {codes} coefficients: too few to tell what the codes hold. Score it "
        f"on {2 * ROWS_A_CODE * codes} images or more."
    ]


def latents_left(
    s: TrainSettings,
    scores: Mapping[str, Any],
    attainable: Mapping[str, float | None],
    categorical: Sequence[str] = (),
    private: Sequence[str] = (),
) -> list[str]:
    """Return which latents were not found though they could be, which are far from what they could be, or neither."""
    every = dict(zip(scores["latents"], r2_per_latent(scores), strict=False))
    # What views do not share, their pairs say nothing of.
    r2 = {name: value for name, value in every.items() if name not in private}
    most = {name: value for name in r2 if (value := attainable.get(name)) is not None}
    at_zero = [name for name in most if r2[name] < AT_ZERO and most[name] > KNOWABLE]
    short = [name for name in most if name not in at_zero and r2[name] < most[name] - APART]
    # Nothing says whether a reader of these images could find them, and R² of a category's number is no finding.
    unknown = [name for name in r2 if name not in most and name not in categorical and r2[name] < AT_ZERO]
    found = []
    if left := [name for name in every if name in private]:
        found.append(f"Private in the views, and not to be found by pairs of them: {', '.join(left)}.")
    if unknown:
        found.append(
            f"R² is about 0 for {', '.join(unknown)}. What is attainable from these images is not known; a "
            "--supervised run tells whether the encoder sees them at all."
        )
    if at_zero:
        held = [name for name in at_zero if s.only and name not in s.only]
        why = " --only keeps some of them equal in pairs, which then tell nothing of them apart." if held else ""
        shown = ", ".join(f"{name} ({most[name]:.2f})" for name in at_zero)
        found.append(
            f"Not found, though a reader of the images could (attainable R² in brackets): {shown}.{why} A "
            "--supervised run tells whether the encoder sees them at all; then more --steps, a wider box or --batch."
        )
    if short:
        shown = ", ".join(f"{name} ({r2[name]:.2f} of {most[name]:.2f})" for name in short)
        found.append(f"Not yet at their attainable R²: {shown}. More --steps or more images.")
    if r2 and all(name in most and value > most[name] - NEAR for name, value in r2.items()):
        found.append(f"Every {'shared ' if private else ''}latent is within {NEAR} of its attainable R².")
    return found


def mixed_codes(s: TrainSettings, scores: Mapping[str, Any]) -> list[str]:
    """Return why MCC is far below what R² allows, if it is: the latents are there, but not one to a code."""
    values = r2_per_latent(scores)
    mcc = score_of(scores, "mcc_pearson").get("score")
    if not values or mcc is None or (allowed := best_mcc(values)) - mcc < APART:
        return []
    start = f"MCC is {mcc:.2f} where R² of the latents allows {allowed:.2f}: they are in the codes, but mixed. "
    if s.supervised:
        return [start + "In supervised training that is unusual; look at the correlations below."]
    if s.rule == "view":
        return [start + "Views identify what they share as a block, up to any smooth map: read block R²."]
    if s.loss in VARIATIONAL:
        return [
            start + "SlowVAE's theory is for Laplace pairs (--cond laplace), β-VAE and Ada-GVAE have none; compare a "
            "contrastive loss (--loss delta)."
        ]
    if s.space == "unbounded":
        return [start + "Without bounds, with a normal conditional, theory promises no more; try --space box."]
    if s.space == "sphere":
        return [start + "On the sphere theory promises a rotation, no more; latents of a box want --space box."]
    return [
        start + "In a box that the codes do not fill they can be rotated: a narrower start (--bound), more --steps, or "
        "--cond laplace with --model-p 1."
    ]


def best_mcc(per_latent: Sequence[float]) -> float:
    """Return the MCC of codes that each hold one latent with this R²: the correlation is the root of it."""
    return mean(math.sqrt(max(0.0, value)) for value in per_latent)


def on_new_images(s: TrainSettings, log: Sequence[Mapping[str, Any]], scores: Mapping[str, Any]) -> list[str]:
    """Return whether the codes of the training images are much better than those of new ones."""
    held_out, logged = score_of(scores, "linear_r2_held_out").get("score"), [line.get("r2") for line in log[-5:]]
    batches = [value for value in logged if is_number(value)]
    if held_out is None or not batches or s.cond == "augment" or s.batch < ROWS_A_CODE * (s.dim or 1):
        return []
    # Adjusted for the fit on the batch's own rows.
    fitted = 1 - (1 - mean(batches)) * (s.batch - 1) / max(1, s.batch - (s.dim or 1) - 1)
    if fitted < KNOWABLE or fitted - held_out < APART:
        return []
    return [
        f"On the training images R² is {fitted:.2f}, on new ones {held_out:.2f}: the encoder has partly learnt these "
        "images by heart. More images help most."
    ]


def wide_pairs(ratios: Mapping[str, float]) -> list[str]:
    """Return by how much pairs are wider than asked for, if it is much."""
    if not ratios or max(ratios.values()) < WIDER:
        return []
    return [
        f"Pairs are {min(ratios.values()):.1f} to {max(ratios.values()):.1f} times as wide as asked for, because the "
        "nearest image is far away: more images, fewer latents that vary, or a wider --sigma."
    ]


def score_of(scores: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a score's record; an empty one if the run was not scored by it."""
    found = scores["scores"].get(name)
    return found if isinstance(found, dict) else {}


def r2_per_latent(scores: Mapping[str, Any]) -> list[float]:
    """Return the held-out R² of each latent; an empty list if the file does not hold a number for each."""
    values = score_of(scores, "linear_r2_held_out").get("per_latent") or []
    return list(values) if all(map(is_number, values)) else []
