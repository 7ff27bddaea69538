"""Words about bounds by concentration."""

import pandas as pd

from experiments.certificates.concentration import STAGES
from experiments.certificates.config import TITLES
from experiments.certificates.draw_bounds import STUDIES, auxiliary_runs, noises
from experiments.certificates.words import span, table
from experiments.markdown import filled
from experiments.pictures import picture
from experiments.store import Store

FACTORS = {
    "tail": "all steps, delta",
    "inequality": "inequality",
    "curvature": "contraction",
    "means": "unknown means",
    "bound": "their error",
}


def concentration(store: Store) -> str:
    """Smooth losses: how loose the sensitivity bounds are, and why."""
    typical = {study: factors(store.read(f"certificates_margins_{study}")) for study in STUDIES}
    lines = [_line(store, study, typical[study]) for study in STUDIES]
    costs = {study: noises(store, study) for study in STUDIES}
    runs = " or ".join(str(n) for n in sorted({auxiliary_runs(store, study) for study in STUDIES}))
    return f"""### Concentration bounds against trajectories

`LangevinLogistic` bounds the sensitivity of every row at every step
([concentration.md](concentration.md)). Fresh runs, none of them among the auxiliary ones, take the
steps literally. The bound over the largest of the runs at the last step is split into factors
(medians over rows). Each replaces one thing:

- all steps, delta: a normal margin at the failure probability of all steps, for the largest run;
- inequality: 2 exp(-q^2/2), for the normal law;
- contraction: by alpha alone, with all noise along the row, for the runs' own deviation;
- unknown means: their share of delta;
- their error: what the {runs} auxiliary runs happened to show.

{table(lines)}
{filled(f"{_verdict(store)} {_largest(typical)} {_linear(store)}")}

For the quadratic loss of the same curvature at the minimiser the exact accountant is known. This is
an estimate of what forgetting needs, and no certificate:

{table([line for study in STUDIES for line in _costs(costs[study], TITLES[study])])}
{filled(_theorem(pd.concat(costs.values())))}

{picture("certificates_concentration", "sensitivity bounds over runs; factors; what they cost")}"""


def factors(margins: pd.DataFrame) -> pd.Series:
    """Each stage over the one before it, the median of the rows."""
    stages = margins[list(STAGES)]
    return stages.div(stages.shift(axis=1)).iloc[:, 1:].median()


def _line(store: Store, study: str, typical: pd.Series) -> dict[str, str]:
    margins = store.read(f"certificates_margins_{study}")
    whole = margins["bound"] / margins["largest"]
    return {
        "data": TITLES[study],
        "trajectories": f"{_trajectories(store, study):,}",
        "above their bound": f"{margins['runs_above'].sum():,}",
        "bound over largest run": f"{whole.median():.2f} ({whole.max():.2f} at most)",
    } | {title: f"{typical[stage]:.3f}" for stage, title in FACTORS.items()}


def _trajectories(store: Store, study: str) -> int:
    rows = len(store.read(f"certificates_margins_{study}"))
    return rows * store.provenance(f"certificates_margins_{study}")["config"]["n_runs"]


def _verdict(store: Store) -> str:
    """A bound may fail with probability delta/2; so may that share of the trajectories."""
    above = allowed = 0.0
    for study in STUDIES:
        above += int(store.read(f"certificates_margins_{study}")["runs_above"].sum())
        delta = store.provenance(f"certificates_margins_{study}")["delta"]
        allowed += _trajectories(store, study) * delta / 2
    promise = f"Each may be above with probability delta/2, which allows {allowed:,.0f} on average."
    if above == 0:
        return f"**The bounds hold**: no trajectory is above its bound at any step. {promise}"
    if above <= allowed:
        return f"**{above:,.0f} trajectories are above their bounds at some step.** {promise}"
    return f"**More trajectories are above their bounds than promised: {above:,.0f}.** {promise}"


def _largest(typical: dict[str, pd.Series]) -> str:
    names = {study: str(values.idxmax()) for study, values in typical.items()}
    if set(names.values()) == {"curvature"}:
        return (
            "The largest factor is the contraction: the loss is more curved than alpha along most "
            "rows."
        )
    found = "; ".join(f"{TITLES[study]}: {FACTORS[name]}" for study, name in names.items())
    return f"The largest factor is another one for each ({found})."


def _costs(table: pd.DataFrame, title: str) -> list[dict[str, str]]:
    return [
        {
            "data": title,
            "quantile of noise": f"{quantile:.0%} (row {row})",
            "sigma certified": f"{line['bound']:.3g}",
            "by the largest of the runs": f"{line['largest']:.3g}",
            "estimate: theorem, quadratic": f"{line['quadratic_theorem']:.3g}",
            "estimate: exact, quadratic": f"{line['quadratic_exact']:.3g}",
        }
        for (quantile, row), line in table.iterrows()
    ]


def _theorem(costs: pd.DataFrame) -> str:
    """Whether the theorem or the concentration is what makes the noise large."""
    by_bounds = costs["bound"] / costs["largest"].where(costs["largest"] > 0)
    by_theorem = costs["quadratic_theorem"] / costs["quadratic_exact"].where(
        costs["quadratic_exact"] > 0
    )
    like = (costs["quadratic_theorem"] / costs["bound"]).between(0.5, 2)
    more = like & (by_theorem > by_bounds)
    words = (
        f"With the largest of the runs in place of the bound, which proves nothing, the noise "
        f"would be {span(1 / by_bounds, '{:.0%}')} of the certified one. For the quadratic loss "
        f"the theorem needs {span(by_theorem, '{:.2g}')} times the exact noise, where any is "
        f"needed. Its noise by the theorem is within a factor of two of the logistic one on "
        f"{int(like.sum())} of {len(costs)} rows; for the others it says little. "
    )
    if more.any():
        return words + (
            f"**On {int(more.sum())} of {len(costs)} rows the looseness is more in the theorem "
            "than in the concentration.** The theorem contracts all past gradients by alpha alone, "
            "and adds up their norms."
        )
    return words + "**These rows do not tell which of the two makes the noise large.**"


def _linear(store: Store) -> str:
    """The same ratio where the law of a residual is known, by the paper's own figures."""
    words = []
    for study in ("depth", "mnist"):
        if not store.holds(f"{study}_sensitivities"):
            continue
        found = store.read(f"{study}_sensitivities")
        runs = [name for name in found if name.startswith("run")]
        last = found.groupby("row").tail(1)
        ratios = span(last["bound"] / last[runs].max(axis=1), "{:.2f}")
        title = TITLES[study].split(",")[0]
        words.append(f"{ratios} times the largest of {len(runs)} runs on {title}")
    if not words:
        return ""
    return (
        "For ridge, where the law of a residual is known, the bound at the last step is "
        f"{' and '.join(words)}."
    )
