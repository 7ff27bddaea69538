"""Small pictures by matplotlib, as inline SVG in the colours of the page, light or dark.

Equal contents give equal bytes.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pilu._extras import need

INK, SPENT, LEFT, OVER, EXPENSIVE = "#1d2733", "#2f6690", "#dfe7ee", "#a3271f", "#a04a24"
AXIS, PAPER = "#8a95a1", "#ffffff"
# The page's style sheet defines these, for light and for dark screens.
_VARIABLES = {
    INK: "ink",
    SPENT: "blue",
    LEFT: "unspent",
    OVER: "red",
    EXPENSIVE: "brown",
    AXIS: "axis",
    PAPER: "paper",
}
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it takes the page's fonts and can be searched
    "svg.hashsalt": "pilu",
    "font.size": 10.0,
    "text.color": INK,
    "axes.edgecolor": AXIS,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
ROUND = {"steps": [1, 2, 5, 10]}  # of ticks


class Picture(NamedTuple):
    """An SVG element and a description of it."""

    svg: str
    label: str


def module(name: str) -> Any:
    """A module of matplotlib."""
    return need(f"matplotlib.{name}", for_="pilu report", extra="desk")


@contextmanager
def drawn_on(width: float, height: float) -> Iterator[Any]:
    """A figure of a size in inches."""
    # A matplotlibrc of the reader must not change the page.
    with module("style").context(["default", _SETTINGS]):
        yield module("figure").Figure(figsize=(width, height), layout="constrained")


def svg_of(figure: Any, name: str) -> str:
    """The <svg> element; its ids begin with the picture's name, to be unique on the page."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index("<svg") :], flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        text = re.sub(rf"(fill|stroke): {colour}\b", rf"\g<1>: var(--{variable})", text)
    text = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace("xlink:href", "href").replace(
        ' xmlns:xlink="http://www.w3.org/1999/xlink"', ""
    )
