"""The benchmark of the farm at scale, on few shards: a real scheduler, a run that is broken off, and its rest."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from ident3d.cli import main
from ident3d.loaders.format import manifest
from ident3d.loaders.format.manifest import ShardEntry

pytest.importorskip("distributed", reason="the farm comes with the extra render")
from ident3d.bench import scale

SHARDS, IMAGES = 24, 2


@pytest.mark.bpy
def test_each_shard_is_entered_once_though_the_run_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    append, entered = manifest.append_entry, list[tuple[Path, ShardEntry]]()

    def noted(folder: Path, entry: ShardEntry) -> None:
        append(folder, entry)
        entered.append((folder, entry))

    monkeypatch.setattr(manifest, "append_entry", noted)
    monkeypatch.setattr(scale, "PLAIN_SHARDS", 3)
    monkeypatch.setattr(scale, "APPENDED", 5)
    words = ["--shards", str(SHARDS), "--images-per-shard", str(IMAGES), "--workers", "1", "--listed", "1000", "--json"]
    done = CliRunner().invoke(main, ["bench", "scale", *words])
    assert done.exit_code == 0, done.output
    scratch = next(folder for folder, _ in entered if folder.name == "plain").parent
    ours = [entry for folder, entry in entered if folder == scratch]
    assert Counter(entry.first for entry in ours) == dict.fromkeys(range(0, SHARDS * IMAGES, IMAGES), 1)
    assert {entry.count for entry in ours} == {IMAGES}

    result = json.loads(done.stdout)
    first, second = result["halves"]
    assert first["shards"] == SHARDS // 2
    # what was written but not yet entered when the run broke off was adopted, not made again: two jobs at most
    assert SHARDS // 2 - 2 <= second["shards"] <= SHARDS // 2
    assert all(half[name] > 0 for half in (first, second) for name in ("client_ms", "scheduler_ms", "workers_ms"))
    assert [listing["shards"] for listing in result["listings"]] == [100, 1000]
    sizes = [listing["megabytes"] for listing in result["listings"]]
    assert 8 < sizes[1] / sizes[0] < 12


@pytest.mark.parametrize("words", ["--shards 19", "--images-per-shard 0", "--workers 0", "--listed 9"])
def test_too_little_to_measure_is_refused(words: str) -> None:
    pytest.importorskip("distributed")
    done = CliRunner().invoke(main, ["bench", "scale", *words.split()])
    assert done.exit_code == 2
    assert "20 shards" in done.stderr
