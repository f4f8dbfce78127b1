"""The tutorials are run as they stand: every bash and Python block, in order. So is the Python of other pages."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from synthetic import make_dataset

from ident3d.loaders.folders.verify import verify

TOP = Path(__file__).parent.parent
TUTORIALS = TOP / "docs" / "tutorial"
HOW_TO = TOP / "docs" / "how-to"
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(page: Path, folder: Path, languages: tuple[str, ...] = ("bash", "python")) -> None:
    """Run the page's blocks. Python ones share their names, as in one session; the first that fails ends the page."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    script, blocks = ["import subprocess"], [block for block in found if block[0] in languages]
    assert blocks
    for language, block in blocks:
        shell = f"subprocess.run(['bash', '-euo', 'pipefail', '-c', {block!r}], check=True)"
        script.append(block if language == "python" else shell)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, f"{page.name}:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the first tutorial leaves, which the second and the third go on with."""
    folder = tmp_path_factory.mktemp("tutorial")
    run_page(TUTORIALS / "1-render-and-look.md", folder)
    return folder


@pytest.mark.bpy
def test_render_and_look(rendered: Path) -> None:
    for name in ("preview.png", "traverse.png", "train/dataset.json", "test/dataset.json"):
        assert (rendered / name).is_file(), name


@pytest.mark.bpy
def test_pairs(rendered: Path) -> None:
    run_page(TUTORIALS / "2-pairs.md", rendered)
    assert (rendered / "pairs.png").is_file()


@pytest.mark.bpy
def test_train_and_read_the_report(rendered: Path) -> None:
    run_page(TUTORIALS / "3-train-and-read-the-report.md", rendered)
    for name in ("run/report.html", "run/evaluation.json", "codes.h5"):
        assert (rendered / name).is_file(), name


def test_score_your_own_codes(tmp_path: Path) -> None:
    run_page(TUTORIALS / "4-score-your-own-codes.md", tmp_path)
    assert (tmp_path / "scores.png").is_file()


@pytest.mark.bpy
def test_several_objects(tmp_path: Path) -> None:
    run_page(TUTORIALS / "5-several-objects.md", tmp_path)
    for name in ("objects", "seen", "new", "pairs"):
        assert verify(tmp_path / name, show_progress=False).sound, name


@pytest.mark.bpy
def test_a_moving_camera(tmp_path: Path) -> None:
    run_page(TUTORIALS / "6-a-moving-camera.md", tmp_path)
    for name in ("views", "flight"):
        assert verify(tmp_path / name, show_progress=False).sound, name
    assert (tmp_path / "flight.gif").is_file()


def test_explore(tmp_path: Path) -> None:
    run_page(HOW_TO / "explore.md", tmp_path)
    for name in ("few-explore.html", "look.html"):
        assert 50_000 < (tmp_path / name).stat().st_size < 20_000_000, name


def test_own_data(tmp_path: Path) -> None:
    run_page(HOW_TO / "own-data.md", tmp_path)
    for name in ("squares-again", "discs/test", "levels"):
        assert verify(tmp_path / name, show_progress=False).sound, name


def test_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("datasets", "webdataset", "pyarrow"):
        if not find_spec(package):
            pytest.skip("the page needs the extra hubs")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    run_page(HOW_TO / "share.md", tmp_path)
    for name in ("bars-again", "bars-test-again"):
        assert verify(tmp_path / name, show_progress=False).sound, name


@pytest.mark.bpy
def test_own_latents(tmp_path: Path, own_meshes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_meshes))
    run_page(HOW_TO / "own-latents.md", tmp_path)
    for name in ("walk", "metal", "hares", "again"):
        assert verify(tmp_path / name, show_progress=False).sound, name


@pytest.mark.bpy
def test_sequences(tmp_path: Path) -> None:
    page = HOW_TO / "sequences.md"
    found = re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "own.toml").write_text(found[0], encoding="utf-8")
    run_page(page, tmp_path)
    for name in ("twos", "moving"):
        assert verify(tmp_path / name, show_progress=False).sound, name


@pytest.mark.bpy
def test_views(tmp_path: Path) -> None:
    run_page(HOW_TO / "views.md", tmp_path)
    for name in ("twos", "around", "more"):
        assert verify(tmp_path / name, show_progress=False).sound, name


@pytest.mark.bpy
def test_environments(tmp_path: Path) -> None:
    run_page(HOW_TO / "environments.md", tmp_path)
    assert verify(tmp_path / "three", show_progress=False).sound


def test_the_readmes_python(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    make_dataset(tmp_path / "demo" / "train", 96, size=32, shard_size=32)
    make_dataset(tmp_path / "demo" / "test", 64, size=32, shard_size=32, split="test")
    run_page(TOP / "README.md", tmp_path)
    assert (tmp_path / "demo" / "short" / "evaluation.json").is_file()


def test_own_logging(tmp_path: Path) -> None:
    make_dataset(tmp_path / "train", 48, size=32, shard_size=16)
    libraries = {"Weights & Biases": "wandb", "TensorBoard": "tensorboard"}
    sections = re.split("^## ", (TOP / "docs/how-to/own-logging.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    here = [part for part in sections if find_spec(libraries.get(part.partition("\n")[0], "ident3d"))]
    (tmp_path / "page.md").write_text("\n".join(here), encoding="utf-8")
    run_page(tmp_path / "page.md", tmp_path)
    assert (tmp_path / "losses.csv").read_text().count("\n") == 4


@pytest.mark.parametrize(
    "page", ["how-to/load.md", "reference/dataset-format.md", "reference/errors.md", "explanation/pair-rules.md"]
)
def test_the_python_of_other_pages(page: str, tmp_path: Path) -> None:
    # As many images as the page's batch, so that its loop runs once.
    make_dataset(tmp_path / "data" / "3dident-train-250000", 256, size=16, shard_size=16)
    run_page(TOP / "docs" / page, tmp_path, ("python",))
