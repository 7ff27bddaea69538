"""Words about the audits of single rows."""

import pandas as pd

from experiments.certificates.config import TITLES
from experiments.certificates.draw_audits import CONTROL, stored
from experiments.certificates.words import span, table
from experiments.markdown import filled
from experiments.pictures import picture
from experiments.store import Store

_INVERSION = 1e-9  # its error, in delta
_EXACT = 1e-3  # relative distance from the claimed delta that still counts as none


def audits(store: Store) -> str:
    """Single rows, by the likelihood ratio of many runs."""
    tables, curves = stored(store, "audits"), stored(store, "curves")
    alternative = "certified epsilon and the epsilon that runs prove, row by row"
    lines = [_line(study, tables[study], curves[study]) for study in tables]
    return f"""### Certificates of single rows, audited by the likelihood ratio

The exact accountant certifies epsilon = 1 at delta = 1/n for the rows of the figures above. Both
runs of Definition 1 are then drawn many times from their laws: the noise of learning and of
unlearning, in all p x d coordinates. The laws come from dense eigenproblems and sums over the
steps, which share no code with pilu. So the likelihood ratio of every run is known, and no other
test of the parameters is stronger. What runs prove is the larger of both directions' epsilons.

{table(lines)}
{filled(_verdict(tables, curves))}

{filled(_inverted(tables))}

{picture("certificates_audits", "delta against epsilon: claimed curves, and intervals by runs")}
{picture("certificates_trade_offs", "misses against false alarms, by runs and as certified")}
{picture("certificates_epsilons", alternative)}"""


def _line(study: str, table: pd.DataFrame, curves: pd.DataFrame) -> dict[str, str]:
    some, few = (table[table["kind"] == kind] for kind in ("certified", CONTROL))
    return {
        "data": TITLES[study],
        "rows": str(len(some)),
        "runs of each kind": f"{some['runs'].iloc[0]:,}",
        "AUC": span(some["auc"], "{:.3f}"),
        "epsilon proved by runs": span(_proved(some), "{:.2f}"),
        "curves refuted": str(refuted(curves, "certified")),
        "a tenth of the noise: exact epsilon": span(few["epsilon"], "{:.3g}"),
        "proved by runs": span(_proved(few), "{:.2f}"),
        "refuted": str(refuted(curves, CONTROL)),
    }


def _proved(audited: pd.DataFrame) -> pd.Series:
    """The larger of both directions."""
    return audited[["epsilon_lower", "epsilon_lower_reverse"]].max(axis=1)


def refuted(curves: pd.DataFrame, kind: str) -> int:
    """Rows with an interval that lies above the claimed curve somewhere."""
    some = curves[curves["kind"] == kind]
    above = (some["low"] > some["claimed"]) | (some["mean_low"] > some["claimed"])
    return int(above.groupby(some["row"]).any().sum())


def _verdict(tables: dict[str, pd.DataFrame], curves: dict[str, pd.DataFrame]) -> str:
    rows = sum(table["row"].nunique() for table in tables.values())
    false = sum(refuted(curve, "certified") for curve in curves.values())
    noticed = sum(refuted(curve, CONTROL) for curve in curves.values())
    verdict = (
        f"**No certificate is refuted by its runs**: for none of {rows} rows does an interval of a "
        "count or of a mean lie above the claimed curve."
        if false == 0
        else f"**{false} of {rows} certificates are refuted by their runs.**"
    )
    control = (
        "With a tenth of the noise the same test refutes every one of these curves. So the test "
        "could have noticed."
        if noticed == rows
        else f"With a tenth of the noise the same test refutes {noticed} of {rows} curves: on the "
        "others it would not have noticed so much too little noise."
    )
    return (
        f"{verdict} Intervals of counts hold for all rows and epsilons of a data set at once, with "
        "95 % confidence, and so do those of means. The former are exact, the latter normal. "
        f"{control}"
    )


def _inverted(tables: dict[str, pd.DataFrame]) -> str:
    """What inverting the characteristic functions says of the claimed deltas."""
    some = pd.concat(table[table["kind"] == "certified"] for table in tables.values())
    larger = some[["inverted", "inverted_reverse"]].max(axis=1)
    gap = larger / some["delta"] - 1
    false = int(((gap > _EXACT) & (larger > some["delta"] + _INVERSION)).sum())
    proved = _proved(some)
    if (less := proved < some["epsilon"]).all():
        runs = (
            "Runs cannot count as far as delta = 1/n: they prove less than the certified epsilon, "
            f"{proved.max():.2f} at most."
        )
    else:
        runs = (
            f"On {int((~less).sum())} of {len(some)} rows runs prove more than the certified "
            "epsilon, with 95 % confidence for each row by itself."
        )
    how = (
        " So the ratio's characteristic functions are inverted as well, which needs no runs. The "
        "larger of both directions' deltas at epsilon = 1 "
    )
    if false:
        found = (
            f"is above the claimed one on {false} rows, by up to {gap.max():.1%}. **{false} of "
            f"{len(some)} certificates are refuted by inversion.**"
        )
    elif gap.abs().max() <= _EXACT:
        found = (
            f"differs from the claimed one by at most {gap.abs().max():.1e} of it. **The "
            "certificates are exact, not only valid**: less noise would not do."
        )
    else:
        found = (
            f"is up to {-gap.min():.1%} below the claimed one. **The certificates are valid, but "
            "not all are exact**: less noise would do."
        )
    return runs + how + found
