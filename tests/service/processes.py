"""The service as a process of its own, as `pilu serve` starts it."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SECONDS = 30


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def served(stores: Path, *options, port=None, tls=None):
    """The port of a running service; it is stopped at the end, and its log is in `serve.log`."""
    port = port or free_port()
    log = stores.parent / "serve.log"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with log.open("ab") as file:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pilu", "serve", "--stores", str(stores)),
                *("--listen", f"127.0.0.1:{port}", *map(str, options)),
            ],
            stdout=file,
            stderr=file,
            env=os.environ | threads,
        )
    try:
        wait_for(port, process, log, tls)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(port, process, log, tls=None):
    scheme = "http" if tls is None else "https"
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}/health", timeout=5, context=tls),
        ):
            return
        time.sleep(0.05)
    raise AssertionError(f"the service did not start: {log.read_text()}")
