"""The log on the screen. Nothing here imports typer, which takes longer than reading a log."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pilu.cli.answers import format_table, print_answer
from pilu.cli.files import check_output, write_whole
from pilu.report.entries import count, describe_entry
from pilu.store.ledger import Ledger, check_is_store
from pilu.store.log import proof_of_growth, proof_of_place
from pilu.store.merkle import Head

_SHOWN = 50  # entries, unless asked for more


def show_log(
    store: Path,
    *,
    since: str | None = None,
    place: int | None = None,
    proof: Path | None = None,
    last: int | None = None,
    as_json: bool = False,
) -> None:
    """What `pilu ledger` does with options that go together."""
    check_is_store(store)
    if proof is not None:
        check_output("proof", proof, store)
    noted = None if since is None else Head.parse(since)
    with closing(Ledger(store / "ledger.sqlite")) as opened_ledger, opened_ledger.reading():
        log = opened_ledger.log
    if noted is not None:
        log.growth_from(noted)
    most = last or (len(log.entries) if as_json else _SHOWN)
    shown, head = log.entries[-most:], str(log.head)
    if proof is not None:
        made = proof_of_place(log, place or 0) if noted is None else proof_of_growth(log, noted)
        write_whole(proof, json.dumps(made, indent=1) + "\n")
    lines = [
        (str(e.place), e.record["time"], _hash_of(e.record)[:12], describe_entry(e.record))
        for e in shown
    ]
    more = len(log.entries) - len(shown)
    before = f"{count(more, 'earlier entry', 'earlier entries')}: --last NUMBER\n" if more else ""
    checked = "" if since is None else "\nThe log has only grown since that head."
    written = "" if proof is None else f"\nProof: {proof}"
    table = format_table(("entry", "time", "hash", "what"), lines)
    print_answer(
        {"entries": [entry.record for entry in shown], "head": head},
        f"{before}{table}\nHead: {head}{checked}{written}",
        as_json,
    )


def _hash_of(entry: Mapping[str, Any]) -> str:
    """The hash that an entry is about: of a person, of a released file or of the parameters."""
    certificate = entry.get("certificate") or entry
    names = (entry.get("subject"), entry.get("sha256"), certificate.get("parameters_sha256"))
    return next(filter(None, names), "")
