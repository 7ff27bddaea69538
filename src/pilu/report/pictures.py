"""The pictures of a Langevin store: the budget and the distribution of deletion costs.

They are small, so that text stays readable on a phone and on paper; a wide page puts them side by
side.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._digits import down, near, up
from pilu.report.data import Chain, Contents, Costs
from pilu.report.drawing import (
    EXPENSIVE,
    INK,
    LEFT,
    OVER,
    PAPER,
    ROUND,
    SPENT,
    Picture,
    drawn_on,
    module,
    svg_of,
)
from pilu.report.entries import count

_WIDE = 30.0  # beyond this ratio of largest to smallest cost the axis is logarithmic
# For years, months, days, hours, minutes and seconds: labels of ticks, of ticks at which the next
# larger unit changes, and of the whole axis.
_DATES = {
    "formats": ["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"],
    "zero_formats": ["", "%b", "%d %b", "%d %b", "%H:%M", "%H:%M"],
    "offset_formats": ["", "%Y", "%Y", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d"],
}


@dataclass(frozen=True)
class Histogram:
    """Counts between edges; a logarithmic axis counts zeros separately."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int_]
    logarithmic: bool
    zeros: int = 0


def histogram(noise: NDArray[np.float64]) -> Histogram:
    """How many people need how much noise; on a logarithmic axis if costs differ widely."""
    top, positive = float(np.max(noise)), noise[noise > 0]
    n_bins = int(np.clip(np.ceil(2 * np.cbrt(len(noise))), 8, 30))  # Rice's rule
    if top == 0:
        return Histogram(np.array([0.0, 1.0]), np.array([len(noise)]), False)
    low = float(np.min(positive))
    if top <= _WIDE * low:
        counts, edges = np.histogram(noise, bins=n_bins, range=(0.0, top))
        return Histogram(edges, counts, False)
    edges = np.geomspace(low, top, n_bins + 1)
    edges[0], edges[-1] = low, top  # rounding must not drop the extremes
    return Histogram(edges, np.histogram(positive, edges)[0], True, len(noise) - len(positive))


def draw_budget(contents: Contents, chain: Chain) -> list[Picture]:
    """One picture for epsilon and one for delta: spent and left, and the total over time."""
    totals = contents.totals
    times = [total.since for total in totals]
    redraws = [total.since for total in totals if total.redraw]
    all_spent = (chain.spent.epsilon, chain.spent.delta)
    pictures = []
    for k, name in enumerate(("epsilon", "delta")):
        budget, spent, left = chain.budget[k], all_spent[k], chain.left[k]
        values = [total.epsilon if k == 0 else total.delta for total in totals]
        with drawn_on(5.0, 3.5) as figure:
            bar, steps = figure.subplots(2, 1, height_ratios=(1, 5))
            _draw_bar(bar, name, spent, left, budget)
            _draw_steps(steps, times, values, redraws, budget)
            svg = svg_of(figure, name)
        over = f", {up(spent - budget)} over it" if spent > budget else ""
        label = (
            f"{name}: {up(spent)} of {near(budget)} spent{over}, {down(left)} left. The running "
            f"total over time, with {count(len(contents.certified), 'certificate')} and "
            f"{count(len(redraws), 'redraw')}."
        )
        pictures.append(Picture(svg, label))
    return pictures


def _draw_bar(axes: Any, name: str, spent: float, left: float, budget: float) -> None:
    axes.barh([0], [budget], color=LEFT)
    axes.barh([0], [min(spent, budget)], color=SPENT)
    if spent > budget:
        axes.barh([0], [spent - budget], left=[budget], color=OVER)
    axes.set(xlim=(0, max(budget, spent)), ylim=(-0.4, 0.4))
    axes.set_axis_off()
    axes.set_title(f"{name}: {up(spent)} spent", loc="left", fontsize=10, fontweight="bold")
    axes.set_title(f"{down(left)} left of {near(budget)}", loc="right", fontsize=10)


