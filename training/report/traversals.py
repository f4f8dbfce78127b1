"""What an autoencoder's report shows besides: images with their reconstructions, and traversals of single codes.

And what that of a run shows that was scored by another paper's protocol: the scores, and its codes of all images.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.format.description import read_description
from ident3d.metrics import mcc
from ident3d.training.images.by_protocol import ProtocolEvaluation
from ident3d.training.images.encode import codes_of
from ident3d.training.images.parts import objective_of
from ident3d.training.images.run import Run, trained_encoder
from ident3d.training.loop import checkpoint
from ident3d.training.losses.autoencoder import Autoencoder
from ident3d.training.losses.choice import VARIATIONAL
from ident3d.training.report.charts import heat_map, scatter
from ident3d.training.report.gallery import row, row_of
from ident3d.training.report.scored import Scored
from ident3d.training.report.tables import html_table, number

SHOWN_IMAGES: Final = 8
# Without scores, so many images are encoded.
ENCODED: Final = 1024
# Of many codes, those of the latents and then those that vary most.
SHOWN_CODES: Final = 16
# Of a large set, so many images, evenly spread, are drawn and correlated.
SHOWN: Final = 4096
DOTS: Final = 600
# From this quantile of a code to the one as far from the other end, in so many steps.
LOW: Final = 0.02
STEPS: Final = 7

Codes = NDArray[np.float64]


def decoder_sections(run: Run, scored: Scored | None) -> list[str]:
    """Return reconstructions and latent traversals of an autoencoder; nothing for other runs, or without scores.

    Images without latents have no scores: there they are of the first training images.
    """
    if run.settings.loss not in VARIATIONAL:
        return []
    which = "Images"
    if scored is None and not run.latents:
        scored, which = of_training_images(run), "Training images"
    if scored is None or scored.codes is None or scored.images is None:
        return []
    codes, images = scored.codes, scored.images
    try:
        decoder = trained_decoder(run)
    except UserError as error:
        return [f'<h2>Reconstructions</h2><p class="note">{escape(str(error))}</p>']
    # Evenly spread over the set, so that the same images are shown whatever the codes are.
    some = np.linspace(0, len(codes) - 1, min(SHOWN_IMAGES, len(codes))).astype(int)
    assignment = list[int]()
    if run.latents:
        z = images.latents(np.arange(len(codes))).astype(np.float64)
        assignment = [int(k) for k in mcc(z, codes).assignment]
    # The walk begins at the image whose codes are nearest to the middle.
    spread = codes.std(0) + 1e-12
    start = int((((codes - np.median(codes, 0)) / spread) ** 2).sum(1).argmin())
    rows = []
    for k in in_order(codes, assignment):
        along = walk(codes, start, k)
        matched = f" ↔ {images.names[assignment.index(k)]}" if k in assignment else ""
        title = f"h{k}{matched}, {along[0, k]:.2f} to {along[-1, k]:.2f}"
        rows.append(row_of(decode(decoder, along), title, [f"h{k} = {value:.2f}" for value in along[:, k]]))
    return [
        f"<h2>Reconstructions</h2><p class='soft'>{which}, and below each what the decoder makes of its code, the "
        "posterior's mean.</p>",
        row(images, some, "image"),
        row_of(decode(decoder, codes[some]), "reconstruction", [f"of image {number}" for number in some]),
        "<h2>Latent traversals</h2><p class='soft'>The decoder's images of one code after another from low to high "
        f"(2nd to 98th percentile), the other codes those of image {start}: what changes in a row is what its code "
        "stands for. Rows in which nothing changes are codes that the autoencoder does not use.</p>",
        *rows,
    ]


def of_training_images(run: Run) -> Scored | None:
    """Return codes of the first images that a run was trained on, without scores; None if they are no longer there."""
    try:
        # A folder that was rendered or imported anew holds other images.
        if read_description(Path(run.data["path"])).shards_sha256 != run.data["shards_sha256"]:
            return None
        images = run.images or ImageDataset(run.data["path"])
        model, _ = trained_encoder(run)
        codes = codes_of(run, model, images, np.arange(min(ENCODED, len(images))), "cpu", False, False)
    except UserError:
        return None
    return Scored({}, codes.astype(np.float64), images)


def in_order(codes: Codes, assignment: Sequence[int]) -> list[int]:
    """Return the codes to show: those that latents are matched with, in the latents' order, and then by variance."""
    matched = [k for k in assignment if k >= 0]
    others = [int(k) for k in np.argsort(-codes.var(0), kind="stable") if k not in matched]
    return (matched + others)[:SHOWN_CODES]


