"""Small real datasets: 32-pixel drafts, rendered by the real farm."""

import hashlib
from pathlib import Path

import pytest

from ident3d.recipe import Recipe
from ident3d.rendering import render

TINY = Recipe(size=32, quality="draft")


def contents(folder: Path) -> dict[str, str]:
    """Hash of every file that a dataset promises byte by byte: all but the record of its runs."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name not in ("provenance.json", "README.md")]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="session")
def dataset64(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 images in shards of 16 by one worker; to be read, not changed."""
    folder = tmp_path_factory.mktemp("dataset64") / "data"
    render(64, TINY, out=folder, workers=1, shard_size=16, show_progress=False)
    return folder
