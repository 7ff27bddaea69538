"""The sentences of the page."""

import math

import numpy as np

from pilu._digits import near, up
from pilu.report.contents import Contents, Costs, parse_time, rows_forgotten
from pilu.report.entries import count

__all__ = ["describe_costs", "describe_guess", "describe_promise", "format_time", "headline"]


def format_time(time: str) -> str:
    """A time to the minute."""
    return f"{parse_time(time):%Y-%m-%d %H:%M}"


def headline(contents: Contents) -> str:
    """How many people were forgotten."""
    if contents.latest is None:
        return "No deletions yet."
    people = count(contents.n_people_forgotten, "person", "people")
    were = "was" if contents.n_people_forgotten == 1 else "were"
    return f"{people} with {count(rows_forgotten(contents.certified), 'row')} {were} forgotten."


def describe_promise(contents: Contents) -> str:
    """What the present parameters promise, in one sentence."""
    latest = contents.latest
    if latest is None:
        n_rows = count(contents.model["n_rows"], "row")
        return f"The model learned from {n_rows}. Nothing was deleted, so there is no certificate."
    if latest.is_redraw:
        return (
            "The parameters were redrawn from the remaining rows: every outcome is exactly as "
            "likely as if the forgotten rows had never been there (epsilon = 0, delta = 0)."
        )
    epsilon, delta = latest.total
    since = [one for one in contents.since_redraw if not one.is_redraw]
    n_since, n_all = rows_forgotten(since), rows_forgotten(contents.certified)
    those, earlier = "the forgotten rows", ""
    if n_since < n_all:
        those = f"the {count(n_since, 'row')} forgotten since the last redraw"
        earlier = f" That redraw excluded the {count(n_all - n_since, 'row')} forgotten before it."
    if epsilon == 0:
        likely = f"as likely, give or take {up(delta)}, as"
    else:
        factor = up(math.exp(min(epsilon, 700.0)), 3)
        likely = f"at most {factor} times as likely, plus {up(delta)}, as"
    return (
        f"Any outcome is {likely} if the same learning and unlearning had run without {those} "
        f"(in total, epsilon = {up(epsilon)} and delta = {up(delta)}).{earlier}"
    )


def describe_guess(total: tuple[float, float]) -> str:
    """How often an observer can guess right, given a certificate's total.

    Let P (forgotten) and Q (never present) be equally likely, with P(S) <= e^eps Q(S) + delta. An
    observer who answers P on S is right with probability
    (1 + P(S) - Q(S)) / 2 <= 1 - (1 - delta) e^-eps / 2.
    """
    epsilon, delta = total
    right = 1.0 - (1.0 - min(delta, 1.0)) * math.exp(-epsilon) / 2.0
    if right <= 0.5:
        chance = "can do no better than toss a coin."
    else:
        chance = f"is right at most {up(100.0 * right, 3)} % of the time. A coin is right 50 %."
    return (
        "An observer who sees the parameters and must guess, at even odds, whether the rows were "
        f"forgotten or never present {chance}"
    )


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
