"""The heat-map of a correlation matrix with the assignment marked."""

from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import numpy as np

from ident3d.errors import UserError, os_errors
from ident3d.metrics.correlation import Mcc

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")
MOST_NUMBERS = 400  # cells up to which the values are written out
# More or longer names than these would run into one another, so they stand upright.
MOST_LEVEL_NAMES, LONGEST_LEVEL_NAME = 12, 4


def correlation_picture(
    result: Mcc,
    path: str | Path,
    *,
    latent_names: Sequence[str] | None = None,
    code_names: Sequence[str] | None = None,
) -> Path:
    """Write a heat-map of latents (rows) and codes (columns): coloured by correlation, matched pairs framed.

    Args:
        result: What `mcc` returns.
        path: A name that ends in .png, .pdf or .svg, in a folder that exists.
        latent_names: A name for each latent, d of them.
        code_names: A name for each code, k of them.

    Returns:
        The path.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from ident3d import metrics
        >>> found = metrics.mcc([[0, 1], [1, 0], [2, 2]], [[1, 0], [0, 1], [2, 2]])
        >>> metrics.correlation_picture(found, Path(tempfile.mkdtemp(), "mcc.svg"), latent_names=["x", "y"]).name
        'mcc.svg'
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise UserError(f"A picture is written as {', '.join(FORMATS)}; the name given is {target.name!r}.")
    if not target.parent.is_dir():
        raise UserError(f"There is no folder {str(target.parent)!r} to write the picture to.")
    figure = correlation_figure(result, latent_names=latent_names, code_names=code_names)
    # Under another name first: a full disk, or a kill, leaves no half picture, and an older one whole.
    partial = target.with_name(f".partial-{token_hex(8)}")
    with os_errors(f"The picture cannot be written to {str(target)!r}"):
        try:
            figure.savefig(partial, format=target.suffix.lower()[1:], dpi=150)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return target


def correlation_figure(
    result: Mcc, *, latent_names: Sequence[str] | None = None, code_names: Sequence[str] | None = None
) -> "Figure":
    """Return latents (rows) against codes (columns), coloured by signed correlation, matched pairs framed."""
    # Figure without pyplot: no global state, no display, and matplotlib loads only here
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    d, k = result.correlation.shape
    rows = [f"z{i}" for i in range(d)] if latent_names is None else list(latent_names)
    columns = [f"h{j}" for j in range(k)] if code_names is None else list(code_names)
    if len(rows) != d or len(columns) != k:
        raise UserError(
            f"The picture needs {d} latent names and {k} code names; it has {len(rows)} and {len(columns)}."
        )
    written = d * k <= MOST_NUMBERS
    cell = 0.5 if written else 0.2
    width = cell * k + 0.09 * max(map(len, rows)) + 1.6
    figure = Figure(figsize=(max(3.4, width), max(2.4, cell * d + 1.4)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(result.correlation, cmap="RdBu_r", vmin=-1, vmax=1)
    upright = k > MOST_LEVEL_NAMES or max(map(len, columns)) > LONGEST_LEVEL_NAME
    axes.set_xticks(range(k), columns, rotation=90 if upright else 0, fontsize=8)
    axes.set_yticks(range(d), rows, fontsize=8)
    axes.set_xlabel("code")
    axes.set_ylabel("latent")
    axes.set_title(f"Correlation, MCC {result.score:.3f}", fontsize=10)
    if written:
        for (i, j), value in np.ndenumerate(result.correlation):
            # The ends of the colour map are dark and its middle is pale.
            shade = "white" if abs(value) > 0.6 else "black"
            axes.text(j, i, f"{value:.2f}".replace("-", "−"), ha="center", va="center", fontsize=7, color=shade)
    for i, j in enumerate(result.assignment):
        if j >= 0:
            axes.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, edgecolor="black", linewidth=1.8))
    figure.colorbar(image, ax=axes, shrink=0.8)
    return figure
