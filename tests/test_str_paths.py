"""Every public function takes a path as a str, as a user writes it, and refuses what is no path, number or setting."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import make_dataset

import ident3d
from ident3d.public import homes

MODULES = ("encoders", "latents", "losses", "metrics", "views")


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function and class."""
    for module in (ident3d, *(getattr(ident3d, name) for name in MODULES)):
        for name in homes(module.__name__):
            thing = getattr(module, name)
            if inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, Exception)):
                yield f"{module.__name__}.{name}", thing
                methods = inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else []
                yield from ((f"{module.__name__}.{name}.{each}", method) for each, method in methods)


def test_no_parameter_is_for_a_path_alone() -> None:
    pytest.importorskip("distributed", reason="some public functions come with the extra render")
    found = [(name, each) for name, thing in public() for each in inspect.signature(thing).parameters.values()]
    paths = [(name, each.name, str(each.annotation)) for name, each in found if "Path" in str(each.annotation)]
    assert len(paths) > 25
    assert not [(name, parameter) for name, parameter, kind in paths if "str" not in kind]


def test_paths_are_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mesh_files: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_dataset(Path("set"), 24)
    make_dataset(Path("test"), 40, split="test")
    assert len(ident3d.ImageDataset("set")) == len(ident3d.ImageDataset(["set"])) == 24
    assert len(ident3d.make_loader(ident3d.PairDataset("set"), 8, workers=0)) == 3
    assert ident3d.pairs("set", count=10).pairs == 10
    assert ident3d.index("set", search="exact").images == 24
    assert ident3d.pack("set", show_progress=False).path.is_file()
    assert ident3d.verify("set", show_progress=False).sound
    assert ident3d.export("set", "out", show_progress=False).written == 24
    assert ident3d.import_("out", "back", workers=1, show_progress=False).imported == 24
    assert ident3d.info("set").folder.finished == 24
    assert ident3d.preview("set", count=2).width > 0
    assert ident3d.doctor("data").findings
    ident3d.graph(out="graph.png")
    with pytest.raises(ident3d.UserError, match=r"own\.toml"):
        ident3d.graph("own.toml", out="graph.png")
    assert len(ident3d.meshes(["Horse"], directory=str(mesh_files), accept_terms=True).records) == 1


def test_paths_of_training_are_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_dataset(Path("data/set"), 24)
    make_dataset(Path("data/test"), 40, split="test")
    quick: dict[str, Any] = {"device": "cpu", "show_progress": False}
    settings = ident3d.TrainSettings(encoder="tiny:plain", batch=8, steps=1, dtype="fp32")
    lines: list[dict[str, Any]] = []
    run = ident3d.train("data/set", settings, out="run", root="data", workers=0, on_log=lines.append, **quick)
    assert run.path == Path("run")
    assert [line["step"] for line in lines] == [1]
    found = ident3d.evaluate("run", root="data", metrics="mcc_pearson", encoder="tiny:plain", **quick)
    assert found.data.name == "test"
    assert ident3d.report("run") == Path("run/report.html")
    assert ident3d.encode("run", "data/test", "codes.npy", encoder="tiny:plain", **quick) == Path("codes.npy")
    assert found.report.plot("picture.svg").is_file()
    small = ident3d.MixingSettings(dim=3, encoder="16x2", batch=64, steps=1)
    lines.clear()
    mixed = ident3d.mixing(small, out="mixed", root="data", on_log=lines.append, **quick)
    assert mixed.path == Path("mixed")
    pages = [ident3d.report(work).read_text() for work in (mixed, "mixed")]
    assert pages[0] == pages[1]
    assert "by chance" in pages[0]
    assert lines[0]["loss"] > 0


def test_plain_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = make_dataset(Path("set"), 12)
    mistakes: dict[str, Callable[[], object]] = {
        r"own\.toml": lambda: ident3d.World("causal3dident", graph="own.toml"),
        "not 3": lambda: ident3d.graph(3),  # type: ignore[arg-type]
        "no folder box": lambda: ident3d.compare("box"),
        "PairDataset.*'set'": lambda: ident3d.make_loader("set", 4),  # type: ignore[arg-type]
        "sigma.*'0.1'": lambda: ident3d.PairDataset(folder, sigma="0.1"),  # type: ignore[arg-type]
        r"lambdas.*\(\(400.0,\),\).*400.0\.$": lambda: ident3d.TrainSettings(lambdas=400.0),  # type: ignore[arg-type]
        r"hard.*\(50.0,\), not 50.0": lambda: ident3d.TrainSettings(hard=50.0),  # type: ignore[arg-type]
        "batch.*whole number, not '16'": lambda: ident3d.TrainSettings(batch="16"),  # type: ignore[arg-type]
        "dim of MixingSettings.*2.5": lambda: ident3d.MixingSettings(dim=2.5),  # type: ignore[arg-type]
        "'bacth'.*'batch'": lambda: ident3d.TrainSettings(bacth=3),  # type: ignore[call-arg]
        "TrainSettings.*'batch': 16": lambda: ident3d.train(folder, {"batch": 16}),  # type: ignore[arg-type]
        "MixingSettings.*'batch': 16": lambda: ident3d.mixing({"batch": 16}),  # type: ignore[arg-type]
        "on_log.*'x'": lambda: ident3d.train(folder, on_log="x"),  # type: ignore[arg-type]
    }
    for said, mistake in mistakes.items():
        with pytest.raises(ident3d.UserError, match=said):
            mistake()
    # NumPy's numbers and lists are as good as Python's.
    given: dict[str, Any] = {"batch": np.int64(16), "lr": np.float32(0.5), "only": ["x"], "lambdas": [[4]]}
    assert ident3d.TrainSettings(**given).batch == 16
    Path("own.toml").write_text('classes = ["Teapot"]\n[y]\nmean = "0.5 * x"\nsd = 0.1')
    world = ident3d.World("causal3dident", graph="own.toml")
    assert world.graph is not None
    assert world.graph.edges == [("x", "y")]
