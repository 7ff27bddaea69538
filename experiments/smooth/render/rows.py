"""What the most expensive and the cheapest rows look like: images in strips, texts in lines.

python -m experiments.smooth.render.rows --size full
"""

import textwrap
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.smooth.command import render_script, stored
from experiments.store import Store
from experiments.style import GREY, ORANGE, PAGE, bare, figure

SHAPES = {784: (28, 28), 3072: (32, 32, 3)}
SHORT = {"mnist38": "3 or 8", "mnist": "ten digits", "cifar10": "CIFAR-10"}
ENDS = ("dear", "cheap")
MOST = 4  # images of either end
WIDTH, LINES = 84, 3  # characters of a text's line, and lines


def render(store: Store, folder: Path) -> None:
    tables = stored(store, "rows")
    pictures = {study: table for study, table in tables.items() if "text" not in table}
    if pictures:
        strips(pictures, folder)
    for study, table in tables.items():
        if "text" in table:
            texts(study, table, folder)


def strips(tables: dict[str, pd.DataFrame], folder: Path) -> None:
    """A line a study: its most expensive rows on the left, its cheapest on the right."""
    ends = [table[table["end"] == end] for table in tables.values() for end in ENDS]
    count = min(MOST, max(map(len, ends)))
    options = {"width": PAGE, "height": 1.5 * len(tables)}
    with figure(folder, "smooth-rows", len(tables), 2 * count, **options) as axes:
        halves = np.split(axes, 2, axis=1)
        for panels, some in zip(np.stack(halves, axis=1).reshape(-1, count), ends, strict=True):
            for panel, (_, line) in zip(panels, some.iterrows(), strict=False):
                pixels = line.filter(regex="^p[0-9]+$").to_numpy().astype(np.uint8)
                panel.imshow(pixels.reshape(SHAPES[len(pixels)]), cmap="gray_r")
                panel.set_title(f"{line['noise']:.3g}", fontsize=7)
                wrong = line["label"] != line["predicted"]
                panel.set_xlabel(caption(line), fontsize=6.5, color=ORANGE if wrong else "black")
            for panel in panels:
                bare(panel)
        for panel, study in zip(axes[:, 0], tables, strict=True):
            panel.set_ylabel(SHORT[study], fontsize=7)
        axes[0, 0].figure.suptitle(
            "sigma_unlearn at epsilon = 1: the most expensive rows (left) and the cheapest (right)",
            fontsize=8,
        )


def caption(line: pd.Series) -> str:
    """Label, predicted class, margin."""
    gap = "\n" if len(f"{line['label']}{line['predicted']}") > 6 else " "  # one line, if it fits
    return f"{line['label']}, seen as{gap}{line['predicted']}\nmargin {line['margin']:.1f}"


def texts(study: str, table: pd.DataFrame, folder: Path) -> None:
    """A table as a picture: noise, label, predicted class, margin and the text itself."""
    heads = (("noise", 0.0), ("label", 0.07), ("seen as", 0.16), ("margin", 0.25), ("text", 0.32))
    options = {"width": WIDTH, "max_lines": LINES, "placeholder": " ..."}
    wrapped = [textwrap.wrap(text, **options) for text in table["text"]]
    lines = sum(map(len, wrapped)) + len(table) * 0.6 + 3
    height = 0.145 * lines
    with figure(folder, f"smooth-{study}-texts", 1, 1, width=PAGE, height=height) as axes:
        panel = axes[0, 0]
        panel.set(xlim=(0, 1), ylim=(lines, 0))
        bare(panel)
        for head, x in heads:
            panel.text(x, 0.8, head, fontweight="bold", va="center", fontsize=7)
        y = 1.6
        for part, (_, line) in zip(wrapped, table.iterrows(), strict=True):
            if line["end"] == "cheap" and (table["end"] == "cheap").idxmax() == line.name:
                panel.axhline(y, color=GREY, linewidth=0.8)
                y += 0.6
            wrong = line["label"] != line["predicted"]
            values = (f"{line['noise']:.2g}", line["label"], line["predicted"])
            cells = (*values, f"{line['margin']:.1f}", "\n".join(part))
            for (_, x), cell in zip(heads, cells, strict=True):
                colour = ORANGE if wrong and x < 0.3 else "black"
                panel.text(x, y, cell, va="top", fontsize=7, color=colour, linespacing=1.15)
            y += len(part) + 0.6


if __name__ == "__main__":
    render_script(__doc__, render)
