"""Schedulers and batch systems that cannot be reached: one sentence, and nothing is left behind."""

import shutil
import socket
import threading
from pathlib import Path

import pytest
from distributed import Client
from farm.conftest import TINY, contents
from farm.daskprocesses import DaskProcesses
from farm.test_cluster import PATIENCE, entered, start
from farm.test_faults import wait_for

from ident3d.errors import UserError
from ident3d.farm.cluster import Cluster
from ident3d.farm.render import render

pytestmark = pytest.mark.bpy


@pytest.mark.parametrize(
    ("cluster", "fact"),
    [
        (Cluster(scheduler="tcp://127.0.0.1:1"), "tcp://127.0.0.1:1 ("),
        (Cluster(scheduler="absent.json"), "dask scheduler --scheduler-file absent.json"),
        (Cluster(scheduler=__file__), "test_reaching.py"),
        (Cluster(scheduler=""), "--scheduler"),
        (Cluster(scheduler="127.0.0.1:8786"), "begins with tcp:// or tls://"),
        (Cluster(scheduler="tcp://127.0.0.1"), "65,536"),
        (Cluster(scheduler="tcp://127.0.0.1:87860"), "65,536"),
        (Cluster(scheduler="http://127.0.0.1:1"), "begins with tcp:// or tls://"),
        (Cluster(scheduler="tls://127.0.0.1:1"), "--tls-ca"),
        (Cluster("tcp://127.0.0.1:1", Path(__file__), Path(__file__), Path(__file__)), "--tls options"),
        (Cluster(scheduler="tcp://127.0.0.1:1", system="slurm", jobs=1), "--scheduler"),
        (Cluster(scheduler="tls://127.0.0.1:1", tls_ca=Path("ca.pem")), "--tls-ca, --tls-cert and --tls-key"),
        (Cluster(system="slum", jobs=1), "'slurm'"),
        (Cluster(system="slurm"), "--jobs"),
        (Cluster(system="pbs", jobs=2), "qsub"),
        (Cluster(system="k8s", jobs=2), "kubectl"),
        (Cluster(jobs=3), "--cluster"),
    ],
)
def test_clusters_that_are_none(cluster: Cluster, fact: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ident3d.farm.connect.CONNECT_SECONDS", 1)
    for name in ("PATH", "KUBECONFIG"):  # of this machine's own batch system
        monkeypatch.setenv(name, "")
    with pytest.raises(UserError) as refused:
        render(8, TINY, out=tmp_path / "new" / "data", cluster=cluster, show_progress=False)
    assert fact in str(refused.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("described", [True, False], ids=["whole", "without its description"])
def test_a_connection_that_fails_leaves_what_was_there(described: bool, dataset64: Path, tmp_path: Path) -> None:
    """The description too may be missing: `verify --repair` removes one that is damaged."""
    shutil.copytree(dataset64, tmp_path / "data")
    if not described:
        (tmp_path / "data" / "dataset.json").unlink()
    with pytest.raises(UserError, match=r"test_reaching\.py"):
        render(65, TINY, out=tmp_path / "data", shard_size=16, cluster=Cluster(scheduler=__file__), show_progress=False)
    assert entered(tmp_path / "data") == 4


def test_nothing_is_deleted_for_a_scheduler_that_does_not_answer(dataset64: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset64, tmp_path / "data")
    with pytest.raises(UserError, match=r"test_reaching\.py"):
        render(64, TINY, out=tmp_path / "data", fresh=True, cluster=Cluster(scheduler=__file__), show_progress=False)
    assert contents(tmp_path / "data") == contents(dataset64)


def test_what_answers_is_no_scheduler(tmp_path: Path) -> None:
    """Neither a worker nor a server of another kind; nor does a failed connection leave a thread that complains."""
    with (
        DaskProcesses(tmp_path / "dask") as dask,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        dask.add_worker()
        wait_for(dask.file.exists)
        with Client(scheduler_file=str(dask.file)) as client:
            client.wait_for_workers(1)
            (worker,) = client.scheduler_info()["workers"]

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n" * 20)

        answering = threading.Thread(target=answer)
        answering.start()
        stranger = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        for address, fact in [
            (worker, f"{worker} is a Dask worker"),
            (stranger, f"{stranger} ("),
        ]:
            refused = start(tmp_path / "data", dask, "--scheduler", address)
            _, error = refused.communicate(timeout=PATIENCE)
            assert refused.returncode == 2
            assert fact in error
            assert "Traceback" not in error
        answering.join()
