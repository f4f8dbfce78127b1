"""`ident3d train` opens its training set once and its test set once, from the start to the report."""

import json
import subprocess
import sys
from pathlib import Path

from ident3d.training.report.report import REPORT_FILE

# Runs the command line, and prints which manifests were opened, as the interpreter's own audit reports it.
COUNTED = """
import atexit
import json
import sys
from collections import Counter

opened = Counter()

def note(event, arguments):
    if event == "open" and str(arguments[0]).endswith("shards.jsonl"):
        opened[str(arguments[0]).split("/")[-2]] += 1

sys.addaudithook(note)
atexit.register(lambda: print(f"\\n{json.dumps(opened)}", file=sys.stderr))
from ident3d.cli import main
main(sys.argv[1:])
"""


def test_each_manifest_is_read_once_from_the_start_to_the_report(root: Path, tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[2])  # where tiny.py lies
    words = ["--encoder", "tiny:plain", "--batch", "32", "--steps", "2", "--workers", "0", "--device", "cpu"]
    command = ["train", str(root / "train"), "--out", str(tmp_path / "run"), "--root", str(root), *words, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *command], capture_output=True, text=True, check=False, cwd=tests
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["evaluation"]["data"] == str(root / "test")
    assert "Training pairs" in (tmp_path / "run" / REPORT_FILE).read_text()
    assert json.loads(done.stderr.splitlines()[-1]) == {"train": 1, "test": 1}
