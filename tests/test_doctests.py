"""Every public function is documented: its arguments, what it returns, and an example that runs as it is printed."""

import doctest
import inspect
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import ident3d
from ident3d.public import homes

OLD = Path(__file__).parent / "data/v0.1"
MODULES = ("encoders", "latents", "losses", "metrics", "views")
# They render, or download: their examples stand in tutorials and how-to pages.
WITHOUT_EXAMPLE = {
    ".check_scene",
    ".estimate",
    ".fetch",
    ".load_scene",
    ".meshes",
    ".render",
    ".reproduce",
    ".traverse",
}
FARM = {".estimate", ".render"}  # they come with the extra render


def public() -> dict[str, Any]:
    """Every public function and class by its full name."""
    listed = {f"{name}.{public}": getattr(ident3d, name) for name in MODULES for public in all_of(name)}
    left_out = set() if find_spec("distributed") else FARM
    listed |= {f".{name}": ident3d for name in homes("ident3d") if name not in MODULES and f".{name}" not in left_out}
    found = {full: getattr(module, full.partition(".")[2]) for full, module in listed.items()}
    found = {name: inspect.unwrap(thing) for name, thing in found.items() if callable(thing)}
    return {name: thing for name, thing in found.items() if inspect.isfunction(thing) or inspect.isclass(thing)}


def all_of(module: str) -> list[str]:
    names: list[str] = getattr(ident3d, module).__all__
    return names


PUBLIC = public()
FUNCTIONS = [name for name, thing in PUBLIC.items() if inspect.isfunction(thing)]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two small datasets and a run of two steps, in which the examples are run."""
    folder = tmp_path_factory.mktemp("examples")
    for name in ("train", "test"):
        shutil.copytree(OLD / name, folder / name)
    settings = ident3d.TrainSettings(encoder="resnet18", sigma=0.3, batch=8, steps=2, dtype="fp32")
    ident3d.train(folder / "train", settings, out=folder / "run", device="cpu", workers=0, show_progress=False)
    return folder


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_and_result_are_documented(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    for parameter in inspect.signature(PUBLIC[name]).parameters:
        assert f"\n    {parameter}: " in text, f"{name} does not document {parameter}"
    assert "\nReturns:\n" in text, name
    assert ">>> " in text or name in WITHOUT_EXAMPLE, f"{name} has no example"


@pytest.mark.parametrize("name", PUBLIC)
def test_example_runs(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    globs: dict[str, Any] = {}
    if name.startswith("."):
        # A folder for each example: they run in any order, on any worker.
        monkeypatch.chdir(shutil.copytree(request.getfixturevalue("work"), tmp_path / "work"))
        globs = {"dataset": Path("train"), "test_set": Path("test"), "run": Path("run")}
    output: list[str] = []
    for example in doctest.DocTestFinder().find(PUBLIC[name], name, globs=globs):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(example, out=output.append)
        assert not runner.failures, "".join(output)
