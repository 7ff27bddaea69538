"""All pages of results, and the pictures that are kept beside them.

python -m experiments.pages --size full      # docs/*.md and docs/figures/*.webp
python -m experiments.pages --size quick     # beside the quick tables
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from experiments import evidence
from experiments import page as paper
from experiments.pictures import keep
from experiments.smooth import page as smooth
from experiments.store import FIGURES, HERE, STORES, Store
from experiments.truth import page as truth

FOLDERS = {"full": HERE.parent / "docs", "quick": HERE / "runs" / "quick" / "docs"}


class Page(NamedTuple):
    """A page of Markdown and the pictures that it shows."""

    name: str
    write: Callable[[Store], str]
    pictures: tuple[str, ...]


PAGES = (
    Page("results.md", paper.page, paper.PICTURES),
    Page("smooth_results.md", smooth.page, smooth.PICTURES),
    Page("evidence.md", evidence.page, evidence.PICTURES),
    Page("truth.md", truth.page, truth.PICTURES),
)


def write(size: str) -> list[Path]:
    """Every page out of the tables and pictures of one size."""
    folder = FOLDERS[size]
    written = []
    for page in PAGES:
        keep(FIGURES[size], folder, page.pictures)
        written.append(folder / page.name)
        written[-1].write_text(page.write(STORES[size]), encoding="utf-8")
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=tuple(STORES), default="full")
    for path in write(parser.parse_args().size):
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
