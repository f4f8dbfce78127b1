"""A render reads the manifest of its dataset once, whatever there is to do: at a million shards a reading takes 6 s."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from farm.conftest import contents

pytestmark = pytest.mark.bpy

# Python's audit hooks see every file that is opened, by whatever function; appending is no reading.
COUNT = """
import json, os, sys
opened = []
def see(event, words):
    if event == "open" and str(words[0]).endswith("shards.jsonl") and os.path.exists(sys.argv[1] + "/shards.jsonl"):
        opened.append(words[2] & os.O_ACCMODE)
sys.addaudithook(see)
from ident3d import Recipe, render
done = render(int(sys.argv[2]), Recipe(size=32, quality="draft"), out=sys.argv[1], workers=1, shard_size=16,
              show_progress=False)
print(json.dumps({"rendered": done.rendered, "complete": done.complete,
                  "readings": opened.count(os.O_RDONLY)}))
"""


def render_and_count(folder: Path, n: int) -> dict[str, int]:
    """Render in a process of its own; images rendered, and how often the manifest was opened to be read."""
    command = [sys.executable, "-c", COUNT, str(folder), str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_each_render_reads_the_manifest_at_most_once(dataset64: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert render_and_count(folder, 24) == {"rendered": 24, "complete": True, "readings": 0}
    assert render_and_count(folder, 64) == {"rendered": 40, "complete": True, "readings": 1}
    assert render_and_count(folder, 64) == {"rendered": 0, "complete": True, "readings": 1}
    assert contents(folder) == contents(dataset64)


def test_lost_and_unentered_shards_cost_no_further_reading(dataset64: Path, tmp_path: Path) -> None:
    """One shard is gone, and one is written but its line is not: the first is rendered, the second adopted."""
    folder = tmp_path / "data"
    assert render_and_count(folder, 64)["rendered"] == 64
    (folder / "shards" / "00002.h5").unlink()
    assert render_and_count(folder, 64) == {"rendered": 16, "complete": True, "readings": 1}
    (folder / "shards" / "00001.h5").unlink()
    lines = (folder / "shards.jsonl").read_text().splitlines(keepends=True)
    (folder / "shards.jsonl").write_text("".join(lines[:3]))
    assert render_and_count(folder, 64) == {"rendered": 16, "complete": True, "readings": 1}
    assert contents(folder) == contents(dataset64)
