"""Workers on other hosts (network namespaces), over TLS; one host is cut off in the middle (slow, needs root)."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from distributed.security import Security
from farm.conftest import TINY, contents
from farm.daskprocesses import DaskProcesses
from farm.test_cluster import entered, start
from farm.test_faults import wait_for

from ident3d.farm.render import render

pytestmark = [pytest.mark.bpy, pytest.mark.slow]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[tuple[str, ...]]:
    """Two namespaces, each joined to this one by a wire: 10.77.k.1 here, 10.77.k.2 there."""
    names = ("ident3d-a", "ident3d-b")
    with ExitStack() as stack:
        for k, name in enumerate(names):
            try:
                ip("netns", "add", name)
            except (subprocess.CalledProcessError, FileNotFoundError):
                pytest.skip("network namespaces need root and iproute2")
            stack.callback(ip, "netns", "del", name)
            ip("link", "add", f"i3d{k}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("addr", "add", f"10.77.{k}.1/24", "dev", f"i3d{k}")
            ip("link", "set", f"i3d{k}", "up")
            for words in (
                f"addr add 10.77.{k}.2/24 dev eth0",
                "link set lo up",
                "link set eth0 up",
                f"route add default via 10.77.{k}.1",
            ):
                ip("-n", name, *words.split())
        yield names


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, Path]:
    """One self-signed certificate for all, as docs/how-to/cluster.md has one make it."""
    made = Security.temporary()
    files = {"ca": made.tls_ca_file, "cert": made.tls_client_cert, "key": made.tls_client_key}
    for name, content in files.items():
        (tmp_path / f"{name}.pem").write_text(content)
    return {name: tmp_path / f"{name}.pem" for name in files}


def test_a_host_that_is_cut_off_loses_nothing(
    hosts: tuple[str, ...], certificates: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render(64, TINY, out=tmp_path / "here", workers=1, shard_size=4, show_progress=False)
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP", "12s")
    tls = [f"--tls-ca-file={certificates['ca']}", f"--tls-cert={certificates['cert']}"]
    tls += [f"--tls-key={certificates['key']}"]
    with DaskProcesses(tmp_path / "dask", "tls://10.77.0.1", tls) as dask:
        wait_for(dask.file.exists)
        for k, name in enumerate(hosts):
            dask.add_worker("--host", f"tls://10.77.{k}.2", prefix=["ip", "netns", "exec", name])
        words = [f"--tls-{name}={file}" for name, file in certificates.items()]
        client = start(tmp_path / "data", dask, *words)
        wait_for(lambda: entered(tmp_path / "data") > 2)
        ip("link", "set", "i3d1", "down")
        _, error = client.communicate(timeout=120)
    assert client.returncode == 0, error
    assert "not encrypted" not in error
    assert contents(tmp_path / "data") == contents(tmp_path / "here")


def test_a_scheduler_off_loopback_without_tls_gets_one_warning(hosts: tuple[str, ...], tmp_path: Path) -> None:
    with DaskProcesses(tmp_path / "dask", "tcp://10.77.0.1") as dask:
        wait_for(dask.file.exists)
        dask.add_worker("--host", "tcp://10.77.0.2", prefix=["ip", "netns", "exec", hosts[0]])
        client = start(tmp_path / "data", dask, "--n", "8")
        _, error = client.communicate(timeout=120)
    assert client.returncode == 0, error
    assert error.count("not encrypted") == 1
