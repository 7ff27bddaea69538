"""Draw the pictures of docs/gallery.md again: `python -m examples`."""

import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.pictures import packed
from PIL import Image

HERE = Path(__file__).parent
GALLERY = HERE.parent / "docs" / "gallery"
DRAWN = ["audit", "desk", "digits", "pipeline", "steps"]  # the other pictures are those of pages


def main() -> None:
    GALLERY.mkdir(exist_ok=True)
    for name in DRAWN:
        with tempfile.TemporaryDirectory() as folder:
            script = [sys.executable, str(HERE / f"{name}.py"), "--out", folder]
            subprocess.run(script, check=True)
            keep(name, Path(folder))


def keep(name: str, folder: Path) -> None:
    """The one picture that a script has drawn, as a small file."""
    (path,) = folder.glob("*.png")
    with Image.open(path) as image:
        small = image.convert("RGB")
        small.thumbnail((1100, 1100))
        (GALLERY / f"{name}.webp").write_bytes(packed(small, name))


if __name__ == "__main__":
    main()
