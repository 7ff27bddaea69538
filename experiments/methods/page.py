"""The sections on methods side by side, exposure and reconstruction of docs/evidence.md.

Numbers and the words of verdicts are computed from the tables.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from experiments.markdown import markdown, paragraph
from experiments.methods import page_releases as releases
from experiments.methods.config import METHODS, SHARES, TITLES
from experiments.methods.render.side_by_side import LARGEST
from experiments.methods.summary import Cell, cell, constant_loss, tables, unit
from experiments.pictures import picture
from experiments.store import Store

UNSEEN = 0.1  # points or per cent that nobody sees
SUBSTANTIAL = 1.0
POINTS = ("accuracy", "AUC")
TUNED = ("Langevin", "DP-GD")
AXES = {"n_steps": "T of", "noise": "noises of", "clipping": "thresholds of"}
FOR_ONE, FOR_MANY = next(iter(SHARES)), list(SHARES)[-1]

Tables = dict[str, pd.DataFrame]


def section(store: Store) -> str:
    parts = (side_by_side(store), releases.exposure(store), releases.reconstructions(store))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def side_by_side(store: Store) -> str:
    found = tables(store)
    lost_by_share = "\n".join(losses(found, share) for share in SHARES)
    alternative = "loss, seconds and epsilon of six methods on every data set"
    return f"""## Six methods side by side

