"""What to do next, each with the command that does it, the most urgent first."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pilu._digits import up
from pilu.report.data import Chain, Contents
from pilu.report.entries import count
from pilu.report.history import is_released_since


@dataclass(frozen=True)
class Action:
    """Something to do."""

    words: str
    command: str | None = None
    urgent: bool = False


def actions_of(contents: Contents) -> list[Action]:
    """What to do next; empty if there is nothing."""
    found = [*_of_requests(contents), *_of_contradictions(contents), *_of_the_store(contents)]
    return sorted(found, key=lambda one: not one.urgent)


def _of_requests(contents: Contents) -> Iterator[Action]:
    run = f"pilu run {_quoted(contents)}"
    if late := contents.overdue:
        are = "request is" if len(late) == 1 else "requests are"
        first = min(one.due or "" for one in late)
        yield Action(f"{len(late):,} {are} overdue, the oldest since {first}.", run, urgent=True)
    elif contents.pending:
        dates = [one.due for one in contents.pending if one.due]
        until = f" The first is due on {min(dates)}." if dates else ""
        wait = count(len(contents.pending), "person waits", "people wait")
        yield Action(f"{wait} to be forgotten.{until}", run)
    if places := contents.undelivered:
        entries = _listed(places)
        yield Action(
            f"Receipts were not handed over ({entries}). Until then, what they say about earlier "
            "releases is kept in the store.",
            f"pilu receipts {_quoted(contents)}",
            urgent=True,
        )


def _of_contradictions(contents: Contents) -> Iterator[Action]:
    store, chain, latest = _quoted(contents), contents.chain, contents.latest
    if not all(one.is_private for one in contents.since_redraw):
        remedy = "Redraw" if chain is not None else "Fit the store again"
        command = None if chain is None else f"pilu redraw {store}"
        yield Action(
            f"NOT PRIVATE: noise was drawn from a seed. {remedy} without a seed.", command, True
        )
    if chain is None:
        return
    total = latest.total if latest else (0.0, 0.0)
    spent = (chain.spent.epsilon, chain.spent.delta)
    if not np.allclose(total, spent, rtol=1e-9, atol=0.0):
        yield Action(
            f"The store's state contradicts its log. Spent according to the state: epsilon = "
            f"{up(spent[0])}, delta = {up(spent[1])}. According to the last certificate: "
            f"{up(total[0])} and {up(total[1])}.",
            f"pilu verify {store}",
            urgent=True,
        )
    yield from _of_the_budget(store, chain, spent)


def _of_the_budget(store: str, chain: Chain, spent: tuple[float, float]) -> Iterator[Action]:
    if spent[0] > chain.budget[0] or spent[1] > chain.budget[1]:
        yield Action("The budget is exceeded.", f"pilu redraw {store}", urgent=True)
    elif chain.more_like_the_last == 0:
        yield Action(
            "Another request like the last one may not fit into the budget.",
            f"pilu redraw {store}",
        )


def _of_the_store(contents: Contents) -> Iterator[Action]:
    store, table = _quoted(contents), contents.table
    if outdated := contents.outdated_releases:
        are = "release is" if len(outdated) == 1 else "releases are"
        again = "" if is_released_since(contents.entries) else ", and release again"
        yield Action(
            f"{len(outdated):,} {are} older than the last deletion ({_listed(outdated)}). No "
            f"certificate covers such a file: withdraw it{again}.",
            f"pilu release {store} --out FILE" if again else None,
        )
    if table is not None and table.n_forgotten:
        yield Action(
            f"The table still contains {count(table.n_forgotten, 'row')} of forgotten people. "
            "Write it without them, and delete the old one.",
            f"pilu table {store} --rewrite FILE",
        )
    if table is not None and (table.n_new or table.n_changed or table.n_missing):
        parts = [
            f"{count(n, 'row')} {what}"
            for n, what in (
                (table.n_new, "appeared"),
                (table.n_changed, "changed"),
                (table.n_missing, "disappeared"),
            )
            if n
        ]
        without = " --without-forgotten" if table.n_forgotten else ""
        yield Action(
            f"The table is not as the model knows it: {', '.join(parts)}.",
            f"pilu sync {store}{without}",
        )
    if contents.is_useful is False:
        yield Action(
            "The model is not clearly better than a constant. Look at the columns that it uses, "
            "or fit a new store with --alpha auto, another --model or more rows."
        )


def _listed(places: Sequence[int]) -> str:
    numbers = list(places)
    which = "entry" if len(numbers) == 1 else "entries"
    more = "..., " if len(numbers) > 5 else ""
    return f"{which} {more}{', '.join(map(str, numbers[-5:]))} of the log"


def _quoted(contents: Contents) -> str:
    return shlex.quote(contents.store)
