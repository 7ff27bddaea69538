"""Commands that read, check and hand out."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pilu.cli.answers import entry_in_words, say, say_checks, table_text
from pilu.cli.errors import opened
from pilu.cli.files import check_outside, read_text
from pilu.cli.options import Json, Out, Store, TableNow

__all__ = ["keygen", "ledger", "predict", "release", "report", "table", "verify"]


def ledger(
    store: Store,
    since: Annotated[str | None, typer.Option(help="A head noted before.")] = None,
    entry: Annotated[int | None, typer.Option(help="A place in the log, for --proof.")] = None,
    proof: Annotated[
        Path | None,
        typer.Option(help="Write the proof for --since or --entry: `pilu verify` reads it."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What was done, and whether the log has only grown since a noted head."""
    from pilu.deletion.ledger import Ledger
    from pilu.deletion.merkle import Head
    from pilu.deletion.proofs import proof_of_growth, proof_of_place

    path = store / "ledger.sqlite"
    if not path.is_file():
        raise ValueError(f"{store} must be a store, got a folder without ledger.sqlite.")
    if proof is not None:
        check_outside("proof", proof, store)
        if (since is None) == (entry is None):
            raise ValueError("proof must be of one thing: give --since or --entry.")
    log = Ledger(path)
    try:
        with log.reading():
            noted = None if since is None else Head.parse(since)
            if noted is not None:
                log.growth_from(noted)
            entries, head = [found.record for found in log.entries()], str(log.head)
            if proof is not None:
                made = (
                    proof_of_place(log, entry or 0)
                    if noted is None
                    else proof_of_growth(log, noted)
                )
                proof.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    finally:
        log.close()
    lines = [(str(k), found["time"], entry_in_words(found)) for k, found in enumerate(entries)]
    checked = "" if since is None else "\nThe log has only grown since the noted head."
    written = "" if proof is None else f"\nProof: {proof}"
    text = table_text(("place", "time", "what"), lines) + f"\nHead: {head}{checked}{written}"
    say({"entries": entries, "head": head}, text, as_json)


