"""Functions run in a process that may have 1.5 GB of memory and no more, as a small machine or a container has it."""

import os
import subprocess
import sys

CAP = 1_500_000_000
PRELUDE = """
import resource, sys
from pathlib import Path
from ident3d.errors import UserError

def attempt(function, *given, **named):
    try:
        print("result", function(*given, **named))
    except UserError as error:
        print("refused", error)
    except IndexError as error:
        print("index", error)

def cap():
    resource.setrlimit(resource.RLIMIT_AS, ({cap}, {cap}))
"""


def capped(code: str, *arguments: object) -> list[str]:
    """Return the lines that `code` prints: the result, or the sentence, of each of its calls of `attempt`.

    The code calls `cap` after its imports. It fails if anything but a UserError leaves a call.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE.format(cap=CAP) + code, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
