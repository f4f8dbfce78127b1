"""The import rules of the house: which room may import what, and what the front door loads."""

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import ident3d

TOP = Path(__file__).parent.parent

# folder -> packages that no file below it may import, at any depth of the code
NEVER = {
    "ident3d/latents": {"bpy", "torch", "h5py", "ident3d.loaders", "ident3d.training", "ident3d.blender_scenes"},
    "blender_scenes": {"torch", "h5py", "ident3d.loaders", "ident3d.training", "ident3d.metrics"},
    "loaders": {"bpy", "ident3d.blender_scenes", "ident3d.training", "ident3d.metrics"},
    "training": {"bpy", "ident3d.blender_scenes"},
    "ident3d/shapes": {"bpy", "torch", "h5py", "ident3d.training", "ident3d.metrics"},
    "ident3d/metrics": {"torch", "bpy", "h5py", "ident3d.loaders", "ident3d.training", "ident3d.blender_scenes"},
}


def imported(source: str) -> set[str]:
    """Every module that the source imports, with the packages above it: a.b.c gives a, a.b and a.b.c."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {".".join(name.split(".")[: i + 1]) for name in names for i in range(name.count(".") + 1)}


def test_every_public_name_loads_and_is_known_to_type_checkers() -> None:
    hinted = {line.split(" as ")[1] for line in Path(ident3d.__file__).read_text().splitlines() if " as " in line}
    assert hinted == set(ident3d._HOME)
    for name, module in ident3d._HOME.items():
        if find_spec("distributed") or module not in ("ident3d.farm.render", "ident3d.farm.estimate"):
            assert getattr(ident3d, name).__module__ == module


def test_imported_sees_every_form() -> None:
    source = "import a.b\ndef f():\n    from ident3d import training\n    from c import d as e\n"
    assert imported(source) == {"a", "a.b", "ident3d", "ident3d.training", "c", "c.d"}


@pytest.mark.parametrize("room", NEVER)
def test_room_keeps_its_import_rules(room: str) -> None:
    files = sorted((TOP / room).rglob("*.py"))
    assert files
    broken = {str(file.relative_to(TOP)): bad for file in files if (bad := imported(file.read_text()) & NEVER[room])}
    assert not broken


def test_front_door_imports_rooms_only_inside_functions() -> None:
    heavy = {"torch", "bpy", "h5py", "numpy", "scipy", "sklearn", "matplotlib"}
    for file in [*sorted((TOP / "ident3d/commands").glob("*.py")), TOP / "ident3d/cli.py", TOP / "ident3d/__init__.py"]:
        top_level = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = imported("\n".join(ast.unparse(node) for node in top_level))
        assert not names & heavy, file


@pytest.mark.parametrize("code", ["import ident3d", "from ident3d.cli import main\nmain(['--help'])"])
def test_front_door_loads_neither_torch_nor_bpy(code: str) -> None:
    script = f"""
import sys
try:
{chr(10).join("    " + line for line in code.splitlines())}
finally:
    assert not {{'torch', 'bpy', 'numpy', 'h5py', 'matplotlib'}} & set(sys.modules), sorted(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
