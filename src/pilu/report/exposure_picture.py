"""The picture of what a release tells about people: which share of them is at most where."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._digits import up
from pilu.certify.guessing import guess_from_point, percent
from pilu.report.drawing import INK, OVER, ROUND, SPENT, Picture, drawn_on, module, svg_of

Array = NDArray[np.float64]
_FULL = 20.0  # epsilon, beyond which a guess is right in all the digits that are shown


def draw_shares(shares: Array, epsilon: Array, delta: float) -> Picture:
    """For each share of the people, how often a guess whether they were learned is right at most.

    `epsilon` are quantiles: what a release tells about that share of people is at most there.
    """
    right = [_right(one, delta) for one in epsilon]
    with drawn_on(5.2, 3.1) as figure:
        axes = figure.subplots()
        axes.axhline(50, color=OVER, linewidth=1, linestyle=(0, (5, 3)))
        axes.annotate("tossing a coin", (0, 50), (3, -3), ("axes fraction", "data"),
                      "offset points", ha="left", va="top", color=OVER, fontsize=9)  # fmt: skip
        axes.step(100 * np.asarray(shares), right, where="pre", color=SPENT, linewidth=1.8)
        axes.plot([100], right[-1:], "D", color=INK, markersize=6, clip_on=False, zorder=4)
        axes.set(xlim=(0, 100), ylim=(45, 102))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(module("ticker").MaxNLocator(5, **ROUND))
            axis.set_major_formatter(lambda value, _: f"{value:.0f} %")
        axes.set_xlabel("share of the people in the model")
        axes.set_ylabel("right guesses, at most")
        svg = svg_of(figure, "exposure")
    return Picture(svg, _label(shares, epsilon, right, delta))


def _right(epsilon: float, delta: float) -> float:
    """A bound in percent, of which nothing is known where epsilon is infinite."""
    if not np.isfinite(epsilon) or epsilon > _FULL:
        return 100.0
    return float(percent(guess_from_point(float(epsilon), delta, both=True)))


def _label(shares: Array, epsilon: Array, right: Sequence[Any], delta: float) -> str:
    half = int(np.searchsorted(shares, 0.5))
    most = up(float(epsilon[-1])) if np.isfinite(epsilon[-1]) else "not bounded"
    return (
        "Somebody who has the released model and all other rows guesses whether a person was "
        f"learned: for half of the people at most {right[half]:.0f} % right, for everybody at most "
        f"{right[-1]:.0f} % (largest epsilon {most}, delta {up(delta)})."
    )
