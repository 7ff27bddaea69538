"""What most pictures share: one panel an accountant, one curve a row, and lines to compare with."""

from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib import ticker

from experiments.store import Store
from experiments.style import (
    GREY,
    TITLES,
    legend_below,
    plain_log_axis,
    row_label,
    row_styles,
)

SCORES = {"depth": "test RMSE (m)", "mnist": "test error (share of digits)"}
LEGEND = "quantile of |gradient| (row)"
OWN_SCALES = ("depth",)  # exact errors differ by hundredths: a common scale would hide them
NOTHING = 1e-6  # noise below this is the rounding floor: none is needed
# Scores that need no request: their table's name, the legend's, and the look.
REFERENCES = {
    "before": ("before the request", (0, (5, 2))),
    "constant": ({"depth": "predicting the mean", "mnist": "one digit for all"}, (0, (1, 1.5))),
}

Draw = Callable[[Any, pd.DataFrame, dict[str, Any], str], None]


def labels(store: Store, study: str, kind: str | None = None) -> dict[int, str]:
    """The rows of a set (by default the first) with their labels, in order."""
    rows = store.read(f"{study}_rows")
    some = rows[rows["set"] == (kind or rows["set"].iloc[0])]
    return {int(line.row): row_label(line.quantile, int(line.row)) for line in some.itertuples()}


def n_runs(store: Store, study: str) -> int:
    return int(store.provenance(f"{study}_rows")["config"]["n_runs"])


def as_error(study: str, scores: pd.Series) -> pd.Series:
    """Scores as errors: RMSE as it is, accuracy as the share of wrong answers."""
    return 1 - scores if study == "mnist" else scores


def draw_panels(axes: Any, frame: pd.DataFrame, names: dict[int, str], x: str, draw: Draw) -> None:
    """Rows of `frame` by accountant (one panel each) and by row (one curve each), along x."""
    styles = row_styles(list(names))
    for panel, (accountant, title) in zip(axes, TITLES.items(), strict=True):
        panel.set_title(title)
        for row, label in names.items():
            here = (frame["row"] == row) & (frame["accountant"] == accountant)
            draw(panel, frame[here].sort_values(x), styles[row], label)


def runs_and_expectation(x: str, study: str) -> Draw:
    """Means of runs with their deviations, on the line of what was expected."""

    def draw(panel: Any, some: pd.DataFrame, style: dict[str, Any], label: str) -> None:
        expected = "expected" in some
        if expected:
            line = as_error(study, some["expected"])
            panel.plot(some[x], line, color=style["color"], linewidth=0.9)
        panel.errorbar(
            some[x], as_error(study, some["mean"]), some["sd"], label=label,
            linestyle="none" if expected else "-", **style, elinewidth=0.7,
        )  # fmt: skip

    return draw


def compare_with(panels: Any, store: Store, study: str, names: tuple[str, ...] = ()) -> None:
    """Horizontal lines: the score before the request, a constant predictor, chance."""
    table = store.read(f"{study}_references").set_index("name")["value"]
    for panel in panels:
        for name in names or REFERENCES:
            label, dashes = REFERENCES[name]
            label = label[study] if isinstance(label, dict) else label
            value = as_error(study, table[name])
            panel.axhline(value, color=GREY, linewidth=1, linestyle=dashes, label=label, zorder=0)


def say_what_is_drawn(panel: Any, runs: int, expectation: bool = True) -> None:
    """Entries of the legend for marks and lines, whichever the row."""
    if expectation:
        panel.plot([], [], color=GREY, linewidth=0.9, label="closed form")
    look = {"color": GREY, "marker": "o", "linestyle": "none" if expectation else "-"}
    panel.errorbar([], [], [], **look, elinewidth=0.7, label=f"{runs} runs: mean, 1 deviation")


def scale_scores(axes: Any, study: str) -> None:
    """Errors differ by factors: a logarithmic axis with numbers as people write them."""
    for panel in axes:
        panel.set_yscale("log")
        plain_log_axis(panel.yaxis)
        if study == "mnist":
            panel.set_ylim(top=1.15)


def few_ticks(axis: Any) -> None:
    """A logarithmic axis of less than a decade, with evenly spaced numbers."""
    axis.set_major_locator(ticker.MaxNLocator(6))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))


def finish(axes: Any, study: str, runs: int, expectation: bool = True) -> None:
    """Scale and name the scores of the panels of a line, and explain what is drawn."""
    scale_scores(axes, study)
    axes[0].set_ylabel(SCORES[study])
    say_what_is_drawn(axes[0], runs, expectation)
    legend_below(axes[0], LEGEND)
