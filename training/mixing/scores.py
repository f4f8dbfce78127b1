"""How well a run on mixed latents has identified them: R², MCC, its halves, Λ̂ beside the best Λ̂, the baselines."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ident3d.latents.distributions.concentration import mass_to_move
from ident3d.loaders.format.files import write_json
from ident3d.metrics import class_accuracy, knn_accuracy, linear_r2, mcc, overlap
from ident3d.training.loop.run_folder import EVALUATION_FILE
from ident3d.training.loop.steps import Stream, seed_of
from ident3d.training.mixing.by_lambda import as_lambda, beside_lambda, blocks, r2_of_halves
from ident3d.training.mixing.decoded import SAMPLES_FILE, DecodedImages, real_images, rows_of, save_samples
from ident3d.training.mixing.ground_truth import (
    BATCHES,
    Minimum,
    NoMinimum,
    global_minimum,
    loss_by_lambda,
    stretched_precision,
)
from ident3d.training.mixing.settings import MixingSettings, marginal_of
from ident3d.training.mixing.train import MixingRun

COUNT = 16_384
CHUNK = 4096
# Pairs whose overlap is counted, and the largest batch that they stand in.
OVERLAP_BATCH = 4096
Figures = dict[str, float]


def evaluate_mixing(work: MixingRun) -> dict[str, Any]:
    """Return a trained run's figures and facts on fresh latents, and write them into its folder if it has one.

    Figures are R² and MCC of the codes and of the observations themselves (the identity baseline), R² of the latents
    that vary less (content) and more (style) if Λ is not the same for all, and the deviation of Λ̂ from the Λ̂ that
    minimises the loss at f = g⁻¹. R² is fitted on one half of the samples and scored on the other.
    """
    s, device = work.settings, work.device
    generator = torch.Generator(device).manual_seed(seed_of(s.seed, 0, Stream.SCORES))
    latents = replace(work.sampler, conditionals=()).draw(COUNT, generator)[0]
    # In parts, because an encoder of the papers' width holds much for so many samples at once.
    with torch.no_grad():
        x = torch.cat([work.mixing(part) for part in torch.split(latents, CHUNK)]).cpu().numpy()
        codes = [work.encoded(work.observed(part)) for part in torch.split(latents, CHUNK)]
    z, h = latents.cpu().numpy(), torch.cat(codes).cpu().numpy()
    fit = linear_r2(z, h, split=True)
    figures: Figures = {"R²": float(fit), "MCC": float(mcc(z, h))}
    figures |= r2_of_halves(s.lambdas, fit.per_latent)
    figures |= {"identity R²": float(linear_r2(z, x, split=True)), "identity MCC": float(mcc(z, x))}
    facts: dict[str, Any] = {"per_latent": [round(float(value), 5) for value in fit.per_latent]}
    if isinstance(work.mixing, DecodedImages):
        figures |= scores_on_real(work, work.mixing)
    if s.marginal == "vmf" or (s.latent_space == "box" and s.marginal != "uniform"):
        figures["mass to move"] = mass_to_move(marginal_of(s))
    if s.lambdas:
        figures |= overlap_of_pairs(work)
    if s.marginal == "vmf":
        figures |= mismatch_figures(work, latents)
    # There is no f = g⁻¹ into a sphere for latents that do not lie on one.
    if not s.supervised and (s.space != "sphere" or s.latent_space == "sphere"):
        # The scores do not depend on the minimum.
        with suppress(NoMinimum):
            least = global_minimum(s)
            facts["minimum"] = vars(least)
            facts["stretched"] = stretched_precision(s)
            figures |= deviation_of_lambda(work, least)
            if s.hard and s.loss == "aninfonce" and s.space == "sphere":
                facts["loss_by_lambda"] = loss_by_lambda(s)
    facts["loss"], facts["loss_error"] = held_out_loss(work)
    if diagonals := work.loss.diagonals():
        facts["precision"] = [diagonal.detach().cpu().tolist() for diagonal in diagonals]
    found = {"figures": figures, "facts": facts}
    if work.path and isinstance(work.mixing, DecodedImages):
        save_samples(work.mixing, s.dim, work.path / SAMPLES_FILE)
    if work.path:
        write_json(work.path / EVALUATION_FILE, found | {"count": COUNT})
    return found


def overlap_of_pairs(work: MixingRun) -> Figures:
    """Return the share of anchors whose nearest batch member is not their positive, of the latents themselves."""
    s = work.settings
    batch = min(s.batch, OVERLAP_BATCH)
    generator = torch.Generator(work.device).manual_seed(seed_of(s.seed, 1, Stream.SCORES))
    z, z_tilde = work.sampler.draw(batch * max(1, OVERLAP_BATCH // batch), generator)[:2]
    return {"overlap": float(overlap(z.cpu().numpy(), z_tilde.cpu().numpy(), batch=batch))}


def mismatch_figures(work: MixingRun, latents: Tensor) -> Figures:
    """Return R² around the pole opposite to that of the marginal vmf, and how well latents of both are told apart."""
    other = -latents
    with torch.no_grad():
        codes = torch.cat([work.encoded(work.observed(part)) for part in torch.split(other, CHUNK)]).cpu().numpy()
    # Each latent is mirrored once, so that no row is the mirror image of another that was fitted on.
    half = len(latents) // 2
    both = torch.cat([latents[:half], other[half : 2 * half]]).cpu().numpy()
    domain = np.repeat([0, 1], half)
    return {
        "R² other pole": float(linear_r2(other.cpu().numpy(), codes, split=True)),
        "domain accuracy": float(class_accuracy(domain, both)),
    }


def scores_on_real(work: MixingRun, generator: DecodedImages) -> Figures:
    """Return the kNN accuracy of the codes of real images, those that the decoder's autoencoder was trained on.

    The neighbours of test images are training images. Without both folders, or their classes, there is no such figure.
    """
    found = real_images(generator.source)
    if found is None:
        return {}
    both = []
    with torch.no_grad():
        for images in found:
            parts = [rows_of(images, first, CHUNK).to(work.device) for first in range(0, len(images), CHUNK)]
            codes = torch.cat([work.encoded(work.whitening(part)) for part in parts])
            both.append((images.all_latents()[1], codes.cpu().numpy()))
    (classes, codes_), test = both
    return {"kNN": float(knn_accuracy(classes, codes_, test=test))}  # type: ignore[arg-type]


def held_out_loss(work: MixingRun) -> tuple[float, float]:
    """Return the mean loss of the trained run on fresh batches, to compare with that at f = g⁻¹, and its error."""
    s, device = work.settings, work.device
    values = []
    with torch.no_grad():
        # On a CPU the very batches that the minimum was scored on: what is left of the difference is the encoder's.
        for step in range(BATCHES):
            generator = torch.Generator(device).manual_seed(seed_of(s.seed, step, Stream.MINIMUM_SCORED))
            latents = work.sampler.draw(s.batch, generator)
            codes = [work.encoded(work.observed(part)) for part in latents]
            values.append(float(work.loss(codes, latents)))
    return mean(values), float(np.std(values, ddof=1)) / BATCHES**0.5


def deviation_of_lambda(work: MixingRun, least: Minimum) -> Figures:
    """Return how far Λ̂ is from the best one: the largest relative deviation of the mean over a block of equal Λ."""
    deviations = [
        abs(np.mean(ours) / np.mean(best) - 1)
        for truth, diagonal, wanted in zip(work.settings.lambdas, work.loss.diagonals(), least.precision, strict=False)
        for ours, best in zip(blocks(truth, diagonal.detach().cpu().tolist()), blocks(truth, wanted), strict=True)
    ]
    return {"Λ̂ off": float(max(deviations))} if deviations else {}


def shown_figures(found: Mapping[str, Any], s: MixingSettings) -> str:
    """Return a run's figures and losses, one on a line; for every Λ the best Λ̂, that at a stretched g⁻¹, and ours."""
    facts, lines = found["facts"], [f"{name:<16}{value:.4f}" for name, value in found["figures"].items()]
    lines.append(f"{'loss':<16}{facts['loss']:.4f}")
    if "minimum" in facts:
        lines.append(f"{'loss at f = g⁻¹':<16}{facts['minimum']['loss']:.4f}")
    for truth, best, stretched, ours in beside_lambda(s.lambdas, facts, as_lambda(s.loss, s.tau)):
        lines.append(f"Λ {truth}: best Λ̂ {best} (stretched {stretched}), here {ours}")
    return "\n".join(lines)
