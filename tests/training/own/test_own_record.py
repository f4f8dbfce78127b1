"""What is recorded of a user's own code, and that `compare` never merges runs whose code may differ in silence."""

import json
import sys
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from importlib import import_module, invalidate_caches
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import pytest
import tiny
import torch
from torch import Tensor, nn

import ident3d
from ident3d.errors import UserError
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.own.own_record import own_record

WEIGHT = 1.0


class Margin(nn.Module):
    def __init__(self, weight: float, *, held: object = None) -> None:
        super().__init__()
        self.weight, self.held = weight, held
        self.register_buffer("far", torch.full((2,), weight))

    def forward(self, anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        return self.weight * tiny.squared(anchors, positives, negatives)


def weighed(anchors: Tensor, positives: Tensor, negatives: Tensor, weight: float = 1.0) -> Tensor:
    return weight * WEIGHT * tiny.squared(anchors, positives, negatives)


def guarded(weight: float) -> Callable[..., Tensor]:
    lock = Lock()

    def loss(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        with lock:
            return weighed(anchors, positives, negatives, weight)

    return loss


def closing_over(weight: Any) -> Callable[..., Tensor]:
    def loss(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        return weighed(anchors, positives, negatives, float(weight))

    return loss


MAKERS: dict[str, Callable[[float], Any]] = {
    "instance": Margin,
    "partial": lambda weight: partial(weighed, weight=weight),
    "closure": closing_over,
    "tensor in a closure": lambda weight: closing_over(torch.tensor([weight])),
    "lambda": lambda weight: lambda a, p, n: weight * tiny.squared(a, p, n),
    "bound method": lambda weight: Margin(weight).forward,
    "nested": lambda weight: partial(Margin(1.0, held={"deep": [(weight,)]}), negatives=None),
    "cached": lambda weight: lru_cache(closing_over(weight)),
}


def run_of(loss: Any, seed: int, out: Path) -> Path:
    settings = MixingSettings(dim=3, encoder="16x1", batch=64, steps=2, loss=loss, seed=seed)
    run = ident3d.mixing(settings, out=out, device="cpu", show_progress=False)
    assert run.path is not None
    return run.path


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_equal_values_give_equal_records_and_others_do_not(make: Callable[[float], Any]) -> None:
    first, again, other = (own_record(make(weight)) for weight in (1.0, 1.0, 5.0))
    assert first == again
    assert first.keys() == {"digest"}
    assert first != other


def test_two_lambdas_of_one_line_differ() -> None:
    one, two = (lambda a, p, n: (a - p).abs().sum(1)), (lambda a, p, n: (a - p).square().sum(1))
    assert own_record(one) != own_record(two)


def test_a_global_that_code_names_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    before = own_record(closing_over(1.0))
    monkeypatch.setitem(globals(), "WEIGHT", 7.0)
    assert own_record(closing_over(1.0)) != before
    monkeypatch.setattr(tiny, "squared", tiny.weighed)
    monkeypatch.setitem(globals(), "WEIGHT", 1.0)
    assert own_record(closing_over(1.0)) != before


def test_what_cannot_be_looked_at_is_the_same_only_as_the_same_object() -> None:
    opaque = Margin(1.0, held=Lock())
    record = own_record(opaque)
    assert "lock" in record["unknown"][0]
    assert own_record(opaque) == record
    assert own_record(Margin(1.0, held=Lock())) != record


def test_compare_groups_own_losses_by_what_they_hold(tmp_path: Path) -> None:
    runs = [run_of(Margin(weight), seed, tmp_path / f"{weight}-{seed}") for weight in (1.0, 5.0) for seed in (0, 1)]
    found = ident3d.compare(runs)
    assert [group.seeds for group in found.groups] == [(0, 1), (0, 1)]
    assert (found.differing.keys(), found.doubts) == ({"code of the loss"}, ())
    # Nobody can see into a lock. The seeds of one object are one group, without a doubt.
    held = guarded(1.0)
    same = [run_of(held, seed, tmp_path / f"same-{seed}") for seed in (0, 1)]
    assert (len(ident3d.compare(same).groups), ident3d.compare(same).doubts) == (1, ())
    other = run_of(guarded(1.0), 2, tmp_path / "other")
    apart = ident3d.compare([*same, other])
    assert [group.seeds for group in apart.groups] == [(0, 1), (2,)]
    assert "cannot be known" in apart.table()
    assert all(word in apart.doubts[0] for word in ("losses", "lock", "A, B"))
    # Runs of an older ident3d recorded the lines of the source alone, or nothing: one group, with the sentence.
    for old in ({"loss": "0" * 16}, {"loss": None}, {}):
        for path in same:
            record = json.loads((path / "run.json").read_text())
            record["facts"]["own_code"] = old
            (path / "run.json").write_text(json.dumps(record))
        merged = ident3d.compare(same)
        assert (len(merged.groups), len(merged.doubts)) == (1, 1)
        assert "losses" in json.dumps(merged.as_dict()["doubts"])
    for broken in ({"digest": 3}, {"unknown": []}, ["digest"]):
        record["facts"]["own_code"] = {"loss": broken}
        (path / "run.json").write_text(json.dumps(record))
        with pytest.raises(UserError, match=r"run\.json"):
            ident3d.compare(same)


def test_a_file_that_changed_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def go(name: str, seed: int, weight: float, power: int) -> Path:
        lines = f"def loss(a, p, n):\n    return WEIGHT * power(tiny.squared(a, p, n))\n\n\nWEIGHT = {weight}\n"
        (tmp_path / "own_globals.py").write_text(f"import tiny\nfrom own_power import power\n\n\n{lines}")
        (tmp_path / "own_power.py").write_text(f"def power(x):\n    return x ** {power}\n")
        # As in a new process.
        for module in ("own_globals", "own_power"):
            sys.modules.pop(module, None)
        invalidate_caches()
        return run_of("own_globals:loss", seed, tmp_path / name)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    runs = [go("a", 0, 1.0, 1), go("b", 1, 1.0, 1), go("c", 2, 7.0, 1), go("d", 3, 1.0, 2)]
    found = ident3d.compare(runs)
    assert [group.seeds for group in found.groups] == [(0, 1), (2,), (3,)]
    assert found.differing.keys() == {"code of the loss"}


# How a loss may reach own_deep.py: by package.module.name, by a module that it closes over, holds or takes.
REACHING: dict[str, Callable[[Any], Any]] = {
    "dotted": lambda own: own.dotted,
    "closed over": lambda own: own.closing_over(own.own_package.losses),
    "an argument": lambda own: partial(own.taking, module=own.own_package.losses),
    "an attribute": lambda own: own.Holding(own.own_package.losses),
}
FILES = {
    "own_package/losses.py": "from own_package.deep import power\n\n\ndef f(x):\n    return power(x)\n",
    "own_package/types.py": "def square(x):\n    return x * x\n",
    "own_reaching.py": """
import own_package.losses

def dotted(a, p, n):
    return own_package.losses.f(a - p)

def closing_over(module):
    def loss(a, p, n):
        return module.f(a - p)
    return loss

def taking(a, p, n, module):
    return module.f(a - p)

class Holding:
    def __init__(self, module):
        self.module = module

def relative(a, p, n):
    from .types import square
    return square(a - p)
""",
}


def test_a_module_behind_another_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own_package").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)

    def records(power: int) -> dict[str, Any]:
        (tmp_path / "own_package/deep.py").write_text(f"def power(x):\n    return x ** {power}\n")
        for module in [name for name in sys.modules if name.startswith(("own_package", "own_reaching"))]:
            del sys.modules[module]
        invalidate_caches()
        own = import_module("own_reaching")
        # Python's own types are installed; the file of that name beside this one is not.
        assert "types" in own_record(own.relative)["unknown"][0]
        return {name: own_record(reach(own)) for name, reach in REACHING.items()}

    first, again, other = records(1), records(1), records(2)
    assert first == again
    assert all(record.keys() == {"digest"} for record in first.values())
    assert all(first[name] != other[name] for name in REACHING)


class Sizes(NamedTuple):
    weight: float = 1.0


class Remembering(Margin):
    @cached_property
    def doubled(self) -> float:
        return 2 * self.weight


def test_named_tuples_and_cached_properties_are_known() -> None:
    for make in (lambda weight: Margin(1.0, held=Sizes(weight)), Remembering):
        one, other = own_record(make(1.0)), own_record(make(2.0))
        assert one.keys() == other.keys() == {"digest"}
        assert one != other
