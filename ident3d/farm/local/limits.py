"""What the system must allow before worker processes start: open files and shared memory."""

import resource
import shutil
from pathlib import Path

from ident3d.errors import UserError

# Open files of this process: the scheduler and the client, and each worker with its nanny. Measured are 20 and 12.
FILES, FILES_A_WORKER = 64, 16
# The semaphores of a worker's queues are six, of a page each.
SHARED_MEMORY, SHARED_A_WORKER = Path("/dev/shm"), 8 * 4096


def check_limits(workers: int) -> None:
    """Raise UserError unless so many workers can start. The limit of open files is raised if that is allowed."""
    # Without descriptors Dask's loop would die, and the run would wait for it without end.
    needed = len(list(Path("/dev/fd").iterdir())) + FILES + FILES_A_WORKER * workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"{workers} workers need {needed} open files, and this system allows {hard} (`ulimit -Hn`): "
            "take fewer --workers, or have the limit raised."
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    if SHARED_MEMORY.is_dir() and (free := shutil.disk_usage(SHARED_MEMORY).free) < SHARED_A_WORKER * workers:
        raise UserError(
            f"{workers} workers need {SHARED_A_WORKER * workers // 1024} KiB of shared memory, and {SHARED_MEMORY} has "
            f"{free // 1024} KiB free: give a container more by --shm-size, or take fewer --workers."
        )
