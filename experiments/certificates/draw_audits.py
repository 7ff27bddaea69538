"""Certificates of single rows beside what was counted in runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from experiments.certificates.config import TITLES
from experiments.store import Store
from experiments.style import (
    BLUE,
    GREY,
    ORANGE,
    figure,
    legend_below,
    plain_log_axis,
    row_label,
    row_styles,
)

STUDIES = ("depth", "mnist")
CONTROL = "too little"
CLAIM = {"color": "0.75", "linewidth": 3.0}


def stored(store: Store, table: str) -> dict[str, pd.DataFrame]:
    """The table of every study that is there."""
    there = [study for study in STUDIES if store.holds(f"certificates_{table}_{study}")]
    return {study: store.read(f"certificates_{table}_{study}") for study in there or STUDIES}


def curves(store: Store, folder: Path, name: str) -> None:
    """delta(eps): claimed, and by runs; above with the certified noise, below with a tenth."""
    tables = stored(store, "curves")
    options = {"sharey": "row", "sharex": True, "height": 6.0}
    with figure(folder, name, 2, len(tables), **options) as axes:
        for column, (study, table) in enumerate(tables.items()):
            styles = row_styles(list(dict.fromkeys(table["row"])))
            names = table.drop_duplicates("row").set_index("row")["quantile"]
            for line, kind in enumerate(("certified", CONTROL)):
                panel = axes[line, column]
                some = table[table["kind"] == kind]
                for k, (row, style) in enumerate(styles.items()):
                    here = some[some["row"] == row]
                    aside = 0.011 * (k - (len(styles) - 1) / 2)  # so that rows stand side by side
                    _estimates(panel, here, aside, style, kind, row_label(names[row], row))
                panel.set(yscale="log")
            top, below = axes[:, column]
            top.set(title=TITLES[study], ylim=(1e-5, 0.3))
            below.set(xlabel="epsilon", ylim=(1e-3, 1.3))
            title = "quantile of |gradient| (row)"
            top.legend(title=title, fontsize=6, title_fontsize=6, loc="lower left")
        axes[0, 0].set_ylabel("certified noise: delta(epsilon)")
        axes[1, 0].set_ylabel("a tenth of it: delta(epsilon)")
        handles = [
            Line2D([], [], **CLAIM, label="claimed by the certificate of every row"),
            Line2D([], [], color=GREY, linewidth=0.8, label="closed form, by inversion"),
            axes[0, 0].errorbar(
                [], [], [], color=GREY, marker="o", linestyle="none", markersize=2.6,
                label="runs: means above, counts below; 95 % for all rows at once",
            ),
        ]  # fmt: skip
        axes[0, 0].figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _estimates(
    panel: Any, here: pd.DataFrame, aside: float, style: dict[str, Any], kind: str, label: str
) -> None:
    panel.plot(here["epsilon"], here["claimed"], **CLAIM, zorder=0)
    panel.plot(here["epsilon"], here["inverted"], color=style["color"], linewidth=0.6, zorder=1)
    if kind == "certified":
        middle, low, high = (here[name] for name in ("mean", "mean_low", "mean_high"))
    else:
        middle, low, high = (here[name] for name in ("counted", "low", "high"))
    shown = middle > 0
    gaps = [(middle - low)[shown], (high - middle)[shown]]
    panel.errorbar(
        here["epsilon"][shown] + aside, middle[shown], gaps, linestyle="none", **style,
        elinewidth=0.8, markersize=2.6, label=label,
    )  # fmt: skip


def trade_offs(store: Store, folder: Path, name: str) -> None:
    """Misses against false alarms, and how far both together are from chance."""
    tables = stored(store, "trades")
    runs = {study: int(table["runs"].iloc[0]) for study, table in stored(store, "audits").items()}
    options = {"sharey": "row", "sharex": True, "height": 6.4}
    with figure(folder, name, 2, len(tables), **options) as axes:
        for (top, below), (study, table) in zip(axes.T, tables.items(), strict=True):
            names = table.drop_duplicates("row").set_index("row")["quantile"]
            for row, style in row_styles(list(names.index)).items():
                label, colour = row_label(names[row], row), style["color"]
                own = table[table["row"] == row]
                some, few = (own[own["kind"] == kind] for kind in ("certified", CONTROL))
                top.plot(some["alpha"], some["beta"], color=colour, linewidth=1, label=label)
                top.plot(few["alpha"], few["beta"], color=colour, linewidth=1, linestyle="--")
                alpha, gain = some["alpha"], 1 - some["alpha"] - some["beta"]
                half = 1.96 * deviation(some, runs[study])
                below.plot(alpha, gain, color=colour, linewidth=0.8)
                below.fill_between(alpha, gain - half, gain + half, color=colour, alpha=0.12, lw=0)
            for row in names.index:
                some = table[(table["row"] == row) & (table["kind"] == "certified")]
                bound = {"color": "black", "linewidth": 0.9}
                top.plot(some["alpha"], some["least"], **bound)
                below.plot(some["alpha"], 1 - some["alpha"] - some["least"], **bound)
            top.plot([0, 1], [1, 0], color=GREY, linestyle=":")
            below.axhline(0, color=GREY, linestyle=":")
            top.set(title=f"{TITLES[study]}, {runs[study]:,} runs of each kind", ylim=(0, 1))
            below.set(xlabel="false alarms alpha")
            title = "quantile of |gradient| (row)"
            top.legend(title=title, fontsize=6, title_fontsize=6, loc="upper right")
        axes[0, 0].set_ylabel("misses beta")
        axes[1, 0].set_ylabel("1 - alpha - beta, certified noise")
        handles = [
            Line2D([], [], color="black", linewidth=0.9, label="least by the certificate"),
            Line2D([], [], color=GREY, linewidth=1, label="runs, certified noise"),
            Line2D([], [], color=GREY, linewidth=1, linestyle="--", label="runs, a tenth of it"),
            Patch(color=GREY, alpha=0.25, lw=0, label="95 % at each alpha"),
            Line2D([], [], color=GREY, linestyle=":", label="chance"),
        ]
        axes[0, 0].figure.legend(handles=handles, loc="outside lower center", ncols=5)


def deviation(some: pd.DataFrame, n_runs: int) -> pd.Series:
    """Standard deviation of beta at a threshold that is itself a quantile of the other runs.

    By the delta method, the error of alpha counts with the slope of the trade-off curve.
    """
    alpha, beta = some["alpha"].to_numpy(), some["beta"].clip(0, 1)
    slope = np.gradient(some["least"].to_numpy(), alpha)
    return np.sqrt((beta * (1 - beta) + slope**2 * alpha * (1 - alpha)) / n_runs)


def epsilons(store: Store, folder: Path, name: str) -> None:
    """Certified epsilon above what the runs prove, row by row; and the same for the control."""
    tables = stored(store, "audits")
    with figure(folder, name, 1, len(tables), sharey=True, height=3.4) as axes:
        for panel, (study, table) in zip(axes[0], tables.items(), strict=True):
            some, few = (table[table["kind"] == kind] for kind in ("certified", CONTROL))
            places = np.arange(len(some))
            for found, colour, aside, of in (
                (some, BLUE, -0.09, "certified"),
                (few, ORANGE, 0.09, "exact, a tenth of the noise"),
            ):
                exact = {"linestyle": "none", "marker": "_", "markersize": 9}
                panel.plot(
                    places + aside, found["epsilon"], color=colour, **exact, markeredgewidth=1.5,
                    label=of,
                )  # fmt: skip
                least = found["epsilon_lower"]
                panel.plot(
                    places + aside, least, marker="^", color=colour, linestyle="none",
                    label="proved by its runs, 95 % each",
                )  # fmt: skip
                # What the runs leave open: all above what they prove.
                panel.vlines(
                    places + aside, least, found["epsilon"], color=colour, linewidth=0.6, zorder=0
                )
            panel.axhline(
                some["epsilon_provable"].iloc[0], color=GREY, linestyle=":",
                label="most that so many runs can prove",
            )  # fmt: skip
            names = [f"{line.quantile:.0%}\n({line.row})" for line in some.itertuples()]
            panel.set_xticks(places, names)
            panel.set(yscale="log", title=f"{TITLES[study]}, {some['runs'].iloc[0]:,} runs")
            panel.set_xlabel("quantile of |gradient| (row)")
            plain_log_axis(panel.yaxis)
        axes[0, 0].set_ylabel("epsilon at delta = 1/n")
        legend_below(axes[0, 0], "")
