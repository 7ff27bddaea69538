"""Several processes of one service."""

import os
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
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


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def test_tls_by_flags(folder, certificate):
    context = ssl.create_default_context(cafile=certificate[0])
    options = ("--tls-certificate", certificate[0], "--tls-key", certificate[1])
    with served(folder, *options, tls=context) as port:
        answer = httpx.get(f"https://127.0.0.1:{port}/ready", verify=context)
        assert answer.status_code == 200
        assert "max-age" in answer.headers["strict-transport-security"]
        page = httpx.get(f"https://127.0.0.1:{port}/login", verify=context)
        assert page.status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/ready")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--listen", "0.0.0.0:0"), "listen must be a loopback address"),
        (("--listen", "here"), "--listen must be HOST:PORT"),
        (("--nightly", "25:00"), "--nightly must be a time such as 02:00"),
        (("--tls-key", "key.pem"), "must come together"),
        (("--certificate", "c.pem"), "given together with its key"),
        (("--demo", "elsewhere"), "exactly one of --stores and --demo"),
    ],
)
def test_wrong_options_are_told_in_a_line(folder, options, words):
    command = [sys.executable, "-m", "pilu", "serve", "--stores", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_process_that_predicts_ends_with_the_service(folder, tmp_path):
    """Otherwise the model would stay in memory after a kill -9."""
    program = """
import asyncio, sys
from pathlib import Path
from pilu.service.predictors import Predictors

async def main():
    predictors = Predictors()
    row = {"age": 30, "income": 1.5, "since": "2020-01-02", "city": "Chur", "said": "good"}
    await predictors.predict(Path(sys.argv[1]), [row], likely=False)
    print(*predictors._pool._processes, flush=True)
    await asyncio.sleep(60)

if __name__ == "__main__":
    asyncio.run(main())
"""
    script = tmp_path / "predicting.py"
    script.write_text(program)
    command = [sys.executable, script, folder / "people"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        os.kill(child, 0)
        parent.kill()

    def is_gone():
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{child}/stat")  # where nobody reaps it, it stays as a zombie
        return stat.exists() and stat.read_text().split()[2] == "Z"

    soon(is_gone)


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
