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
from pilu.cli.answers import describe_left, format_table, print_answer
from pilu.cli.errors import opened
from pilu.cli.files import ReceiptFile, check_output, write_whole
from pilu.cli.options import (
    Delta,
    Epsilon,
    Json,
    KeepEmptyClasses,
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
    refuse_if,
)
from pilu.exceptions import DoneWithTrouble

if TYPE_CHECKING:
    from pilu.deletion.costs import Prices
    from pilu.deletion.desk import Desk

__all__ = ["fit", "quote", "redraw", "request", "run", "unlearn"]

_MOST_EXPENSIVE = 10  # people that `quote --all` prints


def fit(
    table: Annotated[
        Path,
        typer.Argument(help="A Parquet, CSV, .npy or .npz file, or several as 'data/*.parquet'."),
    ],
    target: Annotated[list[str], typer.Option(help="Target column; repeat it for several.")],
    out: Annotated[Path, typer.Option(help="The store to make: a new folder.")],
    id: Annotated[str | None, typer.Option(help="Column with a unique name for each row.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="Column that names the person a row belongs to.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; repeat it for several.")
    ] = None,
    classify: Annotated[bool, typer.Option(help="The target is a class.")] = False,
    loss: Annotated[str, typer.Option(help="squared (ridge), logistic or huber.")] = "squared",
    threshold: Annotated[
        float | None, typer.Option(help="Where the huber loss becomes linear.")
    ] = None,
    n_auxiliary_runs: Annotated[
        int | None,
        typer.Option(
            "--auxiliary-runs",
            help="Runs that bound the sensitivities of a logistic or huber loss. Default: 32.",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="Regularisation. Default: 1e-4 for the squared loss, else 1."),
    ] = None,
    n_steps: Annotated[
        int | None,
        typer.Option(
            "--learning-steps",
            help="Learning steps, T. Default: 800 for the squared loss, else 500.",
        ),
    ] = None,
    noise: Annotated[float, typer.Option(help="Noise of each learning step.")] = 0.01,
    budget_epsilon: Annotated[
        float, typer.Option(help="The most epsilon that requests may add up to.")
    ] = 10.0,
    budget_delta: Annotated[
        float | None,
        typer.Option(
            help="The most delta that requests may add up to. Default: 20 / (number of rows)."
        ),
    ] = None,
    memory: Annotated[str | None, typer.Option(help="The most memory to use, such as 2GB.")] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Learn on a dask cluster: the scheduler's address, or local."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn from a table, batch by batch, into a new store."""
    from pilu.data.table import Columns
    from pilu.deletion.budget import Budget
    from pilu.deletion.desk import Desk

    refuse_if(
        {
            "--auxiliary-runs must come with --loss logistic or huber, got --loss squared.": (
                n_auxiliary_runs is not None and loss == "squared"
            ),
            f"--threshold must come with --loss huber, got --loss {loss}.": (
                threshold is not None and loss != "huber"
            ),
        }
    )
    chosen = {
        "alpha": alpha,
        "n_steps": n_steps,
        "noise": noise,
        "threshold": threshold,
        "n_auxiliary_runs": n_auxiliary_runs,
    }
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
        print_answer(
            {**record, "folder": str(out), "head": str(log.head)},
            f"{out}: learned from {record['n_rows']:,} rows of {record['n_features']:,} features.\n"
            f"Note the head of the log: {log.head}",
            as_json,
        )


def quote(
    store: Store,
    subject: Annotated[
        list[str] | None, typer.Option(help="A person to quote; repeat it for several.")
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Quote everyone who is still in the model.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="With --all: a CSV file of all quotes.")] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    n_unlearn_steps: Steps = 80,
    table: TableNow = None,
    as_json: Json = False,
) -> None:
    """Show what forgetting people would cost, without forgetting them."""
    from pilu.deletion.costs import price_everybody

    refuse_if(
        {
            "exactly one of --subject and --all must be given.": bool(subject) == everyone,
            "--out must come with --all.": out is not None and not everyone,
        }
    )
    with opened(store) as desk:
        options: Any = {"epsilon": epsilon, "delta": delta, "n_unlearn_steps": n_unlearn_steps}
        if everyone:
            if out is not None:
                check_output("out", out, store, inputs=(desk.table(table),))
            _print_prices(price_everybody(desk.store, table, **options), desk, out, as_json)
            return
        quoted, left = desk.quote(subject or [], table, **options), desk.left()
    lines: list[dict[str, Any]] = [
        {"subject": name, "rows": len(rows), "noise": float(noise), "epsilon": float(reached)}
        for name, rows, noise, reached in zip(
            subject or [], quoted.requests, quoted.noise, quoted.epsilon, strict=True
        )
    ]
    text = format_table(
        ("subject", "rows", "noise", "epsilon"),
        [
            (line["subject"], str(line["rows"]), near(line["noise"]), up(line["epsilon"]))
            for line in lines
        ],
    )
    print_answer(
        {"quotes": lines, "left": {"epsilon": left[0], "delta": left[1]}},
        f"{text}\n{describe_left(left)}",
        as_json,
    )


def _print_prices(prices: "Prices", desk: "Desk", out: Path | None, as_json: bool) -> None:
    import numpy as np

    columns = ("subject", "rows", "noise")
    lines = list(zip(prices.names, prices.rows.tolist(), prices.noise.tolist(), strict=True))
    if out is not None:
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([columns, *lines])
        write_whole(out, file.getvalue())
    left = desk.left()
    record = {
        "epsilon": prices.epsilon,
        "delta": prices.delta,
        "n_unlearn_steps": prices.n_unlearn_steps,
        "quotes": [dict(zip(columns, line, strict=True)) for line in lines],
        "left": {"epsilon": left[0], "delta": left[1]},
    }
    most_expensive = sorted(lines, key=lambda line: -line[2])[:_MOST_EXPENSIVE]
    least, median, most = np.quantile(prices.noise, (0.0, 0.5, 1.0))
    text = (
        f"{len(lines):,} people at epsilon {up(prices.epsilon)}, delta {up(prices.delta)}: noise "
        f"{near(least)} to {near(most)}, median {near(median)}. The most expensive:\n"
        + format_table(
            columns, [(name, str(rows), near(noise)) for name, rows, noise in most_expensive]
        )
        + f"\n{describe_left(left)}"
        + (f"\nAll quotes: {out}" if out is not None else "")
    )
    print_answer(record, text, as_json)


def unlearn(
    store: Store,
    subject: Subject,
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    n_unlearn_steps: Steps = 80,
    method: Annotated[str, typer.Option(help="langevin or redraw.")] = "langevin",
    redraw_if_needed: RedrawIfNeeded = False,
    keep_empty_classes: KeepEmptyClasses = False,
    recollect: Recollect = False,
    table: TableNow = None,
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Forget all rows of a person now, and write a receipt with a certificate."""
    file = ReceiptFile(receipt, store, sign)
    with opened(store) as desk:
        certificate = file.delivered_by(
            desk,
            desk.unlearn,
            subject=only(subject),
            epsilon=epsilon,
            delta=delta,
            n_unlearn_steps=n_unlearn_steps,
            method=method,
            redraw_if_needed=redraw_if_needed,
            keep_empty_classes=keep_empty_classes,
            recollect=recollect,
            table=table,
        )
        _print_done(desk, certificate, file.path, as_json)


def request(
    store: Store,
    subject: Subject,
    due: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The last day to forget them.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Queue a person for the next `pilu run`."""
    with opened(store) as desk:
        desk.request(only(subject), None if due is None else due.date())
        waiting = len(desk.pending())
    print_answer(
        {"pending": waiting}, f"Queued. Pending: {waiting}. Next: pilu run {store}", as_json
    )


def run(
    store: Store,
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    n_unlearn_steps: Steps = 80,
    redraw_if_needed: RedrawIfNeeded = False,
    keep_empty_classes: KeepEmptyClasses = False,
    recollect: Recollect = False,
    table: TableNow = None,
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Forget all queued people, as one group."""
    file = ReceiptFile(receipt, store, sign)
    with opened(store) as desk:
        certificate = file.delivered_by(
            desk,
            desk.run,
            epsilon=epsilon,
            delta=delta,
            n_unlearn_steps=n_unlearn_steps,
            redraw_if_needed=redraw_if_needed,
            keep_empty_classes=keep_empty_classes,
            recollect=recollect,
            table=table,
        )
        if certificate is None:
            print_answer({"pending": 0}, "No requests are pending.", as_json)
            return
        _print_done(desk, certificate, file.path, as_json)


def redraw(
    store: Store,
    recollect: Recollect = False,
    table: TableNow = None,
    receipt: Receipt = None,
    sign: Sign = None,
    as_json: Json = False,
) -> None:
    """Draw new parameters from the remaining rows: epsilon = 0, and the full budget again."""
    file = ReceiptFile(receipt, store, sign)
    with opened(store) as desk:
        certificate = file.delivered_by(desk, desk.redraw, table=table, recollect=recollect)
        _print_done(desk, certificate, file.path, as_json)


def _print_done(desk: "Desk", certificate: Any, path: Path, as_json: bool) -> None:
    """Print what was done. A failure to print is an error of its own: the change was made."""
    head = str(desk.log().head)
    if certificate.rows:
        done = (
            f"Forgot {len(certificate.rows)} row(s) by {certificate.method}: epsilon "
            f"{up(certificate.epsilon)} at delta {up(certificate.delta)}; with earlier requests, "
            f"{up(certificate.total_epsilon)} at {up(certificate.total_delta)}."
        )
    else:
        done = "Redrew the parameters: nothing is spent."
    record = json.loads(certificate.without_evidence().to_json())
    text = "\n".join(
        [
            done,
            describe_left(desk.left()),
            f"Receipt, the only copy of the evidence: {path}",
            f"Head of the log: {head}",
        ]
    )
    try:
        print_answer({**record, "head": head, "receipt": str(path)}, text, as_json)
        sys.stdout.flush()
    except OSError as error:
        raise DoneWithTrouble(
            f"the change was made, but the answer could not be printed: {error.strerror}. "
            f"Receipt: {path}"
        ) from None
