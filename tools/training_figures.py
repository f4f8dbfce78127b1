"""Draws the figures of docs/explanation/boxes.md from results/box-start: its table, and the logs of its runs.

python tools/training_figures.py
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

ROOT = Path(__file__).parents[1]
PICTURES, TABLE = ROOT / "docs/pictures", ROOT / "results/box-start"
# A plateau lies below this R² of batches; the mean of so many lines of the log counts.
LEFT, LINES = 0.88, 3
# The batches whose runs are drawn latent by latent.
START = "auto"

Log = list[dict[str, Any]]


def main() -> None:
    logs = {bound_and_batch(path): log_of(path) for path in sorted(TABLE.glob("images/*/metrics.jsonl"))}
    box_start(logs)
    latents_over_steps({batch: log for (bound, batch), log in logs.items() if bound == START})


def bound_and_batch(path: Path) -> tuple[str, int]:
    """What names a run's folder, such as 6-256-seed0."""
    bound, batch, _ = path.parent.name.split("-")
    return bound, int(batch)


def log_of(path: Path) -> Log:
    """The lines of every twentieth step: the first step has one too, and so has one at which a run went on."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["step"] % 20 == 0]


def smooth(values: list[float]) -> list[float]:
    return [float(np.mean(values[max(0, k - LINES + 1) : k + 1])) for k in range(len(values))]


def step_left(log: Log) -> int | None:
    """The first step at which the mean R² of the last lines is above that of the plateau."""
    means = smooth([line["r2"] for line in log])
    return next((line["step"] for line, r2 in zip(log, means, strict=True) if r2 > LEFT), None)


def box_start(logs: dict[tuple[str, int], Log]) -> None:
    """Where the plateau is left, and MCC at the end, by start of the box and by batch."""
    bounds = sorted({bound for bound, _ in logs}, key=lambda bound: (bound == START, bound.zfill(3)))
    batches = sorted({batch for _, batch in logs})
    figure = Figure(figsize=(9.6, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (bound, batch), log in logs.items():
        x, y = bounds.index(bound), batches.index(batch)
        step, last, mcc = step_left(log), log[-1]["step"], smooth([line["mcc"] for line in log])[-1]
        cell(left, x, y, f"{step:,}" if step else f"not in\n{last:,}", 1 - step / 1000 if step else 0.0)
        cell(right, x, y, f"{mcc:.2f}\nat {last:,}", (mcc - 0.6) / 0.35)
    for axes, title in ((left, f"steps until R² of batches is above {LEFT:g}"), (right, "MCC of batches at the end")):
        axes.set(title=title, xlim=(-0.5, len(bounds) - 0.5), ylim=(-0.5, len(batches) - 0.5))
        axes.set_xticks(range(len(bounds)), bounds)
        axes.set_yticks(range(len(batches)), map(str, batches))
        axes.set_xlabel("bound that the box starts from")
        axes.set_ylabel("pairs of a batch")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    figure.savefig(PICTURES / "box-start.png", dpi=150)


def cell(axes: Axes, x: float, y: float, text: str, shade: float) -> None:
    """A field with a text, the darker the better."""
    shade = min(max(shade, 0.0), 1.0)
    axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=colormaps["GnBu"](0.08 + 0.85 * shade)))
    axes.text(x, y, text, ha="center", va="center", fontsize=8, color="0.1" if shade < 0.6 else "white")


def latents_over_steps(logs: dict[int, Log]) -> None:
    """R² of each latent over steps, a curve for each batch."""
    widths = json.loads((TABLE / "table.json").read_text())["results"][0]["facts"]["widths"]
    names = [name for name, width in widths.items() if width is not None]
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    panels = list(figure.subplots(2, 4, sharex=True, sharey=True).flat)
    for k, (axes, name) in enumerate(zip(panels, names, strict=False)):
        for batch, log in sorted(logs.items()):
            values = smooth([line["r2_by_latent"][k] for line in log])
            axes.plot([line["step"] for line in log], values, label=f"{batch} pairs")
        axes.set(title=name.replace("_", " "), ylim=(0, 1), xlim=(0, None))
        axes.grid(alpha=0.3)
    # The last panel holds the legend alone.
    for axes in panels[len(names) :]:
        axes.axis("off")
        axes.legend(*panels[0].get_legend_handles_labels(), loc="center", frameon=False)
    figure.supxlabel("steps")
    figure.supylabel("R² of batches")
    figure.savefig(PICTURES / "latents-over-steps.png", dpi=150)


if __name__ == "__main__":
    main()
