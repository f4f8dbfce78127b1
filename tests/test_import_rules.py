"""The import rules of the house, held over every import of every file: what a folder may import is listed here.

What is not listed is forbidden. A new folder has to be entered here, and in `packages` of pyproject.toml.
"""

import ast
import inspect
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import ident3d
from ident3d.public import homes

TOP = Path(__file__).parent.parent
ROOMS = ("ident3d", "blender_scenes", "loaders", "training")
GROUND = ("errors", "machine", "memory", "progress", "public")

LATENTS = ("latents", "latents.distributions", "latents.exact")
FOLDERS = ("loaders.format", "loaders.cards", "loaders.stores", "loaders.folders")
DATASETS = (*FOLDERS, "loaders.pairs", "loaders.datasets")
TRAINING = tuple(
    f"training.{name}" for name in ("loop", "own", "losses", "encoders", "views", "images", "mixing", "diagnostics")
)
EVERYTHING = (
    *LATENTS, *DATASETS, *TRAINING, "loaders.batches", "loaders.exports", "loaders.layouts", "training.experiments",
    "training.report", "training.explorer", "training.runs",
    "downloads", "metrics", "shapes", "sprites", "farm.batch", "farm.local", "farm", "reproduction", "looking",
    "blender_scenes", "bench",
)  # fmt: skip

# folder → the folders that it may import besides the ground, from the bottom up: each line names only lines above it
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "latents.exact": (),
    "latents.distributions": ("latents.exact",),
    "latents": ("latents.exact", "latents.distributions"),
    # a scene declares its factors
    "blender_scenes": ("latents", "latents.exact"),
    "metrics": (),
    "loaders.format": LATENTS,
    "loaders.cards": (*LATENTS, "loaders.format"),
    "loaders.stores": ("loaders.format",),
    "loaders.folders": (*LATENTS, "loaders.format", "loaders.cards", "loaders.stores"),
    "loaders.pairs": (*LATENTS, "loaders.format"),
    "loaders.datasets": (*LATENTS, *FOLDERS, "loaders.pairs"),
    # sprites are quickly made: they need no farm, only dataset folders; one of KITTI Masks is read for its transitions
    "sprites": (*LATENTS, "loaders.format", "loaders.stores", "loaders.folders", "loaders.datasets"),
    # exports are written by the columns that layouts reads them back by
    "loaders.exports": (*LATENTS, *FOLDERS, "loaders.datasets"),
    "loaders.layouts": (*LATENTS, *FOLDERS, "loaders.datasets", "loaders.exports", "sprites"),
    "loaders.batches": (*LATENTS, "loaders.format", "loaders.pairs", "loaders.datasets"),
    "downloads": (*LATENTS, "loaders.format", "loaders.stores", "loaders.folders", "loaders.layouts"),
    "shapes": ("latents", "latents.exact", "blender_scenes", *FOLDERS, "downloads"),
    "training.loop": ("loaders.format", "loaders.stores", "metrics"),
    "training.own": (),
    "training.losses": ("training.loop", "training.own"),
    "training.encoders": ("training.loop", "training.own", "training.losses"),
    "training.views": (),
    "training.images": (*LATENTS, *DATASETS, "loaders.batches", "metrics", "training.loop", "training.own",
                        "training.losses", "training.encoders", "training.views"),
    # a mixing may be a decoder, whose encoder is scored on the images that it was trained on
    "training.mixing": (*LATENTS, *DATASETS, "metrics", "training.loop",
                        "training.own", "training.losses", "training.encoders"),
    # what augmentations do to a run's features, and to images
    "training.diagnostics": (*LATENTS, *DATASETS, "metrics", "training.loop", "training.losses", "training.encoders",
                             "training.views", "training.images"),
    # a table of a user's own may name a user's own code
    "training.experiments": ("latents", "latents.exact", "training.own", "training.images", "training.mixing"),
    # a page shows what is attainable, how wide pairs were asked to be, and runs of either trainer
    "training.report": (*LATENTS, *DATASETS, "metrics", "training.loop", "training.losses", "training.images",
                        "training.mixing", "training.experiments"),
    # a page of images, and of a run's codes of them, in the style of a report
    "training.explorer": (*LATENTS, *DATASETS, "training.loop", "training.encoders", "training.images",
                          "training.report"),
    "training.runs": ("loaders.format", "loaders.stores", "training.loop", "training.own", "training.images",
                      "training.mixing"),
    "farm.batch": ("loaders.stores",),
    "farm.local": ("farm.batch",),
    "farm": (*LATENTS, "blender_scenes", "loaders.format", "loaders.stores", "loaders.folders", "shapes", "farm.batch",
             "farm.local"),
    # tables are run on published data too, which are generated, or whose import or download is told
    "reproduction": (*LATENTS, *DATASETS, "loaders.layouts", "metrics", *TRAINING, "training.experiments",
                     "training.report", "sprites", "downloads", "farm"),
    "looking": (*LATENTS, "blender_scenes", *FOLDERS, "loaders.datasets",
                "loaders.exports", "loaders.layouts", "sprites", "downloads", "shapes", "farm"),
    "bench": tuple(name for name in EVERYTHING if name != "bench"),
    "commands": EVERYTHING,
    "": (*EVERYTHING, "commands"),
    # as a user's own scene: the public names alone
    "examples": ("",),
}  # fmt: skip

