"""What every method claims over what is true, one line a method.

python -m experiments --figures --studies truth
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.lines import Line2D

from experiments.store import Store
from experiments.style import BLUE, GREY, ORANGE, PAGE, figure
from experiments.truth.scores import OPEN, REFUTED, TABLE

NAME = "truth_claims"
PICTURES = (NAME,)
LEAST, MOST = 1e-3, 1e5  # ratios beyond are drawn at the edge
PILU, MISTAKE = "pilu", "a mistake"
_SPREAD = 0.5  # of a line's height, so that equal ratios can be counted


def ratios(table: pd.DataFrame) -> np.ndarray:
    """Claimed over true; below one the claim is false. Two zeros are one."""
    found = table["factor"].to_numpy(float)
    found = np.where(table["verdict"].str.contains(REFUTED), 1 / found, found)
    return np.clip(found, LEAST, MOST)


def family(table: pd.DataFrame, method: str) -> str:
    """pilu's, a mistake made on purpose, or published by others."""
    source = table.loc[table["adapter"] == method, "cite"].iloc[0]
    return MISTAKE if source == MISTAKE else PILU if method.startswith(PILU) else "others"


def render(store: Store, folder: Path) -> None:
    table = store.read(TABLE)
    methods = list(dict.fromkeys(table["adapter"]))
    with figure(folder, NAME, 1, 1, width=PAGE, height=0.19 * len(methods) + 1.0) as axes:
        panel = axes[0, 0]
        panel.axvspan(LEAST / 2, 1, color=ORANGE, alpha=0.07, lw=0)
        panel.axvline(1, color="black", lw=0.8)
        families = [family(table, method) for method in methods]
        for place, method in enumerate(methods):
            panel.axhline(place, color="0.9", lw=0.5, zorder=0)
            if place and families[place] != families[place - 1]:
                panel.axhline(place - 0.5, color="0.3", lw=0.8, xmin=-0.5, clip_on=False)
            _points(panel, place, table[table["adapter"] == method])
        words = {MISTAKE: "on purpose: "}
        _axes(
            panel,
            [words.get(each, "") + method for each, method in zip(families, methods, strict=True)],
        )


def _points(panel: Any, place: int, lines: pd.DataFrame) -> None:
    heights = place + _SPREAD * np.linspace(-0.5, 0.5, len(lines) + 2)[1:-1]
    for x, y, line in zip(ratios(lines), heights, lines.itertuples(), strict=True):
        refuted, known = REFUTED in line.verdict, line.verdict != OPEN
        panel.plot(x, y, **_style(refuted, pd.notna(line.outside), known))


def _style(refuted: bool, outside: bool, known: bool = True) -> dict[str, Any]:
    colour = ORANGE if refuted else GREY if outside else BLUE
    return {
        "color": colour,
        "marker": "X" if refuted else "o",
        "markersize": 4.5 if refuted else 3.5,
        "markerfacecolor": "white" if outside or not known else colour,
        "markeredgewidth": 0.7,
        "linestyle": "",
    }


def _axes(panel: Any, methods: list[str]) -> None:
    panel.set_xscale("log")
    panel.set(
        xlim=(LEAST / 2, MOST * 2),
        ylim=(len(methods) - 0.3, -1.6),
        xlabel="claimed epsilon over true epsilon",
    )
    panel.set_yticks(range(len(methods)), methods)
    panel.tick_params(axis="y", length=0)
    panel.spines["left"].set_visible(False)
    panel.xaxis.set_major_locator(ticker.LogLocator(10, numticks=12))
    panel.xaxis.set_minor_locator(ticker.NullLocator())
    panel.xaxis.set_major_formatter(ticker.FuncFormatter(_tick))
    panel.text(0.8, -1, "left: claim false", ha="right", va="center", color=ORANGE)
    panel.text(1.25, -1, "right: not refuted, and looser", va="center", color=BLUE)
    words = {
        "not refuted": (False, False),
        "not refuted by runs": (False, False, False),
        "refuted": (True, False),
        "outside of its assumptions": (False, True),
        "outside, and refuted": (True, True),
    }
    handles = [Line2D([], [], **_style(*style), label=word) for word, style in words.items()]
    panel.figure.legend(handles=handles, loc="outside lower center", ncols=5)


def _tick(ratio: float, _: int) -> str:
    if ratio <= LEAST:
        return f"{ratio:g}\nor less"
    return f"{ratio:,.0f}\nor more" if ratio >= MOST else f"{ratio:,g}"
