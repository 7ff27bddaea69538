"""Pieces of Markdown that all pages of results are made of."""

import textwrap
from collections.abc import Iterable


def markdown(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """A table."""
    header = list(header)
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows) + "\n"


def paragraph(text: str) -> str:
    """In lines of 100 characters; links and words are not broken."""
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False) + "\n"


def filled(text: str) -> str:
    """Every paragraph of a text; headings, tables, lists and pictures as they are."""
    blocks = (
        block
        if block.lstrip().startswith(("|", "-", "!", "#"))
        else paragraph(block).rstrip("\n") + "\n" * block.endswith("\n")
        for block in text.split("\n\n")
    )
    return "\n\n".join(blocks)
