"""What users install: the wheel and the sdist, built from this checkout, tried in an empty environment."""

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
# package at the top of the repository -> where it is installed
PACKAGES = {"ident3d": "ident3d", **{name: f"ident3d/{name}" for name in ("blender_scenes", "loaders", "training")}}
DATA = (
    "ident3d/latents/exact/causal3dident.toml", "ident3d/py.typed", "ident3d/shapes/sources.toml",
    "training/report/report.html",
    *(path.relative_to(TOP).as_posix() for path in (TOP / "training/explorer/web").iterdir()),
)  # fmt: skip


def source_files() -> list[str]:
    """Every file of the repository that is installed."""
    code = [file for room in PACKAGES for ending in ("py", "pyi") for file in (TOP / room).rglob(f"*.{ending}")]
    return sorted([*DATA, *(file.relative_to(TOP).as_posix() for file in code)])


def installed_name(file: str) -> str:
    top, _, rest = file.partition("/")
    return f"{PACKAGES[top]}/{rest}"


def run(*command: str | Path, cwd: Path) -> str:
    # without PYTHONPATH, so that an empty environment is one
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, cwd=cwd, env=environment
    )
    what = f"{Path(command[0]).name} {str(command[1:])[:80]}"
    assert done.returncode in (0, 4), f"{what}: {done.stdout[-2000:]}{done.stderr[-3000:]}"  # 4: doctor, no bpy
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist, and the wheel that is built from the sdist: a file that the sdist lacks is missing in both."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, TOP, cwd=out)
    return {"wheel": next(out.glob("*.whl")), "sdist": next(out.glob("*.tar.gz"))}


@pytest.fixture(scope="module")
def wheel_names(dist: dict[str, Path]) -> list[str]:
    with zipfile.ZipFile(dist["wheel"]) as wheel:
        return wheel.namelist()


def test_wheel_has_one_import_name(wheel_names: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel_names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ident3d"}


def test_wheel_holds_every_source_file_and_nothing_else(wheel_names: list[str]) -> None:
    held = {name for name in wheel_names if not name.split("/")[0].endswith(".dist-info")}
    assert held == {installed_name(file) for file in source_files()}


def test_sdist_holds_every_source_file_and_what_builds_it(dist: dict[str, Path]) -> None:
    with tarfile.open(dist["sdist"]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert held >= {*source_files(), "pyproject.toml", "README.md", "LICENSE"}


def test_metadata_names_the_extras_and_the_readme(dist: dict[str, Path]) -> None:
    with zipfile.ZipFile(dist["wheel"]) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        metadata = wheel.read(name).decode()
    for extra in tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]:
        assert f"Provides-Extra: {extra}\n" in metadata
    assert "arXiv" in metadata or "arxiv.org" in metadata


def import_everything(wheel_names: list[str]) -> str:
    """Code that imports every module of the wheel, and shows where the package lies."""
    names = [
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for name in wheel_names
        if name.endswith(".py") and not name.endswith("__main__.py")  # that one runs the command line
    ]
    return (
        "import importlib, importlib.util\n"
        f"for name in {names!r}:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except ModuleNotFoundError as error:\n"
        # an optional package may be missing, a module of ours may not
        "        assert not str(error.name).startswith('ident3d'), (name, error)\n"
        # or says how it is installed
        "    except ValueError as error:\n"
        "        assert type(error).__name__ == 'UserError' and 'pip install' in str(error), (name, error)\n"
        "import ident3d; print(ident3d.__file__)"
    )


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_was_built_installs_and_imports(
    dist: dict[str, Path], wheel_names: list[str], kind: str, tmp_path: Path
) -> None:
    """In an environment that holds nothing but what is installed here already, and no checkout."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    target = tmp_path / "site"
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--target", target)
    run(sys.executable, "-m", "pip", "install", *options, dist[kind], cwd=tmp_path)
    # the environment sees what we installed first, then the packages of this one without its link to the checkout
    seen = [str(target), *(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))]
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    (packages / "seen.pth").write_text("\n".join(seen))
    where = run(python, "-c", import_everything(wheel_names), cwd=tmp_path).split()[-1]
    assert Path(where).is_relative_to(target)
    assert "Training: yes" in run(python, "-m", "ident3d", "doctor", "--root", tmp_path, cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_full_install_into_an_empty_environment(
    dist: dict[str, Path], wheel_names: list[str], kind: str, tmp_path: Path
) -> None:
    """`pip install ident3d[render,cpu]` as a user does it: minutes, and gigabytes of other packages.

    `pytest -m slow tests/test_wheel.py`: 2 passed, 88 CPU-s, Python 3.11, torch 2.13.0+cpu, bpy 4.5.15.
    """
    venv.create(tmp_path / "venv", with_pip=True)
    pip = [tmp_path / "venv" / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q"]
    # torch as pinned: the newest in the range may bring gigabytes of CUDA
    run(*pip, "install", "-c", TOP / "constraints.txt", "torch", cwd=tmp_path)
    run(*pip, "install", "-c", TOP / "constraints.txt", f"{dist[kind]}[render,cpu]", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    where = run(python, "-c", import_everything(wheel_names), cwd=tmp_path).split()[-1]
    assert Path(where).is_relative_to(tmp_path / "venv")
    ident3d = tmp_path / "venv" / "bin" / "ident3d"
    assert "Training: yes" in run(ident3d, "doctor", "--root", tmp_path, cwd=tmp_path)
    if sys.version_info[:2] == (3, 11):
        run(ident3d, "render", "--n", "2", "--size", "16", "--quality", "draft", "--out", "two", cwd=tmp_path)
        run(ident3d, "verify", "two", cwd=tmp_path)
