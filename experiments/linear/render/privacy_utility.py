"""The score after unlearning against epsilon, by row and accountant.

python -m experiments.linear.render.privacy_utility --study depth --size full

With one level of noise for all rows (dashed): what the hardest row needs, for everybody.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from experiments.linear.command import render_script
from experiments.linear.render.curves import (
    as_error,
    compare_with,
    draw_panels,
    finish,
    labels,
    n_runs,
    runs_and_expectation,
)
from experiments.store import Store
from experiments.style import ORANGE, TITLES, figure, plain_log_axis


def render(store: Store, study: str, folder: Path) -> None:
    table, uniform = store.read(f"{study}_privacy_utility"), store.read(f"{study}_uniform")
    for number, kind in enumerate(dict.fromkeys(table["set"])):
        some, names = table[table["set"] == kind], labels(store, study, kind)
        suffix = "" if number == 0 else f"_{kind}"
        options = {"sharey": True, "height": 3.4}
        with figure(folder, f"{study}_privacy_utility{suffix}", 1, 2, **options) as axes:
            draw_panels(axes[0], some, names, "epsilon", runs_and_expectation("epsilon", study))
            for panel, accountant in zip(axes[0], TITLES, strict=True):
                one_level(panel, uniform[uniform["accountant"] == accountant], study)
                panel.set(xscale="log", xlabel="epsilon")
                plain_log_axis(panel.xaxis)
            compare_with(axes[0], store, study)
            finish(axes[0], study, n_runs(store, study))


def one_level(panel: Any, uniform: pd.DataFrame, study: str) -> None:
    panel.plot(
        uniform["epsilon"],
        as_error(study, uniform["expected"]),
        color=ORANGE,
        linestyle="--",
        label="one level for all rows",
    )


if __name__ == "__main__":
    render_script(__doc__, render)