# folder → packages that no line of it may import, at any depth of the code
NEVER = {
    "latents": {"bpy", "torch", "h5py"},
    "latents.exact": {"bpy", "torch", "h5py", "scipy"},
    "latents.distributions": {"bpy", "torch", "h5py"},
    "blender_scenes": {"torch", "h5py"},
    "loaders.format": {"bpy", "torch"},
    "loaders.cards": {"bpy", "torch", "h5py"},
    "loaders.stores": {"bpy", "torch"},
    "loaders.folders": {"bpy", "torch"},
    "loaders.pairs": {"bpy", "torch", "h5py"},
    "loaders.datasets": {"bpy"},
    "loaders.exports": {"bpy", "torch"},
    "loaders.layouts": {"bpy"},
    "loaders.batches": {"bpy"},
    "metrics": {"torch", "bpy", "h5py"},
    "downloads": {"bpy", "torch", "h5py"},
    "shapes": {"bpy", "torch", "h5py"},
    "sprites": {"bpy", "torch", "h5py", "scipy"},
    **{name: {"bpy"} for name in MAY_IMPORT if name.startswith("training.")},
}

# their listing is their index
FLAT = {"commands", "metrics", "shapes", "bench", "blender_scenes", "", "latents", "examples"}

# what goes to the maths library, whose last bits differ between machines
LIBM = {"sin", "cos", "tan", "arctan2", "exp", "exp2", "expm1", "log", "log2", "log1p", "power", "float_power", "cbrt"}

# public name → the module that holds it; a public module is a name of the package
HOMES = homes("ident3d")
PUBLIC_MODULES = sorted(name for name, home in HOMES.items() if home == "ident3d")


