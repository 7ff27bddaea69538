"""The page: one HTML file with everything in it, and nothing that is loaded or run."""

import shlex
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from pilu._extras import need
from pilu.certify.scope import LIMITS
from pilu.report import words
from pilu.report.contents import Certified, Contents, Costs, rows_forgotten
from pilu.report.pictures import draw_budget, draw_costs

__all__ = ["render"]

_HASHES = {  # what an entry of the log is bound to, and how the page calls it
    "store": "store",
    "subject": "person",
    "parameters_sha256": "parameters",
    "sha256": "file",
    "certificate_sha256": "certificate",
}


def render(contents: Contents) -> str:
    """The report as HTML; equal contents give equal text."""
    jinja2 = need("jinja2", for_="pilu report", extra="desk")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "up": words.up,
        "down": words.down,
        "near": words.near,
        "when": words.when,
    }
    template = environment.from_string((files("pilu.report") / "page.html").read_text("utf-8"))
    costs = contents.costs if contents.costs is not None and len(contents.costs.noise) else None
    latest, store = contents.latest, shlex.quote(contents.store)
    text: str = template.render(
        c=contents,
        count=words.count,
        headline=words.headline(contents),
        promise=words.promise(contents),
        alarms=_alarms(contents),
        warnings=_warnings(contents),
        n_rows_forgotten=rows_forgotten(contents.certified),
        guess=words.best_guess(latest) if latest else "",
        promises=words.promises_of(latest) if latest else [],
        limits=[*(LIMITS if latest else []), *_limits_of_a_store(contents)],
        certificates=[_certificate(one) for one in contents.certified],
        budget_pictures=draw_budget(contents),
        cost_picture=draw_costs(costs) if costs else None,
        cost_words=(
            words.about_costs(contents.costs, contents.model["learning_noise"])
            if contents.costs is not None
            else []
        ),
        cost_table=_quantiles(costs) if costs else [],
        waiting=[
            {"who": who, "due": due, "late": (who, due) in contents.overdue}
            for who, due in contents.pending
        ],
        log=[_entry(place, entry) for place, entry in enumerate(contents.entries)],
        commands=[f"pilu ledger {store} --since {contents.head}", f"pilu verify {store}"],
        store_id=next((e["store"] for e in contents.entries if "store" in e), None),
    )
    return text


def _alarms(contents: Contents) -> list[str]:
    """What must not be overlooked."""
    found = []
    if late := contents.overdue:
        waits = "request is" if len(late) == 1 else "requests are"
        first = min(due for _, due in late)
        found.append(
            f"{len(late):,} {waits} overdue, the oldest since {first}. "
            f"Run: pilu run {shlex.quote(contents.store)}"
        )
    if not all(one.is_private for one in contents.since_redraw):
        found.append(
            "NOT PRIVATE: noise came from a seed, and whoever knows the seed can undo it. The "
            "certificates are for experiments only. Redraw without a seed."
        )
    total = contents.latest.total if contents.latest else (0.0, 0.0)
    if not np.allclose(total, contents.spent, rtol=1e-9, atol=0.0):
        found.append(
            f"The store's state does not agree with its log: spent are epsilon = "
            f"{words.up(contents.spent[0])}, delta = {words.up(contents.spent[1])}, and the last "
            f"certificate says {words.up(total[0])} and {words.up(total[1])}. Check the store."
        )
    if contents.spent[0] > contents.budget[0] or contents.spent[1] > contents.budget[1]:
        found.append("More than the budget is spent. Redraw.")
    return found


def _warnings(contents: Contents) -> list[str]:
    found = []
    if outdated := contents.outdated_releases:
        entries = ", ".join(map(str, outdated[-5:]))
        found.append(
            f"{words.count(len(outdated), 'release')} came before a later deletion (entry "
            f"{entries} of the log{', the last ones' if len(outdated) > 5 else ''}). No certificate"
            " covers such a file: withdraw it, and release again."
        )
    if n := contents.still_in_table:
        found.append(
            f"The table still has {words.count(n, 'row')} of people whom the model has forgotten. "
            "Delete them there too."
        )
    return found


def _limits_of_a_store(contents: Contents) -> list[str]:
    """What a certificate cannot know of: files, and this page itself."""
    n = contents.still_in_table
    if n is None:
        table = "it was not found when this page was made, so nobody has looked."
    elif n:
        table = f"it still has {words.count(n, 'row')} of forgotten people."
    else:
        table = "when this page was made it had no row of forgotten people."
    return [
        f"The table itself is yours, and pilu deletes nothing in it: {table}",
        "File systems, SSDs and backups may hold what was deleted from the store's files. Encrypt "
        "the disk, and let backups expire.",
        "This page is an internal document, not for publication: its costs, and the noise of each "
        "certificate, depend on the rows of people who are still in the model.",
    ]


def _certificate(one: Certified) -> dict[str, Any]:
    held = one.certificate
    return {
        "place": one.place,
        "time": one.time,
        "n_people": len(one.people),
        "n_rows": len(held["rows"]),
        "method": held["method"],
        "private": one.is_private,
        "epsilon": held["epsilon"],
        "delta": held["delta"],
        "total_epsilon": held["total_epsilon"],
        "total_delta": held["total_delta"],
        "noise": held["noise"],
        "sha256": one.sha256,
        "parameters": held["parameters_sha256"],
    }


def _entry(place: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    hashes = [(called, entry[name]) for name, called in _HASHES.items() if entry.get(name)]
    if "certificate" in entry:
        one = Certified(place, entry["time"], (), entry["certificate"])
        hashes += [
            ("certificate", one.sha256),
            ("parameters", entry["certificate"]["parameters_sha256"]),
        ]
    return {
        "place": place,
        "time": entry.get("time"),
        "kind": entry.get("kind", "unknown"),
        "words": words.story(entry),
        "hashes": hashes,
        "people": entry.get("subjects", ()),
    }


def _quantiles(costs: Costs) -> list[tuple[str, float]]:
    names = {
        "least": 0.0,
        "a quarter need at most": 0.25,
        "median": 0.5,
        "three quarters need at most": 0.75,
        "95 % need at most": 0.95,
        "dearest": 1.0,
    }
    return [(name, float(np.quantile(costs.noise, level))) for name, level in names.items()]