def _draw_steps(axes: Any, times: Any, values: Any, redraws: Any, budget: float) -> None:
    dates = module("dates")
    axes.axhline(budget, color=OVER, linewidth=1, linestyle=(0, (5, 3)))
    axes.annotate(
        "budget", (1, budget), (0, -3), ("axes fraction", "data"), "offset points",
        ha="right", va="top", color=OVER, fontsize=9,
    )  # fmt: skip
    many = len(times) > 60  # thinner lines keep the redraws distinct
    axes.step(times, values, where="post", color=SPENT, linewidth=0.9 if many else 1.8)
    axes.fill_between(times, values, step="post", color=SPENT, alpha=0.12, linewidth=0)
    axes.plot(
        redraws, np.zeros(len(redraws)), "^", color=EXPENSIVE, markersize=3.5 if many else 7,
        clip_on=False, zorder=4,
    )  # fmt: skip
    axes.set_ylim(0, 1.12 * max(budget, *values))
    start, end = dates.date2num(times[0]), dates.date2num(max(times))
    axes.set_xlim(start, max(end, start + 1 / 1440))  # at least a minute wide
    locator = dates.AutoDateLocator(minticks=2, maxticks=5)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, **_DATES))
    axes.yaxis.set_major_locator(module("ticker").MaxNLocator(5, **ROUND))
    axes.yaxis.set_major_formatter(lambda value, _: near(float(value), 3))
    axes.set_ylabel("total since the last redraw", fontsize=9)


def draw_costs(costs: Costs) -> Picture:
    """The distribution of deletion costs, with its median and its maximum."""
    bins, noise = histogram(costs.noise), costs.noise
    marks = {"median": float(np.median(noise)), "maximum": float(np.max(noise))}
    with drawn_on(5.6, 4.1) as figure:
        axes = figure.subplots()
        if marks["maximum"] == 0:
            axes.bar([0], [len(noise)], width=0.5, color=SPENT)
            axes.set(xlim=(-1.5, 1.5), xticks=[0])
            axes.set_xticklabels(["none"])
        else:
            _draw_histogram(axes, bins)
            for level, (name, value) in enumerate(marks.items()):
                _mark(axes, f"{name} {near(value, 3)}", value, level, bins)
        axes.yaxis.set_major_locator(module("ticker").MaxNLocator(5, integer=True, **ROUND))
        axes.set_xlabel("noise that forgetting one person needs")
        axes.set_ylabel("people")
        svg = svg_of(figure, "costs")
    scale = ", on a logarithmic scale" if bins.logarithmic else ""
    label = (
        f"Histogram of the noise that {count(len(noise), 'person needs', 'people need')} to be "
        f"forgotten{scale}: median {near(marks['median'])}, maximum {near(marks['maximum'])}."
    )
    return Picture(svg, label)


def _draw_histogram(axes: Any, bins: Histogram) -> None:
    edges, counts = bins.edges, bins.counts
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=SPENT, edgecolor=PAPER, lw=0.8)
    if not bins.logarithmic:
        axes.set_xlim(0, None)
        axes.xaxis.set_major_formatter(lambda value, _: near(float(value), 3))
        return
    axes.set_xscale("log")
    ratio = edges[1] / edges[0]
    ticks = _decades(edges[0], edges[-1])
    labels = [near(value, 1) for value in ticks]
    if bins.zeros:  # a logarithmic axis has no 0: draw a separate bar, with a gap
        low, high = edges[0] * ratio**-2.0, edges[0] * ratio**-1.0
        axes.bar([low], [bins.zeros], [high - low], align="edge", color=SPENT, hatch="///", lw=0)
        ticks, labels = [float(np.sqrt(low * high)), *ticks], ["none", *labels]
    axes.set_xticks(ticks, labels)
    axes.minorticks_off()


def _decades(low: float, high: float) -> list[float]:
    """Round numbers between two numbers, about half a dozen."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [k * 10.0**p for p in powers for k in factors if low <= k * 10.0**p <= high]
        if len(ticks) <= 7:
            return ticks
    return ticks[:: -(-len(ticks) // 7)]


def _mark(axes: Any, text: str, value: float, level: int, bins: Histogram) -> None:
    """A line with its label on top; labels have different heights, so that they never overlap."""
    if value == 0 and bins.logarithmic:
        return  # a median of 0: the text beside the picture mentions it
    colour = (INK, EXPENSIVE)[level]
    axes.axvline(value, color=colour, linewidth=1.4, linestyle=((0, (4, 2)), "-")[level])
    inside = axes.transAxes.inverted().transform(axes.transData.transform((value, 0)))[0]
    side = "right" if axes.get_xlim()[0] < value and inside > 0.5 else "left"
    axes.annotate(
        text, (value, 1), (-3 if side == "right" else 3, 3 + 13 * level), ("data", "axes fraction"),
        "offset points", ha=side, va="bottom", color=colour, fontsize=9, annotation_clip=False,
    )  # fmt: skip
