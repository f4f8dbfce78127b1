"""A local server that speaks S3 (moto), in a process of its own, and what a client needs to find it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from following import FOLLOW

SERVE = """
from moto.server import main
main(["-p", sys.argv[1]])
"""


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a server on loopback that forgets everything when it ends."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    command, silence = [sys.executable, "-c", FOLLOW + SERVE, str(port)], subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=silence, stderr=silence) as server:
        try:
            limit = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert server.poll() is None, "the S3 server did not start"
                    assert time.monotonic() < limit
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def settings_of(address: str) -> dict[str, str]:
    """The environment in which s3:// is this server."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "AKIAFORTESTSONLY",
        "AWS_SECRET_ACCESS_KEY": "not-a-secret-at-all",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
