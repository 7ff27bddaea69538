"""Several processes of one service."""

import os
import subprocess
import sys

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pilu.service import tokens
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from service.conftest import soon
from service.processes import served

MAKE = """
import sys
from pathlib import Path
from pilu.service.callbacks import key_files
from pilu.service.configuration import Configuration
from pilu.service.opendsr import certificate_files
print("ready", flush=True)
sys.stdin.read()
configuration = Configuration(Path(sys.argv[1]))
key_files(configuration), certificate_files(configuration)
"""


def test_keys_are_made_once(tmp_path):
    """Four processes that want them at the same time end up with pairs that fit."""
    command = [sys.executable, "-c", MAKE, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for one in running:
        assert one.stdout.readline() == b"ready\n"
    for one in running:
        one.stdin.close()
    for one in running:
        assert one.wait(60) == 0, one.stderr.read()
        one.stdout.close()
        one.stderr.close()
    own = Configuration(tmp_path).own
    private = serialization.load_pem_private_key((own / "callbacks.key").read_bytes(), None)
    public = serialization.load_pem_public_key((own / "callbacks.pub").read_bytes())
    assert isinstance(private, Ed25519PrivateKey)
    assert private.public_key() == public
    private = serialization.load_pem_private_key((own / "opendsr.key").read_bytes(), None)
    found = x509.load_pem_x509_certificate((own / "opendsr.pem").read_bytes())
    assert found.public_key() == private.public_key()
    assert {oct(path.stat().st_mode & 0o777) for path in own.glob("*.key")} == {"0o600"}


@pytest.mark.skipif(not os.path.exists("/proc"), reason="children are found in /proc")
def test_two_processes_share_a_request_and_their_measures(folder):
    configuration = Configuration(folder)
    configuration.own.mkdir(mode=0o700)
    database = open_database(configuration.where)
    with database.writing() as tx:
        token = tokens.add_token(tx, "officer", "officer", per_second=1e6)[1]
    database.close()
    headers = {"Authorization": f"Bearer {token}"}
    with served(folder, "--processes", 2) as port:
        url = f"http://127.0.0.1:{port}"
        content = {"type": "erasure", "subject": "person 3", "now": True}
        made = httpx.post(f"{url}/v1/stores/people/requests", json=content, headers=headers)
        path = f"{url}/v1/requests/{made.json()['id']}"
        states = []

        def ended():  # connections of their own: either process may answer
            states.append(httpx.get(path, headers=headers).json()["status"])
            return states[-1] == "completed"

        soon(ended, 60)
        text = httpx.get(f"{url}/metrics", headers=headers).text
        name = 'pilu_http_seconds_count{method="GET",route="/v1/requests/{request}",status="200"}'
        (line,) = [line for line in text.splitlines() if line.startswith(name)]
        assert float(line.split()[-1]) == len(states)
