"""Groups of rows at once, and requests one after another."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.certificates.config import CONFIGS
from experiments.store import Store
from experiments.style import BLUE, GREEN, GREY, ORANGE, figure, legend_below, plain_log_axis

PROBLEMS = {
    ("ridge", "vader"): "VADER, ridge",
    ("ridge", "mnist"): "MNIST, ridge",
    ("logistic", "vader"): "VADER, logistic",
    ("logistic", "mnist38"): "3 against 8, logistic",
}
KINDS = {
    "uniform": ("any rows of norm 1", "D", GREY),
    "sum": ("sum of sensitivities", "s", ORANGE),
    "joint": ("joint sensitivity", "o", BLUE),
    "exact": ("exact", "^", GREEN),
}
SEQUENCES = {"vader": "VADER, ridge", "mnist38": "3 against 8, ridge"}
TERMS = {1.0: ("epsilon 1 each", "s", ORANGE), 0.1: ("0.1 each", "o", BLUE)}
TERMS[0.01] = ("0.01 each, delta / 100", "^", GREEN)
LINES = {"redraw": ("redraw", (0, (3, 1))), "constant": ("constant predictor", (0, (1, 1.5)))}
LOSS = CONFIGS["full"].sequences.tolerated_loss  # of accuracy against a redraw


def groups(store: Store, folder: Path, name: str) -> None:
    """Noise above, accuracy below, against the size of the group."""
    there = {
        title: store.read(f"certificates_groups_{loss}_{study}")
        for (loss, study), title in PROBLEMS.items()
        if store.holds(f"certificates_groups_{loss}_{study}")
    }
    with figure(folder, name, 2, len(there), sharey="row", sharex=True, height=5.2) as axes:
        for (top, below), (title, table) in zip(axes.T, there.items(), strict=True):
            for kind, (label, marker, colour) in KINDS.items():
                some = table[table["kind"] == kind]
                look = {"marker": marker, "color": colour, "label": label, "elinewidth": 0.7}
                if len(some):
                    _ranged(top, some, "size", "noise", look)
                    _ranged(below, some, "size", "after", look)
            redraw = table.groupby("size")["redraw"].mean()
            below.plot(redraw.index, redraw, color="black", linestyle=LINES["redraw"][1])
            _references(below, table)
            top.set(title=title, yscale="log", xscale="log")
            below.set(xlabel="rows at once", ylim=(0, 1.02))
            below.set_xticks([1, 10, 100, 500], ["1", "10", "100", "500"])
            below.xaxis.set_minor_formatter("")
        plain_log_axis(axes[0, 0].yaxis)
        axes[0, 0].set_ylabel("sigma_unlearn at epsilon = 1")
        axes[1, 0].set_ylabel("accuracy afterwards")
        _legend(axes[0, 0], KINDS)


def sequences(store: Store, folder: Path, name: str) -> None:
    """Noise, total epsilon, accuracy and seconds against the number of requests."""
    there = {
        title: store.read(f"certificates_sequences_{study}")
        for study, title in SEQUENCES.items()
        if store.holds(f"certificates_sequences_{study}")
    }
    rows = len(there)
    with figure(folder, name, rows, 4, sharex=True, sharey="col", height=1.9 * rows + 0.7) as axes:
        for panels, (title, table) in zip(axes, there.items(), strict=True):
            noise, total, accuracy, seconds = panels
            for epsilon, (label, marker, colour) in TERMS.items():
                some = table[table["epsilon"] == epsilon]
                look = {"marker": marker, "color": colour, "label": label, "elinewidth": 0.7}
                _ranged(noise, some[some["noise"] > 0], "requests", "noise", look)
                _totals(total, some, look)
                _ranged(accuracy, some, "requests", "accuracy", look)
                _ranged(seconds, some, "requests", "seconds", look)
            mean = table.groupby("requests").mean(numeric_only=True)
            accuracy.plot(mean.index, mean["redraw"], color="black", linestyle=LINES["redraw"][1])
            _references(accuracy, table)
            for column, dashes in (
                ("redraw_seconds", LINES["redraw"][1]),
                ("retrain_seconds", "-."),
            ):
                each = table[column].median()
                seconds.plot(mean.index, mean.index * each, color="black", linestyle=dashes)
            noise.set(ylabel=title, xscale="log", yscale="log")
            total.set(yscale="log")
            accuracy.set(ylim=(0, 1.02))
            seconds.set(yscale="log")
        noise, total, accuracy, seconds = axes[0]
        noise.set(title="noise of the request")
        total.set(title="total epsilon (delta = 1/n)")
        accuracy.set(title="accuracy afterwards")
        seconds.set(title="seconds in all")
        total.set_ylim(top=5 * total.get_ylim()[1])  # room for what has no total
        for panel in axes[-1]:
            panel.set_xlabel("requests")
            panel.set_xticks([1, 10, 100], ["1", "10", "100"])
            panel.xaxis.set_minor_formatter("")
        total.plot([], [], color="black", linestyle="-.", label="retraining each time")
        _legend(total, TERMS)


def _totals(panel: Any, table: pd.DataFrame, look: dict[str, Any]) -> None:
    """Totals where every repeat has one; a logarithmic axis has neither 0 nor infinity."""
    found = table.groupby("requests")["epsilon_now"].agg(["min", "max"])
    shown = found.index[(found["min"] > 0) & np.isfinite(found["max"])]
    _ranged(panel, table[table["requests"].isin(shown)], "requests", "epsilon_now", look)
    aside = {"color": look["color"], "fontsize": 6, "ha": "center"}
    aside["transform"] = panel.get_xaxis_transform()
    for count in found.index[found["min"] == 0]:
        panel.text(count, 0.02, "0", **aside)
    for count in found.index[~np.isfinite(found["max"])][:1]:
        panel.text(count, 0.97, "none from here on", **aside | {"ha": "right"}, va="top")


def _ranged(panel: Any, table: pd.DataFrame, x: str, y: str, look: dict[str, Any]) -> None:
    """Means over repeats, with the smallest and the largest."""
    found = table.groupby(x)[y].agg(["mean", "min", "max"])
    # The mean of equal numbers may be an ulp off them.
    gaps = [(found["mean"] - found["min"]).clip(0), (found["max"] - found["mean"]).clip(0)]
    panel.errorbar(found.index, found["mean"], gaps, **look)


def _references(panel: Any, table: pd.DataFrame) -> None:
    panel.axhline(table["before"].iloc[0], color=GREY, linewidth=1)
    panel.axhline(table["constant"].iloc[0], color=GREY, linestyle=LINES["constant"][1])


def _legend(panel: Any, kinds: dict[Any, tuple[str, str, str]]) -> None:
    for label, dashes in LINES.values():
        colour = "black" if label == "redraw" else GREY
        panel.plot([], [], color=colour, linestyle=dashes, label=label)
    panel.plot([], [], color=GREY, label="before")
    shown = {label for label, _, _ in kinds.values()}
    drawn = set(panel.get_legend_handles_labels()[1])
    for label, marker, colour in kinds.values():
        if label in shown - drawn:
            panel.errorbar([], [], [], marker=marker, color=colour, label=label)
    legend_below(panel, "mean; smallest and largest of the repeats")
