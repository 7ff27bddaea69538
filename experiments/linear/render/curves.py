"""What most pictures share: one panel an accountant, one curve a row."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from experiments.store import Store
from experiments.style import TITLES, plain_log_axis, row_label, row_styles

SCORES = {"depth": "test RMSE (m)", "mnist": "test accuracy"}
LEGEND = "quantile of |gradient|"


def labels(store: Store, study: str, kind: str | None = None) -> dict[int, str]:
    """The rows of a set (by default the first) with their labels, in order."""
    rows = store.read(f"{study}_rows")
    some = rows[rows["set"] == (kind or rows["set"].iloc[0])]
    return {int(line.row): row_label(line.quantile, int(line.row)) for line in some.itertuples()}


def draw_panels(
    axes: Any,
    frame: pd.DataFrame,
    names: dict[int, str],
    x: str,
    draw: Callable[[Any, pd.DataFrame, dict[str, Any], str], None],
) -> None:
    """Rows of `frame` by accountant (one panel each) and by row (one curve each), along x."""
    styles = row_styles(list(names))
    for panel, (accountant, title) in zip(axes, TITLES.items(), strict=True):
        panel.set_title(title)
        for row, label in names.items():
            here = (frame["row"] == row) & (frame["accountant"] == accountant)
            draw(panel, frame[here].sort_values(x), styles[row], label)


def runs_and_expectation(x: str) -> Callable[[Any, pd.DataFrame, dict[str, Any], str], None]:
    """Means of runs with their deviations, on the line of what was expected."""

    def draw(panel: Any, some: pd.DataFrame, style: dict[str, Any], label: str) -> None:
        if "expected" in some:
            panel.plot(some[x], some["expected"], color=style["color"], linewidth=0.9)
        linestyle = "none" if "expected" in some else "-"
        panel.errorbar(
            some[x], some["mean"], some["sd"], label=label, linestyle=linestyle, **style,
            elinewidth=0.7,
        )  # fmt: skip

    return draw


def scale_scores(axes: Any, study: str) -> None:
    """Accuracies from 0 to 1; errors, which differ by factors, on a logarithmic axis."""
    for panel in axes:
        if study == "mnist":
            panel.set_ylim(0, 1)
        else:
            panel.set_yscale("log")
            plain_log_axis(panel.yaxis)
