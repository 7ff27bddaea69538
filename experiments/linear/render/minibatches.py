"""Cyclic mini-batches: one panel a batch size, one line of them an accountant; the cost table.

python -m experiments.linear.render.minibatches --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.linear.render.curves import (
    LEGEND,
    SCORES,
    labels,
    runs_and_expectation,
    scale_scores,
)
from experiments.store import Store
from experiments.style import TITLES, figure, legend_below, row_styles


def render(store: Store, study: str, folder: Path) -> None:
    table, names = store.read(f"{study}_minibatches"), labels(store, study)
    styles, sizes = row_styles(list(names)), list(dict.fromkeys(table["batch_size"]))
    draw = runs_and_expectation("epsilon")
    options = {"sharex": True, "sharey": True, "height": 4.4}
    with figure(folder, f"{study}_minibatches", 2, len(sizes), **options) as axes:
        for line, accountant in zip(axes, TITLES, strict=True):
            for panel, b in zip(line, sizes, strict=True):
                here = (table["batch_size"] == b) & (table["accountant"] == accountant)
                some = table[here]
                for row, label in names.items():
                    draw(panel, some[some["row"] == row], styles[row], label)
                panel.set_xscale("log")
            line[0].set_ylabel(f"{TITLES[accountant]}\n{SCORES[study]}")
        scale_scores(axes.ravel(), study)
        for panel, b in zip(axes[0], sizes, strict=True):
            T = table[table["batch_size"] == b]["learning_steps"].iloc[0]
            panel.set_title(f"b = {b}, T = {T:,}")
        for panel in axes[1]:
            panel.set_xlabel("epsilon")
        legend_below(axes[0, 0], LEGEND)
    print(f"\n{study}: examples processed at one training error")
    print(store.read(f"{study}_cost").to_string(index=False, float_format="{:,.4g}".format))


if __name__ == "__main__":
    render_script(__doc__, render)
