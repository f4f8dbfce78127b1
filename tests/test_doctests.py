"""Every public function is documented: its arguments, what it returns, and an example that runs as it is printed."""

import doctest
import inspect
from typing import Any

import pytest

import ident3d

MODULES = ident3d._MODULES


def public() -> dict[str, Any]:
    """Every public function and class by its full name."""
    listed = {
        f"{module}.{name}": getattr(ident3d, module) for module in MODULES for name in getattr(ident3d, module).__all__
    }
    found = {full: getattr(module, full.partition(".")[2]) for full, module in listed.items()}
    return {name: inspect.unwrap(thing) for name, thing in found.items() if inspect.isclass(thing) or callable(thing)}


PUBLIC = public()
FUNCTIONS = [name for name, thing in PUBLIC.items() if inspect.isfunction(thing)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_and_result_are_documented(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    for parameter in inspect.signature(PUBLIC[name]).parameters:
        assert f"\n    {parameter}: " in text, f"{name} does not document {parameter}"
    assert "\nReturns:\n" in text, name
    assert ">>> " in text, f"{name} has no example"


@pytest.mark.parametrize("name", PUBLIC)
def test_example_runs(name: str) -> None:
    output: list[str] = []
    for example in doctest.DocTestFinder().find(PUBLIC[name], name, globs={}):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(example, out=output.append)
        assert not runner.failures, "".join(output)
