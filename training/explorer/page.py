"""The page: one HTML file that loads nothing, and whose content policy allows its own script alone."""

import base64
import hashlib
import json
import re
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.training.report import report

WEB: Final = Path(__file__).parent / "web"
# They see one another's names, as parts of one script.
SCRIPTS: Final = (
    "data.js", "strips.js", "sliders.js", "colours.js", "plot.js", "point.js", "strengths.js", "walk.js", "start.js",
)  # fmt: skip
# What JSON may hold and HTML must not see in a script.
UNSAFE: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def fill_page(titles: tuple[str, str], about: str, content: dict[str, Any]) -> bytes:
    """Return the page; title, subtitle and `about` are plain text, `content` is what its script shows."""
    script = "(() => {\n'use strict';\n" + "\n".join(map(read, SCRIPTS)) + "\n})();\n"
    # Names come from data. If one slipped through unescaped, it could neither run nor load anything: the policy knows
    # this one script by its digest, and allows no address.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = Template(read("explore.html")).substitute(
        title=escape(titles[0]),
        subtitle=escape(titles[1]),
        about=escape(about),
        style=report_style() + read("explore.css"),
        digest=digest,
        data=json_in_html(content),
        script=script,
    )
    return page.encode()


def read(name: str) -> str:
    return (WEB / name).read_text(encoding="utf-8")


def report_style() -> str:
    """Return the style sheet of reports, so that both pages look alike."""
    text = Path(report.__file__).with_name(report.REPORT_FILE).read_text(encoding="utf-8")
    found = re.search(r"<style>\n(.*?)</style>", text, re.DOTALL)
    assert found
    return found[1]


def json_in_html(content: dict[str, Any]) -> str:
    """Return JSON that can stand in a script element, whatever texts it holds."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub(f"[{''.join(UNSAFE)}]", lambda found: UNSAFE[found[0]], text)


def packed(numbers: NDArray[Any], kind: str) -> str:
    """Return numbers as base64 of little-endian `kind`: "f4" for measurements, "i4" or "f8" for whole ones."""
    return base64.b64encode(np.ascontiguousarray(numbers, f"<{kind}").tobytes()).decode()
