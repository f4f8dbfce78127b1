"""A user's own functions, classes and modules in Python: as loss, encoder and mixing, and what a run records."""

import json
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from own_mixing import Twice, line
from torch import Tensor, nn

import ident3d
from ident3d.errors import UserError
from ident3d.training.images.run import open_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.mixing.settings import MixingSettings

QUICK: dict[str, Any] = {"device": "cpu", "show_progress": False}


def small(**given: Any) -> TrainSettings:
    return TrainSettings(**{"batch": 32, "steps": 2, "dtype": "fp32", "encoder": tiny.plain, **given})


def whole() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 16), nn.BatchNorm1d(16), nn.Linear(16, 10))


def weights(run: Path) -> bytes:
    return (run / "checkpoint.safetensors").read_bytes()


def test_objects_train_as_their_import_paths_do(root: Path, tmp_path: Path) -> None:
    by_object = ident3d.train(root / "train", small(loss=tiny.squared), out=tmp_path / "a", workers=0, **QUICK)
    named = small(loss="tiny:squared", encoder="tiny:plain")
    by_name = ident3d.train(root / "train", named, out=tmp_path / "b", workers=0, **QUICK)
    assert weights(by_object.path) == weights(by_name.path)
    for run in (by_object, by_name):
        record = json.loads((run.path / "run.json").read_text())
        assert (record["settings"]["loss"], record["settings"]["encoder"]) == ("tiny:squared", "tiny:plain")
        assert record["facts"]["own_code"].keys() == {"encoder", "loss"}
        assert all(len(own["digest"]) == 16 for own in record["facts"]["own_code"].values())
    # The run still has the object; its folder has the name alone.
    assert ident3d.evaluate(by_object, root / "test", metrics="linear_r2", **QUICK).count == 70
    with pytest.raises(UserError, match="--encoder tiny:plain"):
        ident3d.evaluate(tmp_path / "a", root / "test", metrics="linear_r2", **QUICK)
    found = ident3d.evaluate(str(tmp_path / "a"), root / "test", metrics="linear_r2", encoder=tiny.plain, **QUICK)
    assert found.count == 70


def test_a_whole_encoder_gets_no_head(root: Path, tmp_path: Path) -> None:
    net = whole()
    before = [parameter.clone() for parameter in net.parameters()]
    run = ident3d.train(root / "train", small(encoder=net, space="unbounded"), out=tmp_path / "a", workers=0, **QUICK)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True)), "a copy is trained"
    assert run.settings.encoder == "torch.nn.modules.container:Sequential()"
    codes = ident3d.encode(run.path, root / "test", str(tmp_path / "codes.npy"), encoder=net, **QUICK)
    assert np.load(codes).shape == (70, 10)
    with pytest.raises(UserError, match="encoder=…"):
        ident3d.encode(run.path, root / "test", encoder=None, **QUICK)
    space = ident3d.encoders.Unbounded(10)
    f = ident3d.encoders.encoder(net, space, size=16).eval()
    x = torch.rand(4, 3, 16, 16)
    torch.testing.assert_close(f(x), net.eval()(x))
    assert "head.1.weight" in ident3d.encoders.encoder(tiny.plain, space, size=16).state_dict()


def test_resume_says_what_it_cannot_check(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def make() -> Any:
        lock = Lock()

        def repelled(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
            with lock:
                return tiny.squared(anchors, positives, negatives)

        return repelled

    def go(loss: Any, steps: int, **given: Any) -> str:
        settings = small(loss=loss, steps=steps)
        ident3d.train(root / "train", settings, out=tmp_path / "a", workers=0, **QUICK, resume=True, **given)
        shown = capsys.readouterr()
        return shown.out + shown.err

    repelled = make()
    assert "checked" not in go(repelled, 2)
    assert "checked" not in go(repelled, 3), "the very same object"
    assert "lock" in go(make(), 4), "what a lock holds is in no record"
    record = json.loads((tmp_path / "a/run.json").read_text())
    assert record["facts"]["own_code"]["loss"]["unknown"] == ["what the run began with, before --resume"]
    record["facts"]["own_code"]["encoder"] = "0" * 16
    (tmp_path / "a/run.json").write_text(json.dumps(record))
    assert "encoder tiny:plain has other code" in go(repelled, 5)
    with pytest.raises(UserError, match="tiny:squared"):
        go(tiny.squared, 6)
    assert open_run(tmp_path / "a").settings.loss == (
        "test_own_objects:test_resume_says_what_it_cannot_check.<locals>.make.<locals>.repelled"
    )


def test_mixed_latents_take_objects(tmp_path: Path) -> None:
    settings = MixingSettings(dim=3, batch=32, steps=2, mixing=Twice, encoder=line, loss=partial(tiny.squared))
    run = ident3d.mixing(settings, out=str(tmp_path / "a"), **QUICK)
    record = json.loads((tmp_path / "a/run.json").read_text())
    assert record["settings"]["mixing"] == "own_mixing:Twice"
    assert record["facts"]["own_code"]["loss"].keys() == {"digest"}
    named = MixingSettings(dim=3, batch=32, steps=2, mixing="own_mixing:Twice", encoder="own_mixing:line",
                           loss="tiny:squared")  # fmt: skip
    assert weights(run.path or tmp_path) == weights(ident3d.mixing(named, out=tmp_path / "b", **QUICK).path or tmp_path)


def test_settings_show_what_is_not_at_its_default() -> None:
    assert repr(TrainSettings()) == "TrainSettings()"
    assert repr(TrainSettings(loss=tiny.squared, batch=8)) == "TrainSettings(loss='tiny:squared', batch=8)"
    assert TrainSettings(loss=tiny.squared) == TrainSettings(loss="tiny:squared")
