"""The sections on methods side by side, exposure and reconstruction of docs/evidence.md.

Numbers and the words of verdicts are computed from the tables.
"""

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
FOR_ONE, FOR_MANY = next(iter(SHARES)), list(SHARES)[-1]

Tables = dict[str, pd.DataFrame]


def section(store: Store) -> str:
    parts = (side_by_side(store), releases.exposure(store), releases.reconstructions(store))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def side_by_side(store: Store) -> str:
    found = tables(store)
    grids = "\n".join(losses(found, share) for share in SHARES)
    alternative = "loss, seconds and epsilon of six methods on every data set"
    return f"""## Six methods side by side

Every method learns the same objective from the same features and forgets the same people. (The
Newton step takes their rows' share of the penalty away with them, as its authors do.) Retraining is
scikit-learn's, cold, at a tolerance of 1e-8, on the rows that are left. Losses are against
retraining for the same request: positive is worse. Langevin steps and DP-GD take the best of
a grid, judged by the rows to test. This favours them, and nothing is charged for it.
{targets(store, found)}

{picture("methods_side_by_side", alternative)}
Marks are means over repeats, lines their ranges. Ticks are the losses before any request. Langevin
steps that forget go on learning, so they can be better than that. A loss beyond {LARGEST:g} is
drawn at the edge. Epsilon 0 means that the law is that of the reference.

{grids}
{reasons(found)}{verdict(found)}

What the epsilons are about differs. *Refit* compares with retraining, *Langevin* and *redraw* with
the same noisy steps without these people, the *Newton step* with a noisy minimiser without them.
{of_dp_gd(found)}
{paragraph(certified(found))}
{seconds(found)}
"""


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
    return f"{round(found.loss, 2) + 0.0:.2f}" if found.answered else "no answer"


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
    return "\n".join(["No answer:", "", *lines, "", ""]) if lines else ""


def verdict(found: Tables) -> str:
    """The largest loss of each method where it answers, and what refit and noise come to."""
    told = []
    for method in METHODS[1:]:
        worst = {share: largest_loss(found, method, share) for share in SHARES}
        each = (
            f"no answer ({share})" if loss is None else f"{loss:.2f} ({share})"
            for share, loss in worst.items()
        )
        told.append(f"{method} {', '.join(each)}")
    largest = f"**The largest loss** over all data sets, in points or per cent: {'; '.join(told)}."
    return f"{paragraph(largest)}\n{paragraph(of_refit(found) + ' ' + of_noise(found))}"


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
        return "All epsilons are certified."
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
