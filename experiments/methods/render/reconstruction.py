"""Deleted images and what was found of them; how alike they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.methods.reconstruction_kinds import KINDS, MEAN, words
from experiments.store import Store
from experiments.style import BLUE, GREY, bare, figure

DATA = {"digits": "digits, 8 x 8", "mnist": "MNIST, 28 x 28"}


def names(store: Store) -> list[str]:
    return [name for name in DATA if store.holds(f"methods_reconstruction_{name}")]


def render(store: Store, folder: Path) -> None:
    found = names(store)
    if not found:
        store.read("methods_reconstruction_digits")
    draw_images(
        folder, {name: store.read(f"methods_reconstruction_{name}_pixels") for name in found}
    )
    draw_likeness(folder, {name: store.read(f"methods_reconstruction_{name}") for name in found})


def draw_images(folder: Path, tables: dict[str, pd.DataFrame]) -> None:
    first = next(iter(tables.values()))
    kinds = [kind for kind in ("original", *KINDS) if kind in set(first["kind"]) and kind != MEAN]
    columns = sum(len(set(table["row"])) for table in tables.values())
    with figure(
        folder,
        "methods_reconstruction",
        len(kinds),
        columns,
        width=7.0,
        height=0.47 * len(kinds) + 0.3,
    ) as axes:
        for panel in axes.ravel():
            bare(panel)
        at = 0
        for name, table in tables.items():
            shown = list(dict.fromkeys(table["row"]))
            for column, row in enumerate(shown, start=at):
                for line, kind in enumerate(kinds):
                    some = table[(table["row"] == row) & (table["kind"] == kind)].iloc[0]
                    axes[line, column].imshow(
                        picture_of(some["pixels"]), cmap="gray_r", vmin=0, vmax=99
                    )
            axes[0, at].set_title(DATA[name], loc="left")
            at += len(shown)
        for line, kind in enumerate(kinds):
            axes[line, 0].set_ylabel(words(kind), rotation=0, ha="right", va="center", fontsize=7)


def picture_of(text: Any) -> np.ndarray:
    """Grey levels from 0 to 99 out of a table's line, a square."""
    text = str(text)
    levels = np.array([int(text[k : k + 2]) for k in range(1, len(text), 2)])
    side = round(len(levels) ** 0.5)
    return levels.reshape(side, side)


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """The median and a bootstrap interval of 95 %."""
    rng = np.random.default_rng(0)
    draws = np.median(rng.choice(values, (2000, len(values))), axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)


def draw_likeness(folder: Path, tables: dict[str, pd.DataFrame]) -> None:
    with figure(
        folder, "methods_likeness", 1, len(tables), sharey=True, width=7.0, height=2.5
    ) as axes:
        for panel, (name, table) in zip(axes[0], tables.items(), strict=True):
            kinds = [kind for kind in KINDS if kind in set(table["kind"]) and kind != MEAN]
            for place, kind in enumerate(reversed(kinds)):
                values = table[table["kind"] == kind]["likeness"].to_numpy()
                middle, low, high = interval(values)
                jitter = np.linspace(-0.25, 0.25, len(values))
                panel.plot(values, place + jitter, ".", color="0.75", markersize=2.5)
                panel.plot([low, high], [place, place], color=BLUE, linewidth=1.2)
                panel.plot(middle, place, "o", color=BLUE)
            panel.axvline(0, color=GREY, linewidth=0.8)
            panel.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
            panel.set_yticks(range(len(kinds)), [words(kind) for kind in reversed(kinds)])
            panel.set(
                title=f"{DATA[name]}: {len(set(table['row']))} deleted images", xlim=(-1.05, 1.05)
            )
            panel.set_xticks([-1, -0.5, 0, 0.5, 1])
            panel.set_xlabel("likeness (0: mean image, 1: deleted image)")
