"""Calibrated noise against epsilon, by row and accountant.

python -m experiments.linear.render.noise --study depth --size full

A curve ends where no further noise is needed: zero is nowhere on a logarithmic axis.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from experiments.linear.command import render_script
from experiments.linear.render.curves import LEGEND, NOTHING, draw_panels, labels
from experiments.store import Store
from experiments.style import GREY, ORANGE, TITLES, figure, legend_below, plain_log_axis

END = "ends: no further noise is needed"


def render(store: Store, study: str, folder: Path) -> None:
    table, uniform = store.read(f"{study}_privacy_utility"), store.read(f"{study}_uniform")
    for number, kind in enumerate(dict.fromkeys(table["set"])):
        some, names = table[table["set"] == kind], labels(store, study, kind)
        suffix = "" if number == 0 else f"_{kind}"
        options = {"sharey": True, "height": 3.4}
        with figure(folder, f"{study}_noise{suffix}", 1, 2, **options) as axes:
            for panel in axes[0]:
                panel.set(xscale="log", yscale="log", xlabel="epsilon")
            draw_panels(axes[0], some, names, "epsilon", lambda *given: noise(*given, "epsilon"))
            for panel, accountant in zip(axes[0], TITLES, strict=True):
                level = uniform[uniform["accountant"] == accountant]
                look = {"color": ORANGE, "linestyle": "--", "label": "one level for all rows"}
                panel.plot(level["epsilon"], level["noise"], **look)
                plain_log_axis(panel.xaxis)
            axes[0, 0].set_ylabel("sigma_unlearn")
            explain_ends(axes[0, 0], some)
            legend_below(axes[0, 0], LEGEND)


def noise(panel: Any, some: pd.DataFrame, style: dict[str, Any], label: str, x: str) -> None:
    """The curve of a row, crossed out where it ends before the others do."""
    needed = some[some["noise"] > NOTHING]
    panel.plot(needed[x], needed["noise"], label=label, **style)
    if 0 < len(needed) < len(some):
        # At the side where the rest is missing.
        last = needed.iloc[-1 if some["noise"].iloc[-1] <= NOTHING else 0]
        panel.plot(last[x], last["noise"], "x", color=style["color"], markersize=9)


def explain_ends(panel: Any, some: pd.DataFrame) -> None:
    if (some["noise"] <= NOTHING).any():
        panel.plot([], [], "x", color=GREY, markersize=7, label=END)


if __name__ == "__main__":
    render_script(__doc__, render)
