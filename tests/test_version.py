"""The version comes from the tag; without tags, and without git, there is one all the same."""

import shutil
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import setuptools_scm
from packaging.version import Version

import pilu

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools_scm"]
FILES = ["pyproject.toml", ".git_archival.txt", ".gitattributes"]


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "First")
    return folder


def git(folder, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


def named(folder):
    """What a build in this folder would be called."""
    return Version(setuptools_scm.get_version(root=str(folder), **SETTINGS))


def test_the_version_is_the_installed_one():
    assert pilu.__version__ == version("pilu")
    assert str(Version(pilu.__version__)) == pilu.__version__


def test_a_tag_is_the_version(repository):
    git(repository, "tag", "v1.2.3")
    assert str(named(repository)) == "1.2.3"


def test_commits_after_a_tag_are_before_the_next_version(repository):
    git(repository, "tag", "v1.2.3")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "Second")
    assert Version("1.2.3") < named(repository) < Version("1.2.4")


def test_a_clone_without_tags_has_a_version(repository):
    assert named(repository).is_devrelease


def test_an_archive_of_a_tag_has_its_version(repository, tmp_path):
    git(repository, "tag", "v1.2.3")
    git(repository, "archive", "--prefix=archive/", "--output", str(tmp_path / "a.tar"), "HEAD")
    shutil.unpack_archive(tmp_path / "a.tar", tmp_path, filter="data")
    assert str(named(tmp_path / "archive")) == "1.2.3"


def test_files_without_git_have_the_fallback(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert str(named(tmp_path)) == SETTINGS["fallback_version"]
    assert Version(SETTINGS["fallback_version"]).is_devrelease
