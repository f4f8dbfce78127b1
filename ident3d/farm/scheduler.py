"""Where shards are rendered, and how a scheduler that is there is reached."""

import asyncio
import ipaddress
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ident3d.errors import UserError
from ident3d.farm.batch_systems import check_system

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

CONNECT_SECONDS = 10
PORTS = 65_536


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
        else:
            check_system(self.system, self.jobs)

    def address(self) -> str:
        """The scheduler's address, looked up in its file where that is given."""
        place = self.scheduler or ""
        if not place:
            raise UserError("--scheduler is empty; it takes an address, as in tcp://host:8786, or a scheduler file.")
        if "://" in place:
            self.check_address(place)
            return place
        try:
            address = json.loads(Path(place).read_text(encoding="utf-8"))["address"]
        except FileNotFoundError:
            if ":" in place:
                raise UserError(f"{place} is no scheduler file, and addresses begin with tcp:// or tls://.") from None
            raise UserError(
                f"There is no scheduler file {place}; `dask scheduler --scheduler-file {place}` writes it once it runs."
                " An address, as in tcp://host:8786, goes as well."
            ) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(
                f"--scheduler takes an address, as in tcp://host:8786, or a scheduler file, and {place} is neither."
            ) from None
        self.check_address(str(address))
        return str(address)

    def check_address(self, address: str) -> None:
        """One sentence about an address that Dask's client would fail at, slowly and with a traceback behind."""
        scheme, _, rest = address.partition("://")
        port = rest.rpartition(":")[2]
        if scheme in ("tcp", "tls") and not (port.isdecimal() and int(port) < PORTS):
            raise UserError(f"The address {address} needs a port below {PORTS:,}, as in {scheme}://host:8786.")
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

    if isinstance(address, str):
        check_answer(address, security)
    try:
        client = Client(address, security=security, timeout=CONNECT_SECONDS, set_as_default=False, name="ident3d")
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise no_answer(address, error) from None
    try:
        yield client
    finally:
        with suppress(TimeoutError, OSError):
            client.close(timeout=5)


def check_answer(address: str, security: "Security | None") -> None:
    """One sentence unless a scheduler answers at the address: a client that fails to connect leaves threads behind."""
    from distributed.core import rpc
    from distributed.utils import LoopRunner

    async def kind() -> str:
        connection = security.get_connection_args("client") if security else {}
        there = rpc(address, timeout=CONNECT_SECONDS, connection_args=connection)
        async with asyncio.timeout(2 * CONNECT_SECONDS), there:
            return str((await there.identity())["type"])

    try:
        found = LoopRunner().run_sync(kind)
    except Exception as error:  # whatever listens there may answer anything
        raise no_answer(address, error) from None
    if found != "Scheduler":
        raise UserError(f"At {address} is a Dask {found.lower()}, not a scheduler.")


def no_answer(address: Any, error: Exception) -> UserError:
    """The sentence for a scheduler that cannot be had, with the first reason that has words."""
    place = address if isinstance(address, str) else "the cluster just begun"
    reasons: list[BaseException] = [error]
    while cause := reasons[-1].__cause__ or reasons[-1].__context__:
        reasons.append(cause)
    said = next((text for reason in reversed(reasons) if (text := str(reason).partition("\n")[0])), repr(error))
    return UserError(f"No Dask scheduler answers at {place} ({said}).")
