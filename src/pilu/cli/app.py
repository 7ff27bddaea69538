"""`pilu`: fit a table into a store, quote, forget, verify (needs the extra ``pilu[desk]``).

Heavy imports wait until a command needs them, so that `--help` and `ledger` answer at once.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pilu.cli.errors import in_one_line

__all__ = ["app"]

app = typer.Typer(
    name="pilu",
    help="Make a trained linear head forget a person, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

Store = Annotated[Path, typer.Argument(help="The store, a folder made by `pilu fit`.")]
Subject = Annotated[str, typer.Option(help="Whom to forget: a value of the subject column.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for machines.")]
Source = Annotated[
    Path | None, typer.Option("--table", help="Where the table is now, if it was moved.")
]
Epsilon = Annotated[float, typer.Option(help="The guarantee asked for.")]
Delta = Annotated[float | None, typer.Option(help="Default: one over the number of rows.")]
Redraw = Annotated[bool, typer.Option(help="Redraw where the budget would not do.")]
Receipt = Annotated[
    Path | None, typer.Option(help="Where to write the certificate with its evidence.")
]
Steps = Annotated[int, typer.Option("--steps", help="Noisy steps on the rows that are left, K.")]


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(help="Show the whole traceback of an error.")] = False,
) -> None:
    """Options before a command."""


@app.command(epilog="Example: `pilu fit people.parquet --target y --subject person --out store`")
@in_one_line
def fit(
    table: Annotated[Path, typer.Argument(help="Parquet, CSV, .npy or .npz.")],
    target: Annotated[list[str], typer.Option(help="Target column; repeat it for several.")],
    out: Annotated[Path, typer.Option(help="The store to make: a new folder.")],
    id: Annotated[str | None, typer.Option(help="Column with a unique name for every row.")] = None,
    subject: Annotated[str | None, typer.Option(help="Column that says whose a row is.")] = None,
    classify: Annotated[bool, typer.Option(help="The target is a class.")] = False,
    alpha: Annotated[float, typer.Option(help="Ridge penalty.")] = 1e-4,
    learning_steps: Annotated[int, typer.Option(help="Steps of learning, T.")] = 800,
    noise: Annotated[float, typer.Option(help="Noise of learning.")] = 0.01,
    budget_epsilon: Annotated[float, typer.Option(help="What requests may add up to.")] = 10.0,
    budget_delta: Annotated[float | None, typer.Option(help="Default: 20 over the rows.")] = None,
    as_json: Json = False,
) -> None:
    """Learn from a table, batch after batch, into a new store."""
    from pilu.deletion.budget import Budget
    from pilu.deletion.desk import Desk
    from pilu.deletion.tables import Columns

    with (
        Desk.create(
            out,
            table,
            Columns(tuple(target), id, subject),
            classify=classify,
            budget=Budget(budget_epsilon, budget_delta),
            alpha=alpha,
            n_steps=learning_steps,
            noise=noise,
        ) as desk,
        desk.log() as log,
    ):
        record = log.entries()[0].record
        _say(
            {"store": str(out), **record, "head": str(log.head)},
            f"{out}: learned {record['n_rows']:,} rows of {record['n_features']:,} features.\n"
            f"Note the head of the ledger: {log.head}",
            as_json,
        )


@app.command(epilog="Example: `pilu quote store --subject anna --subject ben --epsilon 1`")
@in_one_line
def quote(
    store: Store,
    subject: Annotated[list[str], typer.Option(help="Whom; repeat it for several.")],
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    steps: Steps = 80,
    table: Source = None,
    as_json: Json = False,
) -> None:
    """What forgetting people would cost, without doing it."""
    from pilu.deletion.desk import Desk

    with Desk.open(store) as desk:
        found = desk.quote(subject, table, epsilon=epsilon, delta=delta, n_unlearn_steps=steps)
        left = desk.left()
    lines = [
        {"subject": name, "rows": len(rows), "noise": float(noise), "epsilon": float(reached)}
        for name, rows, noise, reached in zip(
            subject, found.requests, found.noise, found.epsilon, strict=True
        )
    ]
    text = "\n".join(
        f"{line['subject']}: {line['rows']} row(s), noise {line['noise']:.4g}, epsilon "
        f"{line['epsilon']:.4g}"
        for line in lines
    )
    _say(
        {"quotes": lines, "left": {"epsilon": left[0], "delta": left[1]}},
        f"{text}\nLeft of the budget: epsilon {left[0]:.4g}, delta {left[1]:.3g}",
        as_json,
    )


@app.command(epilog="Example: `pilu unlearn store --subject anna --epsilon 1`")
@in_one_line
def unlearn(
    store: Store,
    subject: Subject,
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    steps: Steps = 80,
    method: Annotated[str, typer.Option(help="langevin, or redraw.")] = "langevin",
    redraw_if_needed: Redraw = False,
    table: Source = None,
    certificate: Receipt = None,
    as_json: Json = False,
) -> None:
    """Forget all rows of a person, now, and hand over a certificate."""
    from pilu.deletion.desk import Desk

    path = _certificate_path(certificate, store)
    with Desk.open(store) as desk:
        found = desk.unlearn(
            subject,
            epsilon=epsilon,
            delta=delta,
            n_unlearn_steps=steps,
            method=method,
            redraw_if_needed=redraw_if_needed,
            table=table,
            deliver=lambda issued: _write_once(path, issued.to_json()),
        )
        _tell(desk, found, path, as_json)


def _tell(desk: Any, found: Any, path: Path, as_json: bool) -> None:
    """Say what was done."""
    left = desk.left()
    with desk.log() as log:
        head = str(log.head)
    _say(
        {**json.loads(found.without_evidence().to_json()), "head": head, "certificate": str(path)},
        f"Forgot {len(found.rows)} row(s) by {found.method}: epsilon {found.epsilon:.4g} at delta "
        f"{found.delta:.3g}; together with earlier requests {found.total_epsilon:.4g} at "
        f"{found.total_delta:.3g}.\nLeft of the budget: epsilon {left[0]:.4g}, delta {left[1]:.3g}"
        f"\nCertificate with its evidence, handed out once: {path}\nHead of the ledger: {head}",
        as_json,
    )


@app.command(epilog="Example: `pilu request store --subject anna --due 2027-01-31`")
@in_one_line
def request(
    store: Store,
    subject: Subject,
    due: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="By when.")] = None,
    as_json: Json = False,
) -> None:
    """Queue a person; `pilu run` forgets everybody who waits."""
    from pilu.deletion.desk import Desk

    with Desk.open(store) as desk:
        desk.request(subject, None if due is None else due.date())
        waiting = len(desk.pending())
    _say({"pending": waiting}, f"Noted. {waiting} wait(s); `pilu run {store}` forgets.", as_json)


@app.command(epilog="Example: `pilu run store --epsilon 1`, every night")
@in_one_line
def run(
    store: Store,
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    steps: Steps = 80,
    redraw_if_needed: Redraw = False,
    table: Source = None,
    certificate: Receipt = None,
    as_json: Json = False,
) -> None:
    """Forget everybody who waits, as one group."""
    from pilu.deletion.desk import Desk

    path = _certificate_path(certificate, store)
    with Desk.open(store) as desk:
        found = desk.run(
            epsilon=epsilon,
            delta=delta,
            n_unlearn_steps=steps,
            redraw_if_needed=redraw_if_needed,
            table=table,
            deliver=lambda issued: _write_once(path, issued.to_json()),
        )
        if found is None:
            _say({"pending": 0}, "Nobody waits.", as_json)
            return
        _tell(desk, found, path, as_json)


@app.command(epilog="Example: `pilu redraw store`")
@in_one_line
def redraw(store: Store, table: Source = None, as_json: Json = False) -> None:
    """Draw the parameters afresh from the rows that are left: epsilon = 0, a full budget."""
    from pilu.deletion.desk import Desk

    with Desk.open(store) as desk:
        found, left = desk.redraw(table), desk.left()
    _say(
        json.loads(found.to_json()),
        f"Drawn afresh: nothing is spent. Left: epsilon {left[0]:.4g}, delta {left[1]:.3g}",
        as_json,
    )


@app.command(epilog="Example: `pilu release store --out model.json`")
@in_one_line
def release(
    store: Store,
    out: Annotated[Path, typer.Option(help="The file to write.")],
    as_json: Json = False,
) -> None:
    """Coefficients only, rounded to a grid well below the noise, bound to the last certificate."""
    from pilu.deletion.desk import Desk

    _check_outside("out", out, store)
    with Desk.open(store) as desk:
        record = desk.release()
    out.write_text(json.dumps(record, indent=1) + "\n")
    bound = record["certificate_sha256"] or "none: nobody was forgotten yet"
    text = f"{out}: coefficients on a grid of {record['grid']:.3g}. Certificate: {bound}"
    _say({name: record[name] for name in ("sha256", "certificate_sha256", "grid")}, text, as_json)


@app.command(epilog="Example: `pilu predict store --rows new.csv --out predicted.csv`")
@in_one_line
def predict(
    store: Store,
    rows: Annotated[Path, typer.Option(help="CSV or Parquet with the features of the fit.")],
    out: Annotated[Path, typer.Option(help="The CSV to write.")],
) -> None:
    """Predictions for new rows."""
    from pilu.deletion.desk import Desk

    _check_outside("out", out, store)
    if out.resolve() == rows.resolve():
        raise ValueError(f"out must be another file than rows, got {out} for both.")
    with Desk.open(store) as desk:
        n = desk.predict_table(rows, out)
    typer.echo(f"{out}: {n:,} predictions")


@app.command(epilog="Example: `pilu ledger store --since 3:5f1c...`")
@in_one_line
def ledger(
    store: Store,
    since: Annotated[str | None, typer.Option(help="A head noted before.")] = None,
    as_json: Json = False,
) -> None:
    """What was done, and whether the log has only grown since a noted head."""
    from pilu.deletion.ledger import Ledger
    from pilu.deletion.merkle import Head

    path = store / "ledger.sqlite"
    if not path.is_file():
        raise ValueError(f"{store} must be a store, got a folder without ledger.sqlite.")
    log = Ledger(path)
    with log.reading():
        if since is not None:
            log.check_grown_from(Head.parse(since))
        entries = [entry.record for entry in log.entries()]
        head = str(log.head)
    log.close()
    lines = [f"{k}  {entry['time']}  {_in_words(entry)}" for k, entry in enumerate(entries)]
    checked = "" if since is None else "\nThe log has only grown since the noted head."
    text = "\n".join(lines) + f"\nHead: {head}{checked}"
    _say({"entries": entries, "head": head}, text, as_json)


@app.command(epilog="Example: `pilu verify certificate.json`")
@in_one_line
def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate, with its evidence.")],
    as_json: Json = False,
) -> None:
    """Recompute a certificate's epsilon from its evidence."""
    from pilu.certify.certificate import Certificate
    from pilu.certify.verify import verify as recompute

    try:
        text = certificate.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{certificate} must be a certificate: it is no text.") from None
    checks = recompute(Certificate.from_json(text))
    if not (checks["epsilon_recomputed"] and checks["total_recomputed"]):
        raise ValueError(
            f"{certificate} must have its evidence for epsilon to be recomputed, got none."
        )
    found = "\n".join(f"{name}: {'yes' if good else 'no'}" for name, good in checks.items())
    _say(dict(checks), f"{certificate} holds.\n{found}", as_json)


