"""The sentences of a report."""

import math

import numpy as np

from pilu._digits import near, up
from pilu.certify.guessing import percent
from pilu.certify.promises import limits_of, promises_of
from pilu.report.data import Contents, Costs
from pilu.report.entries import count

_COMPARED = {
    "refit": "this store or from a fit that never had the forgotten people",
    "redraw": "this store or from one that never had the forgotten people",
    "langevin": "this store or from the same steps without the rows forgotten since the last "
    "redraw",
}


def headline(contents: Contents) -> str:
    """How many people were forgotten, and how many wait."""
    n, waiting = contents.n_people_forgotten, len(contents.pending)
    text = "Nobody was forgotten yet."
    if n:
        people, were = count(n, "person", "people"), "was" if n == 1 else "were"
        rows = f" with {count(contents.n_rows_forgotten, 'row')}" if contents.chain else ""
        text = f"{people}{rows} {were} forgotten."
    if waiting:
        late = len(contents.overdue)
        text += f" {count(waiting, 'person waits', 'people wait')}"
        which = "and is" if waiting == 1 else f"{late:,} of them"
        text += f", {which} overdue." if late else "."
    return text


def describe_promise(contents: Contents) -> str:
    """What the present parameters promise, in one sentence."""
    latest = contents.latest
    if latest is None:
        n_rows = count(contents.model["n_rows"], "row")
        return f"The model learned from {n_rows}. Nothing was changed, so there is no certificate."
    epsilon, delta = latest.total
    if latest.is_redraw:
        return (
            "The parameters were redrawn from the remaining rows: every outcome is exactly as "
            "likely as if the forgotten rows had never been there (epsilon = 0, delta = 0)."
        )
    if contents.chain is None:
        return (
            "The model is, up to noise, the one that a fit without the forgotten people would "
            f"give: no outcome is more than {_factor(epsilon)} times as likely, plus {up(delta)}, "
            f"in one than in the other (epsilon = {up(epsilon)}, delta = {up(delta)})."
        )
    since = [one for one in contents.since_redraw if not one.is_redraw]
    n_since, n_all = sum(one.n_rows for one in since), contents.n_rows_forgotten
    those, earlier = "the forgotten rows", ""
    if n_since < n_all:
        those = f"the {count(n_since, 'row')} forgotten since the last redraw"
        earlier = f" That redraw excluded the {count(n_all - n_since, 'row')} forgotten before it."
    likely = f"as likely, give or take {up(delta)}, as"
    if epsilon > 0:
        likely = f"at most {_factor(epsilon)} times as likely, plus {up(delta)}, as"
    return (
        f"Any outcome is {likely} if the same learning and unlearning had run without {those} "
        f"(in total, epsilon = {up(epsilon)} and delta = {up(delta)}).{earlier}"
    )


def describe_guess(contents: Contents) -> list[str]:
    """How often an observer can guess right, and what this does not cover."""
    latest, right = contents.latest, contents.guess
    if latest is None or right is None:
        return []
    chance = "can do no better than toss a coin."
    if right > 0.5:
        chance = f"is right at most {percent(right)} % of the time. A coin is right 50 %."
    method = latest.certificate["method"]
    how = {
        "refit": "It follows from the whole privacy curve of the last certificate "
        f"(mu = {up(latest.certificate['mu'] or 0.0)}).",
        "langevin": "It follows from the whole privacy curve of the requests since the last "
        "redraw, which says more than epsilon and delta.",
    }
    words = [
        "Somebody who sees only the model as it is now and must guess, at even odds, whether it "
        f"came from {_COMPARED.get(method, _COMPARED['langevin'])} {chance}",
        how.get(method, ""),
        "This does not cover models or predictions that were handed out before a deletion: who "
        "has both can compare them, and learn more.",
    ]
    return [text for text in words if text]


def promises(contents: Contents) -> list[str]:
    """The latest certificate in sentences."""
    latest = contents.latest
    if latest is None:
        return []
    learning = contents.entries[0].get("learning", []) if contents.chain else []
    return promises_of({"schedule": learning, **latest.certificate})


