"""Where rows with a flipped label stand in the order of noise.

python -m experiments.smooth.render.flips --size full
"""

from pathlib import Path

import numpy as np

from experiments.smooth.command import render_script, stored
from experiments.smooth.config import TITLES
from experiments.store import Store
from experiments.style import BLUE, GREY, ORANGE, figure, plain_log_axis


def render(store: Store, folder: Path) -> None:
    tables, summaries = stored(store, "flips"), stored(store, "flips_summary")
    with figure(folder, "smooth-flips", len(tables), 2, height=2.5 * len(tables)) as axes:
        for (left, right), (study, table) in zip(axes, tables.items(), strict=True):
            histogram(left, table, TITLES[study])
            share_caught(right, table, summaries[study])


def histogram(panel, table, title: str) -> None:
    noise = np.maximum(table["noise"], 1e-6)
    edges = np.geomspace(noise.min(), noise.max() * 1.001, 31)
    flipped = table["flipped"] == 1
    for some, colour, label in ((~flipped, BLUE, "label as it was"), (flipped, ORANGE, "flipped")):
        panel.hist(noise[some], edges, color=colour, alpha=0.8, label=label)
    panel.set(xscale="log", yscale="log", xlabel="sigma_unlearn at epsilon = 1", title=title)
    panel.set_ylabel(f"rows of {table['draw'].nunique()} draws")
    for axis in (panel.xaxis, panel.yaxis):
        plain_log_axis(axis)
    panel.set_ylim(top=panel.get_ylim()[1] * 4)  # room for the legend
    panel.legend(loc="upper left", ncols=2)


def share_caught(panel, table, summary) -> None:
    """Share of the flipped rows among the most expensive ones."""
    for number, (_, some) in enumerate(table.groupby("draw")):
        order = some.sort_values("noise", ascending=False, kind="stable")
        caught = np.cumsum(order["flipped"]) / order["flipped"].sum()
        looked = 100 * np.arange(1, len(order) + 1) / len(order)
        label = "each draw" if number == 0 else None
        panel.plot(looked, caught, color=ORANGE, alpha=0.7, label=label, drawstyle="steps-post")
    share = np.geomspace(1e-3, 1, 50)
    panel.plot(100 * share, share, color=GREY, linestyle=":", label="by chance")
    panel.set(
        xscale="log", xlim=(0.1, 100), ylim=(0, 1.02), xlabel="most expensive rows inspected (%)"
    )
    panel.set_ylabel("flipped rows among them")
    panel.set_title(f"AUC {summary['auc'].mean():.3f}, mean of {len(summary)}")
    plain_log_axis(panel.xaxis)
    panel.legend(loc="upper left")


if __name__ == "__main__":
    render_script(__doc__, render)
