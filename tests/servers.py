"""Local servers that speak S3 (moto) or Google's protocol (gcp-storage-emulator), each in a process of its own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from following import FOLLOW

S3 = """
from moto.server import main
main(["-p", sys.argv[1]])
"""
GOOGLE = """
from gcp_storage_emulator.server import create_server
create_server("127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket="bucket").run()
"""


@contextmanager
def server(code: str) -> Iterator[str]:
    """The address of a server on loopback that forgets everything when it ends; `code` runs it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    command, silence = [sys.executable, "-c", FOLLOW + code, str(port)], subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=silence, stderr=silence) as server:
        try:
            limit = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert server.poll() is None, "the server did not start"
                    assert time.monotonic() < limit
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def s3_settings(address: str) -> dict[str, str]:
    """The environment in which s3:// is this server."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "AKIAFORTESTSONLY",
        "AWS_SECRET_ACCESS_KEY": "not-a-secret-at-all",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
