"""Clusters for one run: jobs of a batch system, through dask-jobqueue, or pods, through dask-kubernetes."""

import inspect
import os
import queue
import shutil
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ident3d.errors import UserError, check_known
from ident3d.farm.batch.run_folder import run_folder
from ident3d.machine import cache_folder

# What --cluster takes -> module and class of dask-jobqueue or dask-kubernetes, and the command that takes a job.
SYSTEMS: dict[str, tuple[str, str, str]] = {
    "slurm": ("dask_jobqueue", "SLURMCluster", "sbatch"),
    "pbs": ("dask_jobqueue", "PBSCluster", "qsub"),
    "sge": ("dask_jobqueue", "SGECluster", "qsub"),
    "lsf": ("dask_jobqueue", "LSFCluster", "bsub"),
    "k8s": ("dask_kubernetes.operator", "KubeCluster", ""),
}
# A job is one process with one thread and one studio, unless the site's own settings of Dask say something else.
ONE_STUDIO = {"cores": 1, "processes": 1, "memory": "2GiB"}
ONE_THREAD = {"worker_command": ["dask", "worker", "--nthreads", "1"]}
# Here a pod finds what it may do.
POD_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/token"
# HTTP pages know no password: a job's host shows them to itself only, and they hold nothing.
NO_PAGES = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
PRIVATE_DASHBOARD = {"dashboard_address": "127.0.0.1:0", "dashboard": False}


def check_system(system: str, jobs: int | None) -> None:
    """Raise UserError unless the batch system is known and jobs can be submitted on this machine."""
    check_known("cluster", system, SYSTEMS)
    if jobs is None or jobs < 1:
        raise UserError(f"Say how many jobs {system} is to run, as in --jobs 100.")
    if not is_here(system):
        *_, command = SYSTEMS[system]
        lacking = (
            f"{command}, and there is no such command" if command else "kubectl's configuration, and there is none"
        )
        raise UserError(
            f"--cluster {system} starts jobs by {lacking} here; run this where jobs are submitted, as on a login node."
        )


def is_here(system: str) -> bool:
    """Return whether this machine can start jobs of the system: by its command, or by a Kubernetes configuration."""
    *_, command = SYSTEMS[system]
    if command:
        return shutil.which(command) is not None
    places = os.environ.get("KUBECONFIG", "~/.kube/config").split(os.pathsep)
    return any(Path(place).expanduser().is_file() for place in (*places, POD_ACCOUNT) if place)


@contextmanager
def batch_cluster(system: str, jobs: int, options: Mapping[str, Any]) -> Iterator[Any]:
    """Yield a cluster of `jobs` jobs of a batch system, or pods, for this run alone. Jobs that end are replaced.

    The scheduler of batch jobs is in this process and uses TLS with certificates made for this run. Their files are
    in a private folder, below the home folder unless an option says where, because jobs must see them.
    """
    module, name, command = SYSTEMS[system]
    try:
        with own_interrupts():
            kind = getattr(import_module(module), name)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
        raise UserError(f"--cluster {system} needs {package}: pip install 'ident3d[cluster]'.") from None
    check_options(kind, options)
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with batch_settings(system, options) if command else nullcontext(ONE_THREAD | dict(options)) as settings:
        if command:
            settings["job_cls"] = answering(kind.job_cls, answers)
        try:
            cluster = kind(**settings)
        except Exception as error:
            # Each kind of cluster raises exceptions of its own, and all mean that there is none.
            raise UserError(f"{name} could not be started: {one_line(error)}") from None
        try:
            if command:
                # With as many jobs at least as at most, Dask asks for another job for each that ends.
                cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)
                check_taken(command, [answers.get() for _ in range(jobs)])
            else:
                cluster.scale(jobs)
            yield cluster
        finally:
            with suppress(TimeoutError, OSError):
                cluster.close(timeout=10)


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Keep our handler of Ctrl-C while dask-jobqueue is loaded."""
    # Its own handler ends the process without a message, and with the exit code of a success.
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def check_options(kind: Any, options: Mapping[str, Any]) -> None:
    """Raise UserError on the first option that neither the cluster's class nor that of its jobs takes."""
    makers = [base.__init__ for cls in (kind, getattr(kind, "job_cls", kind)) for base in cls.__mro__]
    takes = {name for maker in makers if inspect.isfunction(maker) for name in inspect.signature(maker).parameters}
    known = sorted(takes - {"self", "kwargs", "job_kwargs", "base_class_kwargs", "job_cls", "scheduler_cls"})
    for name in options:
        check_known(f"option of {kind.__name__}", name, known)


