"""Sensitivity bounds by concentration beside fresh runs, and where they are loose."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from experiments.certificates.concentration import STAGES
from experiments.certificates.config import TITLES
from experiments.smooth.config import STUDIES as SMOOTH
from experiments.store import Store
from experiments.style import (
    GREEN,
    GREY,
    ORANGE,
    figure,
    legend_below,
    plain_log_axis,
    row_label,
    row_styles,
)

STUDIES = ("mnist38", "vader")
WORDS = {
    "tail": "failure probability of all steps",
    "inequality": "tail inequality, not the normal law",
    "curvature": "contraction by alpha alone",
    "means": "means known from {runs} runs",
    "bound": "error of these {runs} runs' means",
}
NOISES = {
    "bound": ("certified (concentration)", "s", "black"),
    "largest": ("largest of the runs in place of the bound", "o", GREY),
    "quadratic_theorem": ("estimate: theorem, quadratic loss", "v", ORANGE),
    "quadratic_exact": ("estimate: exact, quadratic loss", "^", GREEN),
}
APART = 0.16  # between marks of one row
# Rows have style.colours, noises those of accountants: the factors are neither.
FACTORS = [plt.colormaps["RdPu"](x) for x in np.linspace(0.2, 0.95, len(WORDS))]


def concentration(store: Store, folder: Path, name: str) -> None:
    """Trajectories under their bounds; the bounds' shares; what the bounds cost in noise."""
    studies = [study for study in STUDIES if store.holds(f"certificates_margins_{study}")]
    with figure(folder, name, 4, len(studies), sharey="row", height=10.4) as axes:
        for (top, ratio, middle, below), study in zip(axes.T, studies, strict=True):
            trajectories = store.read(f"certificates_trajectories_{study}")
            runs = store.provenance(f"certificates_margins_{study}")["config"]["n_runs"]
            words = {k: v.format(runs=auxiliary_runs(store, study)) for k, v in WORDS.items()}
            _trajectories(top, ratio, trajectories, runs)
            _shares(middle, store.read(f"certificates_margins_{study}"), trajectories, words)
            _noises(below, noises(store, study))
            top.set_title(TITLES[study])
            top.legend(title="rows at quantiles of noise", fontsize=6, title_fontsize=6)
        axes[0, 0].set_ylabel("bound of eta |gradient|")
        axes[1, 0].set_ylabel("share of the bound")
        axes[2, 0].set_ylabel("bound / largest run, last step")
        axes[3, 0].set_ylabel("sigma_unlearn at epsilon = 1")
        axes[1, 0].legend(fontsize=6, loc="lower left")
        axes[2, 0].legend(fontsize=6, loc="upper left", reverse=True)
        axes[2, 0].set_ylim(1, 1 + 1.8 * (axes[2, 0].get_ylim()[1] - 1))  # room for the legend
        axes[3, 0].set_ylim(axes[3, 0].get_ylim()[0] / 2)  # and for noises of 0
        legend_below(axes[3, 0], "sigma_unlearn by")


def auxiliary_runs(store: Store, study: str) -> int:
    """How many of them the bounds rest on."""
    size = store.provenance(f"certificates_margins_{study}")["config"]["size"]
    return SMOOTH[size][study].n_auxiliary_runs


def _trajectories(top: Any, ratio: Any, table: pd.DataFrame, runs: int) -> None:
    names = table.drop_duplicates("row").set_index("row")["quantile"]
    for row, style in row_styles(list(names.index)).items():
        some = table[table["row"] == row]
        steps, colour = some["step"] + 1, style["color"]
        top.plot(steps, some["bound"], color=colour, label=row_label(names[row], row))
        ratio.plot(steps, some["largest"] / some["bound"], color=colour)
        ratio.plot(steps, some["mean"] / some["bound"], color=colour, linestyle="--", linewidth=0.8)
    ratio.axhline(1, color="black", linewidth=0.8, label="bound")
    ratio.plot([], [], color=GREY, label=f"largest of {runs} runs")
    ratio.plot([], [], color=GREY, linestyle="--", linewidth=0.8, label="their mean")
    top.set(xscale="log", yscale="log", xlabel="step")
    ratio.set(xscale="log", xlabel="step")
    for panel in (top, ratio):
        plain_log_axis(panel.xaxis)


def _shares(
    panel: Any, margins: pd.DataFrame, trajectories: pd.DataFrame, words: dict[str, str]
) -> None:
    chosen = trajectories.drop_duplicates("row")
    last = margins.set_index("row").loc[chosen["row"]]
    typical = margins[list(STAGES)].div(margins["largest"], axis=0).median()
    bars = [last.iloc[k][list(STAGES)] / last.iloc[k]["largest"] for k in range(len(last))]
    bars.append(typical)
    labels = [f"{q:.0%}\n({row})" for q, row in zip(chosen["quantile"], chosen["row"], strict=True)]
    labels.append("median\nof all")
    for place, bar in enumerate(bars):
        for k, (colour, stage) in enumerate(zip(FACTORS, words, strict=True)):
            bottom, top = bar[STAGES[k]], bar[stage]
            panel.bar(
                place, top - bottom, bottom=bottom, color=colour, width=0.6,
                label=words[stage] if place == 0 else None,
            )  # fmt: skip
        panel.annotate(
            f"{bar['bound']:.2f}", (place, max(bar.max(), 1)), (0, 2), textcoords="offset points",
            ha="center", fontsize=6,
        )  # fmt: skip
    panel.set_xticks(range(len(bars)), labels)
    panel.set(ylim=(1, None), xlabel="quantile of noise (row)")


def noises(store: Store, study: str) -> pd.DataFrame:
    """Noise of the chosen rows: by the bound, by the runs, and for a quadratic loss."""
    stages = store.read(f"certificates_stages_{study}")
    table = stages.pivot_table(index=["quantile", "row"], columns="stage", values="noise")
    quadratic = store.read(f"certificates_quadratic_{study}").set_index(["quantile", "row"])
    return table[["bound", "largest"]].join(quadratic[["quadratic_theorem", "quadratic_exact"]])


def _noises(panel: Any, table: pd.DataFrame) -> None:
    places = np.arange(len(table))
    for k, (column, (label, marker, colour)) in enumerate(NOISES.items()):
        shown, aside = table[column] > 0, places + APART * (k - 1.5)
        panel.plot(
            aside[shown], table[column][shown], marker=marker, color=colour, linestyle="none",
            label=label,
        )  # fmt: skip
        for place in aside[~shown]:  # a logarithmic axis has no zero
            panel.text(
                place, 0.02, "0", color=colour, ha="center", transform=panel.get_xaxis_transform()
            )
    panel.set_xticks(places, [f"{q:.0%}\n({row})" for q, row in table.index])
    panel.set(yscale="log", xlabel="quantile of noise (row)", xlim=(-0.5, len(table) - 0.5))
    plain_log_axis(panel.yaxis)
