"""Pictures of tables (needs the extra ``pilu[plot]``)."""

import ast
from typing import Any

import numpy as np

from pilu.exceptions import MissingExtra

__all__ = ["plot_comparison"]

_CERTIFIED, _OPEN = "#2f6690", "#b0563b"
_MARKERS = "osD^v<>P"


def plot_comparison(frame: Any, *, title: str = "", axes: Any = None) -> Any:
    """Draw what `pilu.compare` returns: error and time of every method, and what it claims.

    Full markers are certified, open ones are not; the marker's form tells the requests apart. A
    bar stands at the expected error where it is known.

    Parameters
    ----------
    frame : pandas.DataFrame
    title : str
    axes : pair of matplotlib axes, optional
        Where to draw errors and seconds; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtra(
            'plot_comparison needs matplotlib. Install it with: pip install "pilu[plot]"'
        ) from None
    methods = list(dict.fromkeys(frame["method"]))
    if axes is None:
        height = 1.4 + 0.3 * len(methods)
        _, axes = pyplot.subplots(
            1, 2, figsize=(9.6, height), width_ratios=(3, 2), layout="constrained"
        )
    errors, times = axes
    frame = frame.assign(request=[_rows(request) for request in frame["request"]])
    requests = list(dict.fromkeys(frame["request"]))
    for place, request in enumerate(requests):
        some = frame[frame["request"] == request]
        y = np.array([methods.index(name) for name in some["method"]])
        y = y + 0.44 * ((place + 0.5) / len(requests) - 0.5)  # side by side, not upon each other
        marker = _MARKERS[place % len(_MARKERS)]
        colours = np.where(some["certified"], _CERTIFIED, _OPEN)
        faces = np.where(some["certified"], _CERTIFIED, "white")
        label = f"row {request[0]}" if len(request) == 1 else f"{len(request)} rows together"
        for panel, column in ((errors, "test_error"), (times, "seconds")):
            panel.scatter(
                some[column], y, marker=marker, c=faces, edgecolors=colours, s=36, zorder=3
            )
        errors.scatter(some["expected_error"], y, marker="|", c=colours, s=150, zorder=2)
        errors.scatter([], [], marker=marker, c="0.35", s=36, label=label)
    claims = [_claim(frame[frame["method"] == name]) for name in methods]
    errors.set_yticks(range(len(methods)), methods)
    times.set_yticks(range(len(methods)), claims)
    times.yaxis.tick_right()
    for panel in axes:
        panel.set_ylim(len(methods) - 0.5, -0.5)
        panel.grid(axis="y", color="0.92", zorder=0)
        panel.tick_params(axis="y", length=0)
        panel.spines[["top", "right", "left"]].set_visible(False)
    _fit_scale(errors, frame["test_error"])
    errors.set_xlabel(f"test {frame['metric'].iloc[0]} after the request")
    if frame["seconds"].gt(0).any():
        times.set_xscale("log")
    times.set_xlabel("seconds to answer")
    handles, labels = errors.get_legend_handles_labels()
    times.legend(
        handles,
        labels,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=min(len(requests), 4),
        fontsize="small",
        frameon=False,
        handletextpad=0.2,
    )
    if title:
        errors.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    return errors.figure


def _claim(answers: Any) -> str:
    answers = answers[answers["epsilon"].notna()]
    if len(answers) == 0:
        return "refused"
    if not np.isfinite(answers["epsilon"]).any():
        return "no certificate"
    low, high = (float(value) for value in (answers["epsilon"].min(), answers["epsilon"].max()))
    span = _short(low) if high <= low * 1.01 else f"{_short(low)} to {_short(high)}"
    return f"epsilon {span}" + ("" if answers["certified"].all() else ", not certified")


def _rows(request: Any) -> tuple[int, ...]:
    """A request as `compare` gives it, or as a file of its table has it."""
    rows: tuple[int, ...] = ast.literal_eval(request) if isinstance(request, str) else request
    return rows


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _fit_scale(axes: Any, errors: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    known = errors[np.isfinite(errors)]
    if len(known) and known.max() > 8 * known.min() > 0:
        axes.set_xscale("log")
        wide = known.max() > 100 * known.min()
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.xaxis.set_minor_locator(NullLocator())
