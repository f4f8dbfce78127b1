"""Tables of a report, and how its numbers are written: every score is a share of 1, everywhere."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from ident3d.training.losses.choice import WITH_TEMPERATURE

# The papers print percent, and so do the rows of experiments/; pages and tables show shares.
PERCENT: Final = 100
OPTION: Final = re.compile(r"--[a-z][a-z-]*")


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Return a table in a box of its own that scrolls if it is wider than the page."""
    # The long names of scores may break at their underscores.
    names = (escape(name).replace("_", "_<wbr>") for name in head)
    first = f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>" if head else ""
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in rows)
    return f'<div class="wide"><table class="{kind}">{first}{lines}</table></div>'


def score_table(head: Sequence[str], rows: Iterable[tuple[str, str, Sequence[str]]]) -> str:
    """Return a table of scores: each with its meaning in small letters below its name, and its figures."""
    first = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(
        f"<tr><td>{escape(name)}<small>{escape(meant)}</small></td>"
        # A narrow page may break a line before the spread, not after its sign.
        + "".join(f"<td>{escape(figure).replace('± ', '±&nbsp;')}</td>" for figure in figures)
        + "</tr>"
        for name, meant, figures in rows
    )
    return f'<div class="wide"><table class="scores"><tr>{first}</tr>{lines}</table></div>'


def tiles(shown: Mapping[str, str]) -> str:
    """Return a run's most important numbers as large ones, each below its name."""
    return f'<div class="tiles">{"".join(f"<div>{escape(k)}<b>{escape(v)}</b></div>" for k, v in shown.items())}</div>'


def sentences(lines: Iterable[str]) -> str:
    """Return sentences as a list, the options of commands in them set apart, so that none is broken at its hyphen."""
    items = (OPTION.sub(r"<code>\g<0></code>", escape(line)) for line in lines)
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def used_settings(s: Any) -> dict[str, Any]:
    """Return the settings of a run of either trainer without those that its loss, space and pairs do not look at."""
    loss, space, supervised = str(s.loss), str(s.space), bool(s.supervised)
    idle = {
        "alpha": loss != "au",
        "tau": loss not in WITH_TEMPERATURE,
        "radius": "sphere" not in space,
        "bound": "box" not in space,
        "augment": s.cond != "augment",
        "cond": supervised,
        "sigma": supervised or s.cond == "augment",
        "search": supervised or s.cond == "augment",
    }
    # 0 is a value, the seed's, say, and equal to False.
    empty = {name for name, v in s.as_dict().items() if v is None or v is False or v in ((), [])}
    return {name: v for name, v in s.as_dict().items() if name not in empty and not idle.get(name)}


def duration(seconds: float) -> str:
    """Return a time in the unit in which it is at least 1."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number, or a dash for none."""
    return "–" if value is None else f"{value:.{digits}f}"


def paper_figure(value: tuple[float, float] | None) -> str:
    """Return a paper's mean ± spread as shares of 1, or its mean alone if it prints no spread."""
    if value is None:
        return "–"
    mean, spread = (each / PERCENT for each in value)
    return f"{mean:.4f} ± {spread:.4f}" if spread else f"{mean:g}"
