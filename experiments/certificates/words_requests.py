"""Words about groups and sequences of requests."""

import numpy as np
import pandas as pd

from experiments.certificates.config import TITLES
from experiments.certificates.draw_requests import LOSS, PROBLEMS, SEQUENCES
from experiments.certificates.words import table
from experiments.markdown import filled
from experiments.pictures import picture
from experiments.store import Store

_MUCH = 10 * LOSS  # of accuracy
_USEFUL = 10.0  # a total epsilon above it is called of no use


def groups(store: Store) -> str:
    """Several rows at once."""
    there = {
        key: store.read(f"certificates_groups_{key[0]}_{key[1]}")
        for key in PROBLEMS
        if store.holds(f"certificates_groups_{key[0]}_{key[1]}")
    }
    named = {PROBLEMS[key]: found for key, found in there.items()}
    lines = [line for title, found in named.items() for line in _group_lines(title, found)]
    fixed = store.read("certificates_groups_ridge_vader")
    noise = fixed["fixed_noise"].iloc[0]
    largest = "; ".join(_largest(title, found) for title, found in named.items())
    ridge = [found for (loss, _), found in there.items() if loss == "ridge"]
    alternative = "noise and accuracy against the number of rows forgotten at once"
    after = " A redraw forgets any number of rows at the accuracy of its column."
    tried = (
        f"How many rows can go at once until accuracy is more than {100 * _MUCH:.0f} points below "
        f"a redraw, among the sizes tried: {largest}."
    )
    return f"""### Groups of rows at once

Random groups are forgotten by one request at epsilon = 1. Ridge has three ways: the sum of the
rows' sensitivities (the paper's corollary), the norm of the summed gradient (`group="joint"`), and
the exact accountant. For other losses only the sum is offered; "any rows" is the bound that holds
for all rows of norm one. Accuracies of ridge are expectations in closed form, those of logistic
regression means over a few runs. Numbers are means over the groups of a size, and whiskers go from
the smallest to the largest of them. Where there is one group, there are none.

{table(lines)}
{filled(tried)}
The other way round, with a fixed noise ({noise:.3g}, one point of accuracy on
{TITLES["vader"].split(",")[0]} with ridge), the certified epsilon grows with the group:

{table(_fixed_lines(fixed))}
{filled(_least(ridge) + " " + _fit(named) + after)}
{picture("certificates_groups", alternative)}"""


def _group_lines(title: str, found: pd.DataFrame) -> list[dict[str, str]]:
    lines = []
    for size in (1, 20, 100, 500):
        some = found[found["size"] == size]
        if some.empty:
            continue
        line = {"problem": title, "rows": str(size)}
        for kind in ("uniform", "sum", "joint", "exact"):
            own = some[some["kind"] == kind]
            name = {"uniform": "any rows"}.get(kind, kind)
            line[f"{name}: sigma"] = f"{own['noise'].mean():.3g}" if len(own) else ""
            line[f"{name}: accuracy"] = f"{own['after'].mean():.1%}" if len(own) else ""
        line["redraw"] = f"{some['redraw'].mean():.1%}"
        lines.append(line)
    return lines


def _largest(title: str, found: pd.DataFrame) -> str:
    words = []
    for kind in ("sum", "joint", "exact"):
        mean = found[found["kind"] == kind].groupby("size")[["after", "redraw"]].mean()
        if len(mean):
            lost = mean["after"] < mean["redraw"] - _MUCH
            fine = mean.index[~lost.cummax()]
            words.append(f"{kind} {fine.max() if len(fine) else 'none'}")
    return f"{title}: {', '.join(words)}"


def _fixed_lines(found: pd.DataFrame) -> list[dict[str, str]]:
    mean = found.pivot_table(index="size", columns="kind", values="epsilon_at_fixed_noise")
    return [
        {"rows": f"{size}"} | {k: f"{line[k]:.3g}" for k in ("sum", "joint", "exact")}
        for size, line in mean.iterrows()
    ]


def _least(ridge: list[pd.DataFrame]) -> str:
    """Whether the exact accountant needs less noise than the theorem, group by group."""
    n, least = 0, 0
    for found in ridge:
        noise = found.pivot_table(index=["size", "repeat"], columns="kind", values="noise")
        n += len(noise)
        least += int((noise["exact"] <= noise[["sum", "joint"]].min(axis=1)).sum())
    if least == n:
        return "**On ridge the exact accountant needs the least noise for every group.**"
    return f"**On ridge the exact accountant needs the least noise for {least} of {n} groups.**"


def _fit(named: dict[str, pd.DataFrame]) -> str:
    """What the best way loses at the largest size."""
    lost = {}
    for title, found in named.items():
        mean = found.groupby(["size", "kind"])[["after", "redraw"]].mean().loc[found["size"].max()]
        lost[title] = float((mean["redraw"] - mean["after"]).min())
    by = "; ".join(
        f"{title}, {named[title]['size'].max()} rows: {100 * value:.0f}"
        for title, value in lost.items()
    )
    each = f"At the largest size the best of the ways is so many points below a redraw: {by}."
    fine = [title for title, value in lost.items() if value <= _MUCH]
    if not fine:
        return f"{each} **No accountant makes Langevin steps fit for groups that large**."
    return f"{each} **Groups that large are affordable on {', '.join(fine)}**."


