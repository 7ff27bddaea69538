"""pilu's curves beside the one curve of DP-GD.

python -m experiments.linear.render.dp_gd --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.linear.render.curves import (
    LEGEND,
    SCORES,
    draw_panels,
    labels,
    runs_and_expectation,
    scale_scores,
)
from experiments.store import Store
from experiments.style import GREY, figure, legend_below, plain_log_axis

# The paper's own accounting beside the theorem, the tight one beside the exact accountant.
BESIDE = ("renyi", "gdp")


def render(store: Store, study: str, folder: Path) -> None:
    table, names = store.read(f"{study}_privacy_utility"), labels(store, study)
    table = table[table["set"] == table["set"].iloc[0]]
    other = store.read(f"{study}_dp_gd")
    with figure(folder, f"{study}_dp_gd", 1, 2, sharey=True) as axes:
        draw_panels(axes[0], table, names, "epsilon", runs_and_expectation("epsilon"))
        for panel, accounting in zip(axes[0], BESIDE, strict=True):
            some = other[other["accounting"] == accounting]
            panel.errorbar(
                some["epsilon"], some["mean"], some["sd"], color=GREY, linestyle="--", label="DP-GD"
            )
            panel.set(xscale="log", xlabel="epsilon")
            plain_log_axis(panel.xaxis)
        scale_scores(axes[0], study)
        axes[0, 0].set_ylabel(SCORES[study])
        legend_below(axes[0, 0], f"{LEGEND}; DP-GD by Renyi accounting left, exact right")


if __name__ == "__main__":
    render_script(__doc__, render)
