"""`ident3d train` opens its training set once and its test set once, from the start to the report."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from ident3d.training.report.report import REPORT_FILE

# Runs the command line, and prints which manifests were opened, as the interpreter's own audit reports it.
COUNTED = """
import atexit
import json
import os
import sys
from collections import Counter

opened, folders = Counter(), [""]

def note(event, arguments):
    # A manifest is opened by its bare name, from the descriptor of the folder that was opened just before.
    if event == "open" and (arguments[2] or 0) & os.O_DIRECTORY:
        folders[0] = str(arguments[0])
    elif event == "open" and str(arguments[0]) == "shards.jsonl":
        opened[os.path.basename(folders[0])] += 1

sys.addaudithook(note)
atexit.register(lambda: print(f"\\n{json.dumps(opened)}", file=sys.stderr))
from ident3d.cli import main
main(sys.argv[1:])
"""


def opened_by_training(data: Path, root: Path, out: Path, *more: str) -> tuple[dict[str, int], str]:
    """How often each manifest was opened by one `ident3d train`, and the folder that it scored on."""
    tests = str(Path(__file__).parents[2])  # where tiny.py lies
    words = ["--encoder", "tiny:plain", "--batch", "32", "--steps", "2", "--workers", "0", "--device", "cpu", *more]
    command = ["train", str(data), "--out", str(out), "--root", str(root), *words, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *command], capture_output=True, text=True, check=False, cwd=tests
    )
    assert done.returncode == 0, done.stderr
    assert "Training pairs" in (out / REPORT_FILE).read_text()
    return json.loads(done.stderr.splitlines()[-1]), json.loads(done.stdout)["evaluation"]["data"]


def test_each_manifest_is_read_once_from_the_start_to_the_report(root: Path, tmp_path: Path) -> None:
    opened, scored_on = opened_by_training(root / "train", root, tmp_path / "run")
    assert opened == {"train": 1, "test": 1}
    assert scored_on == str(root / "test")


def test_a_folder_that_is_trained_and_scored_on_is_opened_once(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "train", tmp_path / "alone/train")
    opened, scored_on = opened_by_training(
        tmp_path / "alone/train", tmp_path / "alone", tmp_path / "run", "--allow-same"
    )
    assert opened == {"train": 1}
    assert scored_on == str(tmp_path / "alone/train")
