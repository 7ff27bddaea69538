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
from pilu.cli.answers import (
    describe_exposure,
    describe_left,
    format_table,
    opened,
    print_answer,
)
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
    from pilu.desk.costs import Costs

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
    from pilu.desk.desk import Desk

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
        budget_epsilon=budget_epsilon,
        budget_delta=budget_delta,
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
    from pilu.desk.costs import quote_everyone

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
            _print_costs(quote_everyone(desk.store, table, **options), desk.left(), out, as_json)
            return
        quoted, left = desk.quote(subject or [], table, **options), desk.left()
    columns, sizes = ("subject", "rows", "noise", "epsilon"), map(len, quoted.requests)
    noises, reached = quoted.noise.tolist(), quoted.epsilon.tolist()
    lines = list(zip(subject or [], sizes, noises, reached, strict=True))
    shown = [(name, str(rows), near(noise), up(most)) for name, rows, noise, most in lines]
    print_answer(
        {
            "quotes": [dict(zip(columns, line, strict=True)) for line in lines],
            "left": {"epsilon": left[0], "delta": left[1]},
        },
        f"{format_table(columns, shown)}\n{describe_left(left)}",
        as_json,
    )


def _print_costs(
    costs: "Costs", left: tuple[float, float], out: Path | None, as_json: bool
) -> None:
    import numpy as np

    columns = ("subject", "rows", "noise")
    lines = list(zip(costs.names, costs.rows.tolist(), costs.noise.tolist(), strict=True))
    if out is not None:
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([columns, *lines])
        write_whole(out, file.getvalue())
    most_expensive = sorted(lines, key=lambda line: -line[2])[:_MOST_EXPENSIVE]
    shown = [(name, str(rows), near(noise)) for name, rows, noise in most_expensive]
    least, median, most = np.quantile(costs.noise, (0.0, 0.5, 1.0))
    written = "" if out is None else f"\nAll quotes: {out}"
    print_answer(
        {
            "epsilon": costs.epsilon,
            "delta": costs.delta,
            "n_unlearn_steps": costs.n_unlearn_steps,
            "quotes": [dict(zip(columns, line, strict=True)) for line in lines],
            "left": {"epsilon": left[0], "delta": left[1]},
        },
        f"{len(lines):,} people at epsilon {up(costs.epsilon)}, delta {up(costs.delta)}: noise "
        f"{near(least)} to {near(most)}, median {near(median)}. The most expensive:\n"
        f"{format_table(columns, shown)}\n{describe_left(left)}{written}",
        as_json,
    )


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
    _change(
        "unlearn",
        ReceiptFile(receipt, store, sign),
        as_json,
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
    _change(
        "run",
        ReceiptFile(receipt, store, sign),
        as_json,
        epsilon=epsilon,
        delta=delta,
        n_unlearn_steps=n_unlearn_steps,
        redraw_if_needed=redraw_if_needed,
        keep_empty_classes=keep_empty_classes,
        recollect=recollect,
        table=table,
    )


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
    _change("redraw", file, as_json, recollect=recollect, table=table)


def _change(name: str, file: ReceiptFile, as_json: bool, **options: Any) -> None:
    """Change a store by a method of its desk, write the receipt, and print what was done."""
    with opened(file.store) as desk:
        certificate = file.delivered_by(desk, getattr(desk, name), **options)
        head, left = str(desk.log().head), describe_left(desk.left())
    if certificate is None:
        print_answer({"pending": 0}, "No requests are pending.", as_json)
        return
    done = "Redrew the parameters: nothing is spent."
    if certificate.rows:
        done = (
            f"Forgot {len(certificate.rows)} row(s) by {certificate.method}: epsilon "
            f"{up(certificate.epsilon)} at delta {up(certificate.delta)}; with earlier requests, "
            f"{up(certificate.total_epsilon)} at {up(certificate.total_delta)}."
        )
    if file.exposure is not None:
        done = f"{done}\n{describe_exposure(file.exposure)}"
    record = json.loads(certificate.without_evidence().to_json())
    text = (
        f"{done}\n{left}\nReceipt, the only copy of the evidence: {file.path}\n"
        f"Head of the log: {head}"
    )
    try:
        print_answer({**record, "head": head, "receipt": str(file.path)}, text, as_json)
        sys.stdout.flush()
    except OSError as error:  # an error of its own: the change was made
        raise DoneWithTrouble(
            f"the change was made, but the answer could not be printed: {error.strerror}. "
            f"Receipt: {file.path}"
        ) from None
