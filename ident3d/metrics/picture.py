"""The heat-map of a correlation matrix with the assignment marked."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ident3d.errors import UserError
from ident3d.metrics.mcc import Mcc

FORMATS = (".png", ".pdf", ".svg")
MOST_NUMBERS = 400  # cells up to which the values are written out


def correlation_picture(
    result: Mcc,
    path: str | Path,
    *,
    latent_names: Sequence[str] | None = None,
    code_names: Sequence[str] | None = None,
) -> Path:
    """Draw latents (rows) against codes (columns), coloured by signed correlation, matched pairs framed."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise UserError(f"A picture is written as {', '.join(FORMATS)}; the name given is {target.name!r}.")
    if not target.parent.is_dir():
        raise UserError(f"There is no folder {str(target.parent)!r} to write the picture to.")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    d, k = result.correlation.shape
    rows = list(latent_names) if latent_names is not None else [f"z{i}" for i in range(d)]
    columns = list(code_names) if code_names is not None else [f"h{j}" for j in range(k)]
    cell = 0.5 if d * k <= MOST_NUMBERS else 0.2
    margin = 0.09 * max(map(len, rows))
    figure = Figure(figsize=(max(3.4, cell * k + margin + 1.6), max(2.4, cell * d + 1.4)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(result.correlation, cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set_xticks(range(k), columns, rotation=90 if k > 12 or max(map(len, columns)) > 4 else 0, fontsize=8)
    axes.set_yticks(range(d), rows, fontsize=8)
    axes.set_xlabel("code")
    axes.set_ylabel("latent")
    axes.set_title(f"Correlation, MCC {result.score:.3f}", fontsize=10)
    if d * k <= MOST_NUMBERS:
        for (i, j), value in np.ndenumerate(result.correlation):
            shade = "white" if abs(value) > 0.6 else "black"
            axes.text(j, i, f"{value:.2f}".replace("-", "−"), ha="center", va="center", fontsize=7, color=shade)
    for i, j in enumerate(result.assignment):
        if j >= 0:
            axes.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, edgecolor="black", linewidth=1.8))
    figure.colorbar(image, ax=axes, shrink=0.8)
    try:
        figure.savefig(target, dpi=150)
    except OSError as error:
        raise UserError(f"The picture cannot be written to {str(target)!r}: {error.strerror}.") from error
    return target
