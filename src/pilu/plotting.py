"""Pictures of comparisons, audits and exposures (needs the extra ``pilu[plot]``)."""

import ast
from typing import Any

import numpy as np

from pilu._checks import check_real, complaint
from pilu._digits import up
from pilu._extras import need

__all__ = ["plot_audit", "plot_comparison", "plot_exposure", "plot_exposure_plan"]

_CERTIFIED, _OPEN = "#2f6690", "#b0563b"
_MARKERS = "osD^v<>P"
_NOTE = {"textcoords": "offset points", "va": "bottom", "fontsize": "small"}
_FEW = 60  # people who are drawn as points
_WORST = -0.5  # score that is shown
_LINE = 0.065  # height of a line of small text, of the axes'


def plot_comparison(frame: Any, *, title: str = "", axes: Any = None) -> Any:
    """Draw what `pilu.compare` returns: the error, the time and the claim of every method.

    Filled markers are certified and open ones are not. Each request has its own marker. A vertical
    bar marks the expected error, if it is known.

    Parameters
    ----------
    frame : pandas.DataFrame
    title : str
    axes : pair of matplotlib axes, optional
        Axes for errors and for seconds. Default: a new figure.

    Returns
    -------
    figure : matplotlib.figure.Figure
    """
    pyplot = need("matplotlib.pyplot", for_="plot_comparison", extra="plot")
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
        y = y + 0.44 * ((place + 0.5) / len(requests) - 0.5)  # side by side
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
    times.legend(
        *errors.get_legend_handles_labels(),
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


def plot_audit(
    audit: Any,
    *,
    certificate: Any = None,
    exact: Any = None,
    title: str = "",
    axes: Any = None,
) -> Any:
    """Draw trade-off curves: what is certified, what is true, and what an audit measured.

    The axes are the rates of false alarms and of misses. The diagonal is guessing; the further a
    curve lies below it, the easier the two runs are to distinguish. No test can reach a point
    below the certificate's curve.

    Parameters
    ----------
    audit : pilu.auditing.Audit
    certificate : pilu.Certificate, optional
        Its epsilon and delta are drawn as the region that they allow.
    exact : pilu.accounting.GaussianPair, optional
        `RidgeRuns.pair`, drawn as the curve of the best test.
    title : str
    axes : matplotlib axes, optional

    Returns
    -------
    figure : matplotlib.figure.Figure
    """
    pyplot = need("matplotlib.pyplot", for_="plot_audit", extra="plot")
    if axes is None:
        _, axes = pyplot.subplots(figsize=(5.4, 5.0), layout="constrained")
    alpha = np.linspace(0.0, 1.0, 201)
    axes.plot(alpha, 1 - alpha, color="0.6", linewidth=1, linestyle=":", label="guessing")
    if certificate is not None:
        epsilon, delta = certificate.epsilon, certificate.delta
        allowed = np.maximum(1 - delta - np.exp(epsilon) * alpha, 0.0)
        reverse = certificate.scope["reverse_delta"]  # with the two runs exchanged, if certified
        if reverse is not None:
            allowed = np.maximum(allowed, np.exp(-epsilon) * (1 - reverse - alpha))
        axes.fill_between(alpha, allowed, color="0.92", zorder=0)
        label = f"certified: epsilon {epsilon:.3g}, delta {delta:.2g}"
        axes.plot(alpha, allowed, color="0.35", linewidth=1.2, label=label)
    if exact is not None:
        axes.plot(alpha, _best_curve(exact, alpha), color=_CERTIFIED, label="best test, exactly")
    axes.step(
        audit.alpha,
        audit.beta,
        where="post",
        color=_OPEN,
        linewidth=1.2,
        label=f"audit by {audit.distinguisher}, {audit.n_unlearned} + {audit.n_retrained} runs",
    )
    proved = f"proved: mu >= {audit.mu_lower:.2f}, epsilon >= {audit.epsilon_lower:.2f}"
    axes.plot([], [], " ", label=f"{proved} (confidence {audit.confidence:.4g})")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xlabel("false alarms (retrained called unlearned)")
    axes.set_ylabel("misses (unlearned called retrained)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", fontsize="small", frameon=False)
    if title:
        axes.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    return axes.figure


def plot_exposure(
    exposure: Any, *, line: float | None = None, title: str = "", axes: Any = None
) -> Any:
    """Draw the exposure of people, from the least exposed to the most.

    Half of the people, 90 % and 99 % of them and the most exposed one are marked. People without a
    finite epsilon are drawn at the top edge and counted in words.

    Parameters
    ----------
    exposure : Exposure
        What `exposure()` of a model returns, for at least one person.
    line : float > 0, optional
        A cap, say: it is drawn, and the people above it are counted and have another colour.
    title : str
    axes : matplotlib axes, optional

    Returns
    -------
    figure : matplotlib.figure.Figure
    """
    pyplot = need("matplotlib.pyplot", for_="plot_exposure", extra="plot")
    epsilon = np.sort(exposure.epsilon)
    n = len(epsilon)
    if n == 0:
        raise complaint("exposure", "that of at least one person", exposure)
    if line is not None:
        line = check_real("line", line, above=0.0)
    if axes is None:
        _, axes = pyplot.subplots(figsize=(7.2, 4.0), layout="constrained")
    share = 100 * (np.arange(n) + 1) / n  # of the people who are at most there
    finite = np.isfinite(epsilon)
    low, high = _fit_epsilons(axes, epsilon[finite], line)
    level = np.clip(epsilon, low, high)  # zeros at the bottom of a log axis
    above = epsilon > (np.inf if line is None else line)
    style = {"linestyle": "", "marker": "o", "markersize": 5, "zorder": 3}
    if n > _FEW:
        style = {"linewidth": 2, "zorder": 3}
    for some, colour, name in (
        (finite & ~above, _CERTIFIED, "people"),
        (finite & above, _OPEN, "people above"),
    ):
        axes.plot(share[some], level[some], color=colour, label=name, **style)
    if not finite.all():
        top = share[~finite]
        axes.plot(top, np.full(len(top), high), "^", color=_OPEN, ms=5, clip_on=False, zorder=4)
        words = f"{_of_all(len(top), n)} above 10,000, or without a bound"
        axes.annotate(words, (100, high), (0, 6), ha="right", color=_OPEN, **_NOTE)
    if line is not None:
        axes.axhline(line, color="0.35", linewidth=1.2, linestyle="--", zorder=2)
        words = f"{_of_all(int(above.sum()), n)} above {_short(line)}"
        axes.annotate(words, (0, line), (4, 3), color=_OPEN if above.any() else "0.2", **_NOTE)
    _mark_quantiles(axes, share, epsilon, level, (low, high))
    axes.set(xlim=(0, 100), ylim=(low, high))
    given = "" if exposure.covers_preprocessing else ", preprocessing given"
    axes.set_xlabel("people, from the least exposed to the most, in per cent")
    axes.set_ylabel(f"exposure: epsilon\nat delta {exposure.delta:.2g}{given}")
    _finish(axes, title, pad=18 if not finite.all() else 6)
    return axes.figure


def plot_exposure_plan(plan: Any, *, title: str = "", axes: Any = None) -> Any:
    """Draw what caps on exposure cost in score.

    The band is one standard deviation over draws of the noise. Caps that no noise reaches are
    crossed at the bottom and named.

    Parameters
    ----------
    plan : ExposurePlan
        What `Forgetful.plan_exposure` returns.
    title : str
    axes : matplotlib axes, optional

    Returns
    -------
    figure : matplotlib.figure.Figure
    """
    pyplot = need("matplotlib.pyplot", for_="plot_exposure_plan", extra="plot")
    if axes is None:
        _, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    order = np.argsort(plan.max_exposure, kind="stable")
    caps, score, sd = (np.asarray(a)[order] for a in (plan.max_exposure, plan.score, plan.score_sd))
    reached = np.isfinite(score)
    without = f"without this noise: {plan.score_without:.3g}"
    axes.axhline(plan.score_without, color="0.35", linewidth=1.2, linestyle="--", label=without)
    shown = reached & (score >= _WORST)
    mean, spread = score[shown], sd[shown]
    axes.plot(caps[shown], mean, "o-", color=_CERTIFIED, label="mean over draws of the noise")
    style = {"color": _CERTIFIED, "alpha": 0.18, "linewidth": 0, "label": "one standard deviation"}
    axes.fill_between(caps[shown], mean - spread, mean + spread, **style)
    _mark_far_below(axes, caps[score < _WORST], score[score < _WORST])
    if not reached.all():
        style = {"color": _OPEN, "clip_on": False, "transform": axes.get_xaxis_transform()}
        words = "out of reach: " + ", ".join(_short(cap) for cap in caps[~reached])
        axes.plot(caps[~reached], np.full(sum(~reached), 0.03), "x", label=words, **style)
    axes.set_xscale("log")
    axes.set_xticks(caps, [_short(cap) for cap in caps])
    axes.minorticks_off()
    who = "everybody" if plan.quantile >= 1 else f"{100 * plan.quantile:g} % of the people"
    axes.set_xlabel(f"cap on the exposure of {who} (max_exposure), delta {plan.delta:.2g}")
    axes.set_ylabel("score on the validation rows")
    axes.legend(loc="lower right", fontsize="small", frameon=False)
    _finish(axes, title)
    return axes.figure


def _mark_far_below(axes: Any, caps: Any, scores: Any) -> None:
    """Scores below -0.5, where a model is much worse than a constant, at the edge and in words."""
    if not len(caps):
        return
    axes.set_ylim(bottom=_WORST)
    for cap, score in zip(caps, scores, strict=True):
        axes.plot(cap, _WORST, "v", color=_CERTIFIED, clip_on=False, zorder=4)
        style = {"ha": "center", "color": _CERTIFIED, **_NOTE}
        axes.annotate(f"{score:.3g}", (cap, _WORST), (0, 6), **style)


def _fit_epsilons(axes: Any, finite: Any, line: float | None) -> tuple[float, float]:
    """Scale and limits of the axis of epsilon."""
    shown = finite if line is None else np.append(finite, line)
    shown = shown[shown > 0]
    if not len(shown):
        return 0.0, 1.0
    least, most = float(shown.min()), float(shown.max())
    if most <= 10 * least:
        return 0.0, 1.12 * most
    axes.set_yscale("log")
    _label_decades(axes.yaxis, shown)
    return least / 1.3, most * (most / least) ** 0.08


def _mark_quantiles(axes: Any, share: Any, epsilon: Any, level: Any, limits: Any) -> None:
    """Dots on the curve, and beside the axes what they are, each on a line of its own."""
    marks = {}  # of few people, one may be several of these: the last name stays
    for percent in (50, 90, 99, 100):
        name = ("largest", ": ") if percent == 100 else (f"{percent} %", " are at most ")
        marks[int(np.searchsorted(share, percent - 1e-9))] = name
    places = list(marks)
    low, high = (axes.transData.transform((0, y))[1] for y in limits)
    heights = [axes.transData.transform((0, level[i]))[1] for i in places]
    heights = [(h - low) / (high - low) for h in heights]
    for k in range(1, len(heights)):
        heights[k] = max(heights[k], heights[k - 1] + _LINE)
    heights[-1] = min(heights[-1], 1.0)
    for k in range(len(heights) - 2, -1, -1):
        heights[k] = min(heights[k], heights[k + 1] - _LINE)
    for i, height in zip(places, heights, strict=True):
        style = {"va": "center", "fontsize": "small", "annotation_clip": False}
        if not np.isfinite(epsilon[i]):
            place = (1.04, height)
            axes.annotate(f"{marks[i][0]}: no bound", place, xycoords="axes fraction", **style)
            continue
        axes.plot(share[i], level[i], "o", color="0.15", ms=5, clip_on=False, zorder=5)
        axes.annotate(
            "".join(marks[i]) + up(epsilon[i], 3),
            (share[i], level[i]),
            (1.04, height),
            textcoords="axes fraction",
            arrowprops={"arrowstyle": "-", "color": "0.75", "linewidth": 0.8},
            **style,
        )


def _of_all(count: int, n: int) -> str:
    people = "person" if n == 1 else "people"
    return f"{count:,} of {n:,} {people} {'is' if count == 1 else 'are'}"


def _finish(axes: Any, title: str, pad: float = 6) -> None:
    axes.grid(axis="y", color="0.92", zorder=0)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(title, loc="left", fontsize="medium", fontweight="bold", pad=pad)


def _best_curve(pair: Any, alpha: Any) -> Any:
    """The trade-off curve of two Gaussians: the envelope of the lines that their deltas allow."""
    best, other = np.zeros_like(alpha), pair.reversed()
    for epsilon in np.concatenate([[0.0], np.geomspace(1e-2, 30.0, 60)]):
        best = np.maximum(best, 1 - pair.delta(epsilon) - np.exp(epsilon) * alpha)
        best = np.maximum(best, np.exp(-epsilon) * (1 - other.delta(epsilon) - alpha))
    return best


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
    """A request as `compare` returns it, or as text that was read from a file."""
    rows: tuple[int, ...] = ast.literal_eval(request) if isinstance(request, str) else request
    return rows


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _fit_scale(axes: Any, errors: Any) -> None:
    known = errors[np.isfinite(errors)]
    if len(known) and known.max() > 8 * known.min() > 0:
        axes.set_xscale("log")
        _label_decades(axes.xaxis, known)


def _label_decades(axis: Any, values: Any) -> None:
    """Plain numbers on a log axis, also between powers of ten if it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    wide = values.max() > 100 * values.min()
    axis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())
