"""Scores as other papers took them: the samplers, sample counts and traps of their public code, under a name.

The defaults of `score` depend neither on units nor on sample counts where they can. A protocol does: with it, a number
can be held against a published one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from tabulate import tabulate

from ident3d.errors import UserError, check_known
from ident3d.metrics.factors import levels_of
from ident3d.metrics.inputs import pair
from ident3d.metrics.protocol_samples import SLOWVAE, Sample, scaled
from ident3d.metrics.result import Score, plain

PROTOCOLS: Final = ("slowvae",)
# A factor with more values, or whose values do not occur twice on average, is taken for a continuous one.
MOST_LEVELS: Final = 128


@dataclass(frozen=True, eq=False)
class ProtocolScores:
    """Scores by name as a protocol takes them, why others were left out, and how many samples each was given."""

    protocol: str
    scores: dict[str, Score]
    left_out: dict[str, str]
    settings: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, lists and strings; NaN is None."""
        scores = {name: found.as_dict() for name, found in self.scores.items()}
        return {
            "protocol": self.protocol,
            "scores": scores,
            "left_out": self.left_out,
            "settings": plain(self.settings),
        }

    def table(self) -> str:
        """A line per score, in percent as the papers print them, and what was left out."""
        samples = self.settings["samples"]
        rows = [(name, f"{100 * float(found):.1f}", samples[name]) for name, found in self.scores.items()]
        shown = tabulate(rows, ("score", "percent", "samples"), tablefmt="github", disable_numparse=True)
        left = "".join(f"\nleft out: {name}, {why}" for name, why in self.left_out.items())
        return f"protocol {self.protocol}, {self.settings['images']:,} images\n\n{shown}\n{left}".rstrip()


def score_by_protocol(
    protocol: str,
    z: ArrayLike,
    h: ArrayLike,
    metrics: Sequence[str] | None = None,
    *,
    rows: ArrayLike | None = None,
    fraction: float = 1.0,
    seed: int = 0,
) -> ProtocolScores:
    """Score the codes of all images of a data set as another paper's code does.

    `slowvae` is the protocol of the code behind SlowVAE and the workshop version of "Contrastive Learning Inverts the
    Data Generating Process". Samples are drawn from the images, 16 at a time without one of them twice.

    beta_vae    10,000 points to fit, 5,000 to score, of 64 pairs; logistic regression ended after 100 iterations
    factor_vae  10,000 and 5,000 votes of 64 images; codes whose standard deviation is below 0.05 are dropped before the
                vote; 0 if none is left
    mig         100,000 images, codes in 20 bins of equal width
    dci         disentanglement by gradient boosting, 10,000 images to fit, 5,000 to score
    modularity  100,000 images; a code without information counts 0
    sap         linear support vector machines on single codes, 10,000 and 5,000 images
    mcc         `mcc_with_noise` on 10,000 images

    All but mcc need factors with listed values, and the first two an image of each combination of them. Scores are in
    [0, 1]; the papers print percent.

    Reference: Klindt et al., "Towards Nonlinear Disentanglement in Natural Data with Temporal Sparse Coding", ICLR
    2021.

    Args:
        protocol: "slowvae".
        z: Values of the factors of all images (n, d).
        h: Codes of all images (n, k), the means where an encoder gives a distribution.
        metrics: Names of scores; by default all that fit the images.
        rows: Numbers of the images that samples are drawn from; by default all. Of sequences, all frames but the last.
        fraction: The share of the sample counts to draw, for a quicker look.
        seed: What draws the samples and grows the trees.

    Returns:
        A `ProtocolScores`, with a `table()`.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.stack(np.unravel_index(np.arange(60), (3, 4, 5)), axis=1)
        >>> found = metrics.score_by_protocol("slowvae", z, z, ["beta_vae", "factor_vae", "mcc"], fraction=0.05)
        >>> [round(float(score), 6) for score in found.scores.values()]
        [1.0, 1.0, 1.0]
    """
    check_known("protocol", protocol, PROTOCOLS)
    values, codes = pair(z, h)
    for name in metrics or ():
        check_known("score of the protocol", name, SLOWVAE)
    if not 0 < fraction <= 1:
        raise UserError(f"fraction is a share of the sample counts, above 0 and at most 1; it is {fraction:g}.")
    numbers = np.arange(len(values)) if rows is None else np.asarray(rows, np.int64)
    if not (numbers.ndim == 1 and len(numbers) > 1 and numbers.min() >= 0 and numbers.max() < len(values)):
        raise UserError(f"rows are the numbers of at least two of the {len(values)} images.")
    levels = levels_of(values, ["discrete"] * values.shape[1])
    sizes = levels.max(axis=0) + 1
    continuous = np.flatnonzero(sizes > min(MOST_LEVELS, len(levels) // 2))
    full = prod(sizes.tolist()) == len(levels) == len(np.unique(levels, axis=0))
    scores: dict[str, Score] = {}
    left_out: dict[str, str] = {}
    for place, (name, entry) in enumerate(SLOWVAE.items()):
        if metrics is not None and name not in metrics:
            continue
        # Each score has draws of its own, so that it is the same whichever others are taken.
        sample = Sample(values, levels, codes, numbers, fraction, np.random.default_rng([seed, place]))
        try:
            if entry.listed and len(continuous):
                count = sizes[continuous[0]]
                raise UserError(f"factor {continuous[0]} is continuous: it has {count:,} values")
            if entry.grid and not full:
                raise UserError("the images are not one of each combination of the factors' values")
            scores[name] = entry.compute(sample, seed)
        except UserError as error:
            if metrics is not None:
                raise UserError(f"{name}: {error}") from error
            left_out[name] = str(error)
    samples = {name: " + ".join(f"{scaled(count, fraction):,}" for count in SLOWVAE[name].counts) for name in scores}
    settings = {
        "images": len(values),
        "rows": len(numbers),
        "codes": codes.shape[1],
        "fraction": fraction,
        "seed": seed,
    }
    return ProtocolScores(protocol, scores, left_out, settings | {"samples": samples})
