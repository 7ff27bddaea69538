"""How times grow with rows, parameters, outputs, steps, and the size of a group request."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import references
from benchmarks.data import Array, Size, make_data, with_intercept
from benchmarks.stopwatch import Stopwatch, Times, say
from benchmarks.table import aligned, ratio_text
from benchmarks.work import fitted, forget, used_copy

BASE = Size(n=4_000, p=256, d=1, T=200, K=20)
AXES = {
    "n": (2_000, 4_000, 8_000, 16_000, 32_000),
    "p": (128, 256, 512, 1_024),
    "d": (1, 2, 4, 8, 16),
    "T": (100, 200, 400, 800, 1_600),
    "R": (1, 2, 4, 8, 16, 32),
}
EXACT_ROWS = 8  # rows whose exact quotes are timed together
LITERAL_STEPS = 10
# quantity -> its reference, both in seconds per row where the name says so
CURVES = {
    "fit": "X'X + eigh",
    "theorem quote, per row": "products, per row",
    "exact quote, per row": "Algorithm 1",
    "deletion": "Algorithm 1",
}


def measure(repeats: int, save: Callable[[], None], curves: dict[str, Any]) -> None:
    """Fill `curves`: axis -> its points, each with all times and the least of them.

    The least, not the median: load only adds to a time, and a slope is bent by one slow point. A
    repeat walks the whole axis, so that a busy minute falls on all points of it.
    """
    references.wake()
    for axis, values in AXES.items():
        points: list[dict[str, Any]] = []
        curves[axis] = points
        for r in range(repeats):
            for i, value in enumerate(values):
                if r == 0:
                    points.append({"value": value, "least": {}, "times": {}})
                size = BASE if axis == "R" else replace(BASE, **{axis: value})  # type: ignore[arg-type]
                _once(size, value if axis == "R" else None, points[i])
                save()
                shown = (f"{name} {1e3 * points[i]['least'][name]:.3g} ms" for name in CURVES)
                say(f"growth: {axis} = {value}, {r + 1} of {repeats}: " + ", ".join(shown))


def _once(size: Size, group: int | None, point: dict[str, Any]) -> None:
    X, Y = make_data(size)
    profiles = references.make_profiles(size.p, size.T, size.d + 1)
    for name, took in _repeat(size, group, X, Y, with_intercept(X), profiles).items():
        point["times"].setdefault(name, []).append(took)
        point["least"][name] = min(point["times"][name])


def _repeat(
    size: Size, group: int | None, X: Array, Y: Array, rows: Array, profiles: list[Array]
) -> dict[str, float]:
    """All curves and their references at one point, each timed once."""
    forgotten: Any = size.n // 3 if group is None else size.spread_rows(group)
    asked = size.spread_rows(EXACT_ROWS) if group is None else [forgotten]
    raw: Times = {}
    watch = Stopwatch(raw)
    G = watch.time("gram", references.gram, rows)
    V = references.time_eigh(watch, G)
    model = watch.time("fit", fitted, size, X, Y)
    Z = watch.time("rotate", references.rotate, rows, V)
    watch.time("products", references.products, Z, profiles)
    quoted = None if group is None else asked  # all rows, or the group
    watch.time("theorem", model.quote, quoted, n_unlearn_steps=size.K, accountant="theorem")
    watch.time("steps", references.algorithm_1, rows, Y, model.step_size_, LITERAL_STEPS)
    watch.time("exact", model.quote, asked, n_unlearn_steps=size.K)
    warm = used_copy(model, size)
    watch.time("deletion", forget, warm, size, forgotten)
    took = {name: taken[0] for name, taken in raw.items()}
    return {
        "fit": took["fit"],
        "theorem quote, per row": took["theorem"] / (group or size.n),
        "exact quote, per row": took["exact"] / (group or EXACT_ROWS),
        "deletion": took["deletion"],
        "X'X + eigh": took["gram"] + took["eigh"],
        "products, per row": (took["rotate"] + took["products"]) / size.n,
        "Algorithm 1": took["steps"] / LITERAL_STEPS * (size.T + size.K),
    }


def exponents(points: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """Slopes of log time in log size: of the line through all points, and of the last two."""
    x = np.log([point["value"] for point in points])
    y = np.log([point["least"][name] for point in points])
    slope = float(np.polyfit(x, y, 1)[0])
    return slope, float((y[-1] - y[-2]) / (x[-1] - x[-2]))


def summary(curves: dict[str, Any]) -> list[dict[str, Any]]:
    """Exponents of every curve that has two points, beside those of its reference."""
    found = []
    for axis, begun in curves.items():
        points = [point for point in begun if point["times"]]
        if len(points) < 2:
            continue
        for name, reference in CURVES.items():
            if axis == "R" and name == "fit":  # a fit knows of no group
                continue
            all_points, last_two = exponents(points, name)
            last = points[-1]["least"]
            found.append(
                {
                    "axis": axis,
                    "range": [points[0]["value"], points[-1]["value"]],
                    "curve": name,
                    "seconds": [points[0]["least"][name], points[-1]["least"][name]],
                    "exponent": all_points,
                    "exponent_of_last_two": last_two,
                    "reference": reference,
                    "reference_exponent": exponents(points, reference)[0],
                    "ratio_at_the_end": last[name] / last[reference],
                }
            )
    return found


def text(found: list[dict[str, Any]]) -> str:
    """The growth table for reading."""
    head = ("in", "from", "to", "time of", "from", "to", "exponent", "at the end")
    lines = [(*head, "reference", "exponent", "ratio at the end")]
    for r in found:
        low, high = (f"{1e3 * s:.3g} ms" for s in r["seconds"])
        lines.append(
            (
                r["axis"],
                *(str(v) for v in r["range"]),
                r["curve"],
                low,
                high,
                f"{r['exponent']:.2f}",
                f"{r['exponent_of_last_two']:.2f}",
                r["reference"],
                f"{r['reference_exponent']:.2f}",
                ratio_text(r["ratio_at_the_end"]),
            )
        )
    return aligned(lines)
