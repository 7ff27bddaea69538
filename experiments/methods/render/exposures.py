"""Sorted exposure of everybody, and what caps cost."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.methods.config import TITLES
from experiments.store import Store
from experiments.style import BLUE, GREEN, GREY, ORANGE, figure, legend_below, plain_log_axis

COLOURS = {"default": "0.25", "cap 10": BLUE, "cap 3": GREEN, "cap 1": ORANGE}
INFINITE = 10_000  # larger values are reported as infinite
TOP = 30_000


def names(store: Store) -> list[str]:
    return [name for name in TITLES if store.holds(f"methods_exposure_{name}")]


def render(store: Store, folder: Path) -> None:
    found = names(store)
    if not found:
        store.read("methods_exposure_digits")
    n = len(found)
    with figure(folder, "methods_exposure", 2, n, height=4.6, width=7.0) as axes:
        for k, name in enumerate(found):
            curves = store.read(f"methods_exposure_{name}")
            draw_curves(axes[0, k], curves)
            axes[0, k].set_title(f"{TITLES[name]}\n{curves['people'].iloc[0]:,} people")
            draw_costs(axes[1, k], store.read(f"methods_exposure_{name}_costs"))
        for panel in axes[0, 1:]:
            panel.tick_params(labelleft=False)
        axes[0, 0].set_ylabel("exposure (epsilon)")
        for label, style in (("score without noise", "-"), ("constant predictor", "--")):
            axes[0, 0].plot([], [], color=GREY, linestyle=style, linewidth=0.8, label=label)
        legend_below(axes[0, 0], "")


def draw_curves(panel: Any, curves: pd.DataFrame) -> None:
    """Epsilon against the share of people who are at least that exposed."""
    panel.axhline(INFINITE, color=GREY, linestyle=":", linewidth=0.8)
    for release, colour in COLOURS.items():
        some = curves[curves["release"] == release]
        label = "default noise" if release == "default" else f"max_exposure={release[4:]}"
        epsilon = np.minimum(some["epsilon"], TOP)
        panel.plot(100 * some["share"], epsilon, color=colour, label=label)
    panel.set(xscale="log", yscale="log", ylim=(0.02, 60_000), xlim=(0.05, 110))
    panel.set_xlabel("most exposed (%)")
    panel.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    panel.text(0.06, INFINITE * 1.1, "infinite", fontsize=6, color=GREY, va="bottom")
    panel.set_yticks([0.1, 1, 10, 100, 1000, 10_000], ["0.1", "1", "10", "100", "1,000", "10,000"])
    panel.minorticks_off()


def draw_costs(panel: Any, costs: pd.DataFrame) -> None:
    """Score against the cap; the interval is the middle 95 % of draws."""
    plain = costs[costs["release"] == "no noise"].iloc[0]
    panel.axhline(plain["mean"], color=GREY, linewidth=0.8)
    panel.axhline(plain["constant"], color=GREY, linestyle="--", linewidth=0.8)
    caps = costs[costs["release"].str.startswith("cap")]
    some = caps.dropna(subset=["mean"])
    error = [some["mean"] - some["low"], some["high"] - some["mean"]]
    panel.errorbar(some["cap"], some["mean"], error, color=BLUE, marker="o", elinewidth=0.7)
    for cap in caps[caps["mean"].isna()]["cap"]:
        panel.axvline(cap, color=ORANGE, linewidth=0.8, linestyle=":")
        panel.text(
            cap * 1.1,
            0.06,
            "cannot be reached",
            rotation=90,
            fontsize=6,
            color=ORANGE,
            transform=panel.get_xaxis_transform(),
        )
    low = min(plain["constant"], *caps["low"].dropna())
    span = plain["mean"] - low
    panel.set(xscale="log", xlim=(0.6, 170), ylim=(low - 0.08 * span, plain["mean"] + 0.12 * span))
    panel.set(xlabel="max_exposure", ylabel=f"test {plain['measure']}")
    plain_log_axis(panel.xaxis)
    panel.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    panel.minorticks_off()