@cache
def modules() -> dict[str, Path]:
    """Every module below the rooms, by the name that it is imported by, without "ident3d."."""
    found = {}
    for room in ROOMS:
        for file in sorted((TOP / room).rglob("*.py")):
            parts = [*([] if room == "ident3d" else [room]), *file.relative_to(TOP / room).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def folder_of(module: str) -> str:
    """The folder that a module lies in; a package is its own folder. Modules of the ground stand for themselves."""
    is_package = modules()[module].name == "__init__.py"
    return module if is_package or module in GROUND else module.rpartition(".")[0]


def imported(source: str) -> set[str]:
    """Every module that the source imports, with the packages above it: a.b.c gives a, a.b and a.b.c."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {".".join(name.split(".")[: i + 1]) for name in names for i in range(name.count(".") + 1)}


def imported_folders(source: str) -> set[str]:
    """The folders of ours, and the modules of the ground, that the source takes names from."""
    ours = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            targets = []
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                targets.append(full if full.removeprefix("ident3d.") in modules() else str(node.module))
        else:
            continue
        names = [name.removeprefix("ident3d.") for name in targets if name.startswith("ident3d.")]
        ours |= {folder_of(name) for name in names}
        ours |= {"" for name in targets if name == "ident3d"}
    return ours


def test_imported_sees_every_form() -> None:
    source = "import a.b\ndef f():\n    from ident3d import training\n    from c import d as e\n"
    assert imported(source) == {"a", "a.b", "ident3d", "ident3d.training", "c", "c.d"}
    source = "import ident3d.farm\nfrom ident3d.loaders.format import shard\ndef f():\n    from ident3d import errors"
    assert imported_folders(source) == {"farm", "loaders.format", "errors"}


def test_the_allow_list_has_no_cycle_and_no_gap() -> None:
    above: set[str] = set()
    for folder, allowed in MAY_IMPORT.items():
        assert set(allowed) <= above | ({"bench"} if folder == "commands" else set()), folder
        above.add(folder)
    rooms = {"loaders", "training"}  # packages that hold folders and nothing else
    assert {folder_of(module) for module in modules()} - set(GROUND) == set(MAY_IMPORT) | rooms


def test_every_import_is_allowed() -> None:
    broken = []
    for module, file in modules().items():
        folder = folder_of(module)
        allowed = set(GROUND) if folder in GROUND else {folder, *GROUND, *MAY_IMPORT.get(folder, ())}
        # a command and a measurement may ask the public names and the version
        allowed |= {""} if folder in ("commands", "bench") else set()
        broken += [f"{module} imports {name}" for name in imported_folders(file.read_text()) - allowed]
    assert not broken


@pytest.mark.parametrize("folder", NEVER)
def test_packages_that_a_folder_does_without(folder: str) -> None:
    files = [file for module, file in modules().items() if folder_of(module) == folder]
    assert files
    broken = {str(file.relative_to(TOP)): bad for file in files if (bad := imported(file.read_text()) & NEVER[folder])}
    assert not broken


def test_exact_latents_use_no_maths_library() -> None:
    files = [file for module, file in modules().items() if module.startswith("latents.exact.")]
    files += [
        modules()[f"latents.{name}"]
        for name in ("worlds", "draws", "sequence_draws", "steps", "next_frame", "environments", "view_draws")
    ]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np":
                assert node.attr not in LIBM, f"{file.name}:{node.lineno} uses np.{node.attr}"


def test_folders_hold_3_to_12_files() -> None:
    for folder in set(MAY_IMPORT) - FLAT:
        count = sum(folder_of(module) == folder for module in modules()) - 1  # without its __init__
        assert 3 <= count <= 12, f"{folder} holds {count} files"


def test_no_two_test_files_share_a_name() -> None:
    """Pytest imports a test file by its name alone."""
    names = [path.name for path in (TOP / "tests").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_every_folder_says_what_it_holds() -> None:
    for file in modules().values():
        if file.name == "__init__.py":
            assert ast.get_docstring(ast.parse(file.read_text())), file


def test_packages_are_the_folders_on_disk() -> None:
    listed = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    on_disk = [f"ident3d.{name}".rstrip(".") for name, file in modules().items() if file.name == "__init__.py"]
    assert sorted(listed) == sorted(on_disk)


def test_no_entry_of_the_package_has_the_name_of_a_public_function() -> None:
    entries = {name.split(".")[0] for name in modules()} - {""}
    assert not entries & (set(HOMES) - set(PUBLIC_MODULES))


def test_every_public_name_loads_from_where_the_stub_says() -> None:
    assert set(HOMES) == set(ident3d.__all__)
    for name, module in HOMES.items():
        if find_spec("distributed") or module not in ("ident3d.farm.render", "ident3d.farm.estimate"):
            found = getattr(ident3d, name)
            assert found.__name__ == f"ident3d.{name}" if name in PUBLIC_MODULES else found.__module__ == module


@pytest.mark.parametrize("stub", ["", *PUBLIC_MODULES])
def test_a_stub_is_a_list_of_names_and_nothing_else(stub: str) -> None:
    module = f"ident3d.{stub}".rstrip(".")
    import_module(module)
    file = modules()[stub].with_suffix(".pyi")
    listed = [node for node in ast.parse(file.read_text()).body if not isinstance(node, ast.AnnAssign)]
    # what is not of this form would be seen by type checkers and be missing at run time
    names = {node.names[0].asname: node.module for node in listed if isinstance(node, ast.ImportFrom)}
    assert names == homes(module)
    assert len(names) == len(listed)


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_a_public_module_offers_names_of_its_own_room(name: str) -> None:
    room = f"ident3d.training.{name}." if name in ("losses", "encoders", "views") else f"ident3d.{name}."
    import_module(f"ident3d.{name}")
    for public, module in homes(f"ident3d.{name}").items():
        assert module.startswith(room), f"{name}.{public}"


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_a_public_module_loads_on_first_use(name: str) -> None:
    listed = f"print(*sorted(ident3d.{name}.__all__))"
    one, other = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for code in (f"import ident3d; {listed}", f"import ident3d.{name}; {listed}")
    )
    assert one == other
    module = getattr(ident3d, name)
    assert all(hasattr(module, public) for public in one)
    # a submodule of the same name would stand in a function's place as soon as somebody imports it
    assert not any(inspect.ismodule(getattr(module, public)) for public in one)
    below = {module.partition(f"{name}.")[2] for module in modules() if module.startswith(f"{name}.")}
    assert not below & set(one)


def test_front_door_imports_rooms_only_inside_functions() -> None:
    heavy = {"torch", "bpy", "h5py", "numpy", "scipy", "sklearn", "matplotlib"}
    for file in [*sorted((TOP / "ident3d/commands").glob("*.py")), TOP / "ident3d/cli.py", TOP / "ident3d/__init__.py"]:
        top_level = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = imported("\n".join(ast.unparse(node) for node in top_level))
        assert not names & heavy, file


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a fresh Python has loaded after the code."""
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("\n")[-2].split())


