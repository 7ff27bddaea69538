"""An empty folder with a shell."""

import pytest

from cli.shell import Shell


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Shell()
