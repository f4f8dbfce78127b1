"""Tables of a report, and how its numbers are written: every score is a share of 1, everywhere."""

from collections.abc import Iterable, Sequence
from html import escape

PERCENT = 100  # the papers print percent, and so do the rows of experiments/; pages and tables show shares


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Return a table in a box of its own that scrolls if it is wider than the page."""
    # The long names of scores may break at their underscores.
    names = (escape(name).replace("_", "_<wbr>") for name in head)
    first = f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>" if head else ""
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in rows)
    return f'<div class="wide"><table class="{kind}">{first}{lines}</table></div>'


def number(value: float | None, digits: int = 3) -> str:
    """Return a number, or a dash for none."""
    return "–" if value is None else f"{value:.{digits}f}"


def paper_figure(value: tuple[float, float] | None) -> str:
    """Return a paper's mean ± spread as shares of 1, or its mean alone if it prints no spread."""
    if value is None:
        return "–"
    mean, spread = (each / PERCENT for each in value)
    return f"{mean:.4f} ± {spread:.4f}" if spread else f"{mean:g}"
