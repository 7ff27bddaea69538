"""The score after unlearning against epsilon, by row and accountant.

python -m experiments.linear.render.privacy_utility --study depth --size full
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
from experiments.style import figure, legend_below, plain_log_axis


def render(store: Store, study: str, folder: Path) -> None:
    table = store.read(f"{study}_privacy_utility")
    for number, kind in enumerate(dict.fromkeys(table["set"])):
        some, names = table[table["set"] == kind], labels(store, study, kind)
        suffix = "" if number == 0 else f"_{kind}"
        with figure(folder, f"{study}_privacy_utility{suffix}", 1, 2, sharey=True) as axes:
            draw_panels(axes[0], some, names, "epsilon", runs_and_expectation("epsilon"))
            for panel in axes[0]:
                panel.set(xscale="log", xlabel="epsilon")
                plain_log_axis(panel.xaxis)
            scale_scores(axes[0], study)
            axes[0, 0].set_ylabel(SCORES[study])
            legend_below(axes[0, 0], LEGEND)


if __name__ == "__main__":
    render_script(__doc__, render)
