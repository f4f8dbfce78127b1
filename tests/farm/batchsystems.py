"""Slurm and Grid Engine as Debian packs them, real: one node on loopback, with all that they write in one folder."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

APT_SECONDS = 300
START_SECONDS = 60
SLOTS = 4  # jobs that run at a time, whatever the machine has

# A daemon follows the tests: it ends when the standard input of this process, a pipe from the tests, does.
KEEP = """
import os, subprocess, sys
daemon = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
os.read(0, 1)
daemon.terminate()
try:
    daemon.wait(timeout=10)
except subprocess.TimeoutExpired:
    daemon.kill()
"""


def require(commands: Sequence[str], packages: Sequence[str], answers: str = "") -> None:
    """Install the packages if their commands are missing; skip the tests if this machine must not or cannot.

    On a machine with systemd the packages would start services of their own, so there the user installs them.
    """
    if os.geteuid() != 0:
        pytest.skip("the daemons of a batch system are started by root, and this user is not root")
    missing = [command for command in commands if not shutil.which(command)]
    if not missing:
        return
    what = f"{', '.join(missing)} is not installed (apt-get install {' '.join(packages)})"
    if not shutil.which("apt-get"):
        pytest.skip(f"{what}, and there is no apt-get here")
    if Path("/run/systemd/system").exists():
        pytest.skip(f"{what}, and systemd would start services of its own: install it by hand")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # in runlevel 1 no service starts
    steps = [["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *packages]]
    if answers:
        subprocess.run(["debconf-set-selections"], input=answers, text=True, check=False, env=quiet)
    for words in steps:
        try:
            done = subprocess.run(words, env=quiet, capture_output=True, text=True, timeout=APT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{what}, and {' '.join(words[:2])} took more than {APT_SECONDS} s")
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no word"]
            pytest.skip(f"{what}, and {' '.join(words[:2])} says: {said[-1]}")


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that are free at the moment."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_for(condition: Callable[[], object], seconds: float = 300, what: str = "it") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


class BatchSystem:
    """Daemons that run while the object is entered, and the system's commands."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.environment: dict[str, str] = {}

    def start(self, name: str, *words: str) -> None:
        """Start a daemon in the foreground; its output goes to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-c", KEEP, *words]
            surroundings = os.environ | self.environment
            self.daemons[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=surroundings, start_new_session=True
            )

    def stop(self, name: str) -> None:
        """End a daemon as a machine that is shut down does."""
        daemon = self.daemons.pop(name)
        assert daemon.stdin
        daemon.stdin.close()
        daemon.wait(timeout=30)

    def command(self, *words: str, check: bool = True) -> str:
        """Run a command of the system; return what it prints."""
        surroundings = os.environ | self.environment
        done = subprocess.run(words, env=surroundings, capture_output=True, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def open(self) -> None:
        """Configure and start the daemons."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Return whether a job that is submitted now would run."""
        raise NotImplementedError

    def jobs(self) -> dict[str, str]:
        """Return the state of each job in the queue, in the system's words."""
        raise NotImplementedError

    def running(self) -> list[str]:
        raise NotImplementedError

    mark = ""  # what the system sets in the environment of a job

    def pids(self, job: str) -> list[int]:
        """Return the processes of a job of this system."""
        return processes_with(self.mark.format(job), *self.settings())

    def settings(self) -> list[str]:
        """Return what only processes of this system have in their environment."""
        return [f"{name}={value}" for name, value in self.environment.items() if str(self.folder) in value]

    def cancel(self, *jobs: str) -> None:
        raise NotImplementedError

    def facts(self, job: str) -> str:
        """Return all that the system prints of a job."""
        raise NotImplementedError

    def hold_queue(self) -> None:
        """Let no further job begin."""
        raise NotImplementedError

    def release_queue(self) -> None:
        raise NotImplementedError

    def clear(self) -> None:
        """Leave no job in the queue."""
        if jobs := self.jobs():
            self.cancel(*jobs)
        wait_for(lambda: not self.jobs(), 60, "an empty queue")

    def __enter__(self) -> Self:
        try:
            self.open()
            wait_for(self.ready, START_SECONDS, f"a node of {self.name}")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name in reversed(list(self.daemons)):
            self.stop(name)
        kill(processes_with(*self.settings()))  # a job's keeper waits for its daemon, should that be gone first


