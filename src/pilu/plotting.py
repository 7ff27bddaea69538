"""Pictures of comparisons and audits (needs the extra ``pilu[plot]``)."""

import ast
from typing import Any

import numpy as np

from pilu._extras import need

__all__ = ["plot_audit", "plot_comparison"]

_CERTIFIED, _OPEN = "#2f6690", "#b0563b"
_MARKERS = "osD^v<>P"


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
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    known = errors[np.isfinite(errors)]
    if len(known) and known.max() > 8 * known.min() > 0:
        axes.set_xscale("log")
        wide = known.max() > 100 * known.min()
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.xaxis.set_minor_locator(NullLocator())
