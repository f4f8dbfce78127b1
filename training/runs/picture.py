"""The picture of a comparison: a panel for each score, groups beside one another, a dot for each seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from ident3d.errors import unknown
from ident3d.loaders.format.files import write_figure

FORMATS = (".png", ".pdf", ".svg")
# So many characters of a group's settings fit in a line below the panels.
LINE = 110


def comparison_picture(values: Mapping[str, Sequence[Sequence[float]]], labels: Sequence[str], path: Path) -> Path:
    """Write the values of each score by group; a label begins with its group's letter, which stands on the axis."""
    if path.suffix.lower() not in FORMATS:
        raise unknown("picture format", path.suffix or path.name, FORMATS)
    # Figure without pyplot: no global state, no display, and matplotlib loads only here.
    from matplotlib.figure import Figure

    width = max(3.0, 0.5 * len(labels) + 1.2)
    figure = Figure(figsize=(width * len(values), 3.0 + 0.18 * len(labels)), layout="constrained")
    letters = [label.partition(",")[0] for label in labels]
    for axes, (metric, groups) in zip(figure.subplots(1, len(values), squeeze=False)[0], values.items(), strict=True):
        for k, scores in enumerate(groups):
            axes.plot([k] * len(scores), scores, "o", color=f"C{k % 10}", alpha=0.7)
            if scores:
                axes.hlines(mean(scores), k - 0.25, k + 0.25, color="0.2")
        axes.set(title=metric, xlim=(-0.6, len(labels) - 0.4))
        axes.set_xticks(range(len(labels)), letters)
        axes.grid(axis="y", alpha=0.3)
    lines = [label if len(label) <= LINE else f"{label[: LINE - 1]}…" for label in labels]
    figure.supxlabel("\n".join(lines), fontsize=7, ha="left", x=0.02)
    write_figure(path, figure)
    return path