Every method learns the same objective from the same features and forgets the same people. (The
Newton step takes their rows' share of the penalty away with them, as its authors do.) Retraining is
scikit-learn's, cold, at a tolerance of 1e-8, on the rows that are left. Losses are against
retraining for the same request: positive is worse.

{targets(store, found)}
{grids(store, found)}
{picture("methods_side_by_side", alternative)}
Marks are means over repeats, lines their ranges. Ticks are the losses before any request. Langevin
steps that forget go on learning, so they can be better than that. A loss beyond {LARGEST:g} is
drawn at the edge. Epsilon 0 means that the law is that of the reference.

The tables have means over {repeats(found)} repeats, with the least and the largest of them in
brackets where they differ. These are ranges and no confidence intervals.

{lost_by_share}
{reasons(found)}{verdict(store, found)}
What the epsilons are about differs. *Refit* compares with retraining, *Langevin* and *redraw* with
the same noisy steps without these people, the *Newton step* with a noisy minimiser without them.
{of_dp_gd(found)}
{paragraph(certified(found))}
{seconds(found)}"""


def targets(store: Store, found: Tables) -> str:
    """Epsilon and delta of refit, and the target of the others."""
    some = pd.concat(found.values())
    refit = some[(some["why"] == "") & (some["method"] == "refit")]
    pairs = dict.fromkeys(zip(refit["epsilon"], refit["delta"], strict=True))
    own = ", ".join(f"epsilon = {epsilon:g} at delta = {delta:g}" for epsilon, delta in pairs)
    aims = {store.provenance(f"methods_{name}")["config"]["epsilon"] for name in found}
    aim = ", ".join(f"{epsilon:g}" for epsilon in sorted(aims))
    return paragraph(
        f"The target of Langevin, Newton and DP-GD is epsilon = {aim} at delta = 1/rows (for DP-GD "
        f"of one row). Refit keeps its default, {own or 'and gives no answer'}."
    )


def grids(store: Store, found: Tables) -> str:
    """How large the grids are, and at how many data sets the best is at an end of its grid."""
    tuned = {name: store.read(f"methods_{name}_tuning") for name in found}
    told = {method: tuned_by(tuned, found, method) for method in TUNED}
    words = [
        f"{method} has {counts(grid.size for grid in there.values())} settings"
        f"{of_two(there)}, and the best is at an end of its grid on "
        f"{sum(bool(grid.ends) for grid in there.values())} of {len(there)} data sets"
        for method, there in told.items()
        if there
    ]
    if not words:
        return ""
    return paragraph(
        "Langevin steps and DP-GD take the best of a grid, judged by the rows to test. This "
        "favours them, and nothing is charged for it. The grids are small: "
        f"{'; '.join(words)}. Beyond these ends they could be better.{steepest(told)}"
    )


class Grid(NamedTuple):
    """A method's grid on one data set: its size, and the axes at whose end the best is.

    `ends` has, by axis, the scores along it with the other settings at their best.
    """

    size: int
    ends: dict[str, pd.Series]
    is_error: bool


def tuned_by(tuned: Tables, found: Tables, method: str) -> dict[str, Grid]:
    grids = {}
    for name, table in tuned.items():
        some = table[(table["method"] == method) & table["score"].notna()]
        if len(some):
            is_error = found[name]["measure"].iloc[0] == "RMSE"
            grids[name] = Grid(len(some), ends(some, is_error), is_error)
    return grids


def ends(some: pd.DataFrame, is_error: bool) -> dict[str, pd.Series]:
    best = some.loc[some["score"].idxmin() if is_error else some["score"].idxmax()]
    axes = [axis for axis in AXES if some[axis].nunique() > 1]
    at_end = {}
    for axis in axes:
        others = [other for other in axes if other != axis]
        line = some[(some[others] == best[others]).all(axis=1)].set_index(axis)["score"]
        if best[axis] in (line.index.min(), line.index.max()):
            at_end[axis] = line.sort_index()
    return at_end


def steepest(told: dict[str, dict[str, Grid]]) -> str:
    """Where the last step to an end of a grid of accuracies gained most."""
    gains = {
        (method, name, axis): abs(line.iloc[-1] - line.iloc[-2])
        for method, there in told.items()
        for name, grid in there.items()
        for axis, line in grid.ends.items()
        if not grid.is_error and line.idxmax() == line.index[-1]
    }
    if not gains:
        return ""
    method, name, axis = max(gains, key=gains.__getitem__)
    line = told[method][name].ends[axis]
    scores = ", ".join(f"{score:.2f}" for score in line)
    values = ", ".join(f"{value:g}" for value in line.index)
    return (
        f" The largest gain at an end is on {TITLES[name]}, where {method} scores {scores} at "
        f"{AXES[axis]} {values}."
    )


def of_two(there: dict[str, Grid]) -> str:
    """In a grid of two, everything is an end."""
    two = sum(grid.size == 2 for grid in there.values())
    return f" (two on {two} data sets)" if two else ""


def counts(sizes: Iterable[int]) -> str:
    low, *_, high = sorted([*sizes] * 2)
    return f"{low}" if low == high else f"{low} to {high}"


def losses(found: Tables, share: str) -> str:
    """A table of one share: what each method loses on each data set."""
    header = ["data", "loss in", "constant", *METHODS[1:]]
    lines = [
        [
            TITLES[name],
            unit(table["measure"].iloc[0]),
            f"{constant_loss(table):.1f}",
            *(lost(cell(table, method, share)) for method in METHODS[1:]),
        ]
        for name, table in found.items()
    ]
    return f"**{share[0].upper()}{share[1:]} forgotten:**\n\n{markdown(header, lines)}"


def lost(found: Cell) -> str:
    """The mean over repeats, and their range."""
    if not found.answered:
        return "no answer"
    mean, low, high = (f"{round(x, 2) + 0.0:.2f}" for x in found[:3])
    return mean if low == high else f"{mean} ({low} to {high})"


def repeats(found: Tables) -> str:
    counts = {table["repeat"].nunique() for table in found.values()}
    return " or ".join(str(count) for count in sorted(counts))


def reasons(found: Tables) -> str:
    """Why there is no answer, once for each data set, method and reason."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for name, table in found.items():
        for method in METHODS:
            for share in SHARES:
                why = cell(table, method, share).why
                if why:
                    told.setdefault((name, method, why), []).append(share)
    lines = [
        f"- {TITLES[name]}, {method}"
        + ("" if len(shares) == len(SHARES) else f" ({', '.join(shares)})")
        + f": {why}."
        for (name, method, why), shares in told.items()
    ]
    if not lines:
        return ""
    return "\n".join(["No answer:", "", *lines, "", limits(why for _, _, why in told), ""])


def limits(whys: Iterable[str]) -> str:
    """Whose limits those of the reasons are."""
    words = set()
    for why in whys:
        if found := re.search(r"longer than (.*)", why):
            words.add(f"this study stops a method after {found[1]}")
        if found := re.search(r"at most ([\d,]+) parameters", why):
            words.add(f"`pilu.baselines` has Newton steps for {found[1]} parameters at most")
    if not words:
        return ""
    told = "; ".join(sorted(words))
    return paragraph(f"Such limits are ours and not the methods': {told}.")


def verdict(store: Store, found: Tables) -> str:
    """The largest loss of each method where it answers, and what refit and noise come to."""
    words = ["**The largest loss** of each method, over the data sets where it answers:\n"]
    for measures, name in ((POINTS, "points"), (("RMSE",), "per cent of RMSE")):
        some = {key: table for key, table in found.items() if table["measure"].iloc[0] in measures}
        if some:
            words.append(largest_losses(some, name))
    words.append(paragraph(f"{of_refit(found)} {of_noise(found)}"))
    return "\n".join([*words, *unfinished(store, found)])


def largest_losses(found: Tables, name: str) -> str:
    """Of data sets with the same unit."""
    header = [f"largest loss, {name}", *METHODS[1:]]
    lines = [
        [
            share,
            *(
                "no answer" if loss is None else f"{loss:.2f}"
                for loss in (largest_loss(found, method, share) for method in METHODS[1:])
            ),
        ]
        for share in SHARES
    ]
    return markdown(header, lines)


def unfinished(store: Store, found: Tables) -> list[str]:
    """Where a redraw loses, though nothing of it comes from forgetting."""
    lines = []
    for name, table in found.items():
        one = cell(table, "redraw", FOR_ONE)
        if one.answered and min(one.loss, one.loss_before) > SUBSTANTIAL:
            steps = store.provenance(f"methods_{name}")["config"]["redraw_steps"]
            lines.append(
                f"{TITLES[name]}: {one.loss:.1f} with the request, {one.loss_before:.1f} before "
                f"it, since T = {steps} steps have not finished learning"
            )
    if not lines:
        return []
    return [
        paragraph(f"A redraw loses by unfinished learning, not by forgetting: {'; '.join(lines)}.")
    ]


def largest_loss(found: Tables, method: str, share: str) -> float | None:
    """None if the method answers nowhere."""
    cells = (cell(table, method, share) for table in found.values())
    return max((round(one.loss, 2) + 0.0 for one in cells if one.answered), default=None)


def of_refit(found: Tables) -> str:
    cells = [cell(table, "refit", share) for table in found.values() for share in SHARES]
    answered = [one.loss for one in cells if one.answered]
    if not answered:
        return "*Refit gives no answer.*"
    some = "" if len(answered) == len(cells) else " where it answers"
    most = max(answered)
    if most <= UNSEEN:
        return f"*Refit loses nothing that can be seen{some}: at most {UNSEEN:g}, for any share.*"
    return f"*Refit loses up to {most:.2f}{some}.*"


def of_noise(found: Tables) -> str:
    """On how many data sets a tenth of the people costs more than one person."""
    told = []
    for method in ("Langevin", "Newton step"):
        pairs = [
            (cell(table, method, FOR_ONE), cell(table, method, FOR_MANY))
            for table in found.values()
        ]
        both = [(one, many) for one, many in pairs if one.answered and many.answered]
        dearer = sum(many.loss > one.loss + SUBSTANTIAL for one, many in both)
        told.append(f"{dearer} of {len(both)} data sets ({method})")
    return (
        f"From {FOR_ONE} to {FOR_MANY} the loss grows by more than {SUBSTANTIAL:g} on "
        f"{' and on '.join(told)}."
    )


def of_dp_gd(found: Tables) -> str:
    """What its epsilon is about, and how far it grows for the largest share."""
    cells = (cell(table, "DP-GD", FOR_MANY) for table in found.values())
    epsilons = [one.epsilon for one in cells if one.answered]
    grown = f", to {min(epsilons):,.0f} or more for {FOR_MANY} of the people" if epsilons else ""
    return paragraph(
        "*DP-GD* hides every row beforehand, so that nothing has to be done on request. Its "
        f"epsilon grows with the number of rows that leave together{grown}. It takes its threshold "
        "as given, though the unit of the threshold is read off the rows. Its seconds are those of "
        "one more step."
    )


def certified(found: Tables) -> str:
    """Which epsilons are not proved, if any."""
    some = pd.concat(found.values())
    some = some[(some["why"] == "") & ~some["certified"].astype(bool)]
    without = dict.fromkeys(zip(some["data"], some["method"], strict=True))
    if not without:
        return (
            "All epsilons are certified, given their constants. DP-GD's threshold is read off the "
            "rows."
        )
    names = "; ".join(f"{TITLES[name]}, {method}" for name, method in without)
    return f"Not certified: {names}."


def seconds(found: Tables) -> str:
    """Seconds of refit over seconds of cold retraining."""
    ratios, longest = {}, 0.0
    for name, table in found.items():
        own, cold = (cell(table, method, FOR_ONE) for method in ("refit", "retraining"))
        if own.answered and cold.answered:
            ratios[TITLES[name]] = own.seconds / cold.seconds
            longest = max(longest, own.seconds)
    if not ratios:
        return ""
    quick = sum(ratio < 1 for ratio in ratios.values())
    most, least = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
    return paragraph(
        "**Seconds** are the processor's, of one thread. A refit for one person takes "
        f"{ratios[least]:.2g} ({least}) to {ratios[most]:.2g} ({most}) times as long as "
        f"scikit-learn's cold fit, and less on {quick} of {len(ratios)} data sets. It also proves "
        f"its distance from the minimiser. The longest takes {longest:.2g} s. "
        "[benchmarks.md](benchmarks.md) has larger tables."
    )
