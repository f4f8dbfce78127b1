"""What every test shares: tests that render are left out, with one reason, where bpy cannot be imported."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex

import pytest
from hypothesis import HealthCheck, settings
from servers import GOOGLE, S3, s3_settings, server
from shapes.stars import obj_bytes, star

from ident3d.health import check_bpy
from ident3d.shapes.library import meshes
from ident3d.shapes.sources import SOURCES

# a busy machine is no failure
settings.register_profile("ident3d", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ident3d")

CAN_RENDER = all(find_spec(package) for package in ("bpy", "distributed"))
collect_ignore = [] if CAN_RENDER else ["farm", "blender_scenes"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attack", "how long the slow tests of tests/attack go on")
    group.addoption("--flips", type=int, default=5000, help="bits to flip in a dataset")
    group.addoption("--fuzzed", type=int, default=5000, help="files to fuzz")
    group.addoption("--kills", type=int, default=500, help="commands to kill")
    group.addoption("--faults", type=int, default=200, help="faults during repairs")


def pytest_report_header() -> list[str]:
    return [] if CAN_RENDER else ["bpy or distributed is not installed: the tests that render are left out"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = [item for item in items if item.get_closest_marker("bpy")]
    if not wanted:
        return
    finding = check_bpy()
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


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    """A local S3 server, for tests that all use buckets of their own."""
    for package in ("moto", "flask_cors", "s3fs"):
        pytest.importorskip(package)
    with server(S3) as address:
        yield address


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty bucket on a local server of Google's kind; the cache is empty too."""
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # looked at in the import; or Google is asked
    pytest.importorskip("gcp_storage_emulator")
    gcsfs = pytest.importorskip("gcsfs")
    with server(GOOGLE) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield "gs://bucket"
    gcsfs.GCSFileSystem.clear_instance_cache()  # the next server has another address


@pytest.fixture
def bucket(s3_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty bucket on it; the cache is empty too."""
    import s3fs

    for name, value in s3_settings(s3_address).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = f"bucket-{token_hex(8)}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}"
