"""Every public function of loaders takes a path as a str, as a user writes it."""

from pathlib import Path

import pytest
from synthetic import make_dataset

import ident3d


def test_paths_are_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_dataset(Path("set"), 24)
    assert len(ident3d.ImageDataset("set")) == len(ident3d.ImageDataset(["set"])) == 24
    assert len(ident3d.make_loader(ident3d.PairDataset("set"), 8, workers=0)) == 3
    assert ident3d.pairs("set", count=10).pairs == 10
    assert ident3d.index("set", search="exact").images == 24
    assert ident3d.pack("set", show_progress=False).path.is_file()
    assert ident3d.verify("set", show_progress=False).sound
    assert ident3d.export("set", "out", show_progress=False).written == 24
    assert ident3d.import_("out", "back", workers=1, show_progress=False).imported == 24