def limits(contents: Contents) -> list[str]:
    """What no certificate covers: by its own words, other files, and this page."""
    latest, table = contents.latest, contents.table
    if table is None:
        found = "It was not found or could not be read when this page was made."
    else:
        found = (
            f"When this page was made, it contained {count(table.n_forgotten, 'row')} of forgotten "
            "people."
        )
    return [
        *(limits_of(latest.certificate) if latest else ()),
        f"pilu does not delete anything from your table. {found}",
        "File systems, SSDs and backups may still hold data that was deleted from the store. "
        "Encrypt the disk, and let backups expire.",
        "This page is internal. It shows scores, costs and noise levels: do not publish it.",
    ]


def describe_quality(contents: Contents) -> list[str]:
    """How good the model is, against a constant, and what changes did to it; the result first."""
    scores, now = contents.scores, contents.score_now
    if scores is None:
        return ["The log of this store has no scores."]
    constant, fitted = f"a constant gets {digits(scores.constant)}", scores.fitted
    if now is not None:
        clearly = "clearly" if contents.is_useful else "not clearly"
        words = [
            f"{scores.metric} is {digits(now)} now; {constant}. The model is {clearly} better.",
            "This was measured when the page was made, on rows that the model had not seen "
            f"({contents.score.how if contents.score else ''})."
            + (f" At the fit it was {digits(fitted.value)}." if fitted else ""),
        ]
    elif fitted is not None:
        words = [
            f"{scores.metric} was {digits(fitted.value)} at the fit; {constant}.",
            "This was measured by cross-validation, on rows that the model had not seen.",
        ]
    else:
        words = [f"{scores.metric} could not be measured at the fit; {constant}."]
    if scores.changed:
        last = scores.changed[-1]
        moved = f"{'is' if last.before is None else 'stayed at'} {digits(last.value)}"
        if last.before is not None and last.before != last.value:
            moved = f"went from {digits(last.before)} to {digits(last.value)}"
        words.append(
            f"With the last change (entry {last.place}) it {moved} on rows that the model has "
            "learned from. Such scores flatter: compare them with each other, not with the others."
        )
    return words


def digits(score: float) -> str:
    """A score with two digits, as the log keeps them."""
    return f"{score:.2f}"


def describe_costs(costs: Costs, learning_noise: float) -> list[str]:
    """How to read the distribution of costs."""
    n = len(costs.noise)
    if n == 0:
        return ["The model has no rows of people who could be quoted."]
    whom = f"All {count(n, 'person', 'people')} still in the model were quoted"
    if n < costs.n_subjects:
        whom = (
            f"{n:,} of the {costs.n_subjects:,} people still in the model were quoted, drawn at "
            "random"
        )
    target = (
        f"{whom}, each as a request of its own with epsilon = {up(costs.epsilon)}, delta = "
        f"{up(costs.delta)} and {count(costs.n_unlearn_steps, 'unlearning step')}."
    )
    median, largest = float(np.median(costs.noise)), float(np.max(costs.noise))
    if largest <= 1e-6 * learning_noise:
        none = "no noise at all" if largest == 0 else f"next to no noise (at most {up(largest)})"
        return [
            target,
            f"Forgetting any of them needs {none}: the steps on the remaining rows wash out each "
            "person's influence. Every deletion is cheap.",
        ]
    reading = (
        "Each bar counts the people whose deletion needs that much noise in every unlearning step "
        f"(learning used {near(learning_noise)}). People on the far right influence the model "
        "most, and forgetting them costs the most accuracy."
    )
    ratio = f", {near(largest / median, 2)} times the median" if median > 0 else ""
    n_rows = count(int(costs.rows[np.argmax(costs.noise)]), "row")
    free = int(np.sum(costs.noise == 0))
    return [
        target,
        reading,
        f"The median is {near(median)}. The most expensive person has {n_rows} and needs "
        f"{near(largest)}{ratio}."
        + (f" {count(free, 'person needs', 'people need')} no noise at all." if free else ""),
    ]


def _factor(epsilon: float) -> str:
    return up(math.exp(min(epsilon, 700.0)), 3)
