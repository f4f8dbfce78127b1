"""Every score by name: how `score` calls it, what "identified up to" it measures, and whether it is a default."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError
from ident3d.metrics.augmentation import augmentation_readout
from ident3d.metrics.betavae import beta_vae_score
from ident3d.metrics.blocks import block_identifiability
from ident3d.metrics.classifiers import class_accuracy, explicitness
from ident3d.metrics.correlation import mcc
from ident3d.metrics.dci_importance import dci
from ident3d.metrics.factors import Kind, is_periodic
from ident3d.metrics.factorvae import factor_vae_score
from ident3d.metrics.information import mig, modularity
from ident3d.metrics.information_shares import infomec
from ident3d.metrics.inputs import Floats
from ident3d.metrics.irs_robustness import irs
from ident3d.metrics.kernel import kernel_ridge_r2
from ident3d.metrics.linear import affine_residual, linear_r2, orthogonal_residual
from ident3d.metrics.periodic import circular_correlation, periodic_r2
from ident3d.metrics.result import Score
from ident3d.metrics.sap_gap import sap, sap_discrete


class Data(NamedTuple):
    """What there is to score: the arrays and what the caller knows about them."""

    z: Floats
    h: Floats
    kinds: tuple[Kind, ...]
    classes: ArrayLike | None
    blocks: Mapping[str, Sequence[int]] | None
    code_blocks: Mapping[str, Sequence[int]] | None
    augmentations: Mapping[str, ArrayLike] | None
    code_period: float | None
    seed: int


@dataclass(frozen=True)
class ScoreEntry:
    """`up_to` completes the sentence "the best value means identified up to ..."; `halved` if it fits half the rows.

    `per_latent` names what the values per latent are, if they are another score than the headline.
    """

    compute: Callable[[Data], Score]
    up_to: str
    default: bool = True
    halved: bool = False
    per_latent: str = ""


def _in_turns(data: Data) -> Floats:
    """Return the periodic latents, each divided by its period."""
    # In turns, latents of different periods go into one call.
    turns = [data.z[:, i] / float(kind) for i, kind in enumerate(data.kinds) if is_periodic(kind)]
    if not turns:
        raise UserError("no latent is declared periodic, by --periodic or `kinds` in Python")
    return np.stack(turns, axis=1)


def _code_turns(data: Data) -> Floats:
    if data.code_period is None:
        raise UserError("the codes are not declared periodic, by --code-period or `code_period` in Python")
    return np.asarray(data.h / data.code_period)


def enough_rows(entry: ScoreEntry, data: Data) -> None:
    """Refuse fewer rows than columns: chance alone would score high, or a fit would be exact."""
    wide = max(data.z.shape[1], data.h.shape[1])
    fitted = len(data.z) // 2 if entry.halved else len(data.z)
    if fitted <= wide + 1:
        half = "the fitted half has " if entry.halved else "there are "
        raise UserError(f"it needs more than {wide + 1} rows for {wide} columns; {half}{fitted}")


def _given(value: Any, what: str) -> Any:
    if value is None:
        raise UserError(f"no {what} were given")
    return value


CATALOGUE: dict[str, ScoreEntry] = {
    "linear_r2": ScoreEntry(lambda a: linear_r2(a.z, a.h), "an affine map"),
    "linear_r2_held_out": ScoreEntry(
        lambda a: linear_r2(a.z, a.h, split=True, seed=a.seed), "an affine map, on other rows", halved=True
    ),
    "affine_residual": ScoreEntry(lambda a: affine_residual(a.z, a.h), "an affine map (0 is perfect)"),
    "orthogonal_residual": ScoreEntry(
        lambda a: orthogonal_residual(a.z, a.h), "rotation, reflection, one scale (0 is perfect)"
    ),
    "mcc_pearson": ScoreEntry(lambda a: mcc(a.z, a.h), "permutation, scale, sign, shift"),
    "mcc_spearman": ScoreEntry(lambda a: mcc(a.z, a.h, correlation="spearman"), "permutation, monotone map of each"),
    "mcc_kernel": ScoreEntry(
        lambda a: mcc(a.z, a.h, correlation="kernel", seed=a.seed),
        "permutation, any smooth map of each",
        halved=True,
        default=False,
    ),
    "kernel_ridge_r2": ScoreEntry(
        lambda a: kernel_ridge_r2(a.z, a.h, seed=a.seed), "any smooth map, on other rows", halved=True
    ),
    "periodic_r2": ScoreEntry(
        lambda a: periodic_r2(_in_turns(a), a.h, period=1, split=True, seed=a.seed),
        "a linear map of each circle, on other rows",
        halved=True,
    ),
    "circular_correlation": ScoreEntry(
        lambda a: circular_correlation(_in_turns(a), _code_turns(a), period=1),
        "permutation, turn and reflection of each circle",
    ),
    "block_r2": ScoreEntry(
        lambda a: block_identifiability(
            a.z, a.h, blocks=_given(a.blocks, "blocks"), code_blocks=a.code_blocks, seed=a.seed
        ),
        "a smooth map of the first block",
        halved=True,
    ),
    "class_accuracy": ScoreEntry(
        lambda a: class_accuracy(_given(a.classes, "classes"), a.h, seed=a.seed),
        "linear separation of the classes",
        halved=True,
    ),
    "augmentation_readout": ScoreEntry(
        lambda a: augmentation_readout(_given(a.augmentations, "augmentations"), a.h, seed=a.seed),
        "(0: invariant to the augmentation)",
        halved=True,
    ),
    "mig": ScoreEntry(lambda a: mig(a.z, a.h, kinds=a.kinds), "permutation, any map of each"),
    "modularity": ScoreEntry(lambda a: modularity(a.z, a.h, kinds=a.kinds), "one factor per code, any map"),
    "sap": ScoreEntry(lambda a: sap(a.z, a.h, kinds=a.kinds), "permutation, scale, sign, shift"),
    "sap_discrete": ScoreEntry(
        lambda a: sap_discrete(a.z, a.h, kinds=a.kinds, seed=a.seed),
        "permutation, linear separation by each code",
        halved=True,
        default=False,
    ),
    "explicitness": ScoreEntry(
        lambda a: explicitness(a.z, a.h, kinds=a.kinds, seed=a.seed),
        "linear separation of the levels (chance 0.5)",
        halved=True,
        default=False,
    ),
    "dci": ScoreEntry(
        lambda a: dci(a.z, a.h, kinds=a.kinds, seed=a.seed), "one factor per code, any map", halved=True, default=False
    ),
    "infomec": ScoreEntry(
        lambda a: infomec(a.z, a.h, kinds=a.kinds, seed=a.seed),
        "one factor per code, any map (InfoM of InfoMEC)",
        per_latent="infomec: InfoE",
        default=False,
    ),
    "irs": ScoreEntry(lambda a: irs(a.z, a.h, kinds=a.kinds), "one factor per code, any map", default=False),
    "beta_vae": ScoreEntry(
        lambda a: beta_vae_score(a.z, a.h, kinds=a.kinds, seed=a.seed),
        "a linear sign of the shared factor",
        default=False,
    ),
    "factor_vae": ScoreEntry(
        lambda a: factor_vae_score(a.z, a.h, kinds=a.kinds, seed=a.seed), "one factor per code, any map", default=False
    ),
}