@pytest.mark.parametrize("code", ["import ident3d", "from ident3d.cli import main; main(['--help'])"])
def test_front_door_loads_neither_torch_nor_bpy(code: str) -> None:
    assert not {"torch", "bpy", "numpy", "h5py", "matplotlib"} & loaded_by(code)


@pytest.mark.parametrize(
    "code",
    [
        "from ident3d import TrainSettings, MixingSettings",
        "import ident3d.training.experiments.experiment",
        "from ident3d import runs, compare",
        "import ident3d.training.experiments.by_name",
    ],
)
def test_settings_and_experiments_need_no_torch(code: str) -> None:
    assert not {"torch", "kornia", "h5py"} & loaded_by(code)


@pytest.mark.parametrize("module", ["loaders.folders.verify", "loaders.folders.lifecycle", "loaders.pairs.sampler"])
def test_what_a_cluster_worker_loads_needs_no_torch(module: str) -> None:
    assert "torch" not in loaded_by(f"import ident3d.{module}")


@pytest.mark.parametrize("module", ["loaders.folders.verify", "latents.worlds", "farm.render"])
def test_who_verifies_or_hands_out_jobs_does_without_scipy(module: str) -> None:
    """While SciPy loads with too little memory (ulimit -v), it may wait for ever."""
    if module == "farm.render":
        pytest.importorskip("distributed", reason="the farm comes with the extra render")
    assert "scipy" not in loaded_by(f"import ident3d.{module}")
