"""Draws the figures of boxes, encoders, images and steps in docs/explanation, and of Table 4.

They are made from the tables below results/ and their logs.

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
PICTURES, RESULTS = ROOT / "docs/pictures", ROOT / "results"
# A plateau lies below this R² of batches; the mean of so many lines of the log counts.
LEFT, LINES = 0.88, 3
# The start whose runs are drawn latent by latent.
START = "auto"
# Ends the names of rows whose anchors are among their own negatives.
OWN = "-own"
# Latents that are drawn as one: the mean of their R².
GROUPS = {
    "positions": ("x", "y", "z"),
    "spotlight's position": ("spotlight_position",),
    "ground's hue": ("ground_hue",),
    "object's hue": ("object_hue",),
    "spotlight's hue": ("spotlight_hue",),
    "rotations": ("rotation_phi", "rotation_theta", "rotation_psi"),
}

# Those of Table 4 whose curves are drawn.
VARIANTS = ("seven", "all-ten", "wrapped")

Log = list[dict[str, Any]]


def main() -> None:
    logs = {row: log for row, log in logs_of("box-start").items() if not row.endswith(OWN)}
    box_start(results_of("box-start"), logs)
    auto = {row: log for row, log in logs.items() if row.startswith(START)}
    latents_over_steps("box-start", auto, "latents-over-steps")
    latents_over_steps("encoders", logs_of("encoders"), "encoders")
    for variant in VARIANTS:
        rows_over_steps(logs_of("table4-mini", variant), f"table4-{variant}")
    size_and_data(results_of("size-and-data"))


def results_of(table: str) -> list[dict[str, Any]]:
    """The results of a table."""
    found: list[dict[str, Any]] = json.loads((RESULTS / table / "table.json").read_text())["results"]
    return found


def logs_of(table: str, variant: str = "images") -> dict[str, Log]:
    """The logs of a table's runs with seed 0 by row."""
    paths = sorted((RESULTS / table / variant).glob("*-seed0/metrics.jsonl"))
    return {path.parent.name.removesuffix("-seed0"): log_of(path) for path in paths}


def bound_and_batch(row: str) -> tuple[str, int]:
    """What names a row, such as 6-256."""
    bound, batch = row.split("-")
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


def box_start(results: list[dict[str, Any]], logs: dict[str, Log]) -> None:
    """Where the plateau is left, R² and MCC on images for tuning, by start of the box and by batch."""
    fields = {row: bound_and_batch(row) for row in logs}
    bounds = sorted({bound for bound, _ in fields.values()}, key=lambda bound: (bound == START, bound.zfill(3)))
    batches = sorted({batch for _, batch in fields.values()})
    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for row, (bound, batch) in fields.items():
        place, step, last = (bounds.index(bound), batches.index(batch)), step_left(logs[row]), logs[row][-1]["step"]
        cell(panels[0], *place, f"{step:,}" if step else "never", 1 - step / last if step else 0.0)
        for axes, name in zip(panels[1:], ("R²", "MCC"), strict=True):
            scores = [result["figures"][name] for result in results if result["row"] == row]
            mean, spread = np.mean(scores), "\n" + "–".join(f"{end:.2f}"[1:] for end in (min(scores), max(scores)))
            cell(axes, *place, f"{mean:.2f}" + (spread if len(scores) > 1 else ""), (mean - 0.7) / 0.3)
    titles = (f"steps until R² of batches is above {LEFT:g}", "R² on images for tuning", "MCC on images for tuning")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=9)
        axes.set(xlim=(-0.5, len(bounds) - 0.5), ylim=(-0.5, len(batches) - 0.5))
        axes.set_xticks(range(len(bounds)), bounds)
        axes.set_yticks(range(len(batches)), map(str, batches))
        axes.set_xlabel("bound that the box starts from")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    panels[0].set_ylabel("pairs of a batch")
    figure.savefig(PICTURES / "box-start.png", dpi=150)


