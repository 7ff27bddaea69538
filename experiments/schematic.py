"""Figure 1 of the paper drawn anew: learning and unlearning beside retraining, one parameter.

The paths are not drawn by hand. They are Langevin steps of ridge regression with one column, with
and without a row, by the same normals. Only where the row is used are the two pushed apart.
"""

from pathlib import Path

import numpy as np

from experiments.style import BLUE, GREY, ORANGE, PAGE, figure

NAME = "schematic"
T, K, STEP, NOISE = 40, 25, 0.06, 0.3
OTHERS, ROW = (1.0, 0.3), (1.0, 2.6)  # the sums X'X and X'y of the others, and those of the row


def paths() -> tuple[np.ndarray, np.ndarray]:
    """theta_0, ..., theta_(T+K) with the row until T, and without it from the start."""
    normals = np.random.default_rng(4).standard_normal(T + K)
    with_row, without = [0.0], [0.0]
    for k, xi in enumerate(normals):
        push = np.sqrt(2 * STEP) * NOISE * xi
        for path, uses_row in ((with_row, k < T), (without, False)):
            squares, products = np.add(OTHERS, np.multiply(ROW, uses_row))
            path.append(path[-1] - STEP * (squares * path[-1] - products) + push)
    return np.array(with_row), np.array(without)


def render(folder: Path) -> None:
    unlearned, retrained = paths()
    steps = np.arange(T + K + 1)
    with figure(folder, NAME, 1, 1, width=PAGE, height=3.0) as axes:
        panel = axes[0, 0]
        panel.plot(steps, unlearned, color=BLUE, label="learn all rows, then unlearn one")
        panel.plot(steps, retrained, "--", color=ORANGE, label="learn without the row")
        for k in (T, T + K):
            panel.axvline(k, color=GREY, linewidth=0.7, linestyle=":")
        words = (
            (T // 2, "the row pushes at every step", 6, "left"),
            (T + 6, "no push", -6, "right"),
        )
        for k, word, shift, side in words:
            low, high = sorted((retrained[k], unlearned[k]))
            panel.annotate("", (k, high), (k, low), arrowprops={"arrowstyle": "<->", "lw": 0.7})
            place = {"xytext": (shift, 0), "textcoords": "offset points", "va": "center"}
            panel.annotate(word, (k, (low + high) / 2), ha=side, **place)
        for path, k, name, side in (
            (unlearned, T, "theta_T", 8),
            (retrained, T, "theta'_T", -12),
            (unlearned, T + K, "theta_(T+K)", 8),
            (retrained, T + K, "theta'_(T+K)", -12),
        ):
            panel.plot(k, path[k], ".", color="black", markersize=5)
            place = {"xytext": (4, side), "textcoords": "offset points"}
            panel.annotate(name, (k, path[k]), **place)
        panel.set(xlim=(0, T + K + 9), xlabel="step k", ylabel="parameter")
        panel.set_xticks([0, T, T + K], ["0", "T", "T + K"])
        panel.set_yticks([])
        panel.legend(loc="lower right")
