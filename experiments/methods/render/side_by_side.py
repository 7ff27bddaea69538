"""Six methods, three shares, a line of panels for each data set."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from experiments.methods.config import METHODS, SHARES, TITLES
from experiments.methods.summary import Cell, cell, constant_loss, tables
from experiments.store import Store
from experiments.style import BLUE, GREEN, GREY, ORANGE, figure

COLOURS = dict(zip(METHODS, ("0.25", BLUE, "#56b4e9", GREEN, "#cc79a7", ORANGE), strict=True))
MARKS = dict(zip(SHARES, "osD", strict=True))
OFFSETS = dict(zip(SHARES, (0.27, 0.0, -0.27), strict=True))
ZERO, LARGEST = 10**-2.0, 150.0  # where epsilon = 0 is drawn; larger losses are at the edge
LEAST = -3.0  # of the axis of losses, unless some loss is below


def render(store: Store, folder: Path) -> None:
    found = tables(store)
    rows = len(found)
    options: dict[str, Any] = {"height": 0.98 * rows + 0.9, "sharex": "col", "sharey": True}
    with figure(folder, "methods_side_by_side", rows, 3, **options) as axes:
        for panels, (name, table) in zip(axes, found.items(), strict=True):
            panels[0].set_title(TITLES[name], loc="left", fontweight="bold", pad=3)
            panels[0].axvline(0, color=GREY, linewidth=0.8)
            panels[0].axvline(
                min(constant_loss(table), LARGEST), color=GREY, linestyle="--", linewidth=0.8
            )
            for place, method in enumerate(reversed(METHODS)):
                cells = {share: cell(table, method, share) for share in SHARES}
                draw_before(panels[0], place, method, cells)
                draw_reason(panels[0], place, cells)
                for share, one in cells.items():
                    draw(panels, place, method, share, one)
            for panel in panels:
                panel.set_ylim(-0.6, len(METHODS) - 0.4)
                panel.grid(axis="x", color="0.92", linewidth=0.5)
                panel.set_axisbelow(True)
            panels[0].set_yticks(range(len(METHODS)), list(reversed(METHODS)), fontsize=6.5)
        scales(axes[-1], list(found.values()))
        legend(axes[0, 0].figure)


def draw_before(panel: Any, place: int, method: str, cells: dict[str, Cell]) -> None:
    """A tick where the method was before any request; retraining's is not of interest."""
    losses = [one.loss_before for one in cells.values() if one.answered]
    if losses and method != "retraining":
        x = min(float(np.mean(losses)), LARGEST)
        panel.plot([x, x], [place - 0.42, place + 0.42], color=COLOURS[method], lw=0.8, alpha=0.55)


def draw_reason(panel: Any, place: int, cells: dict[str, Cell]) -> None:
    """Why there is no answer; the page has the whole sentences."""
    whys = {share: one.why for share, one in cells.items() if not one.answered}
    if not whys:
        return
    text = " / ".join(dict.fromkeys(map(short, whys.values())))
    y = place
    if len(whys) < len(cells):
        text, y = f"{', '.join(whys)}: {text}", place + OFFSETS[next(iter(whys))]
    panel.text(
        0.98,
        y,
        text,
        transform=panel.get_yaxis_transform(),
        fontsize=6,
        color=GREY,
        ha="right",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )


def short(why: str) -> str:
    """A reason in a few words."""
    if "longer than" in why:
        return f"no answer within {why.split('longer than ')[1]}"
    return "not offered"


def draw(panels: Any, place: int, method: str, share: str, found: Cell) -> None:
    """One mark in each column: the mean, and a line from the least to the largest."""
    if not found.answered:
        return
    y = place + OFFSETS[share]
    look = {"color": COLOURS[method], "marker": MARKS[share], "markersize": 3, "linestyle": ""}
    kept = [min(float(x), LARGEST) for x in found[:3]]
    panels[0].plot(kept[1:], [y, y], color=COLOURS[method], linewidth=0.7)
    panels[0].plot(kept[0], y, **(look | ({"marker": ">"} if found.loss > LARGEST else {})))
    panels[1].plot([found.seconds_low, found.seconds_high], [y, y], color=COLOURS[method], lw=0.7)
    panels[1].plot(found.seconds, y, **look)
    hollow = {} if found.certified else {"markerfacecolor": "white"}
    panels[2].plot(max(found.epsilon, ZERO), y, **look, **hollow)


def scales(bottom: Any, found: list[Any]) -> None:
    """Axes that hold every number of the tables."""
    least = min(LEAST, 1.2 * min(table["loss"].min() for table in found))
    most = max(table["epsilon"].max() for table in found)
    bottom[0].set_xscale("symlog", linthresh=1.0, linscale=0.8)
    bottom[0].set_xticks([-1, 0, 1, 10, 100], ["-1", "0", "1", "10", "100"])
    bottom[0].set(xlim=(least, 1.25 * LARGEST), xlabel="worse than retraining\n(points; RMSE: %)")
    bottom[1].set_xscale("log")
    bottom[1].set_xlabel("seconds for a request\n(one thread)")
    bottom[2].set_xscale("log")
    powers = np.arange(-1, max(np.ceil(np.log10(max(most, 10.0))), 4) + 1)
    ticks = [ZERO, *10.0**powers]
    bottom[2].set_xticks(ticks, ["0", *(tick_label(power) for power in powers)])
    bottom[2].set(
        xlim=(0.5 * ZERO, max(60_000, 3 * most)),
        xlabel="epsilon of the certificate\n(0 is the same law)",
    )
    for panel in bottom:
        panel.minorticks_off()


def tick_label(power: float) -> str:
    return f"$10^{{{int(power)}}}$" if power > 2 else f"{10.0**power:,g}"


def legend(made: Any) -> None:
    handles = [
        Line2D([], [], color="0.25", marker=MARKS[share], linestyle="", label=f"{share} forgotten")
        for share in SHARES
    ]
    tick = {"marker": "|", "markersize": 8, "markeredgewidth": 0.8, "linestyle": ""}
    handles.append(Line2D([], [], color="0.25", alpha=0.55, label="before any request", **tick))
    handles.append(Line2D([], [], color=GREY, label="retraining by scikit-learn", linewidth=0.8))
    handles.append(
        Line2D([], [], color=GREY, linestyle="--", label="constant predictor", linewidth=0.8)
    )
    made.legend(handles=handles, loc="outside upper center", ncols=3)
