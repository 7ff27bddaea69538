"""The page: one self-contained HTML file that loads nothing and runs no scripts."""

import shlex
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from pilu._digits import down, near, up
from pilu._extras import need
from pilu.certify.promises import limits_of, promises_of
from pilu.report import words
from pilu.report.contents import Certified, Contents, Costs, rows_forgotten
from pilu.report.entries import count, describe_entry
from pilu.report.pictures import draw_budget, draw_costs

__all__ = ["render"]

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
    environment.filters |= {"up": up, "down": down, "near": near, "when": words.format_time}
    template = environment.from_string((files("pilu.report") / "page.html").read_text("utf-8"))
    latest, costs, store = contents.latest, contents.costs, shlex.quote(contents.store)
    is_quoted = costs is not None and len(costs.noise) > 0
    text: str = template.render(
        c=contents,
        count=count,
        headline=words.headline(contents),
        promise=words.describe_promise(contents),
        alarms=_alarms(contents),
        warnings=_warnings(contents),
        n_rows_forgotten=rows_forgotten(contents.certified),
        guess=words.describe_guess(latest.total) if latest else "",
        promises=promises_of(latest.certificate) if latest else [],
        limits=[*(limits_of(latest.certificate) if latest else []), *_limits_of_store(contents)],
        budget_pictures=draw_budget(contents),
        cost_picture=draw_costs(costs) if costs and is_quoted else None,
        cost_words=words.describe_costs(costs, contents.model["learning_noise"]) if costs else [],
        cost_table=_quantiles(costs) if costs and is_quoted else [],
        log=[_entry(place, entry) for place, entry in enumerate(contents.entries)],
        commands=[f"pilu ledger {store} --since {contents.head}", f"pilu verify {store}"],
        store_id=next((e["store"] for e in contents.entries if "store" in e), None),
    )
    return text


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
