"""What each score means and what chance gives, in words for the page, and where the documentation explains more."""

import os
from collections.abc import Callable, Iterable
from functools import cache, partial
from html import escape
from pathlib import Path
from statistics import mean
from typing import Any, Final

import numpy as np

from ident3d.metrics import infomec, mcc, modularity
from ident3d.metrics.catalogue import CATALOGUE
from ident3d.metrics.result import Score

# Where the pages of the documentation lie: in a clone, below its top. They are not published yet, and the wheel does
# not hold them; without the folder a page is named and not linked. A published site's address would go here.
DOCS: Final = Path(__file__).parents[2] / "docs"
PAGES: Final = {
    "which-score": "explanation/which-score.md",
    "metrics": "reference/metrics.md",
    "pair-width": "explanation/pair-width.md",
    "pair-rules": "explanation/pair-rules.md",
    "negatives": "explanation/negatives.md",
    "boxes": "explanation/boxes.md",
    "train": "how-to/train.md",
    "mixing": "how-to/mixing.md",
    "tutorial": "tutorial/3-train-and-read-the-report.md",
}

MEANINGS: Final = {
    "linear_r2": "the R² above, scored on the rows that it was fitted on",
    "linear_r2_held_out": "share of the latents' variance that a linear map of the codes explains, fitted on one half "
    "of the images and scored on the other: 1 means that all latents are in the codes, perhaps mixed",
    "affine_residual": "what the best linear map of the codes leaves unexplained; 0 is perfect",
    "orthogonal_residual": "what the best rotation and common scale of the codes leave unexplained; 0 is perfect",
    "mcc_pearson": "each latent is given one code of its own; the mean absolute correlation of these pairs: 1 means "
    "that the codes are the latents, up to order, sign and scale",
    "mcc_spearman": "MCC of ranks: each code may be a curved, monotone function of its latent",
    "mcc_kernel": "MCC after a smooth map of each code",
    "kernel_ridge_r2": "share of variance that a smooth map of the codes explains, held out: far above the linear "
    "R² means that the codes are curved",
    "periodic_r2": "share of the variance of cos and sin of each periodic latent, held out",
    "block_r2": "share of a block's variance that a smooth map of the codes explains, held out",
    "class_accuracy": "share of held-out images whose class a linear classifier of the codes names",
    "mig": "how much more the best code says about a latent than the second best, as a share of what there is to know",
    "modularity": "whether each code says something about one latent alone; several codes may share it",
    "sap": "how much better the best single code explains a latent than the second best",
    "dci": "whether each code matters for one latent alone (D)",
    "infomec": "whether each code says something about one latent alone (InfoM). It compares shares, so that unrelated "
    "codes score well above 0; per latent stands InfoE, how well a linear classifier of all codes tells its levels",
    "irs": "whether each code stays as it is while other latents change. It has no one level of chance, which hangs on "
    "how codes are spread: at 4,096 rows, unrelated codes score 0.01 if they are uniform and 0.35 if normal, more with "
    "fewer",
    "sap_discrete": "how much better a linear classifier of the best single code names a latent's level than of the "
    "second best",
    "explicitness": "how well a linear classifier of all codes tells the levels of each latent: the area under its "
    "curve",
    "beta_vae": "share of pairs of images with one latent in common of which a linear classifier names that latent",
    "factor_vae": "share of batches with one latent in common of which the code that varies least names that latent",
}
MATCHED: Final = ("mcc_pearson", "mcc_spearman")
ABOUT_ZERO: Final = (
    "linear_r2_held_out", "kernel_ridge_r2", "periodic_r2", "block_r2", "mig", "sap", "sap_discrete", "dci",
    "augmentation_readout",
)  # fmt: skip
ONE: Final = ("affine_residual", "orthogonal_residual")
MOST_DRAWN: Final = 10_000_000
# Scores whose chance level is no number of the sizes alone: unrelated latents and codes are drawn and scored.
DRAWN: Final[dict[str, Callable[[Any, Any], Score]]] = {
    "infomec": infomec,
    "modularity": modularity,
    "mcc_kernel": partial(mcc, correlation="kernel"),
}
# Modularity compares biases of equal size in N, and kernel MCC takes 500 rows: more rows have the same chance level.
DRAWN_ROWS: Final = {"modularity": 1000, "mcc_kernel": 500}
# InfoMEC takes seconds for as many rows, latents and codes.
MOST_COMPARED: Final = 500_000


def meaning(name: str) -> str:
    """Return what a score measures, as half a sentence."""
    entry = CATALOGUE.get(name)
    return MEANINGS.get(name) or (f"best if identified up to {entry.up_to}" if entry else "")


def chance(name: str, count: int, latents: int, codes: int, score: dict[str, Any] | None = None) -> str:
    """Return what codes without any relation to the latents would get, as text; a dash where there is no one number."""
    # The counts may come from a file: what is drawn below must fit into memory.
    if count <= max(latents, codes) + 1 or latents < 1 or count * (latents + codes) > MOST_DRAWN:
        return "–"
    if name == "linear_r2":
        return f"{min(1.0, codes / max(1, count - 1)):.3f}"
    if name in MATCHED:
        return f"{chance_mcc(count, latents, codes):.3f}"
    if name in ABOUT_ZERO:
        return "0"
    if name in ONE:
        return "1"
    if name in ("beta_vae", "factor_vae"):
        return f"{1 / latents:.3f}"
    if name == "class_accuracy" and isinstance((score or {}).get("chance"), float):
        return f"{(score or {})['chance']:.3f}"
    rows = min(count, DRAWN_ROWS.get(name, count))
    if name in DRAWN and rows * latents * codes <= MOST_COMPARED:
        return f"{chance_drawn(name, rows, latents, codes):.2f}"
    return "0.5" if name == "explicitness" else "–"


@cache
def chance_mcc(count: int, latents: int, codes: int, draws: int = 10) -> float:
    """Return the mean MCC of independent normal latents (count, latents) and codes (count, codes)."""
    rng = np.random.default_rng(0)
    drawn = ((rng.normal(size=(count, latents)), rng.normal(size=(count, codes))) for _ in range(draws))
    return mean(float(mcc(z, h)) for z, h in drawn)


@cache
def chance_drawn(name: str, count: int, latents: int, codes: int) -> float:
    """Return a score of independent uniform latents (count, latents) and codes (count, codes)."""
    rng = np.random.default_rng(0)
    return float(DRAWN[name](rng.uniform(size=(count, latents)), rng.uniform(size=(count, codes))))


def docs_link(page: str, words: str, folder: Path) -> str:
    """Return a link from a page in `folder` to a page of the documentation, and its name; the name alone without it."""
    file, name = DOCS / PAGES[page], f"(docs/{PAGES[page]})"
    if not file.is_file():
        return f"{escape(words)} {name}"
    try:
        # Relative, so that it still leads there after a clone with its runs was moved.
        address = Path(os.path.relpath(file, folder.resolve())).as_posix()
    except ValueError:  # another drive
        address = file.as_uri()
    # A report that was sent elsewhere has lost its links, but not the names of the pages.
    return f'<a href="{escape(address)}">{escape(words)}</a> {name}'


def read_more(folder: Path, pages: Iterable[tuple[str, str]]) -> str:
    """Return a line of links to pages of the documentation, for a page that lies in `folder`."""
    links = " · ".join(docs_link(page, words, folder) for page, words in pages)
    return f'<p class="soft">Read more: {links}</p>'