def protocol_sections(run: Run, found: ProtocolEvaluation) -> list[str]:
    """Return the scores by the protocol, correlations and clouds of latents and codes, and an autoencoder's images."""
    scores, samples = found.found.scores, found.found.settings["samples"]
    lines = [[name, number(float(score), 4), samples[name]] for name, score in scores.items()]
    left = "".join(
        f"<p class='note'>Left out: {escape(name)}, {escape(why)}.</p>" for name, why in found.found.left_out.items()
    )
    how = f"after step {found.step:,}, by the protocol {found.found.protocol}"
    where = f"{len(found.codes):,} images of {found.data}, {how}"
    some = np.linspace(0, len(found.codes) - 1, min(SHOWN, len(found.codes))).astype(np.int64)
    z, codes = found.images.latents(some).astype(np.float64), found.codes[some].astype(np.float64)
    matching, names = mcc(z, codes), list(found.images.names)
    assignment = [int(k) for k in matching.assignment]
    dots = np.linspace(0, len(some) - 1, min(DOTS, len(some))).astype(np.int64)
    clouds = [
        scatter(z[dots, i], codes[dots, k], f"{names[i]} → h{k}, r\u00a0=\u00a0{matching.correlation[i, k]:.2f}")
        for i, k in enumerate(assignment)
        if k >= 0
    ]
    return [
        f"<h2>Scores</h2><p class='soft'>{escape(where)}</p>{html_table(['score', 'here', 'samples'], lines)}{left}",
        *decoder_sections(run, Scored({}, found.codes.astype(np.float64), found.images)),
        "<h2>Correlation of latents and codes</h2><p class='soft'>Framed: each latent's matched code.</p>",
        heat_map(matching.correlation, names, [f"h{k}" for k in range(codes.shape[1])], assignment),
        f'<h2>Each latent and its code</h2><div class="grid small">{"".join(clouds)}</div>',
    ]


def trained_decoder(run: Run) -> nn.Module:
    """Return the decoder of an autoencoder's run, with its trained weights: codes (N, d) → logits (N, C, 64, 64)."""
    objective = objective_of(run.settings, run.pixels.channels)
    checkpoint.restore(objective, checkpoint.load(run.path).part(checkpoint.OBJECTIVE), f"loss {run.settings.loss}")
    assert isinstance(objective, Autoencoder)
    return objective.decoder.eval()


@torch.no_grad()
def decode(decoder: nn.Module, codes: Codes) -> NDArray[np.uint8]:
    """Return the images (N, 64, 64, C) of codes (N, d)."""
    logits = decoder(torch.from_numpy(codes.astype(np.float32)))
    images: NDArray[np.uint8] = (255 * logits.sigmoid()).round().byte().permute(0, 2, 3, 1).numpy()
    return images


def walk(codes: Codes, start: int, k: int) -> Codes:
    """Return the codes of image `start` (STEPS, d), with code k from its low quantile among all images to its high."""
    along: Codes = np.tile(codes[start], (STEPS, 1))
    low, high = (float(np.quantile(codes[:, k], share)) for share in (LOW, 1 - LOW))
    along[:, k] = np.linspace(low, high, STEPS)
    return along
