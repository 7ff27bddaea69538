"""A real PostgreSQL on a socket; only `make test-sources` asks for it: its absence is an error."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SECONDS = 60


def programs():
    """The folder of Debian's newest initdb and pg_ctl."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
    )
    if not found:
        pytest.fail("These tests need PostgreSQL: apt-get install postgresql.", pytrace=False)
    return found[-1].parent


def owner():
    """The user who runs the server; initdb refuses root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def run(user, *command):
    prefix = ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []
    # Not captured: the server would keep the pipe open for ever.
    done = subprocess.run(
        [*prefix, *map(str, command)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, command


@pytest.fixture(scope="session")
def socket():
    """The folder of the server's socket; there is no TCP, and the server stops at the end."""
    folder, user = Path(tempfile.mkdtemp(prefix="pilu-pg-")), owner()  # short: sockets ask for it
    data, secret = folder / "data", folder / "secret"
    try:
        tools = programs()
        secret.write_text("pass word\n")
        if os.geteuid() == 0:
            for path in (folder, secret):
                shutil.chown(path, user)
        run(user, tools / "initdb", "-D", data, "-U", "anna", "--auth=scram-sha-256",
            f"--pwfile={secret}", "--encoding=UTF8", "--no-sync")  # fmt: skip
        options = f"-F -c listen_addresses='' -k {folder}"
        run(user, tools / "pg_ctl", "start", "-w", "-t", SECONDS, "-D", data, "-l",
            folder / "log", "-o", options)  # fmt: skip
        yield folder
    finally:
        if (data / "postmaster.pid").exists():
            run(user, tools / "pg_ctl", "stop", "-w", "-m", "immediate", "-D", data)
        shutil.rmtree(folder)
