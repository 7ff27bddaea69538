"""The entries of a store's log, in words.

The command line shares this module with the page, so it imports nothing heavy.
"""

import json
from collections.abc import Mapping
from typing import Any

from pilu._digits import near, up


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun, in the singular or the plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def describe_entry(entry: Mapping[str, Any]) -> str:
    """An entry of the log in words, or as JSON if its kind is unknown."""
    kind = entry.get("kind")
    if "certificate" in entry:
        return _describe_certificate(entry["certificate"], len(entry.get("subjects", ())))
    if kind == "fit":
        text = f"Learned from {count(entry['n_rows'], 'row')} of {entry['n_features']:,} features."
        if budget := entry.get("budget"):
            text += f" Budget: epsilon {near(budget[0])}, delta {near(budget[1])}."
        return text
    if kind == "request":
        due = f"due {entry['due']}" if entry.get("due") else "no due date"
        return f"A person asked to be forgotten ({due})."
    if kind == "release":
        return f"Released coefficients on a grid of {near(entry['grid'])}."
    return json.dumps(dict(entry), sort_keys=True, default=str)


def _describe_certificate(certificate: Mapping[str, Any], n_people: int) -> str:
    n_rows = len(certificate["rows"])
    whom = f"{count(n_people, 'person', 'people')} with {count(n_rows, 'row')}"
    if certificate["method"] == "redraw":
        forgot = f", and forgot {whom}" if n_rows else ""
        return f"Redrew the parameters{forgot}. The full budget is available again."
    epsilon, total_epsilon, total_delta = (
        up(certificate[name]) for name in ("epsilon", "total_epsilon", "total_delta")
    )
    return f"Forgot {whom}: epsilon {epsilon}. Total: epsilon {total_epsilon}, delta {total_delta}."