def cell(axes: Axes, x: float, y: float, text: str, shade: float) -> None:
    """A field with a text, the darker the better."""
    shade = min(max(shade, 0.0), 1.0)
    axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=colormaps["GnBu"](0.08 + 0.85 * shade)))
    axes.text(x, y, text, ha="center", va="center", fontsize=8, color="0.1" if shade < 0.6 else "white")


def latents_over_steps(table: str, logs: dict[str, Log], picture: str) -> None:
    """R² of each latent over steps, a curve for each run."""
    results = results_of(table)
    names = [name for name, width in results[0]["facts"]["widths"].items() if width is not None]
    held_out = {result["row"]: result["facts"].get("r2_by_latent", {}) for result in results if result["seed"] == 0}
    # One panel more than there are latents: it holds the legend.
    lines = len(names) // 4 + 1
    figure = Figure(figsize=(9.6, 2.0 * lines), layout="constrained")
    panels = list(figure.subplots(lines, 4, sharex=True, sharey=True).flat)
    for k, (axes, name) in enumerate(zip(panels, names, strict=False)):
        for label, log in logs.items():
            values = smooth([line["r2_by_latent"][k] for line in log])
            (drawn,) = axes.plot([line["step"] for line in log], values, label=label)
            # A dot at the end of a curve is R² on held-out images.
            if name in held_out.get(label, {}):
                axes.plot(
                    log[-1]["step"], held_out[label][name], "o", color=drawn.get_color(), markersize=4, clip_on=False
                )
        axes.set(title=name.replace("_", " "), ylim=(0, 1), xlim=(0, None))
        axes.grid(alpha=0.3)
    for axes in panels[len(names) :]:
        axes.axis("off")
    panels[len(names)].legend(*panels[0].get_legend_handles_labels(), loc="center", frameon=False)
    figure.supxlabel("steps")
    figure.supylabel("R² of batches")
    figure.savefig(PICTURES / f"{picture}.png", dpi=150)


def rows_over_steps(logs: dict[str, Log], picture: str) -> None:
    """R² and MCC of batches over steps, a curve for each row."""
    if not logs:
        return
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, (name, title) in zip(panels, (("r2", "R² of batches"), ("mcc", "MCC of batches")), strict=True):
        for row, log in logs.items():
            axes.plot([line["step"] for line in log], smooth([line[name] for line in log]), label=row)
        axes.set(title=title, ylim=(0, 1), xlim=(0, None), xlabel="steps")
        axes.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(PICTURES / f"{picture}.png", dpi=150)


def size_and_data(results: list[dict[str, Any]]) -> None:
    """R² of groups of latents over the number of images, and over their pixels."""
    by_images = {r["facts"]["images"]["train"]: r for r in results if r["variant"] != "pixels"}
    by_pixels = {r["facts"]["settings"]["size"]: r for r in results if r["variant"] == "pixels"}
    parts = [part for part in ((by_images, "images of 64 pixels"), (by_pixels, "pixels")) if part[0]]
    figure = Figure(figsize=(3 + 3.3 * len(parts), 3.8), layout="constrained")
    panels = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    for axes, (found, what) in zip(panels, parts, strict=True):
        counts = sorted(found)
        for name, latents in GROUPS.items():
            each = [np.mean([found[n]["facts"]["r2_by_latent"][latent] for latent in latents]) for n in counts]
            axes.plot(counts, each, marker="o", markersize=3, label=name)
        for name, style in (("R²", "-"), ("MCC", "--")):
            axes.plot(counts, [found[n]["figures"][name] for n in counts], style, color="0.2", linewidth=2, label=name)
        widths = [np.mean([width for width in found[n]["facts"]["widths"].values() if width]) for n in counts]
        axes.set_xscale("log")
        ticks = [f"{n:,}\npairs ×{width:.2f}" for n, width in zip(counts, widths, strict=True)]
        axes.set_xticks(counts, ticks)
        axes.minorticks_off()
        axes.set(xlabel=what, ylim=(min(0.0, axes.get_ylim()[0]), 1))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("R² and MCC on held-out images")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(PICTURES / "size-and-data.png", dpi=150)


if __name__ == "__main__":
    main()
