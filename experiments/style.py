"""The look that all figures share: widths of a journal's columns, colours for everyone, two files.

A row's colour runs from light to dark with its gradient norm; the marker repeats it, so that
neither colour nor print is needed to tell rows apart.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import ticker

COLUMN, PAGE = 3.4, 7.0  # inches
MARKERS = "osD^vP*X"
GREY = "0.45"
# Okabe and Ito's. In figures of rows orange is one level of noise for all, pink is DP-GD.
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
TITLES = {"theorem": "Theorem 1 (the paper)", "exact": "exact"}

SETTINGS = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "errorbar.capsize": 1.5,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 144,  # a page of 7 inches is 1008 pixels wide, as documentation shows it
    "pdf.fonttype": 42,
}


@contextmanager
def figure(folder: Path, name: str, rows: int, columns: int, **options: Any) -> Iterator[Any]:
    """A figure's axes (always two-dimensional); written as PDF and PNG at the end."""
    width = options.pop("width", PAGE if columns > 1 else COLUMN)
    height = options.pop("height", 2.4 * rows)
    with plt.rc_context(SETTINGS):
        made, axes = plt.subplots(rows, columns, figsize=(width, height), squeeze=False, **options)
        yield axes
        folder.mkdir(parents=True, exist_ok=True)
        # No date inside: the same tables give the same file.
        made.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
        made.savefig(folder / f"{name}.png")
        plt.close(made)


def colours(n: int) -> list[Any]:
    """n colours from light to dark, all visible on white."""
    return [plt.colormaps["viridis_r"](x) for x in np.linspace(0.08, 0.95, n)]


def row_styles(rows: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Colour and marker of every row, the smallest gradient first."""
    return {
        row: {"color": colour, "marker": MARKERS[k]}
        for k, (row, colour) in enumerate(zip(rows, colours(len(rows)), strict=True))
    }


def legend_below(panel: Any, title: str) -> None:
    """The labels of a panel in a legend for the whole figure, under it."""
    handles, labels = panel.get_legend_handles_labels()
    widest = max(map(len, labels), default=1)
    fit = max(int(panel.figure.get_figwidth() / (0.55 + 0.058 * widest)), 1)  # side by side
    lines = -(-len(labels) // fit)
    panel.figure.legend(
        handles,
        labels,
        title=title,
        loc="outside lower center",
        ncols=-(-len(labels) // lines),
        columnspacing=1.2,
    )


def bare(panel: Any) -> None:
    """An image needs neither ticks nor axes."""
    panel.set(xticks=[], yticks=[])
    panel.spines[:].set_visible(False)


def plain_log_axis(axis: Any) -> None:
    """A logarithmic axis with numbers as people write them."""
    axis.set_major_locator(ticker.LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def row_label(quantile: float, row: int) -> str:
    return f"{quantile:.0%} (row {row})"
