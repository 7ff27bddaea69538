"""Cyclic mini-batches beside the full batch: one panel a batch size, an accountant a line.

python -m experiments.linear.render.minibatches --study depth --size full
"""

from pathlib import Path

import pandas as pd

from experiments.linear.command import render_script
from experiments.linear.render.curves import (
    LEGEND,
    OWN_SCALES,
    SCORES,
    compare_with,
    few_ticks,
    labels,
    n_runs,
    runs_and_expectation,
    say_what_is_drawn,
    scale_scores,
)
from experiments.store import Store
from experiments.style import TITLES, figure, legend_below, row_styles


def render(store: Store, study: str, folder: Path) -> None:
    names, panels = labels(store, study), by_batch_size(store, study)
    styles, draw = row_styles(list(names)), runs_and_expectation("epsilon", study)
    options = {"sharex": True, "sharey": "row" if study in OWN_SCALES else True, "height": 5.0}
    with figure(folder, f"{study}_minibatches", 2, len(panels), **options) as axes:
        for line, accountant in zip(axes, TITLES, strict=True):
            for panel, table in zip(line, panels.values(), strict=True):
                some = table[table["accountant"] == accountant]
                for row, label in names.items():
                    draw(panel, some[some["row"] == row], styles[row], label)
                panel.set_xscale("log")
            line[0].set_ylabel(f"{TITLES[accountant]}\n{SCORES[study]}")
        limits = axes[1, 0].get_ylim()
        compare_with(axes.ravel(), store, study, ("constant",))
        scale_scores(axes.ravel(), study)
        if study in OWN_SCALES:  # the constant would flatten all curves
            axes[1, 0].set_ylim(limits)
            few_ticks(axes[1, 0].yaxis)
        for panel, title in zip(axes[0], panels, strict=True):
            panel.set_title(title)
        for panel in axes[1]:
            panel.set_xlabel("epsilon")
        say_what_is_drawn(axes[0, 0], n_runs(store, study), expectation=False)
        legend_below(axes[0, 0], LEGEND)
    print(f"\n{study}: examples processed at one training error")
    print(store.read(f"{study}_cost").to_string(index=False, float_format="{:,.4g}".format))


def by_batch_size(store: Store, study: str) -> dict[str, pd.DataFrame]:
    """Title and runs of every batch size, and those of the full batch last."""
    table = store.read(f"{study}_minibatches")
    panels = {
        f"b = {b:,}, T = {some['learning_steps'].iloc[0]:,}": some
        for b, some in table.groupby("batch_size", sort=False)
    }
    full = store.read(f"{study}_privacy_utility")
    full = full[full["set"] == full["set"].iloc[0]].drop(columns="expected")
    T = store.provenance(f"{study}_rows")["config"]["n_steps"]
    return panels | {f"all rows, T = {T:,}": full}


if __name__ == "__main__":
    render_script(__doc__, render)