def answering(kind: Any, answers: "queue.SimpleQueue[str | None]") -> Any:
    """Return the same kind of job, which puts into `answers` why it was not taken, or None if it was."""
    # Dask itself would only log it.

    from distributed.core import Status

    class Job(kind):  # type: ignore[misc]
        refusal = ""

        async def start(self) -> None:
            try:
                await super().start()
            except Exception as error:
                self.refusal = f"{self.submit_command} did not take the job: {one_line(error)}"
                answers.put(self.refusal)
                self.status = Status.failed
                raise
            answers.put(None)

        async def close(self) -> None:
            await super().close()
            # Its cluster asserts this when it is closed.
            self.status = Status.closed

    return Job


def check_taken(command: str, answers: list[str | None]) -> None:
    """Raise UserError if no job was taken; warn if some were not."""
    refused = [answer for answer in answers if answer is not None]
    if len(refused) == len(answers):
        raise UserError(refused[0])
    if refused:
        reason = refused[0].partition(": ")[2]
        warnings.warn(f"{command} took {len(answers) - len(refused)} of {len(answers)} jobs: {reason}", stacklevel=4)


def one_line(error: Exception) -> str:
    """Return what a failed command printed, else the text of the error."""
    text = str(error)
    said = text.partition("\nstderr:\n")[2] or text.partition("\nstdout:\n")[2] or text
    return " ".join(said.split()) or type(error).__name__


@contextmanager
def batch_settings(system: str, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the settings of a batch cluster: ours, unless the site's configuration of Dask or an option has others."""
    import dask

    site = dask.config.get(f"jobqueue.{system}", {})
    shared = options.get("shared_temp_directory") or site.get("shared-temp-directory") or str(cache_folder())
    with run_folder(Path(os.path.expandvars(shared)).expanduser()) as folder:
        # Workers keep their scratch files in this folder too. Dask's own choice, a fixed name in the job's temporary
        # folder, may belong to another user, whose Python files the worker would import.
        own = {"local_directory": str(folder)} | ONE_STUDIO
        free = {key: value for key, value in own.items() if site.get(key.replace("_", "-")) is None}
        scheduler = PRIVATE_DASHBOARD | (site.get("scheduler-options") or {})
        free |= {"security": certificates(folder), "scheduler_options": scheduler}
        given = options.get("worker_extra_args") or site.get("worker-extra-args") or []
        pages = {"worker_extra_args": [*NO_PAGES, *given]}
        # The scheduler, in this process, has scratch files as well.
        with dask.config.set({"temporary-directory": str(folder)}):
            yield free | dict(options) | pages


def certificates(folder: Path) -> Any:
    """Write certificates made for one run, and return Dask's settings with these files."""
    from distributed.security import Security

    made = Security.temporary()
    cert, key = folder / "cert.pem", folder / "key.pem"
    key.touch(mode=0o600)
    for file, content in ((cert, made.tls_ca_file), (key, made.tls_worker_key)):
        file.write_text(content)
    files = {f"tls_{role}_cert": str(cert) for role in ("client", "scheduler", "worker")}
    files |= {name.replace("cert", "key"): str(key) for name in files}
    return Security(require_encryption=True, tls_ca_file=str(cert), **files)
