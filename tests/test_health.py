"""doctor's answers, and the sentences that it and pairing give for what is missing."""

import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy
import pytest

from ident3d.farm.bpy_libraries import DEBIAN_PACKAGE, install_line, missing_libraries
from ident3d.health import Finding, Health, check_cluster, doctor
from ident3d.loaders.stores.data_root import data_root

LINUX = platform.system() == "Linux"


def test_exit_code_names_what_is_impossible() -> None:
    codes = {(r, t): Health((), r, t).exit_code for r in (True, False) for t in (True, False)}
    assert codes == {(True, True): 0, (False, True): 4, (True, False): 8, (False, False): 12}


def test_table_holds_every_finding_and_the_answers(tmp_path: Path) -> None:
    health = doctor(tmp_path)
    table = health.table()
    assert all(finding.what in table for finding in health.findings)
    assert f"Rendering: {'yes' if health.can_render else 'no'}." in table
    assert {finding.status for finding in health.findings} <= {"ok", "limited", "missing"}
    assert all(isinstance(finding, Finding) and finding.means for finding in health.findings)


def test_a_batch_system_is_found_by_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    found = {finding.what: finding for finding in check_cluster()}
    assert found["batch systems"].found == "none here"
    assert found["batch systems"].status == "limited"
    (tmp_path / "qsub").touch(0o700)
    (tmp_path / "config").touch()
    *packages, systems = check_cluster()
    assert systems.found == "pbs, sge, k8s"
    assert [finding.what for finding in packages] == ["dask-jobqueue", "dask-kubernetes", "s3fs"]


def test_data_root_prefers_option_then_environment_then_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IDENT3D_DATA", raising=False)
    assert data_root() == Path("data")
    monkeypatch.setenv("IDENT3D_DATA", "/somewhere")
    assert data_root() == Path("/somewhere")
    assert data_root("/else") == Path("/else")


@pytest.mark.skipif(not LINUX or not shutil.which("ldd"), reason="shared libraries are listed by ldd")
def test_missing_shared_library_is_found_and_named(tmp_path: Path) -> None:
    """A real shared object, its need for libc renamed to a library that no system has."""
    source = next(Path(numpy.__file__).parent.rglob("*.so"))
    broken = tmp_path / "broken.so"
    broken.write_bytes(source.read_bytes().replace(b"\0libc.so.6\0", b"\0libq.so.6\0"))
    assert "libq.so.6" not in missing_libraries(source)
    assert "libq.so.6" in missing_libraries(broken)


def test_install_line_names_packages_and_what_it_does_not_know() -> None:
    assert install_line(["libXi.so.6", "libSM.so.6"]) == "sudo apt-get install -y libsm6 libxi6"
    assert install_line(["libXi.so.6", "libq.so.6"]).startswith("sudo apt-get install -y libxi6 ")
    assert "libq.so.6" in install_line(["libq.so.6"])
    assert "apt-get" not in install_line(["libq.so.6"])
    assert all(library.startswith("lib") and ".so" in library for library in DEBIAN_PACKAGE)


def fake_distribution(folder: Path, name: str) -> None:
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")


@pytest.mark.parametrize(
    ("installed", "sentence"),
    [
        ([], "FAISS: pip install 'ident3d[cpu]'"),
        (["faiss-cpu", "faiss-gpu"], "faiss-cpu and faiss-gpu overwrite each other's files"),
        (["faiss-gpu-cu12", "faiss-cpu"], "faiss-cpu and faiss-gpu overwrite each other's files"),
        (["faiss_gpu", "faiss_cpu"], "faiss-cpu and faiss-gpu overwrite each other's files"),
        (["faiss"], ""),
        (["faiss-cpu"], ""),
        (["faiss-gpu"], ""),
    ],
)
def test_pairing_says_which_faiss_to_install(tmp_path: Path, installed: list[str], sentence: str) -> None:
    """In an empty environment that knows only these distributions, in a process of its own."""
    venv.create(tmp_path / "empty", with_pip=False, symlinks=True)
    python = tmp_path / "empty" / "bin" / "python"
    site = next((tmp_path / "empty").glob("lib/python*/site-packages"))
    for name in installed:
        fake_distribution(site, name)
    top = Path(__file__).parent.parent
    # in a checkout, loaders lies beside ident3d and not inside it
    paths = f"import sys; sys.path.insert(0, {str(top)!r}); import ident3d; ident3d.__path__.append({str(top)!r})"
    code = f"{paths}\nfrom ident3d.loaders.pairs.faiss_build import require_faiss\nrequire_faiss()"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode != 0) == bool(sentence)
    assert sentence in done.stderr
    assert sys.version_info >= (3, 11)
