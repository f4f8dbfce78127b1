"""Clusters beyond this machine: the workers of a scheduler that is there, or jobs of a batch system or Kubernetes."""

import ipaddress
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ident3d.errors import UserError, unknown

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

CONNECT_SECONDS = 10
# what --cluster takes -> module and class of dask-jobqueue or dask-kubernetes
SYSTEMS: dict[str, tuple[str, str]] = {
    "slurm": ("dask_jobqueue", "SLURMCluster"),
    "pbs": ("dask_jobqueue", "PBSCluster"),
    "sge": ("dask_jobqueue", "SGECluster"),
    "lsf": ("dask_jobqueue", "LSFCluster"),
    "k8s": ("dask_kubernetes.operator", "KubeCluster"),
}
# one process with one thread and one studio a job, where the site's own settings of Dask say nothing else
ONE_STUDIO = {"cores": 1, "processes": 1, "memory": "2GiB"}
ONE_THREAD = {"worker_command": ["dask", "worker", "--nthreads", "1"]}
PRIVATE_DASHBOARD = {"dashboard_address": "127.0.0.1:0"}


@dataclass(frozen=True)
class Cluster:
    """Where shards are rendered: by default in processes of this machine, begun and ended with the run.

    `scheduler` is the address of a Dask scheduler that is there, or the file it wrote; a ``tls://`` address takes the
    three files of its certificates. `system` has `jobs` jobs begun by a batch system or Kubernetes, with its `options`.
    """

    scheduler: str | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    system: str | None = None
    jobs: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def here(self) -> bool:
        """Whether the workers are processes of our own on this machine."""
        return self.scheduler is None and self.system is None

    def check(self) -> None:
        """One sentence about the first setting that makes no sense."""
        tls = (self.tls_ca, self.tls_cert, self.tls_key)
        if self.scheduler is not None and self.system is not None:
            raise UserError("Take either --scheduler, for one that is there, or --cluster, to have one begun.")
        if any(tls) and not (all(tls) and self.scheduler):
            raise UserError("TLS needs --scheduler and all of --tls-ca, --tls-cert and --tls-key.")
        for file in tls:
            if file and not file.is_file():
                raise UserError(f"There is no file {file}.")
        if self.system is None:
            if self.jobs is not None or self.options:
                raise UserError("--jobs and --cluster-option go with --cluster.")
        elif self.system not in SYSTEMS:
            raise unknown("cluster", self.system, SYSTEMS)
        elif self.jobs is None or self.jobs < 1:
            raise UserError(f"Say how many jobs {self.system} is to run, as in --jobs 100.")

    def address(self) -> str:
        """The scheduler's address, looked up in its file where that is given."""
        place = self.scheduler or ""
        if "://" in place:
            self.check_address(place)
            return place
        try:
            address = json.loads(Path(place).read_text(encoding="utf-8"))["address"]
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(
                f"--scheduler takes an address, as in tcp://host:8786, or a scheduler file, and {place} is neither."
            ) from None
        self.check_address(str(address))
        return str(address)

    def check_address(self, address: str) -> None:
        """One sentence about an address that Dask's client would fail at, slowly and with a traceback behind."""
        scheme, _, rest = address.partition("://")
        if scheme in ("tcp", "tls") and not rest.rpartition(":")[2].isdecimal():
            raise UserError(f"The address {address} needs a port, as in {scheme}://host:8786.")
        if scheme in ("http", "https"):
            raise UserError(f"{address} is not a scheduler's address; those begin with tcp:// or tls://.")
        if scheme == "tls" and not self.tls_ca:
            raise UserError(f"{address} needs --tls-ca, --tls-cert and --tls-key.")
        if scheme == "tcp" and self.tls_ca:
            raise UserError(f"{address} does not speak TLS: leave the --tls options out, or say tls://.")


def warning_for(address: str) -> str | None:
    """Why a scheduler at this address is a risk; None for one on loopback, or with TLS."""
    scheme, _, rest = address.partition("://")
    host = rest.rpartition(":")[0].strip("[]")
    if scheme in ("tls", "wss", "inproc", "ucxs"):
        return None
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    if host == "localhost":
        return None
    return (
        f"{address} is not encrypted: whoever reaches it can run any code on its workers, and change images unseen. "
        "docs/cluster.md says how to set up TLS."
    )


def security_of(cluster: Cluster) -> "Security | None":
    """The client's side of TLS with the given certificates."""
    from distributed.security import Security

    if not cluster.tls_ca:
        return None
    return Security(
        tls_ca_file=str(cluster.tls_ca),
        tls_client_cert=str(cluster.tls_cert),
        tls_client_key=str(cluster.tls_key),
        require_encryption=True,
    )


@contextmanager
def client_of(address: Any, security: "Security | None" = None) -> Iterator["Client"]:
    """A client of the scheduler; at the end it takes back its own jobs, and leaves all else alone."""
    from distributed import Client

    try:
        client = Client(address, security=security, timeout=CONNECT_SECONDS, set_as_default=False, name="ident3d")
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        place = address if isinstance(address, str) else "the cluster just begun"
        first, *_ = str(error).splitlines() or [type(error).__name__]
        raise UserError(f"No Dask scheduler answers at {place} ({first}).") from None
    try:
        yield client
    finally:
        with suppress(TimeoutError, OSError):
            client.close(timeout=5)


@contextmanager
def batch_cluster(system: str, jobs: int, options: Mapping[str, Any]) -> Iterator[Any]:
    """A cluster of so many jobs of a batch system, or pods, for this run alone; jobs that end are replaced.

    The scheduler of batch jobs is in this process and speaks TLS with certificates made for this run. Their files lie
    in the home folder, which batch systems share, and only their owner can read them.
    """
    module, name = SYSTEMS[system]
    try:
        kind = getattr(import_module(module), name)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
        raise UserError(f"--cluster {system} needs {package}: pip install 'ident3d[cluster]'.") from None
    try:
        cluster = kind(**(ONE_THREAD if system == "k8s" else batch_defaults(system)) | dict(options))
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        first, *_ = str(error).splitlines() or [repr(error)]
        raise UserError(f"{name} could not be begun: {first}") from None
    try:
        if system == "k8s":
            cluster.scale(jobs)
        else:
            cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)
        yield cluster
    finally:
        with suppress(TimeoutError, OSError):
            cluster.close(timeout=10)


def batch_defaults(system: str) -> dict[str, Any]:
    """What dask-jobqueue is told unless the site's or the user's configuration of Dask says something."""
    import dask

    home = Path.home() / ".cache" / "ident3d"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    site = dask.config.get(f"jobqueue.{system}", {})
    own = {"shared_temp_directory": str(home)} | ONE_STUDIO
    free = {key: value for key, value in own.items() if site.get(key.replace("_", "-")) is None}
    options = PRIVATE_DASHBOARD | (site.get("scheduler-options") or {})
    return free | {"security": True, "scheduler_options": options}
