"""Commands that change a store: people are forgotten, rows come and go."""

import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilu.cli.answers import (
    describe_exposure,
    describe_left,
    opened,
    print_answer,
    print_warning,
)
from pilu.cli.files import ReceiptFiles
from pilu.cli.options import (
    Delta,
    Epsilon,
    Json,
    KeepEmptyClasses,
    Receipt,
    Recollect,
    RedrawIfNeeded,
    Returned,
    Sign,
    Steps,
    Store,
    Subject,
    Subjects,
    TableNow,
    WithoutForgotten,
    langevin_option,
    options_of_langevin,
    people,
)
from pilu.exceptions import DoneWithTrouble, WrongInput
from pilu.report.entries import count, describe_entry, rows_forgotten_in

if TYPE_CHECKING:
    from pilu.desk.desk import Desk
    from pilu.desk.handing_over import Outcome


def unlearn(
    store: Store,
    subject: Subject = None,
    subjects: Subjects = None,
    table: TableNow = None,
    receipt: Receipt = None,
    sign: Sign = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    n_unlearn_steps: Steps = None,
    method: Annotated[
        str | None,
        langevin_option(
            "--by", metavar="NAME", help="langevin, redraw or auto. Default: langevin."
        ),
    ] = None,
    redraw_if_needed: RedrawIfNeeded = None,
    keep_empty_classes: KeepEmptyClasses = None,
    recollect: Recollect = None,
    as_json: Json = False,
) -> None:
    """Forget all rows of people now, and write a receipt for each of them."""
    named = people(subject, subjects)
    own = {
        "epsilon": epsilon,
        "delta": delta,
        "n_unlearn_steps": n_unlearn_steps,
        "method": method,
        "redraw_if_needed": redraw_if_needed,
        "keep_empty_classes": keep_empty_classes,
        "recollect": recollect,
    }
    with opened(store) as desk:
        files = ReceiptFiles(receipt, store, n_people=len(named))
        options = {"table": table, **options_of_langevin(desk, own, unlearn)}
        _change(desk, desk.unlearn, files, sign, as_json, subjects=named, **options)


