"""The picture of a store's scores over its releases."""

from typing import Any

from pilu._digits import near
from pilu.report.drawing import AXIS, INK, OVER, ROUND, SPENT, Picture, drawn_on, module, svg_of
from pilu.report.entries import count
from pilu.report.history import Scores

_MANY = 40  # beyond so many changes there are no marks


def draw_scores(scores: Scores, now: float | None) -> Picture:
    """Scores over releases, with the best constant as a reference.

    `now` is the present score on rows that the model has not seen, if it was measured.

    Releases are one step apart, whenever they were made; ticks are entries of the log.
    """
    changed = scores.changed
    steps = list(range(1, len(changed) + 1))
    with drawn_on(5.2, 3.1) as figure:
        axes = figure.subplots()
        axes.axhline(scores.constant, color=OVER, linewidth=1, linestyle=(0, (5, 3)))
        axes.annotate(
            f"a constant: {near(scores.constant)}", (1, scores.constant), (0, 3),
            ("axes fraction", "data"), "offset points", ha="right", va="bottom", color=OVER,
            fontsize=9,
        )  # fmt: skip
        marks = {} if len(changed) > _MANY else {"marker": "o", "markersize": 5}
        for step, one in zip(steps, changed, strict=True):
            if one.before is not None and one.before != one.value:
                axes.plot([step, step], [one.before, one.value], color=AXIS, linewidth=1.2)
        if changed:
            axes.plot(
                steps, [one.value for one in changed], color=SPENT, linewidth=1.6,
                label="on rows it has learned", **marks,
            )  # fmt: skip
        unseen = [(0, scores.fitted.value)] if scores.fitted else []
        unseen += [] if now is None else [(len(changed) + 1, now)]
        axes.plot(
            [x for x, _ in unseen], [y for _, y in unseen], "D", color=INK, markersize=6,
            label="on rows it has not seen", clip_on=False, zorder=4,
        )  # fmt: skip
        _set_axes(axes, scores, now)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False,
                    fontsize=9, handlelength=1.4)  # fmt: skip
        svg = svg_of(figure, "scores")
    return Picture(svg, _label(scores, now))


def _set_axes(axes: Any, scores: Scores, now: float | None) -> None:
    changed = scores.changed
    values = [scores.constant, *(one.value for one in changed)]
    values += [one.before for one in changed if one.before is not None]
    values += [scores.fitted.value] if scores.fitted else []
    values += [] if now is None else [now]
    low, high = min(values), max(values)
    room = max(0.15 * (high - low), 0.02)
    axes.set_ylim(low - room, high + room)
    places = {0: "fit"} | ({} if now is None else {len(changed) + 1: "now"})
    stride = -(-len(changed) // 8) or 1
    last = len(changed) + 1 - stride / 2  # beyond it, a label would touch that of "now"
    between = [k for k in range(stride, len(changed) + 1, stride) if stride == 1 or k < last]
    places |= {k: str(changed[k - 1].place) for k in between}
    axes.set_xticks(sorted(places), [places[k] for k in sorted(places)])
    axes.set_xlim(-0.4, max(len(changed) + (now is not None), 1) + 0.4)
    axes.yaxis.set_major_locator(module("ticker").MaxNLocator(5, **ROUND))
    axes.yaxis.set_major_formatter(lambda value, _: near(float(value), 3))
    axes.set_xlabel("entry of the log")
    axes.set_ylabel(scores.metric)


def _label(scores: Scores, now: float | None) -> str:
    text = f"{scores.metric} over time; a constant gets {near(scores.constant)}."
    if scores.fitted is not None:
        text += f" At the fit, on rows it had not seen: {near(scores.fitted.value)}."
    if scores.changed:
        n = count(len(scores.changed), "change")
        text += f" After {n}, on rows it has learned: {near(scores.changed[-1].value)}."
    if now is not None:
        text += f" Now, on rows it has not seen: {near(now, 2)}."
    return text
