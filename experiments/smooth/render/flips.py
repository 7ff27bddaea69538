"""Where rows with a flipped label stand in the order of noise.

python -m experiments.smooth.render.flips --size full
"""

from pathlib import Path

import numpy as np

from experiments.smooth.command import render_script, stored
from experiments.smooth.config import TITLES
from experiments.store import Store
from experiments.style import BLUE, GREEN, GREY, ORANGE, figure, plain_log_axis

ORDERS = {
    "noise": ("by noise", ORANGE, "-"),
    "loss": ("by loss, learned", BLUE, "--"),
    "held_out": ("by loss, held out", GREEN, "-."),
}


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
    """Share of the flipped rows among the first, by noise and by loss: mean and range of draws."""
    looked = 100 * np.arange(1, 1 + int((table["draw"] == 0).sum())) / (table["draw"] == 0).sum()
    for order, (label, colour, dashes) in ORDERS.items():
        caught = []
        for _, some in table.groupby("draw"):
            flipped = some.sort_values(order, ascending=False, kind="stable")["flipped"].to_numpy()
            caught.append(np.cumsum(flipped) / flipped.sum())
        low, mean, high = np.min(caught, axis=0), np.mean(caught, axis=0), np.max(caught, axis=0)
        panel.fill_between(looked, low, high, color=colour, alpha=0.15, step="post", linewidth=0)
        label = f"{label.removeprefix('by ')}: {summary[f'auc_{order}'].mean():.3f}"
        look = {"color": colour, "linestyle": dashes, "drawstyle": "steps-post"}
        panel.plot(looked, mean, label=label, **look)
    panel.plot(looked, looked / 100, color=GREY, linestyle=":", label="chance")
    panel.set(xscale="log", xlim=(0.1, 100), ylim=(0, 1.02), xlabel="rows inspected (%)")
    panel.set_ylabel("share of flipped rows found")
    panel.set_title(f"mean and range of {len(summary)} draws")
    plain_log_axis(panel.xaxis)
    place = {"loc": "lower left", "bbox_to_anchor": (0.41, 0.24)}  # between the curves
    panel.legend(title="order: AUC", alignment="left", **place)


if __name__ == "__main__":
    render_script(__doc__, render)
