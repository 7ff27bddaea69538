"""The entries of a store's log, in words.

The command line shares this module with the page, so it imports nothing heavy.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pilu._digits import near, up


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun, in the singular or the plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def people_in(entry: Mapping[str, Any]) -> int:
    """How many people an entry is about; their names are not in it."""
    size, _, root = str(entry.get("people", "")).partition(":")
    if root and size.isdigit():
        return int(size)
    return 1 if "subject" in entry else len(entry.get("subjects", ()))  # of earlier formats


def rows_forgotten_in(entry: Mapping[str, Any]) -> int:
    """How many rows of forgotten people an entry removed.

    A sync logs all rows that disappeared together, so it counts as none here.
    """
    certificate = entry.get("certificate") or {}
    if certificate.get("method") == "refit":
        return int(entry.get("n_forgotten", 0))
    return int(entry.get("n_rows", len(certificate.get("rows", ()))))


def describe_entry(entry: Mapping[str, Any]) -> str:
    """An entry of the log in words, or as JSON if its kind is unknown."""
    kind, certificate = entry.get("kind"), entry.get("certificate")
    if certificate is not None and certificate.get("method") == "refit":
        return _describe_refit(entry)
    if certificate is not None:
        return _describe_chain(entry, certificate)
    if kind == "fit":
        return _describe_fit(entry)
    n_people = people_in(entry)
    if kind == "request":
        due = f"due {entry['due']}" if entry.get("due") else "no due date"
        return f"{_capital(n_people)} asked to be forgotten ({due})."
    if kind == "return":
        return f"{_capital(n_people)} came back, and may be learned again."
    if kind == "release" and "grid" in entry:
        return f"Released coefficients on a grid of {near(entry['grid'])}."
    if kind == "release" and "format" in entry:
        return f"Released the model as {entry['format']}."
    if kind == "audit":
        return _describe_actions(entry["actions"])
    return json.dumps(dict(entry), sort_keys=True, default=str)


def describe_score(score: Mapping[str, Any] | None) -> str:
    """A score of the log in words; empty where there is none."""
    if not score or score.get("value") is None:
        return ""
    return f"{score['metric']} {near(score['value'])} ({score['how']})"


def _describe_actions(actions: Sequence[Mapping[str, Any]]) -> str:
    """What people did by the service, each named by the id of their token."""
    parts = (
        f"{one['by']} {one['action']}" + (f" ({one['n']:,} times)" if one["n"] > 1 else "")
        for one in actions
    )
    return f"Actions: {'; '.join(parts)}."


def _describe_fit(entry: Mapping[str, Any]) -> str:
    whose = f" of {count(entry['n_people'], 'person', 'people')}" if "n_people" in entry else ""
    features = count(entry["n_features"], "feature")
    text = f"Learned from {count(entry['n_rows'], 'row')}{whose} with {features}."
    if budget := entry.get("budget"):
        text += f" Budget: epsilon {near(budget[0])}, delta {near(budget[1])}."
    if scored := describe_score(entry.get("score")):
        text += f" {scored}; a constant gets {near(entry['score']['constant'])}."
    if n_gone := people_in(entry):
        text += f" {count(n_gone, 'person', 'people')} forgotten before must not be learned again."
    return text


def _describe_refit(entry: Mapping[str, Any]) -> str:
    kind, n_people = entry.get("kind"), people_in(entry)
    whom = count(n_people, "person", "people")
    parts = [
        f"{count(entry.get(name, 0), 'row')} {done}"
        for name, done in (
            ("n_added", "learned"),
            ("n_corrected", "corrected"),
            ("n_dropped", "dropped"),
        )
        if entry.get(name)
    ]
    if kind == "unlearn":
        text = f"Forgot {whom} with {count(entry.get('n_forgotten', 0), 'row')}."
    elif kind == "sync":
        text = f"Followed the table: {', '.join(parts) or 'nothing had changed'}."
        text += f" Forgot {whom}, who had disappeared." if n_people else ""
    else:
        text = f"{', '.join(parts) or 'Nothing had changed'}."
    certificate = entry["certificate"]
    return (
        f"{text} The model has {count(entry['n_rows'], 'row')} now. Certificate: epsilon "
        f"{up(certificate['epsilon'])}, delta {up(certificate['delta'])}."
    )


def _describe_chain(entry: Mapping[str, Any], certificate: Mapping[str, Any]) -> str:
    n_rows = rows_forgotten_in(entry)
    whom = f"{count(people_in(entry), 'person', 'people')} with {count(n_rows, 'row')}"
    if certificate["method"] == "redraw":
        forgot = f", and forgot {whom}" if n_rows else ""
        return f"Redrew the parameters{forgot}. The full budget is available again."
    epsilon, total_epsilon, total_delta = (
        up(certificate[name]) for name in ("epsilon", "total_epsilon", "total_delta")
    )
    return f"Forgot {whom}: epsilon {epsilon}. Total: epsilon {total_epsilon}, delta {total_delta}."


def _capital(n_people: int) -> str:
    return "A person" if n_people == 1 else f"{n_people:,} people"
