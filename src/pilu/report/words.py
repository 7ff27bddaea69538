"""Times and sentences as the page writes them."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pilu._digits import down, near, up
from pilu.certify import scope
from pilu.report.contents import Certified, Contents, Costs, moment, rows_forgotten

__all__ = [
    "about_costs",
    "best_guess",
    "count",
    "down",
    "headline",
    "near",
    "promise",
    "promises_of",
    "story",
    "up",
    "when",
]


def count(number: int, one: str, many: str | None = None) -> str:
    """A number of things."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def when(time: str) -> str:
    """A time to the minute."""
    return f"{moment(time):%Y-%m-%d %H:%M}"


def headline(contents: Contents) -> str:
    """Who was forgotten."""
    if contents.latest is None:
        return "Nobody has been forgotten yet."
    people = count(contents.n_people_forgotten, "person", "people")
    were = "was" if contents.n_people_forgotten == 1 else "were"
    rows = count(rows_forgotten(contents.certified), "row")
    return f"{people} with {rows} {were} forgotten."


def promise(contents: Contents) -> str:
    """What the present parameters promise, in one sentence."""
    latest, n_rows = contents.latest, count(contents.model["n_rows"], "row")
    if latest is None:
        return (
            f"There is no certificate, and none is needed: the model learned from {n_rows}, and "
            "nothing was to be forgotten."
        )
    if latest.is_redraw:
        return (
            "The parameters were drawn afresh from the rows that are left: every outcome is exactly"
            " as likely as if the forgotten rows had never been there (epsilon = 0, delta = 0)."
        )
    epsilon, delta = latest.total
    since = [one for one in contents.since_redraw if not one.is_redraw]
    n_since, n_all = rows_forgotten(since), rows_forgotten(contents.certified)
    those, earlier = "the forgotten rows", ""
    if n_since < n_all:
        those = f"the {count(n_since, 'row')} forgotten since the last redraw"
        earlier = f"; that redraw left out the {count(n_all - n_since, 'row')} forgotten before"
    if epsilon == 0:
        likely = f"as likely, give or take {up(delta)}, as"
    else:
        factor = up(math.exp(min(epsilon, 700.0)), 3)
        likely = f"at most {factor} times as likely, plus {up(delta)}, as"
    return (
        f"Whatever one looks for in the parameters, finding it is {likely} it would be had the same"
        f" learning and unlearning been run without {those} (epsilon = {up(epsilon)}, delta = "
        f"{up(delta)} in total){earlier}."
    )


def best_guess(certified: Certified) -> str:
    """What a certificate leaves to somebody who has to guess.

    Even chances of P (forgotten) and Q (never there), P(S) <= e^eps Q(S) + delta: who says P on S
    is right with probability (1 + P(S) - Q(S)) / 2 <= 1 - (1 - delta) e^-eps / 2.
    """
    epsilon, delta = certified.total
    right = 1.0 - (1.0 - min(delta, 1.0)) * math.exp(-epsilon) / 2.0
    if right <= 0.5:
        return (
            "Whoever is shown the parameters and has to guess whether the rows were forgotten or "
            "never there, at even odds, can do no better than toss a coin."
        )
    return (
        "Whoever is shown the parameters and has to guess whether the rows were forgotten or never "
        f"there, at even odds, is right at most {up(100.0 * right, 3)} % of the time; a coin is "
        "right 50 % of the time."
    )


def promises_of(certified: Certified) -> list[str]:
    """What a certificate promises."""
    return scope.promises_of(certified.certificate)


def about_costs(costs: Costs, learning_noise: float) -> list[str]:
    """How to read the spread of costs."""
    n = len(costs.noise)
    if n == 0:
        return ["Nobody is left to be quoted."]
    whom = (
        f"All {count(n, 'person', 'people')} still in the model were quoted"
        if n == costs.n_subjects
        else f"{n:,} of the {costs.n_subjects:,} people still in the model were quoted, drawn at "
        "random"
    )
    asked = (
        f"{whom}, each alone, at epsilon = {up(costs.epsilon)}, delta = {up(costs.delta)} and "
        f"{count(costs.n_unlearn_steps, 'step')} of unlearning."
    )
    median, dearest = float(np.median(costs.noise)), float(np.max(costs.noise))
    if dearest <= 1e-6 * learning_noise:
        none = "no noise at all" if dearest == 0 else f"next to no noise (at most {up(dearest)})"
        return [
            asked,
            f"Forgetting any of them needs {none}: the steps on the rows that are left wash out "
            "what the model owes to a person. Every deletion is cheap.",
        ]
    who = int(np.argmax(costs.noise))
    reading = (
        "A bar counts the people whose deletion needs that much noise in every step of unlearning "
        f"(learning used {near(learning_noise)}). To the left is cheap; far to the right stand "
        "people on whom the model leans, and forgetting them makes it less exact."
    )
    times = f", {near(dearest / median, 2)} times the median" if median > 0 else ""
    free = int(np.sum(costs.noise == 0))
    return [
        asked,
        reading,
        f"The median is {near(median)}, the dearest {near(dearest)}{times}, for a person with "
        f"{count(int(costs.rows[who]), 'row')}."
        + (f" {count(free, 'person needs', 'people need')} no noise at all." if free else ""),
    ]


def story(entry: Mapping[str, Any]) -> str:
    """An entry of the log in words; of an unknown kind, as it stands there."""
    kind = entry.get("kind")
    if "certificate" in entry:
        return _of_certificate(entry)
    if kind == "fit":
        told = f"Learned from {count(entry['n_rows'], 'row')} of {entry['n_features']:,} features."
        budget = entry.get("budget")
        return (
            f"{told} Budget: epsilon {near(budget[0])}, delta {near(budget[1])}."
            if budget
            else told
        )
    if kind == "request":
        due = entry.get("due")
        return "A person asked to be forgotten" + (f" by {due}." if due else ", with no due date.")
    if kind == "release":
        return f"Coefficients were released, on a grid of {near(entry['grid'])}."
    return json.dumps(dict(entry), sort_keys=True, default=str)


def _of_certificate(entry: Mapping[str, Any]) -> str:
    certificate, people = entry["certificate"], entry.get("subjects", ())
    n_rows = len(certificate["rows"])
    whom = f"{count(len(people), 'person', 'people')} with {count(n_rows, 'row')}"
    if certificate["method"] == "redraw":
        also = f"{whom} were left out. " if n_rows else ""
        return f"The parameters were drawn afresh. {also}The whole budget is there again."
    total = f"epsilon {up(certificate['total_epsilon'])}, delta {up(certificate['total_delta'])}"
    return f"Forgot {whom}. In total {total}."