SLURM_CONF = """
ClusterName=tests
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
KillWait=5
NodeName=localhost NodeAddr=127.0.0.1 CPUs={slots} RealMemory=16000
PartitionName=short Nodes=localhost Default=YES MaxTime=01:00:00 State=UP
"""


class Slurm(BatchSystem):
    """munged, slurmctld and slurmd; the partition is called short and takes jobs of at most an hour."""

    name = "slurm"
    mark = "SLURM_JOB_ID={}"

    def open(self) -> None:
        require(
            ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol"],
            ["munge", "slurmctld", "slurmd", "slurm-client"],
        )
        controller, node = free_ports(2)
        for name in ("state", "spool"):
            (self.folder / name).mkdir(mode=0o700)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(64))
        conf = self.folder / "slurm.conf"
        conf.write_text(SLURM_CONF.format(folder=self.folder, controller=controller, node=node, slots=SLOTS))
        self.environment = {"SLURM_CONF": str(conf)}
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        words = [f"--{option}={self.folder}/munge.{end}" for option, end in files.items()]
        self.start("munged", shutil.which("munged") or "", "--foreground", "--force", *words)
        wait_for((self.folder / "munge.socket").exists, START_SECONDS, "munge.socket")
        self.start_controller()
        self.start("slurmd", shutil.which("slurmd") or "", "-D", "-N", "localhost")

    def start_controller(self) -> None:
        self.start("slurmctld", shutil.which("slurmctld") or "", "-D")

    def ready(self) -> bool:
        return self.command("sinfo", "--noheader", "--format=%T", check=False).strip() == "idle"

    def version(self) -> str:
        return self.command("sbatch", "--version").strip()

    def jobs(self) -> dict[str, str]:
        lines = self.command("squeue", "--noheader", "--format=%A %T").splitlines()
        return dict(line.split() for line in lines)  # type: ignore[misc]

    def running(self) -> list[str]:
        return [job for job, state in self.jobs().items() if state == "RUNNING"]

    def cancel(self, *jobs: str) -> None:
        self.command("scancel", *jobs)

    def facts(self, job: str) -> str:
        return self.command("scontrol", "show", "job", job)

    def hold_queue(self) -> None:
        self.command("scontrol", "update", "PartitionName=short", "State=DOWN")

    def release_queue(self) -> None:
        self.command("scontrol", "update", "PartitionName=short", "State=UP")


