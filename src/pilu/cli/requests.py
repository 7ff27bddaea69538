"""Commands that learn, quote and forget."""

import csv
import io
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilu._digits import near, up
from pilu.cli.answers import left_in_words, say, table_text
from pilu.cli.errors import opened
from pilu.cli.files import ReceiptFile, check_output, write_whole
from pilu.cli.options import (
    Delta,
    EmptyClasses,
    Epsilon,
    Json,
    Receipt,
    Recollect,
    RedrawIfNeeded,
    Sign,
    Steps,
    Store,
    Subject,
    TableNow,
    bytes_of,
    only,
)
from pilu.exceptions import DoneWithTrouble

if TYPE_CHECKING:
    from pilu.deletion.costs import Prices
    from pilu.deletion.desk import Desk

__all__ = ["fit", "quote", "redraw", "request", "run", "unlearn"]

_DEAREST = 10


def fit(
    table: Annotated[
        Path, typer.Argument(help="Parquet, CSV, .npy or .npz; several as 'data/*.parquet'.")
    ],
    target: Annotated[list[str], typer.Option(help="Target column; repeat it for several.")],
    out: Annotated[Path, typer.Option(help="The store to make: a new folder.")],
    id: Annotated[str | None, typer.Option(help="Column with a unique name for every row.")] = None,
    subject: Annotated[str | None, typer.Option(help="Column that says whose a row is.")] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column that is no feature; repeat it.")
    ] = None,
    classify: Annotated[bool, typer.Option(help="The target is a class.")] = False,
    loss: Annotated[str, typer.Option(help="squared (ridge), logistic or huber.")] = "squared",
    threshold: Annotated[
        float | None, typer.Option(help="Of the huber loss, where it becomes linear.")
    ] = None,
    auxiliary_runs: Annotated[
        int | None, typer.Option(help="Of other losses than squared, for bounds. Default: 32.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Penalty. Default: 1e-4 for squared, else 1.")
    ] = None,
    learning_steps: Annotated[
        int | None, typer.Option(help="Steps of learning, T. Default: 800 for squared, else 500.")
    ] = None,
    noise: Annotated[float, typer.Option(help="Noise of learning.")] = 0.01,
    budget_epsilon: Annotated[float, typer.Option(help="What requests may add up to.")] = 10.0,
    budget_delta: Annotated[float | None, typer.Option(help="Default: 20 over the rows.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Stay within so much memory, such as 2GB.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Learn by a dask cluster: its address, or local.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn from a table, batch after batch, into a new store."""
    from pilu.data.tables import Columns
    from pilu.deletion.budget import Budget
    from pilu.deletion.desk import Desk

    chosen = {
        "alpha": alpha,
        "n_steps": learning_steps,
        "noise": noise,
        "threshold": threshold,
        "n_auxiliary_runs": auxiliary_runs,
    }
    if auxiliary_runs is not None and loss == "squared":
        raise ValueError(
            "auxiliary-runs must come with --loss logistic or huber, got --loss squared."
        )
    if threshold is not None and loss != "huber":
        raise ValueError(f"threshold must come with --loss huber, got --loss {loss}.")
    classify = classify or loss == "logistic"
    with Desk.create(
        out,
        table,
        Columns(tuple(target), id, subject, classify=classify, ignored=tuple(ignore or ())),
        budget=Budget(budget_epsilon, budget_delta),
        memory=None if memory is None else bytes_of(memory),
        scheduler=scheduler,
        loss=loss,
        **{name: value for name, value in chosen.items() if value is not None},
    ) as desk:
        log = desk.log()
        record = log.entries[0].record
        say(
            {**record, "folder": str(out), "head": str(log.head)},
            f"{out}: learned {record['n_rows']:,} rows of {record['n_features']:,} features.\n"
            f"Note the head of the ledger: {log.head}",
            as_json,
        )


def quote(
    store: Store,
    subject: Annotated[list[str] | None, typer.Option(help="Whom; repeat it.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Everybody who is left.")] = False,
    out: Annotated[Path | None, typer.Option(help="With --all: all lines, as CSV.")] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    steps: Steps = 80,
    table: TableNow = None,
    as_json: Json = False,
) -> None:
    """What forgetting people would cost, without doing it."""
    from pilu.deletion.costs import price_everybody

    if bool(subject) == everybody:
        raise ValueError("either --subject or --all must be given.")
    if out is not None and not everybody:
        raise ValueError("out must come with --all, got it with --subject.")
    with opened(store) as desk:
        options: Any = {"epsilon": epsilon, "delta": delta, "n_unlearn_steps": steps}
        if everybody:
            if out is not None:
                check_output("out", out, store, inputs=(desk.table(table),))
            _say_prices(price_everybody(desk.store, table, **options), desk, out, as_json)
            return
        found, left = desk.quote(subject or [], table, **options), desk.left()
    lines: list[dict[str, Any]] = [
        {"subject": name, "rows": len(rows), "noise": float(noise), "epsilon": float(reached)}
        for name, rows, noise, reached in zip(
            subject or [], found.requests, found.noise, found.epsilon, strict=True
        )
    ]
    text = table_text(
        ("subject", "rows", "noise", "epsilon"),
        [
            (line["subject"], str(line["rows"]), near(line["noise"]), up(line["epsilon"]))
            for line in lines
        ],
    )
    say(
        {"quotes": lines, "left": {"epsilon": left[0], "delta": left[1]}},
        f"{text}\n{left_in_words(left)}",
        as_json,
    )


def _say_prices(found: "Prices", desk: "Desk", out: Path | None, as_json: bool) -> None:
    import numpy as np

    lines = list(zip(found.names, found.rows.tolist(), found.noise.tolist(), strict=True))
    if out is not None:
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([("subject", "rows", "noise"), *lines])
        write_whole(out, file.getvalue())
    left = desk.left()
    record = {
        "epsilon": found.epsilon,
        "delta": found.delta,
        "n_unlearn_steps": found.n_unlearn_steps,
        "quotes": [dict(zip(("subject", "rows", "noise"), line, strict=True)) for line in lines],
        "left": {"epsilon": left[0], "delta": left[1]},
    }
    dearest = sorted(lines, key=lambda line: -line[2])[:_DEAREST]
    least, median, most = np.quantile(found.noise, (0.0, 0.5, 1.0))
    text = (
        f"{len(lines):,} people at epsilon {up(found.epsilon)}, delta {up(found.delta)}: noise "
        f"{near(least)} to {near(most)}, median {near(median)}. The dearest:\n"
        + table_text(
            ("subject", "rows", "noise"),
            [(name, str(rows), near(noise)) for name, rows, noise in dearest],
        )
        + f"\n{left_in_words(left)}"
        + (f"\nAll of them: {out}" if out is not None else "")
    )
    say(record, text, as_json)


def unlearn(
    store: Store,
    subject: Subject,
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    steps: Steps = 80,
    method: Annotated[str, typer.Option(help="langevin, or redraw.")] = "langevin",
    redraw_if_needed: RedrawIfNeeded = False,
    keep_empty_classes: EmptyClasses = False,
    recollect: Recollect = False,
    table: TableNow = None,
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Forget all rows of a person, now, and hand over a certificate."""
    file = ReceiptFile(receipt, store, sign)
    with opened(store) as desk:
        found = file.delivered_by(
            desk,
            desk.unlearn,
            subject=only(subject),
            epsilon=epsilon,
            delta=delta,
            n_unlearn_steps=steps,
            method=method,
            redraw_if_needed=redraw_if_needed,
            keep_empty_classes=keep_empty_classes,
            recollect=recollect,
            table=table,
        )
        _tell(desk, found, file.path, as_json)


def request(
    store: Store,
    subject: Subject,
    due: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="By when.")] = None,
    as_json: Json = False,
) -> None:
    """Queue a person; `pilu run` forgets everybody who waits."""
    with opened(store) as desk:
        desk.request(only(subject), None if due is None else due.date())
        waiting = len(desk.pending())
    say({"pending": waiting}, f"Noted. {waiting} wait(s); `pilu run {store}` forgets.", as_json)


def run(
    store: Store,
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    steps: Steps = 80,
    redraw_if_needed: RedrawIfNeeded = False,
    keep_empty_classes: EmptyClasses = False,
    recollect: Recollect = False,
    table: TableNow = None,
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Forget everybody who waits, as one group."""
    file = ReceiptFile(receipt, store, sign)
    with opened(store) as desk:
        found = file.delivered_by(
            desk,
            desk.run,
            epsilon=epsilon,
            delta=delta,
            n_unlearn_steps=steps,
            redraw_if_needed=redraw_if_needed,
            keep_empty_classes=keep_empty_classes,
            recollect=recollect,
            table=table,
        )
        if found is None:
            say({"pending": 0}, "Nobody waits.", as_json)
            return
        _tell(desk, found, file.path, as_json)


def redraw(
    store: Store,
    recollect: Recollect = False,
    table: TableNow = None,
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Draw the parameters afresh from the rows that are left: epsilon = 0, a full budget."""
    file = ReceiptFile(receipt, store, sign)
    with opened(store) as desk:
        found = file.delivered_by(desk, desk.redraw, table=table, recollect=recollect)
        _tell(desk, found, file.path, as_json)


def _tell(desk: "Desk", found: Any, path: Path, as_json: bool) -> None:
    """Say what was done; if nobody can hear it, it is done all the same."""
    head = str(desk.log().head)
    done = (
        f"Forgot {len(found.rows)} row(s) by {found.method}: epsilon {up(found.epsilon)} at delta "
        f"{up(found.delta)}; together with earlier requests {up(found.total_epsilon)} at "
        f"{up(found.total_delta)}."
    )
    if not found.rows:
        done = "Drawn afresh: nothing is spent."
    try:
        say(
            {**json.loads(found.without_evidence().to_json()), "head": head, "receipt": str(path)},
            f"{done}\n{left_in_words(desk.left())}\nReceipt with the evidence, handed out once: "
            f"{path}\nHead of the ledger: {head}",
            as_json,
        )
        sys.stdout.flush()
    except OSError as error:
        raise DoneWithTrouble(
            f"it is done, but the answer could not be written: {error.strerror}. Receipt: {path}"
        ) from None
