"""Charts as inline SVG: no script, no network, colours from the page, so that they follow its light or dark."""

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.training.loop.log_file import BY_LATENT, LARGEST_FIGURE

# A chart's size, and the room around its axes, in units of the picture, which scales with the page.
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 320, 180, 46, 24, 8
# Curves of one chart that report.html has a colour for.
COLOURS = 4
Curve = Sequence[tuple[float, float]]


def curve(log: Sequence[Mapping[str, Any]], name: str) -> Curve:
    """Return the points (step, value) of one name in the lines of a run's log."""
    return [(line["step"], line[name]) for line in log if isinstance(line.get(name), int | float)]


def latent_charts(log: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Return charts of R² of each latent over steps, up to four latents in one."""
    curves: dict[str, Curve] = {name: latent_curve(log, k) for k, name in enumerate(names)}
    parts = [names[k : k + COLOURS] for k in range(0, len(names), COLOURS)]
    return [line_chart({name: curves[name] for name in part}, "R² by latent", 0, 1) for part in parts]


def latent_curve(log: Sequence[Mapping[str, Any]], k: int) -> Curve:
    """Return the points (step, R²) of latent k; none from lines of before version 0.1 logged them."""
    found = []
    for line in log:
        values = line.get(BY_LATENT)
        value = values[k] if isinstance(values, list) and k < len(values) else None
        # A log is read from disk: it may hold any number.
        if isinstance(value, int | float) and abs(value) <= LARGEST_FIGURE:
            found.append((line["step"], value))
    return found


def line_chart(
    curves: Mapping[str, Curve],
    label: str,
    low: float | None = None,
    high: float | None = None,
    *,
    left: float = 0.0,
    mark: float | None = None,
) -> str:
    """Return a chart of curves of points (x, value) over one axis from `left`; up to four, each in its colour.

    `low` and `high` fix the range of values, `mark` draws a vertical line. Without any point there is no chart.
    """
    finite = [point for points in curves.values() for point in points if isfinite(point[1])]
    if not finite:
        return ""
    right = max(*(x for x, _ in finite), *([] if mark is None else [mark]), left + 1e-9)
    # A value beyond a fixed range is drawn at its edge.
    bottom = min(y for _, y in finite) if low is None else low
    top = max(y for _, y in finite) if high is None else high
    span = top - bottom or 1.0

    def place(x: float, y: float) -> str:
        u = LEFT + (WIDTH - LEFT - 8) * (x - left) / (right - left)
        v = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (min(max(y, bottom), top) - bottom) / span
        return f"{u:.1f},{v:.1f}"

    # What a reader needs of an axis are its ends.
    parts = [frame(bottom, top, axis_label(right), axis_label(left) if left else "")]
    if mark is not None:
        parts.append(f'<path class="axis" d="M{place(mark, top)}L{place(mark, bottom)}"/>')
    for number, (name, points) in enumerate(curves.items()):
        drawn = " ".join(place(x, y) for x, y in thin_out(points) if isfinite(y))
        if drawn:
            parts.append(f'<polyline class="c{number}" points="{drawn}"><title>{escape(name)}</title></polyline>')
    keys = "".join(f'<span class="key k{i}">{escape(name)}</span>' for i, name in enumerate(curves))
    return figure("".join(parts), label, keys)


def frame(bottom: float, top: float, right: str, left: str = "") -> str:
    """Return the axes: the least and the largest value, the last step, and the first unless it is 0."""
    base, side = HEIGHT - BOTTOM, LEFT - 5
    return (
        f'<path class="axis" d="M{LEFT},{TOP}V{base}H{WIDTH - 8}"/>'
        f'<text x="{side}" y="{TOP + 9}" text-anchor="end">{tick(top)}</text>'
        f'<text x="{side}" y="{base}" text-anchor="end">{tick(bottom)}</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end">{escape(right)}</text>'
        + (f'<text x="{LEFT}" y="{HEIGHT - 8}">{escape(left)}</text>' if left else "")
    )


def axis_label(x: float) -> str:
    """Return a step as it is, a fraction such as a logarithm with three digits."""
    return f"{x:,.0f}" if float(x).is_integer() else f"{x:.3g}"


def tick(value: float) -> str:
    """Return a value in three digits, which fit beside the axis."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def figure(inside: str, label: str, keys: str = "", width: int = WIDTH, height: int = HEIGHT) -> str:
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">{inside}</svg>'
        f"<figcaption>{escape(label)} {keys}</figcaption></figure>"
    )


def thin_out(points: Curve, most: int = 400) -> Curve:
    """Return every k-th point, so that at most about `most` are drawn, and the last."""
    step = max(1, len(points) // most)
    return [*points[::step], *points[-1:]]


def scatter(x: NDArray[np.float64], y: NDArray[np.float64], label: str, most: int = 600) -> str:
    """Return a cloud of y over x, each scaled to its own range."""
    side, edge = 150, 6
    u, v = (rescale(column[:most], edge, side - edge) for column in (x, y))
    # One path of strokes of no length with round ends draws all dots: far shorter than a circle each.
    dots = "".join(f"M{a:.1f},{side - b:.1f}h0" for a, b in zip(u, v, strict=True))
    # The axes only mark the corner: each cloud has a scale of its own, so numbers would say little.
    axis = f'<path class="axis" d="M{edge / 2},{edge / 2}V{side - edge / 2}H{side - edge / 2}"/>'
    return figure(f'{axis}<path class="dots" d="{dots}"/>', label, width=side, height=side)


def rescale(column: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    span = np.ptp(column) or 1.0
    result: NDArray[np.float64] = low + (high - low) * (column - column.min()) / span
    return result


def heat_map(matrix: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], marked: Sequence[int]) -> str:
    """Return a table of correlations, the stronger the deeper in colour; row i's matched column is framed."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = []
    for i, name in enumerate(rows):
        cells = "".join(
            f'<td class="{"cold" if value < 0 else "warm"}{" match" if j == marked[i] else ""}" '
            f'style="--r:{abs(value):.3f}">{value:.2f}</td>'
            for j, value in enumerate(matrix[i])
        )
        lines.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return f'<div class="wide"><table class="heat"><tr><th></th>{head}</tr>{"".join(lines)}</table></div>'