BOOTSTRAP = """
admin_user root
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params {cell};{folder}/qmaster
binary_path /usr/lib/gridengine
qmaster_spool_dir {folder}/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
# what differs from the settings that Debian's package brings
GLOBAL = {
    "execd_spool_dir": "{folder}/execd",
    "mailer": "/bin/true",
    "min_uid": "0",
    "min_gid": "0",
    "load_report_time": "00:00:02",
    "reporting_params": "accounting=false reporting=false flush_time=00:00:15 joblog=false sharelog=00:00:00",
}
SCHEDULER = {"schedule_interval": "0:0:2", "flush_submit_sec": "1", "flush_finish_sec": "1"}
QUEUE = {
    "qname": "short.q",
    "hostlist": "localhost",
    "slots": str(SLOTS),
    "load_thresholds": "NONE",  # a busy machine is no reason to wait
    "shell": "/bin/sh",
    "pe_list": "NONE",
    "tmpdir": "{folder}",
}


class GridEngine(BatchSystem):
    """sge_qmaster and sge_execd; the queue is called short.q."""

    name = "sge"
    mark = "JOB_ID={}"

    def open(self) -> None:
        require(
            ["sge_qmaster", "sge_execd", "qsub", "qstat", "qdel", "qconf", "qmod"],
            ["gridengine-master", "gridengine-exec", "gridengine-client", "bsd-mailx", "msmtp-mta"],
            "gridengine-common shared/gridengineconfig boolean false\n",
        )
        master, node = free_ports(2)
        installed, binaries, cell = Path("/var/lib/gridengine"), Path("/usr/lib/gridengine"), self.folder / "default"
        common = cell / "common"
        for folder in (common / "local_conf", self.folder / "qmaster" / "job_scripts", self.folder / "execd"):
            folder.mkdir(parents=True)
        for name in ("bin", "lib", "util", "utilbin"):
            (self.folder / name).symlink_to(installed / name)
        (common / "bootstrap").write_text(BOOTSTRAP.format(folder=self.folder, cell=common).lstrip())
        # it insists that an address and the name of its host lead to each other, and here both names are 127.0.0.1
        (common / "act_qmaster").write_text("localhost\n")
        (common / "host_aliases").write_text(f"localhost {socket.gethostname()}\n")
        plain = Path("/usr/share/gridengine/default-configuration").read_text()
        (common / "configuration").write_text(self.change(plain, GLOBAL))
        self.environment = {
            "SGE_ROOT": str(self.folder),
            "SGE_CELL": "default",
            "SGE_QMASTER_PORT": str(master),
            "SGE_EXECD_PORT": str(node),
            "SGE_ND": "1",  # no daemon: in the foreground
        }
        resources = installed / "util" / "resources"
        self.command(str(binaries / "spoolinit"), "classic", "libspoolc", f"{common};{self.folder}/qmaster", "init")
        for what in ("complexes", "usersets"):
            place = resources / ("centry" if what == "complexes" else what)
            self.command(str(binaries / "spooldefaults"), what, str(place))
        self.start("qmaster", str(binaries / "sge_qmaster"))
        wait_for(lambda: self.command("qconf", "-sh", check=False).strip(), START_SECONDS, "sge_qmaster")
        self.command("qconf", "-as", "localhost")
        self.start("execd", str(binaries / "sge_execd"))
        wait_for(lambda: "localhost" in self.command("qconf", "-sel", check=False), START_SECONDS, "sge_execd")
        self.command(
            "qconf", "-Msconf", self.write("scheduler", self.change(self.command("qconf", "-ssconf"), SCHEDULER))
        )
        template = self.command("qconf", "-sq")  # the template of a queue
        self.command("qconf", "-Aq", self.write("queue", self.change(template, QUEUE)))

    def change(self, text: str, values: dict[str, str]) -> str:
        """Return settings of Grid Engine with other values."""
        for name, value in values.items():
            text, count = re.subn(rf"(?m)^{name}\s.*$", f"{name} {value.format(folder=self.folder)}", text)
            assert count == 1, (name, text)
        return text

    def write(self, name: str, text: str) -> str:
        file = self.folder / f"{name}.conf"
        file.write_text(text)
        return str(file)

    def ready(self) -> bool:
        return "lx-amd64" in self.command("qstat", "-f", check=False) and "au" not in self.queue_state()

    def queue_state(self) -> str:
        lines = [line.split() for line in self.command("qstat", "-f").splitlines() if line.startswith("short.q")]
        return lines[0][5] if lines and len(lines[0]) > 5 else ""

    def version(self) -> str:
        return self.command("qstat", "-help").splitlines()[0]

    def jobs(self) -> dict[str, str]:
        lines = [line.split() for line in self.command("qstat", "-u", "*").splitlines()]
        return {words[0]: words[4] for words in lines if words and words[0].isdecimal()}

    def running(self) -> list[str]:
        return [job for job, state in self.jobs().items() if state == "r"]

    def cancel(self, *jobs: str) -> None:
        self.command("qdel", *jobs)

    def facts(self, job: str) -> str:
        return self.command("qstat", "-j", job)

    def hold_queue(self) -> None:
        self.command("qmod", "-d", "short.q")

    def release_queue(self) -> None:
        self.command("qmod", "-e", "short.q")


def processes_with(*settings: str) -> list[int]:
    """Return the processes that have all these in their environment."""
    wanted, found = {setting.encode() for setting in settings}, list[int]()
    if not wanted:
        return []  # and not every process of the machine
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if wanted <= set((place / "environ").read_bytes().split(b"\0")):
                found.append(int(place.name))
    return found


def kill(pids: Sequence[int]) -> None:
    """SIGKILL them all, as the kernel does when memory runs out."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
