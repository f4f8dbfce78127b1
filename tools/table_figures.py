"""Draws the plots that a table's experiment declares, from results/NAME-mini, into docs/pictures/NAME.png.

python tools/table_figures.py marginal-mismatch overlap dimension-batch
"""

import json
import sys
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure

from ident3d.training.experiments.by_name import EXPERIMENTS

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 3.6, 2.9  # inches of one plot


def draw(name: str) -> None:
    """Draw a table's plots side by side, each point the mean over seeds."""
    results = json.loads((ROOT / f"results/{name}-mini/table.json").read_text())["results"]
    plots = EXPERIMENTS[name].plots
    figure = Figure(figsize=(WIDTH * len(plots), HEIGHT), layout="constrained")
    for axes, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
        for label, (column, places) in plot.curves.items():
            points = []
            for row, x in places.items():
                values = [each["figures"][column] for each in results if each["row"] == row]
                if values:
                    points.append((x, mean(values)))
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=label)
        axes.set_title(plot.title, fontsize=9)
        axes.set_ylim(-0.02, 1.02)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="best")
    figure.savefig(ROOT / f"docs/pictures/{name}.png", dpi=110)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        draw(each)
