"""The growth curves as a picture; needs the extra `plot`."""

from pathlib import Path
from typing import Any

from benchmarks.growth import CURVES

LABELS = {
    "n": "rows n",
    "p": "parameters p",
    "d": "outputs d",
    "T": "steps T",
    "R": "rows of a group R",
}
COLOURS = dict(zip(CURVES, ("#4c72b0", "#55a868", "#c44e52", "#8172b2"), strict=True))


def draw(curves: dict[str, Any], path: Path) -> None:
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("the picture needs matplotlib. pip install 'pilu[plot]'.") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
    for axes, (axis, points) in zip(panels.flat, curves.items(), strict=False):
        values = [point["value"] for point in points]
        for name, reference in CURVES.items():
            if axis == "R" and name == "fit":
                continue
            taken = [point["least"][name] for point in points]
            limits = [point["least"][reference] for point in points]
            axes.loglog(values, taken, marker="o", markersize=4, color=COLOURS[name], label=name)
            axes.loglog(values, limits, color=COLOURS[name], linewidth=0.8, linestyle=":")
        axes.set_xlabel(LABELS[axis])
        axes.set_xticks(values, [f"{v:,}" for v in values])
        axes.minorticks_off()
        axes.set_ylabel("seconds")
        axes.spines[["top", "right"]].set_visible(False)
    panels.flat[-1].axis("off")  # six panels, five axes
    panels.flat[0].legend(fontsize=8, frameon=False)
    figure.suptitle("Growth of times (dotted: the reference of the same colour)", fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)
