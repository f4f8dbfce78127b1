"""The datasets that the tests of exports share."""

from pathlib import Path

import pytest
from exported_sets import causal, declared, moving
from synthetic import make_dataset

from ident3d.latents.views import Views
from ident3d.loaders.folders.card import write_card
from ident3d.loaders.folders.folder import open_folder


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("sources")
    made = {"declared": declared(base / "declared"), "moving": moving(base / "moving")}
    made |= {"causal": causal(base / "causal"), "periodic": make_dataset(base / "p", 9, scene="3dident-periodic")}
    made["test"] = make_dataset(base / "test", 12, scene="causal3dident", classes=7, split="test")
    made["views"] = make_dataset(base / "views", 12, views=Views(2, private=("hue",)))
    for path in made.values():
        folder = open_folder(path)
        write_card(path, folder.description, folder.entries)
    return made
