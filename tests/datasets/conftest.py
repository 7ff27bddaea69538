"""A cache of its own for each test, and archives made on the spot."""

import io
import tarfile
import zipfile

import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PILU_CACHE", str(folder))
    return folder


@pytest.fixture
def make_archive(tmp_path):
    """Write {name in the archive: bytes} to a .zip or .whl, or else to a gzipped tar."""

    def make(name, files):
        path = tmp_path / name
        if path.suffix in (".zip", ".whl"):
            with zipfile.ZipFile(path, "w") as archive:
                for inner, content in files.items():
                    archive.writestr(inner, content)
        else:
            with tarfile.open(path, "w:gz") as archive:
                for inner, content in files.items():
                    info = tarfile.TarInfo(inner)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
        return path

    return make
