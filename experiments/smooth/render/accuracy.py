"""Accuracy after one row was forgotten against epsilon, one panel a study.

python -m experiments.smooth.render.accuracy --size full
"""

from pathlib import Path

from experiments.smooth.command import render_script, stored
from experiments.smooth.config import TITLES
from experiments.store import Store
from experiments.style import GREY, MARKERS, ORANGE, colours, figure, legend_below, plain_log_axis

WORDS = {0.05: "cheap (5 %)", 0.5: "median", 0.95: "expensive (95 %)", 1.0: "most expensive"}


def render(store: Store, folder: Path) -> None:
    tables, summaries = stored(store, "accuracy"), stored(store, "summary")
    columns = 2 if len(tables) > 1 else 1
    rows = -(-len(tables) // columns)
    with figure(folder, "smooth-accuracy", rows, columns, height=2.3 * rows + 0.4) as axes:
        for panel in axes.ravel()[len(tables) :]:
            panel.set_axis_off()
        for panel, (study, table) in zip(axes.ravel(), tables.items(), strict=False):
            before = summaries[study].iloc[0]["accuracy"]
            panel.axhline(before, color=GREY, linestyle=":", label="before")
            own = table[table["kind"] == "own"]
            quantiles = list(dict.fromkeys(own["quantile"]))
            looks = zip(quantiles, colours(len(quantiles)), MARKERS, strict=False)
            for quantile, colour, marker in looks:
                some = own[own["quantile"] == quantile]
                label = WORDS.get(quantile, f"{quantile:.0%}")
                draw(panel, some, label, color=colour, marker=marker)
            uniform = table[table["kind"] == "uniform"]
            draw(panel, uniform, "uniform level", color=ORANGE, marker="x", linestyle="--")
            panel.set(xscale="log", ylim=(0, 1.02), title=TITLES[study])
            plain_log_axis(panel.xaxis)
        for panel in axes[-1]:
            panel.set_xlabel("epsilon")
        for panel in axes[:, 0]:
            panel.set_ylabel("test accuracy")
        legend_below(axes[0, 0], "row that is forgotten")


def draw(panel, some, label: str, **look) -> None:
    panel.errorbar(some["epsilon"], some["mean"], some["sd"], label=label, elinewidth=0.7, **look)


if __name__ == "__main__":
    render_script(__doc__, render)
