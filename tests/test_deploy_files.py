"""The files of `deploy/`, and the commands of the pages about running the service.

No container engine and no systemd run here. The files are read, and what they call is looked up.
"""

import json
import re
import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
from typer.main import get_command

from blocks import call_of_pilu, check_call
from pilu.cli.app import app

ROOT = Path(__file__).parents[1]
DEPLOY, DOCS = ROOT / "deploy", ROOT / "docs"
UNITS = ["pilu-serve.service", "pilu-work.service"]
PAGES = ["operations.md", "security.md"]
yaml = pytest.importorskip("yaml", reason="reads compose.yaml; it comes with transformers")


# Commands


def mentioned(text):
    """Commands in the running text and in tables, in backticks."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for found in re.findall(r"`([^`]+)`", plain):
        yield " ".join(found.split())


def documented():
    """In the running text; `test_pages.py` looks at the blocks."""
    for page in PAGES:
        for line in mentioned((DOCS / page).read_text()):
            if line.startswith("pilu "):
                words = call_of_pilu(shlex.split(line, comments=True))
                yield pytest.param(words, id=f"{page}: {' '.join(words)[:60]}")


def started():
    for name in UNITS:
        (line,) = re.findall(r"^ExecStart=(.*)$", (DEPLOY / name).read_text(), re.M)
        yield pytest.param(shlex.split(line)[1:], id=name)
    text = (DEPLOY / "Containerfile").read_text()
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    yield pytest.param(json.loads(command), id="Containerfile")
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    yield pytest.param(compose["services"]["pilu"]["command"], id="compose.yaml")


@pytest.mark.parametrize("words", [*documented(), *started()])
def test_commands_and_their_options_exist(words):
    check_call(words)


def test_options_that_are_named_alone_exist():
    """`--since` and the like in the text: each is an option of some command."""
    every = {o for c in commands_of(get_command(app)) for p in c.params for o in p.opts}
    others = {"--clean", "--if-exists", "--dbname", "--create", "--format", "--file"}
    for page in PAGES:
        for found in mentioned((DOCS / page).read_text()):
            for option in re.findall(r"(?<!\S)(--[a-z-]+)", found):
                assert option in every | others, (page, found)


def commands_of(command):
    for one in getattr(command, "commands", {}).values():
        yield one
        yield from commands_of(one)


def test_pages_name_measures_routes_and_files_that_exist():
    from pilu.service.openapi import openapi

    text = (DOCS / "operations.md").read_text() + (DOCS / "security.md").read_text()
    source = (ROOT / "src" / "pilu" / "service" / "measures.py").read_text()
    measures = set(re.findall(r"`(pilu_[a-z_]+)", text)) - {"pilu_"}
    assert len(measures) == 7
    for name in measures:
        assert name.removeprefix("pilu_") in source, name
    paths = {re.sub(r"\{\w+\}", "X", path) for path in openapi()["paths"]}
    routes = set(re.findall(r"`(?:GET|POST|DELETE)?\s?(/[a-z0-9/A-Z.-]+)`", text))
    served = {
        r.replace("NAME", "X") for r in routes if re.match(r"/(v1|opendsr|health|ready|m)", r)
    }
    assert len(served) >= 6
    assert served <= paths, served - paths
    for name in re.findall(r"`(deploy/[\w.-]+)`", text):
        if name not in ("deploy/secrets", "deploy/tables"):  # made by the reader
            assert (ROOT / name).is_file(), name
    for page, link in re.findall(r"\]\(([\w.-]+\.md)(#[\w-]+)?\)", text):
        assert (DOCS / page).is_file(), (page, link)
    for page, heading in re.findall(r"\[[\w.]+\]\(([\w.]+)\)[,.] \"([^\"]+)\"", text):
        assert f"\n## {heading}\n" in (DOCS / page).read_text(), (page, heading)


# The container


def instructions():
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_the_image_has_two_stages_and_an_unprivileged_user():
    found = instructions()
    stages = [value for name, value in found if name == "FROM"]
    assert len(stages) == 2
    assert stages[0].split()[0] == stages[1]  # the virtual environment names its Python
    last = found[len(found) - 1 - [n for n, _ in reversed(found)].index("FROM") :]
    named = dict(last)
    user = named["USER"].split(":")
    assert all(number.isdigit() and int(number) > 0 for number in user)
    assert named["VOLUME"] == "/stores"
    assert json.loads(named["ENTRYPOINT"]) == ["pilu"]
    assert "MPLCONFIGDIR=/tmp" in named["ENV"]
    assert [value for name, value in last if name == "COPY"] == ["--from=build /opt/pilu /opt/pilu"]
    # Each of these would put the build's files, or a secret, into the image.
    assert not [name for name, _ in found if name in ("ADD", "ARG")]
    text = (DEPLOY / "Containerfile").read_text().lower()
    assert not re.search(r"(password|token|secret|key)\s*=", text)


def test_what_the_image_copies_exists_and_nothing_else_goes_to_the_builder():
    copied = [
        name
        for kind, value in instructions()
        if kind == "COPY" and not value.startswith("--from")
        for name in value.split()[:-1]
    ]
    assert all((ROOT / name).exists() for name in copied)
    lines = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule.removeprefix("!") for rule in rules[1:]} == set(copied)


def test_the_image_s_health_check_is_a_program(tmp_path):
    """It succeeds for a server that answers, and fails for none."""
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    (value,) = [value for name, value in instructions() if name == "HEALTHCHECK"]
    words = json.loads(value.partition("CMD ")[2])
    assert words[:2] == ["python", "-c"]

    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Healthy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    script = words[2].replace(":8080", f":{server.server_port}")
    run = [shutil.which("python3"), "-c", script]
    assert subprocess.run(run, check=False, timeout=30).returncode == 0
    server.shutdown()
    thread.join()
    server.server_close()
    assert subprocess.run(run, check=False, timeout=30, capture_output=True).returncode != 0


def test_the_extra_and_the_constraints_are_there():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in re.findall(r"\[(serve[\w-]*)\]", (DEPLOY / "Containerfile").read_text()):
        assert extra in extras["optional-dependencies"]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    needed = {"fastapi", "uvicorn", "httptools", "uvloop", "prometheus-client", "psycopg"}
    assert needed <= pinned


# Compose


@pytest.fixture
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_service_is_confined(compose):
    pilu = compose["services"]["pilu"]
    assert pilu["read_only"] is True
    assert pilu["cap_drop"] == ["ALL"]
    assert "cap_add" not in pilu
    assert "no-new-privileges:true" in pilu["security_opt"]
    assert "/tmp" in pilu["tmpfs"][0]
    assert "ports" not in pilu  # the proxy alone reaches it
    assert all(mount.endswith(":ro") for mount in pilu["volumes"] if mount.startswith("."))
    ((user,),) = [re.findall(r"^USER (\S+)$", (DEPLOY / "Containerfile").read_text(), re.M)]
    assert pilu["user"] == user
    for service in compose["services"].values():
        assert "privileged" not in service
        assert "no-new-privileges:true" in service["security_opt"]


def test_secrets_are_files_and_in_no_environment(compose):
    services = compose["services"]
    used = {name for one in services.values() for name in one.get("secrets", ())}
    assert used == set(compose["secrets"])
    for secret in compose["secrets"].values():
        assert set(secret) == {"file"}
        assert secret["file"].startswith("./secrets/")
    assert "secrets/" in (DEPLOY / ".gitignore").read_text()
    url = services["pilu"]["environment"]["PILU_DATABASE"]
    assert re.fullmatch(r"postgresql://pilu@database/pilu", url)  # no password
    for service in services.values():
        for name in service.get("environment", {}):
            assert "PASSWORD" not in name or name.endswith("_FILE")


def test_the_parts_find_each_other(compose):
    services, networks = compose["services"], compose["networks"]
    for service in services.values():
        assert set(service["networks"]) <= set(networks)
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "healthcheck" in services[other] or other == "pilu"  # in its image
        for mount in service["volumes"]:
            source = mount.partition(":")[0]
            assert source in compose["volumes"] or source in ("./tables", "./Caddyfile")
    assert networks["back"] == {"internal": True}
    assert services["database"]["networks"] == ["back"]
    assert services["proxy"]["networks"] == ["front"]
    proxied = (DEPLOY / "Caddyfile").read_text()
    assert "reverse_proxy pilu:8080" in proxied
    (name,) = re.findall(r"^(\S+) \{$", proxied, re.M)
    assert f"--address=https://{name}" in services["pilu"]["command"]


def test_the_password_reaches_the_command_and_nobody_else(compose, tmp_path):
    """The entry point, with a stub for `pilu`: words with spaces stay whole."""
    words = [word.replace("$$", "$") for word in compose["services"]["pilu"]["entrypoint"]]
    (tmp_path / "password").write_text("p4ss word\n")
    words[2] = words[2].replace("/run/secrets/database_password", str(tmp_path / "password"))
    stub = tmp_path / "pilu"
    stub.write_text('#!/bin/sh\nprintf "%s|" "$PGPASSWORD" "$@"\n')
    stub.chmod(0o755)
    done = subprocess.run(
        [*words, "token", "add", "--name", "a b"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "p4ss word|token|add|--name|a b|"


def test_no_registry_is_named():
    for path in DEPLOY.iterdir():
        text = path.read_text()
        images = re.findall(r"^\s*image: (\S+)|^FROM (\S+)", text, re.M)
        for image in filter(None, (a or b for a, b in images)):
            assert "/" not in image, (path, image)


# systemd


def unit(name):
    parsed = ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parsed.optionxform = str
    parsed.read_string((DEPLOY / name).read_text())
    return parsed


@pytest.mark.parametrize("name", UNITS)
def test_units_are_confined(name):
    service = unit(name)["Service"]
    assert service["User"] == "pilu"
    for yes in (
        "NoNewPrivileges",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectHome",
        "ProtectKernelTunables",
        "ProtectKernelModules",
        "ProtectControlGroups",
        "RestrictSUIDSGID",
        "RestrictNamespaces",
        "LockPersonality",
    ):
        assert service[yes] == "yes", yes
    assert service["ProtectSystem"] == "strict"
    assert service["ReadWritePaths"] == "/var/lib/pilu"
    assert service["CapabilityBoundingSet"] == ""
    assert service["UMask"] == "0077"
    assert "/var/lib/pilu/stores" in service["ExecStart"]
    assert "PASSWORD" not in (DEPLOY / name).read_text().replace("and PGPASSWORD", "")


def test_the_timer_starts_the_unit_of_its_name_every_night():
    timer = unit("pilu-work.timer")
    assert (DEPLOY / "pilu-work.service").is_file()
    assert timer["Timer"]["Persistent"] == "true"
    assert re.fullmatch(r"\*-\*-\* \d\d:\d\d:\d\d", timer["Timer"]["OnCalendar"])
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert unit("pilu-work.service")["Service"]["Type"] == "oneshot"
    assert "--everywhere" in unit("pilu-work.service")["Service"]["ExecStart"]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed on this machine"
)
def test_systemd_accepts_the_units(tmp_path):
    for path in DEPLOY.glob("pilu-*"):  # with a program that is there
        text = path.read_text().replace("/opt/pilu/bin/pilu", shutil.which("true"))
        (tmp_path / path.name).write_text(text)
    units = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    services = [one for one in units if one.endswith(".service")]
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", *services],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
