"""Other users of the machine: they can neither give our workers code nor read pages of ours."""

import os
import signal
import subprocess
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import psutil
import pytest
from farm.test_faults import start, wait_for, workers_of

from ident3d.farm.batch.run_folder import PREFIX, SEMAPHORES, run_folder
from ident3d.farm.cluster import Cluster
from ident3d.farm.local.embedded import embedded_cluster

pytestmark = pytest.mark.bpy
STRANGER = 65534
BAIT = "from pathlib import Path\nPath({!r}).touch()\n"
# Pages of Dask's servers, with and without bokeh.
PAGES = (
    "/",
    "/status",
    "/info/main/workers.html",
    "/json/identity.json",
    "/metrics",
    "/health",
    "/statics/css/base.css",
)


def test_a_strangers_scratch_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask takes $TMPDIR/dask-scratch-space, whoever owns it, and imports from there."""
    if os.getuid() != 0:
        pytest.skip("only root can make a folder that belongs to somebody else")
    shared = tmp_path / "shared"
    planted, bitten = shared / "dask-scratch-space", tmp_path / "bitten"
    planted.mkdir(parents=True)
    shared.chmod(0o1777)
    for name in ("ident3d.py", "bpy.py", "h5py.py"):
        (planted / name).write_text(BAIT.format(str(bitten)))
        os.chown(planted / name, STRANGER, STRANGER)
    os.chown(planted, STRANGER, STRANGER)
    before = sorted(planted.iterdir())
    monkeypatch.setenv("TMPDIR", str(shared))
    process = start(tmp_path / "data", "--n", "16", "--workers", "1")
    wait_for(lambda: workers_of(process.pid) or process.poll() is not None)
    (own,) = shared.glob(f"{PREFIX}*")
    assert own.stat().st_mode & 0o777 == 0o700
    assert own.stat().st_uid == os.getuid()
    _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert not bitten.exists()
    assert sorted(planted.iterdir()) == before
    assert not own.exists()


def test_no_page_answers_and_no_port_is_open_to_others() -> None:
    with embedded_cluster(1) as client:
        assert client.run(os.getpid)
        listening = 0
        for process in (psutil.Process(), *workers_of(os.getpid())):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    listening += 1
                    assert connection.laddr.ip in ("127.0.0.1", "::1")
                    assert {answer(connection.laddr.port, page) for page in PAGES} <= {404, None}
        assert listening >= 4  # scheduler, nanny, worker, and at least one for pages


def answer(port: int, page: str) -> int | None:
    """Return the status with which the port answers; None if it does not speak HTTP."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{page}", timeout=10) as reply:
            return int(reply.status)
    except HTTPError as error:
        error.close()
        return error.code
    except (URLError, OSError):
        return None


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed with all its processes, so that no one is left to tidy up: its folder, Blender's in it, its semaphores."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = start(tmp_path / "data", "--workers", "1")
    wait_for(lambda: list(tmp_path.rglob("blender_*")) or process.poll() is not None)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (left,) = (each for each in tmp_path.iterdir() if each.name != "data")
    assert left.name.startswith(PREFIX)
    names = f"sem.{left.name}-*"
    assert list(SEMAPHORES.glob(names)) or not SEMAPHORES.is_dir()
    with run_folder(tmp_path):
        assert not left.exists()
        assert not list(SEMAPHORES.glob(names))


def test_tls_does_not_look_at_host_names(tmp_path: Path) -> None:
    """Dask does not: docs/how-to/cluster.md says so, and that a certificate's key must be for this cluster alone."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=elsewhere"]
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    done = subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("openssl makes no certificate here")
    security = Cluster(scheduler="tls://127.0.0.1:1", tls_ca=cert, tls_cert=cert, tls_key=key).security()
    assert security
    assert security.get_connection_args("client")["ssl_context"].check_hostname is False
    docs = Path(__file__).parents[2] / "docs/how-to/cluster.md"
    assert "host name" in docs.read_text(encoding="utf-8")
