"""Odd datasets and wishes: numbers of any size, sequences of any length, more pixels than memory."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lookable import picture_of_number

import ident3d
from ident3d.training.explorer import explore as module


def shown(path: Path, **given: Any) -> dict[str, Any]:
    page = ident3d.explore(path, show_progress=False, **given).path
    found = re.search(r'id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found
    content: dict[str, Any] = json.loads(found[1])
    for name, text in content["columns"].items():
        content["columns"][name] = np.frombuffer(base64.b64decode(text), "<f8").tolist()
    return content


def folder_of(path: Path, **columns: Any) -> Path:
    n = len(next(iter(columns.values())))
    images = picture_of_number(np.arange(n))
    ident3d.from_arrays(images, np.linspace(0, 1, n)[:, None], path, columns=columns, show_progress=False)
    return path


def test_numbers_of_sequences_and_environments_are_as_they_are(tmp_path: Path) -> None:
    k = np.arange(12)
    content = shown(folder_of(tmp_path / "a", sequence=k // 4 * 2**32, frame=k % 4, environment=k % 3 * 10**9 - 7))
    # Cut to 32 bits, all sequences would be one, and the names of a billion environments fill a machine.
    assert content["columns"]["sequence"] == (k // 4 * 2**32).tolist()
    assert content["environments"] == ["environment -7", "environment 999999993", "environment 1999999993"]
    assert content["columns"]["environment"] == (k % 3).tolist()


def test_environments_without_an_image_on_the_page_are_not_offered(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "a", environment=np.repeat([0, 4], [19, 1]))
    found = [shown(path, count=count) for count in (20, 1)]
    assert found[0]["environments"] == ["environment 0", "environment 4"]
    assert len(found[1]["environments"]) == 1
    assert found[1]["columns"]["environment"] == [0]


def test_one_long_sequence_does_not_keep_the_others_out(tmp_path: Path) -> None:
    sequence = np.concatenate([np.zeros(120, int), 1 + np.arange(200) // 2])
    content = shown(folder_of(tmp_path / "a", sequence=sequence), count=100)
    numbers, counts = np.unique(content["columns"]["sequence"], return_counts=True)
    assert 40 < content["count"] <= 100
    assert set(counts) == {2}
    assert 0 not in numbers


def test_a_sequence_longer_than_the_page_is_cut(tmp_path: Path) -> None:
    content = shown(folder_of(tmp_path / "a", sequence=np.zeros(50, int)), count=20)
    assert np.frombuffer(base64.b64decode(content["numbers"]), "<i4").tolist() == list(range(20))


def test_more_pixels_than_memory_are_refused_before_any_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = folder_of(tmp_path / "a", frame=np.arange(40)), list[int]()
    monkeypatch.setattr(module, "MOST_PIXELS", 16 * 16 * 3 * 30)
    images = ident3d.ImageDataset.images
    monkeypatch.setattr(ident3d.ImageDataset, "images", lambda *a: (read.append(len(a[1])), images(*a))[1])
    with pytest.raises(ident3d.UserError, match="ask for fewer with --n"):
        shown(path, count=40)
    assert not read
    # Nobody asked for so many.
    assert shown(path)["count"] == 20
    assert read == [20]


def test_a_page_without_codes_has_room_for_more_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 125_000)
    monkeypatch.setattr(module, "ROOM", 70_000)
    # 240 · 64 codes would take 61 kB.
    assert shown(folder_of(tmp_path / "a", frame=np.arange(240)), count=240)["count"] == 240
