"""Small real datasets: 32-pixel drafts, rendered by the real farm."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
from ident3d.farm.scenes import load_scene
from ident3d.latents.worlds import World
from ident3d.loaders.format.aside import REMOVED

SCENE = os.environ.get("IDENT3D_TEST_SCENE", "3dident")  # test_other_scenes.py sets it
TINY = Recipe(load_scene(SCENE) if ":" in SCENE else World(SCENE), size=32, quality="draft")


def contents(folder: Path) -> dict[str, str]:
    """Hash of every file that a dataset promises byte by byte: all but the record of its runs, and what was removed."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name not in ("provenance.json", "README.md")]
    named = {str(file.relative_to(folder)): file for file in files}
    kept = {name: file for name, file in named.items() if not name.startswith(REMOVED)}
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in kept.items()}


@pytest.fixture(scope="session", autouse=True)
def cache_of_our_own(own_meshes: Path) -> Iterator[None]:
    """Meshes of our own for the causal scene, where the workers find them too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(own_meshes))
        yield


@pytest.fixture(scope="session")
def dataset64(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 images in shards of 16 by one worker; to be read, not changed."""
    folder = tmp_path_factory.mktemp("dataset64") / "data"
    render(64, TINY, out=folder, workers=1, shard_size=16, show_progress=False)
    return folder
