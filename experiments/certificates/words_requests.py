"""Words about groups and sequences of requests."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.certificates.config import TITLES
from experiments.certificates.draw_requests import LOSS, PROBLEMS, SEQUENCES
from experiments.certificates.ridge import ALPHAS, CHOSEN
from experiments.certificates.words import span, table
from experiments.markdown import filled
from experiments.pictures import picture
from experiments.store import Store

_MUCH = 10 * LOSS  # of accuracy
_USEFUL = 10.0  # a total epsilon above it is called of no use
_LIKE = 1.5  # times within this factor are called alike
_GROWN = 10.0  # noise of the last request over that of the first from which it is told


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
    alternative = "noise, total epsilon, accuracy and seconds by requests"
    return f"""### Requests one after another, and the break-even with a redraw

Random rows leave one by one, each by its own request of K steps with the exact accountant. Totals
compose the requests' curves, and are stated as the least epsilon at delta = 1/n. "None" means that
the stored points of the total prove no epsilon there, until a redraw. A redraw draws the parameters
anew from their law without the rows. Its epsilon is 0.

{filled(_made(there))}

{table(lines)}
{filled(_reading(there))}

{filled(_explosion(there))}

{filled(seconds)}

{filled(_break_even(there))}

{picture("certificates_sequences", alternative)}"""


def _made(there: dict[str, pd.DataFrame]) -> str:
    """How the problems were made, and how often."""
    tried = ", ".join(f"{alpha:g}" for alpha in ALPHAS)
    chosen = "; ".join(
        f"{CHOSEN[study]:g} on {title}" for study, title in SEQUENCES.items() if title in there
    )
    repeats = "; ".join(
        f"{found['repeat'].nunique()} of {found['requests'].max()} requests on {title}"
        for title, found in there.items()
    )
    return (
        f"The penalty alpha has the best accuracy on the test rows among {tried}: {chosen}. "
        f"Numbers are means over sequences with different rows: {repeats}."
    )


def _sequence_lines(title: str, found: pd.DataFrame) -> list[dict[str, str]]:
    lines = []
    for (epsilon, share), some in found.groupby(["epsilon", "share_of_delta"], sort=False):
        mean = some.groupby("requests").mean(numeric_only=True)
        passed = mean.index[mean["total_delta"] > 0.1]
        line = {"problem": title, "epsilon each": f"{epsilon:g}"}
        line["delta each"] = "1/n" if share == 1 else f"{share:g}/n"
        counts = [count for count in (1, 10, 50, 100) if count in mean.index]
        for count in counts:
            line[f"noise of request {count}"] = f"{mean['noise'][count]:.3g}"
        for count in counts:
            line[f"total after {count}"] = _total(mean["epsilon_now"][count])
        last = mean.index.max()
        line["accuracy at the end"] = f"{mean['accuracy'][last]:.1%}"
        line["redraw"] = f"{mean['redraw'][last]:.1%}"
        line["more than a point lost"] = f"{int(_lost(some).sum())} of {len(some)}"
        line["total delta above 0.1 after"] = str(passed[0]) if len(passed) else f"more than {last}"
        lines.append(line)
    return lines


def _lost(some: pd.DataFrame) -> pd.Series:
    return some["accuracy"] < some["redraw"] - LOSS


def _total(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "none"


def _reading(there: dict[str, pd.DataFrame]) -> str:
    """How two columns are to be read."""
    words = (
        '"More than a point lost" counts, among the accuracies that were looked at, those that are '
        "so far below a redraw. "
    )
    found = pd.concat(there.values())
    smaller = found[found["share_of_delta"] < 1]
    if smaller.empty:
        return words
    first = smaller[smaller["requests"] == 1]
    return words + (
        f"Requests at epsilon = {first['epsilon'].iloc[0]:g} have a smaller delta, so that the sum "
        "of 100 deltas is 1/n. At 1/n, where totals are stated, one of them proves a smaller "
        f"epsilon ({span(first['epsilon_now'], '{:.2g}')})."
    )


def growth(some: pd.DataFrame) -> tuple[float, float]:
    """Noise of the last request over that of the first, and its growth a request at the end."""
    noise = some.groupby("requests")["noise"].mean()
    (before, last) = noise.index[-2:]
    each = (noise[last] / noise[before]) ** (1 / (last - before))
    return noise[last] / noise.iloc[0], each


def _explosion(there: dict[str, pd.DataFrame]) -> str:
    """Where the noise of requests grows and grows, and why."""
    words = []
    for title, found in there.items():
        for epsilon, some in found.groupby("epsilon", sort=False):
            whole, each = growth(some)
            if whole > _GROWN:
                words.append(f"{title} at epsilon {epsilon:g}: {each:.2g}")
    if not words:
        return "The noise of a request does not grow with the requests before it."
    return (
        "**Noise can explode.** A row that leaves took part in the K steps of the request before, "
        "where its gradient grew with the noise of that request. So its own request needs noise in "
        "proportion. If epsilon is so small that the proportion is above one, the noise grows "
        f"geometrically, in the end by this factor with every request: {'; '.join(words)}."
    )


class Times(NamedTuple):
    """Seconds of a request, early and late, of a redraw and of retraining; medians of repeats."""

    first: float
    late: float
    since: int  # late is the mean of the requests after this one
    redraw: float
    retrained: float


def times(found: pd.DataFrame) -> Times:
    """The stored seconds are those of all requests so far."""
    whole = found.pivot_table(index=["epsilon", "repeat"], columns="requests", values="seconds")
    before, last = whole.columns[-2:]
    late = (whole[last] - whole[before]) / (last - before)
    return Times(
        whole[whole.columns[0]].median() / whole.columns[0],
        late.median(),
        int(before),
        found["redraw_seconds"].median(),
        found["retrain_seconds"].median(),
    )


def _seconds(title: str, found: pd.DataFrame) -> str:
    some = times(found)
    like = "about as long as"
    if some.first > _LIKE * some.redraw:
        like = "more than"
    elif _LIKE * some.first < some.redraw:
        like = "less than"
    return (
        f"{title}: the first request takes {some.first:.2g} s, {like} a redraw "
        f"({some.redraw:.2g} s). Those after {some.since} take {some.late:.2g} s each. Retraining "
        f"with scikit-learn takes {some.retrained:.2g} s."
    )


def _break_even(there: dict[str, pd.DataFrame]) -> str:
    """How many requests a sequence may have, by problem and epsilon."""
    found, longest, cheaper = [], {}, []
    for title, rows in there.items():
        counts = {
            f"{epsilon:g}": lasting(some) for epsilon, some in rows.groupby("epsilon", sort=False)
        }
        longest[title] = most = max(counts.values())
        each = (rows[rows["requests"] == most]["seconds"] / max(most, 1)).median()
        cheaper += [title] if most and each < rows["redraw_seconds"].median() else []
        found.append(
            f"{title}: " + ", ".join(f"{n} at epsilon {e} each" for e, n in counts.items())
        )
    last = max(int(rows["requests"].max()) for rows in there.values())
    words = (
        "**Break-even, as measured**: so many requests, among the numbers looked at, lose at most "
        f"a point of accuracy on average against a redraw, at a total epsilon of at most "
        f"{_USEFUL:g}: {'; '.join(found)}. "
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
    """The largest number of requests up to which accuracy and total are still of use.

    What one request loses depends on its row more than on its place: all up to there are averaged.
    """
    mean = some.groupby("requests")[["accuracy", "redraw", "epsilon_now"]].mean()
    lost = (mean["redraw"] - mean["accuracy"]).expanding().mean() > LOSS
    fine = mean.index[~(lost | ~(mean["epsilon_now"] <= _USEFUL)).cummax()]
    return int(fine.max()) if len(fine) else 0
