"""The built wheel: one import name, every room in it, typed."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--disable-pip-version-check",
        "-w",
        str(out),
        ".",
    ]
    subprocess.run(command, check=True, cwd=TOP)
    with zipfile.ZipFile(next(out.glob("*.whl"))) as wheel:
        return wheel.namelist()


def test_wheel_has_one_import_name(wheel_names: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel_names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ident3d"}


def test_wheel_holds_every_source_file_and_the_type_marker(wheel_names: list[str]) -> None:
    for room, package in [
        ("ident3d", ""),
        ("blender_scenes", "blender_scenes/"),
        ("loaders", "loaders/"),
        ("training", "training/"),
    ]:
        for file in (TOP / room).rglob("*.py"):
            assert f"ident3d/{package}{file.relative_to(TOP / room).as_posix()}" in wheel_names
    assert "ident3d/py.typed" in wheel_names
