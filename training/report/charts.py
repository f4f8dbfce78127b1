"""Charts as inline SVG: no script, no network, colours from the page, so that they follow its light or dark."""

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 320, 180, 46, 24, 8
Curve = Sequence[tuple[float, float]]


def line_chart(
    curves: Mapping[str, Curve],
    label: str,
    low: float | None = None,
    high: float | None = None,
    *,
    left: float = 0.0,
    mark: float | None = None,
) -> str:
    """Curves of points (x, value) over one axis from `left`; up to four, told apart by the page's colours.

    `mark` draws a vertical line.
    """
    points = [point for curve in curves.values() for point in curve if isfinite(point[1])]
    if not points:
        return ""
    right = max(*(x for x, _ in points), *([] if mark is None else [mark]), left + 1e-9)
    bottom = min(y for _, y in points) if low is None else low
    top = max(y for _, y in points) if high is None else high
    span = top - bottom or 1.0

    def place(x: float, y: float) -> str:
        u = LEFT + (WIDTH - LEFT - 8) * (x - left) / (right - left)
        v = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (min(max(y, bottom), top) - bottom) / span
        return f"{u:.1f},{v:.1f}"

    parts = [frame(bottom, top, place_name(right), place_name(left) if left else "")]
    if mark is not None:
        parts.append(f'<path class="axis" d="M{place(mark, top)}L{place(mark, bottom)}"/>')
    for number, (name, curve) in enumerate(curves.items()):
        drawn = " ".join(place(x, y) for x, y in thinned(curve) if isfinite(y))
        if drawn:
            parts.append(f'<polyline class="c{number}" points="{drawn}"><title>{escape(name)}</title></polyline>')
    keys = "".join(f'<span class="key k{i}">{escape(name)}</span>' for i, name in enumerate(curves))
    return figure("".join(parts), label, keys)


def frame(bottom: float, top: float, right: str, left: str = "") -> str:
    """The axes: the least and the largest value, the last step, and the first unless it is 0."""
    base, side = HEIGHT - BOTTOM, LEFT - 5
    return (
        f'<path class="axis" d="M{LEFT},{TOP}V{base}H{WIDTH - 8}"/>'
        f'<text x="{side}" y="{TOP + 9}" text-anchor="end">{tick(top)}</text>'
        f'<text x="{side}" y="{base}" text-anchor="end">{tick(bottom)}</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end">{escape(right)}</text>'
        + (f'<text x="{LEFT}" y="{HEIGHT - 8}">{escape(left)}</text>' if left else "")
    )


def place_name(x: float) -> str:
    """A step as it is, a fraction such as a logarithm with three digits."""
    return f"{x:,.0f}" if float(x).is_integer() else f"{x:.3g}"


def tick(value: float) -> str:
    """Three digits, in the room that there is beside an axis."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def figure(inside: str, label: str, keys: str = "", width: int = WIDTH, height: int = HEIGHT) -> str:
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">{inside}</svg>'
        f"<figcaption>{escape(label)} {keys}</figcaption></figure>"
    )


def thinned(curve: Curve, most: int = 400) -> Curve:
    """Every k-th point, so that at most about `most` are drawn, and the last."""
    step = max(1, len(curve) // most)
    return [*curve[::step], *curve[-1:]]


def scatter(x: NDArray[np.float64], y: NDArray[np.float64], label: str, most: int = 600) -> str:
    """A cloud of y over x, each scaled to its own range."""
    side, edge = 150, 6
    u, v = (scaled(column[:most], edge, side - edge) for column in (x, y))
    dots = "".join(f"M{a:.1f},{side - b:.1f}h0" for a, b in zip(u, v, strict=True))
    axis = f'<path class="axis" d="M{edge / 2},{edge / 2}V{side - edge / 2}H{side - edge / 2}"/>'
    return figure(f'{axis}<path class="dots" d="{dots}"/>', label, width=side, height=side)


def scaled(column: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    span = np.ptp(column) or 1.0
    result: NDArray[np.float64] = low + (high - low) * (column - column.min()) / span
    return result


def heat_map(matrix: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], marked: Sequence[int]) -> str:
    """A table of correlations, the stronger the deeper; row i's matched column is framed."""
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
