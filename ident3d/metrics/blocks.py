"""Identified up to a map of a whole block: how well each block of latents can be read from the codes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError, check_known
from ident3d.metrics.inputs import Floats, pair, rows_to_use, varies
from ident3d.metrics.kernel import KernelRidgeR2, kernel_ridge_r2
from ident3d.metrics.linear import LinearR2, linear_r2
from ident3d.metrics.result import Score

Regressor = Literal["kernel", "linear"]


@dataclass(frozen=True, eq=False)
class BlockR2(Score):
    """R² of latent blocks (rows) from code blocks (columns). The headline is the first row, first column.

    `per_latent` (d, code blocks) has the R² of every latent that is in a block, NaN for the others and constant ones.
    """

    blocks: tuple[str, ...]
    code_blocks: tuple[str, ...]
    matrix: Floats
    per_latent: Floats


def block_identifiability(
    z: ArrayLike,
    h: ArrayLike,
    *,
    blocks: Mapping[str, Sequence[int]],
    code_blocks: Mapping[str, Sequence[int]] | None = None,
    regressor: Regressor = "kernel",
    test: tuple[ArrayLike, ArrayLike] | None = None,
    seed: int = 0,
) -> BlockR2:
    """Return the mean held-out R² of the latents of each block, predicted from the codes of each code block.

    R²_Bc = (1/|B|) Σ_{i in B} R²(z_i from h_c), by kernel ridge as `kernel_ridge_r2` (or held-out `linear_r2`). With
    blocks {"content": [...], "style": [...]} the content is block-identified when its R² is 1 and that of the style is
    near 0: codes that determine the content through an invertible map and hold nothing else. Style that depends on
    content keeps the R² that content alone gives. Blocks are lists of columns; the headline is the first block from
    the first code block, by default from all codes. Rows are shuffled by `seed` before half of them are held out.

    Reference: von Kügelgen et al., NeurIPS 2021.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        blocks: Name of a block → its columns of `z`.
        code_blocks: Name of a block → its columns of `h`; by default one block of all codes.
        regressor: "kernel" for kernel ridge, "linear" for least squares.
        test: Latents (M, d) and codes (M, k) to score on, instead of a half of the rows.
        seed: What shuffles the rows before half of them are held out.

    Returns:
        A `BlockR2`: the R² of the first block from the first code block, and the matrix (blocks, code blocks).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> found = metrics.block_identifiability(z, np.exp(z[:, :2]), blocks={"content": [0, 1], "style": [2]})
        >>> found.blocks, found.matrix[:, 0].round(1).clip(0).tolist()
        (('content', 'style'), [1.0, 0.0])
    """
    held_out = rows_to_use(z, h, test, split=test is None, seed=seed)
    latents, codes = pair(z, h)
    check_known("regressor", regressor, get_args(Regressor))
    rows = block_columns(blocks, latents.shape[1])
    parts = block_columns({"codes": range(codes.shape[1])} if code_blocks is None else code_blocks, codes.shape[1])
    used = np.unique(np.concatenate([list(columns) for columns in rows.values()])).astype(int)
    # A constant latent has no R² and stays NaN; it must not make the whole block NaN.
    used = used[varies(latents)[used]]
    if used.size == 0:
        raise UserError("Every latent of the blocks is constant, so there is nothing to identify.")
    fit: Callable[..., KernelRidgeR2 | LinearR2] = kernel_ridge_r2 if regressor == "kernel" else linear_r2
    per_latent = np.full((latents.shape[1], len(parts)), np.nan)
    for c, columns in enumerate(parts.values()):
        unseen = held_out.z[:, used], held_out.h[:, columns]
        found = fit(held_out.z_fit[:, used], held_out.h_fit[:, columns], test=unseen, seed=seed)
        per_latent[used, c] = found.per_latent
    matrix = np.array([_mean(per_latent[columns]) for columns in rows.values()])
    return BlockR2(float(matrix[0, 0]), tuple(rows), tuple(parts), matrix, per_latent)


def block_columns(blocks: Mapping[str, Sequence[int]], width: int) -> dict[str, list[int]]:
    """Return the columns of each block, checked to be different ones of `width`."""
    if not blocks:
        raise UserError("Block identifiability needs at least one block of latents and one of codes.")
    chosen = {name: [int(column) for column in columns] for name, columns in blocks.items()}
    for name, columns in chosen.items():
        if not columns or min(columns) < 0 or max(columns) >= width or len(set(columns)) != len(columns):
            raise UserError(f"Block {name!r} must list different columns between 0 and {width - 1}; it is {columns}.")
    return chosen


def _mean(per_latent: Floats) -> Floats:
    """Return the mean over latents, NaN if none of them varies."""
    count = (~np.isnan(per_latent)).sum(axis=0)
    total = np.nansum(per_latent, axis=0)
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))