def _say(record: Any, text: str, as_json: bool) -> None:
    typer.echo(json.dumps(record, indent=1) if as_json else text)


def _in_words(entry: dict[str, Any]) -> str:
    if entry["kind"] == "fit":
        return f"learned {entry['n_rows']:,} rows"
    if entry["kind"] == "request":
        return f"asked for {entry['subject'][:12]}..., due {entry['due'] or 'any time'}"
    if entry["kind"] == "release":
        return f"released {entry['sha256'][:12]}..."
    found = entry["certificate"]
    return (
        f"{entry['kind']}: {len(found['rows'])} row(s) by {found['method']}, epsilon "
        f"{found['epsilon']:.4g}, total {found['total_epsilon']:.4g} at {found['total_delta']:.3g}"
    )


def _certificate_path(given: Path | None, store: Path) -> Path:
    path = given or Path(f"certificate-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.json")
    _check_outside("certificate", path, store)
    if path.exists():
        raise ValueError(f"certificate must be a new file, got {path}, which is there already.")
    return path


def _check_outside(name: str, path: Path, store: Path) -> None:
    if store.resolve() in path.resolve().parents:
        raise ValueError(f"{name} must be outside of the store, got {path}.")


def _write_once(path: Path, text: str) -> None:
    """A new file for its owner's eyes, on the disk before anything is changed."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
