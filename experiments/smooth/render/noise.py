"""The noise of every row, the most expensive first, and the uniform level above.

python -m experiments.smooth.render.noise --size full
"""

from pathlib import Path

import numpy as np

from experiments.smooth.command import render_script, stored
from experiments.smooth.config import TITLES
from experiments.store import Store
from experiments.style import BLUE, GREY, ORANGE, figure, plain_log_axis


def render(store: Store, folder: Path) -> None:
    tables, summaries = stored(store, "noise"), stored(store, "summary")
    columns = 2 if len(tables) > 1 else 1
    rows = -(-len(tables) // columns)
    with figure(folder, "smooth-noise", rows, columns, height=2.3 * rows + 0.2) as axes:
        for panel in axes.ravel()[len(tables) :]:
            panel.set_axis_off()
        for panel, (study, table) in zip(axes.ravel(), tables.items(), strict=False):
            known = summaries[study].iloc[0]
            ordered = table.sort_values("noise", ascending=False, ignore_index=True)
            wrong = ordered[ordered["label"] != ordered["predicted"]]
            panel.plot(100 * place(ordered.index, ordered), ordered["noise"], color=BLUE)
            panel.plot(
                100 * place(wrong.index, ordered),
                wrong["noise"],
                ".",
                color="black",
                markersize=2.5,
                label="taken for another class",
            )
            panel.axhline(known["uniform"], color=ORANGE, label="uniform level")
            panel.axhline(known["median"], color=GREY, linestyle=":", label="median row")
            panel.set(yscale="log", xlim=(0, 100), title=f"{TITLES[study]} (n = {len(table):,})")
            plain_log_axis(panel.yaxis)
        for panel in axes[-1]:
            panel.set_xlabel("rows, the most expensive first (%)")
        for panel in axes[:, 0]:
            panel.set_ylabel("sigma_unlearn")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        where = {"loc": "outside lower center", "ncols": 3}
        axes[0, 0].figure.legend(handles, labels, **where)


def place(index, ordered) -> np.ndarray:
    """Where rows stand in the order, from 0 to 1."""
    return (np.asarray(index) + 0.5) / len(ordered)


if __name__ == "__main__":
    render_script(__doc__, render)
