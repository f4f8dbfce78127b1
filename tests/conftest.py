"""What every test shares: tests that render are left out, with one reason, where bpy cannot be imported."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from shapes.stars import obj_bytes, star

from ident3d.health import look_at_bpy
from ident3d.shapes.library import meshes
from ident3d.shapes.sources import SOURCES

# a busy machine is no failure
settings.register_profile("ident3d", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ident3d")

CAN_RENDER = all(find_spec(package) for package in ("bpy", "distributed"))
collect_ignore = [] if CAN_RENDER else ["render", "blender_scenes"]


def pytest_report_header() -> list[str]:
    return [] if CAN_RENDER else ["bpy or distributed is not installed: the tests that render are left out"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("bpy")]
    if not wanted:
        return
    finding = look_at_bpy()
    if finding.status != "ok":
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason=finding.means))


@pytest.fixture(scope="session")
def mesh_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small mesh of our own for each class: the real ones are large, and other people's."""
    folder = tmp_path_factory.mktemp("meshes")
    for rays, name in enumerate(SOURCES, start=2):
        (folder / f"{name}.obj").write_bytes(obj_bytes(*star(rays)))
    return folder


@pytest.fixture(scope="session")
def own_meshes(mesh_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder, to be set as XDG_CACHE_HOME, that holds these meshes."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        meshes(directory=mesh_files, accept_terms=True)
    return cache
