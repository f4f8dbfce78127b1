"""A private folder for one run: keys and scratch files that no other user may read or put there."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from tempfile import gettempdir, mkdtemp

from ident3d.errors import UserError, os_errors
from ident3d.loaders.stores.owners import is_dead, owner_in, this_process

PREFIX = "ident3d-run-"
OWNER_FILE = "owner.json"
# Where Linux keeps semaphores. Those of a run begin with "sem." and the name of its folder.
SEMAPHORES = Path("/dev/shm")


def temporary_folder() -> Path:
    """Return this machine's temporary folder, which may be everybody's."""
    try:
        return Path(gettempdir())
    except OSError as error:
        raise UserError(f"There is no temporary folder ({error.strerror}); TMPDIR names one.") from None


@contextmanager
def run_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder in `parent` that only this user can enter; remove it at the end.

    Folders that this user's killed runs left in `parent` are removed too, with their semaphores.
    """
    with os_errors(f"The run's private folder cannot be made in {parent}"):
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_left_over(parent)
        folder = Path(mkdtemp(prefix=PREFIX, dir=parent))
        (folder / OWNER_FILE).write_text(json.dumps(this_process()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_over(parent: Path) -> None:
    """Remove the folders of runs that were killed on this host."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            # `parent` may be everybody's: what others put there under such a name is not even read.
            facts = folder.lstat()
            if not S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
                continue
            if is_dead(owner_in((folder / OWNER_FILE).read_bytes())):
                for semaphore in SEMAPHORES.glob(f"sem.{folder.name}-*"):
                    semaphore.unlink()
                shutil.rmtree(folder, ignore_errors=True)
