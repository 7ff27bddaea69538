"""Each script of examples/ runs, and the gallery shows a picture of each."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path.stem for path in (ROOT / "examples").glob("[a-z]*.py"))
GALLERY = (ROOT / "docs" / "gallery.md").read_text()
# Smaller than what the pages show, where that takes minutes.
OPTIONS = {
    "attack": ["--rows", "9", "--draws", "40"],
    "audit": ["--runs", "200"],
    "desk": ["--rows", "2000"],
    "exposure": ["--rows", "800"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs(name, tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py", "--out", "new", *OPTIONS.get(name, [])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    pictures = list((tmp_path / "new").glob("*.png"))
    assert pictures
    for path in pictures:
        with Image.open(path) as image:
            assert len(image.convert("L").getcolors(256) or []) > 10, path  # not a blank page
    assert {path.name for path in tmp_path.iterdir()} == {"new"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_gallery_shows_it(name):
    section = next(part for part in GALLERY.split("\n## ") if f"(../examples/{name}.py)" in part)
    pictures = re.findall(r"!\[.+\]\((.+)\)", section)
    assert pictures
    for picture in pictures:
        assert (ROOT / "docs" / picture).stat().st_size < 200_000
