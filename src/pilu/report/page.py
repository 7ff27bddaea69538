"""The page: one self-contained HTML file that loads nothing and runs no scripts."""

import math
import shlex
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from pilu._digits import down, near, up
from pilu._extras import need
from pilu.certify.promises import limits_of, promises_of
from pilu.desk.costs import Costs
from pilu.report.contents import Certified, Contents, parse_time, rows_forgotten
from pilu.report.entries import count, describe_entry
from pilu.report.pictures import draw_budget, draw_costs

_HASHES = {  # fields of an entry that hold a hash, and what the page calls them
    "store": "store",
    "subject": "person",
    "parameters_sha256": "parameters",
    "sha256": "file",
    "certificate_sha256": "certificate",
}
_QUANTILES = {
    "minimum": 0.0,
    "25 % need at most": 0.25,
    "median": 0.5,
    "75 % need at most": 0.75,
    "95 % need at most": 0.95,
    "maximum": 1.0,
}


def render(contents: Contents) -> str:
    """The report as HTML; equal contents give equal text."""
    jinja2 = need("jinja2", for_="pilu report", extra="desk")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"up": up, "down": down, "near": near, "when": _format_time}
    template = environment.from_string((files("pilu.report") / "page.html").read_text("utf-8"))
    latest, costs, store = contents.latest, contents.costs, shlex.quote(contents.store)
    quoted = costs if costs is not None and len(costs.noise) else None
    text: str = template.render(
        c=contents,
        count=count,
        headline=_headline(contents),
        promise=_describe_promise(contents),
        alarms=_alarms(contents),
        warnings=_warnings(contents),
        n_rows_forgotten=rows_forgotten(contents.certified),
        guess=_describe_guess(latest.total) if latest else "",
        promises=promises_of(latest.certificate) if latest else [],
        limits=[*(limits_of(latest.certificate) if latest else []), *_limits_of_store(contents)],
        budget_pictures=draw_budget(contents),
        cost_picture=draw_costs(quoted) if quoted else None,
        cost_words=_describe_costs(costs, contents.model["learning_noise"]) if costs else [],
        cost_table=_quantiles(quoted) if quoted else [],
        log=[_entry(place, entry) for place, entry in enumerate(contents.entries)],
        commands=[f"pilu ledger {store} --since {contents.head}", f"pilu verify {store}"],
        store_id=next((e["store"] for e in contents.entries if "store" in e), None),
    )
    return text


def _format_time(time: str) -> str:
    """A time to the minute."""
    return f"{parse_time(time):%Y-%m-%d %H:%M}"


def _headline(contents: Contents) -> str:
    """How many people were forgotten."""
    if contents.latest is None:
        return "No deletions yet."
    people = count(contents.n_people_forgotten, "person", "people")
    were = "was" if contents.n_people_forgotten == 1 else "were"
    return f"{people} with {count(rows_forgotten(contents.certified), 'row')} {were} forgotten."


def _describe_promise(contents: Contents) -> str:
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


def _describe_guess(total: tuple[float, float]) -> str:
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


def _describe_costs(costs: Costs, learning_noise: float) -> list[str]:
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


def _alarms(contents: Contents) -> list[str]:
    """Problems that must be solved."""
    alarms, store = [], shlex.quote(contents.store)
    if late := contents.overdue:
        are = "request is" if len(late) == 1 else "requests are"
        first = min(due for _, due in late)
        alarms.append(
            f"{len(late):,} {are} overdue, the oldest since {first}. Run: pilu run {store}"
        )
    if not all(one.is_private for one in contents.since_redraw):
        alarms.append("NOT PRIVATE: noise was drawn from a seed. Redraw without a seed.")
    total = contents.latest.total if contents.latest else (0.0, 0.0)
    if not np.allclose(total, contents.spent, rtol=1e-9, atol=0.0):
        alarms.append(
            f"The store's state contradicts its log. Spent according to the state: epsilon = "
            f"{up(contents.spent[0])}, delta = {up(contents.spent[1])}. According to the last "
            f"certificate: {up(total[0])} and {up(total[1])}. Run: pilu verify {store}"
        )
    if contents.spent[0] > contents.budget[0] or contents.spent[1] > contents.budget[1]:
        alarms.append(f"The budget is exceeded. Run: pilu redraw {store}")
    return alarms


def _warnings(contents: Contents) -> list[str]:
    """Problems outside of the store."""
    warnings = []
    if outdated := contents.outdated_releases:
        entries = ", ".join(map(str, outdated[-5:]))
        which = "the last ones: " if len(outdated) > 5 else ""
        are = "release is" if len(outdated) == 1 else "releases are"
        warnings.append(
            f"{len(outdated):,} {are} older than the last deletion ({which}entry {entries} of the "
            "log). No certificate covers such a file: withdraw it, and release again."
        )
    if n := contents.still_in_table:
        warnings.append(
            f"The table still contains {count(n, 'row')} of forgotten people. Delete them there, "
            "too."
        )
    return warnings


def _limits_of_store(contents: Contents) -> list[str]:
    """What no certificate can cover: other files, and this page."""
    n = contents.still_in_table
    if n is None:
        table = "The table was not found when this page was made, so it was not searched."
    else:
        table = f"When this page was made, it contained {count(n, 'row')} of forgotten people."
    return [
        f"pilu does not delete anything from your table. {table}",
        "File systems, SSDs and backups may still hold data that was deleted from the store. "
        "Encrypt the disk, and let backups expire.",
        "This page is internal. It shows costs and noise levels: do not publish it.",
    ]


def _entry(place: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    hashes = [(called, entry[name]) for name, called in _HASHES.items() if entry.get(name)]
    if "certificate" in entry:
        one = Certified(place, entry["time"], (), entry["certificate"])
        hashes += [
            ("certificate", one.sha256),
            ("parameters", entry["certificate"]["parameters_sha256"]),
        ]
    return {
        "time": entry.get("time"),
        "kind": entry.get("kind", "unknown"),
        "words": describe_entry(entry),
        "hashes": hashes,
        "people": entry.get("subjects", ()),
    }


def _quantiles(costs: Costs) -> list[tuple[str, float]]:
    return [(name, float(np.quantile(costs.noise, level))) for name, level in _QUANTILES.items()]
