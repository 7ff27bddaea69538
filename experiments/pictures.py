"""Pictures as the pages show them: small files that are kept beside the Markdown.

`style.figure` draws NAME.png, in the size in which a page shows it, into a folder that is not
tracked. `keep` packs those that a page shows as docs/figures/NAME.webp.
"""

import io
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

LIMIT = 200_000  # bytes
FOLDER = "figures"


def keep(figures: Path, docs: Path, names: Iterable[str]) -> None:
    """Keep pictures for the pages of `docs`: docs/figures/NAME.webp, each under 200 kB."""
    (docs / FOLDER).mkdir(parents=True, exist_ok=True)
    for name in names:
        with Image.open(figures / f"{name}.png") as image:
            (docs / FOLDER / f"{name}.webp").write_bytes(packed(image.convert("RGB"), name))


def packed(image: Image.Image, name: str) -> bytes:
    """As WebP: without loss where that is small (drawings), else as good as fits (photographs)."""
    options = [{"lossless": True}, *({"quality": quality} for quality in (90, 80, 70, 60))]
    for option in options:
        file = io.BytesIO()
        image.save(file, "webp", **option)
        if file.tell() < LIMIT:
            return file.getvalue()
    raise ValueError(
        f"{name} must be under {LIMIT:,} bytes, got {file.tell():,}: draw it smaller, or its maps "
        "with fewer pixels."
    )


def picture(name: str, alternative: str) -> str:
    """The picture in Markdown; `alternative` says what is seen, for those who cannot see it."""
    return f"![{alternative}]({FOLDER}/{name}.webp)\n"