def verify(
    what: Annotated[Path, typer.Argument(help="A store, a receipt, a certificate or a proof.")],
    store: Annotated[Path | None, typer.Option(help="The store that a receipt is from.")] = None,
    table: TableNow = None,
    since: Annotated[str | None, typer.Option(help="A head noted before.")] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="Who must have signed the receipt, as PEM.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a store or a receipt: arithmetic, log, signature; with the table also the data."""
    if what.is_dir():
        from pilu.deletion.checking import check_store
        from pilu.deletion.merkle import Head

        if store is not None or public_key is not None:
            raise ValueError("store and public-key must be left out where a store is verified.")
        with opened(what) as desk:
            noted = None if since is None else Head.parse(since)
            say_checks(what, check_store(desk.store, since=noted, table=table), as_json)
        return
    if since is not None:
        raise ValueError("since must be given with a store, got it with a file.")
    text = read_text(what, "a receipt, a certificate or a proof")
    schema = _schema_of(what, text)
    if schema.startswith("pilu.proof"):
        from pilu.deletion.proofs import check_proof

        found = check_proof(json.loads(text))
        say(found, f"{what} holds.\n{found['says']}", as_json)
    elif schema.startswith("pilu.receipt"):
        say_checks(what, _verified_receipt(text, store, table, public_key), as_json)
    else:
        if store is not None or table is not None or public_key is not None:
            raise ValueError(f"{what} must be a receipt to be checked against anything else.")
        say_checks(what, _verified_certificate(what, text), as_json)


def _schema_of(path: Path, text: str) -> str:
    try:
        return str(json.loads(text)["schema"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(
            f"{path} must be a receipt, a certificate or a proof, got other text."
        ) from None


def _verified_receipt(
    text: str, folder: Path | None, table: Path | None, public_key: Path | None
) -> dict[str, bool]:
    from pilu.deletion.checking import check_receipt
    from pilu.deletion.receipt import Receipt
    from pilu.deletion.signing import check_signature

    if table is not None and folder is None:
        raise ValueError("table must come with --store: how it was learned from is in the store.")
    receipt = Receipt.from_json(text)
    signed = False
    if public_key is not None:
        check_signature(receipt, public_key)
        signed = True
    if folder is None:
        checks = check_receipt(receipt)
    else:
        with opened(folder) as desk:
            checks = check_receipt(receipt, desk.store, table)
    return {**checks, "signed_by_the_key": signed}


def _verified_certificate(path: Path, text: str) -> dict[str, bool]:
    from pilu.certify.certificate import Certificate
    from pilu.certify.verify import verify as recompute

    checks = recompute(Certificate.from_json(text))
    if not (checks["epsilon_recomputed"] and checks["total_recomputed"]):
        raise ValueError(f"{path} must have its evidence for epsilon to be recomputed, got none.")
    return checks


def keygen(
    private: Annotated[Path, typer.Option(help="The private key to write; keep it secret.")],
    public: Annotated[Path, typer.Option(help="The public key to write, for everybody.")],
) -> None:
    """A pair of Ed25519 keys, to sign receipts and to check them."""
    from pilu.deletion.signing import make_keys

    make_keys(private, public)
    typer.echo(f"{private}: sign with it, --sign {private}\n{public}: give it to everybody")


def release(store: Store, out: Out, as_json: Json = False) -> None:
    """Coefficients only, rounded to a grid well below the noise, bound to the last certificate."""
    check_outside("out", out, store)

    def deliver(record: dict[str, Any]) -> None:
        out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    with opened(store) as desk:
        record = desk.release(deliver)
    bound = record["certificate_sha256"] or "none: nobody was forgotten yet"
    text = (
        f"{out}: coefficients on a grid of {record['grid']:.3g}, "
        f"{record['grid_rounding_units']:.2g} rounding units. Certificate: {bound}"
    )
    say({name: record[name] for name in ("sha256", "certificate_sha256", "grid")}, text, as_json)


def predict(
    store: Store,
    rows: Annotated[Path, typer.Option(help="A table with the features of the fit.")],
    out: Out,
    as_json: Json = False,
) -> None:
    """Predictions for new rows, as CSV."""
    from pilu.deletion.predicting import predict_table

    check_outside("out", out, store)
    if out.resolve() == rows.resolve():
        raise ValueError(f"out must be another file than rows, got {out} for both.")
    with opened(store) as desk:
        n = predict_table(desk.store.read(), rows, out)
    say({"out": str(out), "n_rows": n}, f"{out}: {n:,} predictions", as_json)


def table(
    store: Store,
    table: TableNow = None,
    rewrite: Annotated[
        Path | None, typer.Option(help="Write a table without them; it may be the same file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Which rows of forgotten people are still in your table; a table without them."""
    from pilu.deletion.rewriting import rewrite_without, still_in_table

    with opened(store) as desk:
        moment = desk.store.read()
        found = still_in_table(moment, desk.store.key, table)
    path = Path(table or moment.state["table"])
    shown = ", ".join(map(str, found[:12].tolist())) + (", ..." if len(found) > 12 else "")
    text = f"{path}: {len(found):,} row(s) of forgotten people are still in it"
    text += f": {shown}" if len(found) else "."
    if rewrite is not None:
        check_outside("rewrite", rewrite, store)
        text += f"\n{rewrite}: {rewrite_without(path, found, rewrite):,} rows without them"
    say({"table": str(path), "rows": found.tolist(), "rewritten": str(rewrite)}, text, as_json)


def report(
    store: Store,
    out: Out,
    table: TableNow = None,
    people: Annotated[int, typer.Option(help="Quote at most so many, drawn at random.")] = 500,
) -> None:
    """One page for people: what is certified, what it costs, what is left, all certificates."""
    from pilu.cli.reporting import contents_of
    from pilu.report.page import render

    check_outside("out", out, store)
    with opened(store) as desk:
        page = render(contents_of(desk, table, people))
    out.write_text(page, encoding="utf-8")
    typer.echo(f"{out}: open it in a browser")