def request(
    store: Store,
    subject: Subject = None,
    subjects: Subjects = None,
    due: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            metavar="YYYY-MM-DD",
            help="The last day to forget them.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Queue people for the next `pilu run`."""
    named = people(subject, subjects)
    with opened(store) as desk:
        desk.request(named, None if due is None else due.date())
        waiting = len(desk.pending())
    print_answer(
        {"pending": waiting},
        f"Queued {count(len(named), 'person', 'people')}. Pending: {waiting:,}. "
        f"Next: pilu run {store}",
        as_json,
    )


def run(
    store: Store,
    table: TableNow = None,
    receipt: Receipt = None,
    sign: Sign = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    n_unlearn_steps: Steps = None,
    redraw_if_needed: RedrawIfNeeded = None,
    keep_empty_classes: KeepEmptyClasses = None,
    recollect: Recollect = None,
    as_json: Json = False,
) -> None:
    """Forget all queued people, as one group, and write a receipt for each of them."""
    own = {
        "epsilon": epsilon,
        "delta": delta,
        "n_unlearn_steps": n_unlearn_steps,
        "redraw_if_needed": redraw_if_needed,
        "keep_empty_classes": keep_empty_classes,
        "recollect": recollect,
    }
    with opened(store) as desk:
        waiting = len(desk.pending())
        if not waiting:
            print_answer({"pending": 0}, "No requests are pending.", as_json)
            return
        files = ReceiptFiles(receipt, store, n_people=waiting)
        options = {"table": table, **options_of_langevin(desk, own, run)}
        _change(desk, desk.run, files, sign, as_json, **options)


def redraw(
    store: Store,
    recollect: Recollect = None,
    table: TableNow = None,
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Draw new parameters from the remaining rows: epsilon = 0, and the full budget again."""
    with opened(store) as desk:
        change = _method_of(desk, "redraw", "a refit needs no redraw: it has no budget.")
        files = ReceiptFiles(receipt, store, n_people=1)
        _change(desk, change, files, sign, as_json, recollect=bool(recollect), table=table)


def add(
    store: Store,
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A table of new rows, with the same columns.")
    ],
    returned: Returned = None,
    without_forgotten: WithoutForgotten = None,
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Learn new rows. The store reads this table from now on, too."""
    with opened(store) as desk:
        change = _method_of(desk, "add", _ONLY_REFIT)
        files = ReceiptFiles(receipt, store, n_people=1)
        options: Any = {"returned": returned or (), "without_forgotten": bool(without_forgotten)}
        _change(desk, change, files, sign, as_json, table=table, **options)


def correct(
    store: Store,
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A table of corrected rows, with their ids.")
    ],
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Replace rows by corrected ones of the same ids (rectification)."""
    with opened(store) as desk:
        change = _method_of(desk, "correct", _ONLY_REFIT)
        files = ReceiptFiles(receipt, store, n_people=1)
        _change(desk, change, files, sign, as_json, table=table)


def sync(
    store: Store,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="The table that has all rows now. Default: those of the store."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", metavar="", help="Apply what is shown.")] = False,
    forget_missing: Annotated[
        bool,
        typer.Option(
            "--forget-missing",
            metavar="",
            help="Forget people who disappeared as if they had asked: with receipts, and they are "
            "refused if they turn up again.",
        ),
    ] = False,
    returned: Returned = None,
    without_forgotten: WithoutForgotten = None,
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Show what appeared, changed and disappeared in the table; with --yes, follow it."""
    with opened(store) as desk:
        change = _method_of(desk, "sync", _ONLY_REFIT)
        difference = desk.compare(table)  # type: ignore[attr-defined]
        nothing_to_do = difference.is_empty and not returned
        shown = {
            "new": difference.n_new,
            "changed": difference.n_changed,
            "missing": difference.n_missing,
            "same": difference.n_same,
            "new_people": len(difference.new_people),
            "missing_people": len(difference.missing_rows),
            "forgotten_people": list(difference.forgotten_people),
            "applied": yes and not nothing_to_do,
        }
        text = _describe_difference(difference, leave_out=bool(without_forgotten))
        if not shown["applied"]:
            text += (
                "\nThe model follows the table already."
                if nothing_to_do
                else "\nNothing was changed. Apply it with --yes."
            )
            print_answer(shown, text, as_json)
            return
        if not as_json:
            typer.echo(text)
        n_people = len(difference.missing_rows) if forget_missing else 1
        files = ReceiptFiles(receipt, store, n_people=n_people)
        _change(
            desk,
            change,
            files,
            sign,
            as_json,
            shown,
            table=table,
            forget_missing=forget_missing,
            returned=returned or (),
            without_forgotten=bool(without_forgotten),
        )


def receipts(
    store: Store, receipt: Receipt = None, sign: Sign = None, as_json: Json = False
) -> None:
    """Write receipts that an interrupted command did not deliver."""
    with opened(store, quiet=True) as desk:
        places, written = desk.undelivered(), []
        for place in places:
            n_people = desk.n_people(place)
            given = receipt
            if receipt is not None and len(places) > 1:
                given = receipt.with_name(f"{receipt.stem}-{place}{receipt.suffix}")
            files = ReceiptFiles(given, store, n_people=n_people)
            desk.deliver_again(place, files.write, sign)
            written.append(str(files.path))
    text = "\n".join(written) if written else "All receipts were delivered."
    print_answer({"receipts": written}, text, as_json)


_ONLY_REFIT = "only a store of --method refit takes rows that come and go."


def _method_of(desk: "Desk", name: str, reason: str) -> Callable[..., "Outcome"]:
    method: Callable[..., Outcome] | None = getattr(desk, name, None)
    if method is None:
        raise WrongInput(f"{desk.folder} forgets by {desk.method}: {reason}")
    return method


def _change(
    desk: "Desk",
    change: Callable[..., "Outcome | None"],
    files: ReceiptFiles,
    sign: Path | None,
    as_json: bool,
    more: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> None:
    """Change a store, write receipts, and print what was done."""
    outcome = change(deliver=files.write, sign=sign, **options)
    if outcome is None:
        print_answer({"pending": 0}, "No requests are pending.", as_json)
        return
    entry = desk.log().entries[outcome.place].record
    left = [describe_left(desk)] if desk.method == "langevin" else []
    exposures = [r.exposure for r in outcome.receipts if r.exposure is not None]
    told = [describe_exposure(exposures)] if exposures else []
    record = json.loads(outcome.certificate.without_evidence().to_json())
    for note in outcome.notes:
        print_warning(note)
    what = "Receipts" if len(outcome.receipts) > 1 else "Receipt"
    lines = [
        describe_entry(entry),
        *told,
        *left,
        f"{what}, the only copy of the evidence: {files.path}",
        f"Head of the log: {outcome.head}",
    ]
    answer = {
        **record,
        **more,
        "kind": entry["kind"],
        "n_people": len(exposures),
        "n_rows_forgotten": rows_forgotten_in(entry),
        "n_rows_left": entry["n_rows"] if desk.method == "refit" else None,
        "score": entry.get("score"),
        "notes": list(outcome.notes),
        "head": str(outcome.head),
        "receipt": str(files.path),
    }
    try:
        print_answer(answer, "\n".join(lines), as_json)
        sys.stdout.flush()
    except OSError as error:  # an error of its own: the change was made
        raise DoneWithTrouble(
            f"the change was made, but the answer could not be printed: {error.strerror}. "
            f"{what}: {files.path}"
        ) from None


def _describe_difference(difference: Any, *, leave_out: bool) -> str:
    lines = [
        f"new:         {count(difference.n_new, 'row')}; "
        f"{count(len(difference.new_people), 'new person', 'new people')}",
        f"changed:     {count(difference.n_changed, 'row')}",
        f"disappeared: {count(difference.n_missing, 'row')}; "
        f"{count(len(difference.missing_rows), 'person', 'people')} without any row left",
        f"as before:   {count(difference.n_same, 'row')}",
    ]
    if difference.forgotten_people:
        n, shown = len(difference.forgotten_people), ", ".join(difference.forgotten_people[:10])
        advice = "Leave them out by --without-forgotten, or name those who came back by --returned"
        lines.append(
            f"forgotten:   {shown}{', ...' * (n > 10)} {'is' if n == 1 else 'are'} in the table "
            f"again{', and left out' if leave_out else f'. {advice}'}."
        )
    return "\n".join(lines)