def sequences(store: Store) -> str:
    """One request after another."""
    there = {
        title: store.read(f"certificates_sequences_{study}")
        for study, title in SEQUENCES.items()
        if store.holds(f"certificates_sequences_{study}")
    }
    lines = [line for title, found in there.items() for line in _sequence_lines(title, found)]
    seconds = " ".join(_seconds(title, found) for title, found in there.items())
    seconds += " Seconds were measured on a busy machine; compare them with each other only."
    return f"""### Requests one after another, and the break-even with a redraw

Random rows leave one by one, each by its own request of K steps with the exact accountant. Totals
compose the requests' curves, and are stated as the least epsilon at delta = 1/n. "None" means that
the stored points of the total prove no epsilon there, until a redraw. A redraw draws the parameters
anew from their law without the rows. Its epsilon is 0.

{table(lines)}
{filled(seconds)}
{filled(_break_even(there))}
{picture("certificates_sequences", "total epsilon, accuracy and seconds against the requests")}"""


def _sequence_lines(title: str, found: pd.DataFrame) -> list[dict[str, str]]:
    lines = []
    for epsilon, some in found.groupby("epsilon", sort=False):
        mean = some.groupby("requests").mean(numeric_only=True)
        lost = mean.index[mean["accuracy"] < mean["redraw"] - LOSS]
        passed = mean.index[mean["total_delta"] > 0.1]
        line = {"problem": title, "epsilon each": f"{epsilon:g}"}
        for count in (1, 10, 100):
            if count in mean.index:
                line[f"total after {count}"] = _total(mean["epsilon_now"][count])
        last = mean.index.max()
        line["accuracy at the end"] = f"{mean['accuracy'][last]:.1%}"
        line["redraw"] = f"{mean['redraw'][last]:.1%}"
        line["a point lost after"] = str(lost[0]) if len(lost) else f"more than {last}"
        line["total delta above 0.1 after"] = str(passed[0]) if len(passed) else f"more than {last}"
        lines.append(line)
    return lines


def _total(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "none"


def _medians(found: pd.DataFrame) -> tuple[float, float, float]:
    """Seconds of a request, of a redraw and of retraining."""
    last = found[found["requests"] == found["requests"].max()]
    each = (last["seconds"] / last["requests"]).median()
    return each, found["redraw_seconds"].median(), found["retrain_seconds"].median()


def _seconds(title: str, found: pd.DataFrame) -> str:
    each, redraw, again = _medians(found)
    cheaper = "less" if each < redraw else "more"
    return (
        f"{title}: a request takes {each:.2g} s, {cheaper} than a redraw ({redraw:.2g} s); "
        f"retraining with scikit-learn takes {again:.2g} s."
    )


def _break_even(there: dict[str, pd.DataFrame]) -> str:
    """How many requests a sequence may have, by problem and epsilon."""
    found, longest, cheaper = [], {}, []
    for title, rows in there.items():
        counts = {
            f"{epsilon:g}": lasting(some) for epsilon, some in rows.groupby("epsilon", sort=False)
        }
        longest[title] = max(counts.values())
        each, redraw, _ = _medians(rows)
        cheaper += [title] if longest[title] and each < redraw else []
        found.append(
            f"{title}: " + ", ".join(f"{n} at epsilon {e} each" for e, n in counts.items())
        )
    last = max(int(rows["requests"].max()) for rows in there.values())
    words = (
        "**Break-even, as measured**: so many requests, among the numbers looked at, leave "
        f"accuracy within a point of a redraw's and a total epsilon of at most {_USEFUL:g}: "
        f"{'; '.join(found)}. "
    )
    if not any(longest.values()):
        return words + "So a redraw is better from the first request on."
    if not cheaper:
        return words + (
            "But there a redraw takes less time than a request. So a redraw is better from the "
            "first request on."
        )
    if max(longest[title] for title in cheaper) < last:
        return words + (
            f"A sequence is worth its while on {', '.join(cheaper)}, where a request takes less "
            "time than a redraw, and where no more requests than that come between two redraws. "
            "Requests that can wait should be answered together, or by a redraw."
        )
    return words + f"So some sequences of {last} requests need no redraw."


def lasting(some: pd.DataFrame) -> int:
    """The largest number of requests up to which accuracy and total are still of use."""
    mean = some.groupby("requests")[["accuracy", "redraw", "epsilon_now"]].mean()
    lost = (mean["accuracy"] < mean["redraw"] - LOSS) | ~(mean["epsilon_now"] <= _USEFUL)
    fine = mean.index[~lost.cummax()]
    return int(fine.max()) if len(fine) else 0
