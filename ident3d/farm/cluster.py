"""``Cluster``: where shards are rendered. Reading and checking it loads no Dask."""

import ipaddress
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ident3d.errors import UserError
from ident3d.farm.batch.systems import check_system

if TYPE_CHECKING:
    from distributed.security import Security

PORTS = 65_536


@dataclass(frozen=True)
class Cluster:
    """Where shards are rendered: by default in processes of this machine, which start and end with the run.

    Args:
        scheduler: The address of a running Dask scheduler, or the file that it wrote.
        tls_ca: The file of the certificate authority; a ``tls://`` address needs all three files.
        tls_cert: The file of the client's certificate.
        tls_key: The file of its key.
        system: What starts the workers: "slurm", "pbs", "sge", "lsf" or "k8s".
        jobs: How many jobs `system` starts, of one render process each.
        options: Options of the Dask class of `system`, such as ``{"walltime": "08:00:00"}``.

    Example:
        >>> from ident3d import Cluster
        >>> Cluster().is_local, Cluster(scheduler="tcp://host:8786").is_local
        (True, False)
    """

    scheduler: str | None = None
    tls_ca: Path | str | None = None
    tls_cert: Path | str | None = None
    tls_key: Path | str | None = None
    system: str | None = None
    jobs: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether the workers are processes of this machine that the run itself starts."""
        return self.scheduler is None and self.system is None

    def check(self) -> None:
        """Raise UserError on the first setting that makes no sense."""
        tls = (self.tls_ca, self.tls_cert, self.tls_key)
        if self.scheduler is not None and self.system is not None:
            raise UserError("Take either --scheduler, for a running scheduler, or --cluster, to start one.")
        if any(tls) and not (all(tls) and self.scheduler):
            raise UserError("TLS needs --scheduler and all of --tls-ca, --tls-cert and --tls-key.")
        for file in tls:
            if file and not Path(file).is_file():
                raise UserError(f"There is no file {file}.")
        if self.system is None:
            if self.jobs is not None or self.options:
                raise UserError("--jobs and --cluster-option go with --cluster.")
        else:
            check_system(self.system, self.jobs)

    def security(self) -> "Security | None":
        """Return the client's side of TLS; None without certificates."""
        from distributed.security import Security

        if not self.tls_ca:
            return None
        return Security(
            tls_ca_file=str(self.tls_ca),
            tls_client_cert=str(self.tls_cert),
            tls_client_key=str(self.tls_key),
            require_encryption=True,
        )

    def address(self) -> str:
        """Return the scheduler's address. If `scheduler` is a file, the address is read from it."""
        place = self.scheduler or ""
        if not place:
            raise UserError("--scheduler is empty; it takes an address such as tcp://host:8786, or a scheduler file.")
        if "://" in place:
            self.check_address(place)
            return place
        try:
            address = json.loads(Path(place).read_text(encoding="utf-8"))["address"]
        except FileNotFoundError:
            hint = f"`dask scheduler --scheduler-file {place}` writes it, and tcp://host:8786 works as well"
            hint = "an address begins with tcp:// or tls://" if ":" in place else hint
            raise UserError(f"There is no scheduler file {place}; {hint}.") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(
                f"--scheduler takes an address such as tcp://host:8786, or a scheduler file; {place} is neither."
            ) from None
        self.check_address(str(address))
        return str(address)

    def check_address(self, address: str) -> None:
        """Raise UserError on an address with which Dask's client would fail slowly, and with a traceback."""
        scheme, _, rest = address.partition("://")
        port = rest.rpartition(":")[2]
        if scheme in ("tcp", "tls") and not (port.isdecimal() and int(port) < PORTS):
            raise UserError(f"The address {address} needs a port below {PORTS:,}, as in {scheme}://host:8786.")
        if scheme in ("http", "https"):
            raise UserError(f"{address} is not a scheduler's address; it begins with tcp:// or tls://.")
        if scheme == "tls" and not self.tls_ca:
            raise UserError(f"{address} needs --tls-ca, --tls-cert and --tls-key.")
        if scheme == "tcp" and self.tls_ca:
            raise UserError(f"{address} does not use TLS: leave out the --tls options, or write tls://.")


def warning_for(address: str) -> str | None:
    """Return why a scheduler at this address is a risk; None if it is on loopback or uses TLS."""
    scheme, _, rest = address.partition("://")
    host = rest.rpartition(":")[0].strip("[]")
    if scheme in ("tls", "wss", "inproc", "ucxs"):
        return None
    # A host's name is no IP address. It counts as reachable by others, unless it is localhost.
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    if host == "localhost":
        return None
    return (
        f"{address} is not encrypted: anyone who reaches it can run code on its workers and change images unnoticed. "
        "docs/how-to/cluster.md shows how to set up TLS."
    )
