"""Commands that read, check and hand out."""

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from pilu.cli.answers import entry_in_words, say, say_checks, table_text
from pilu.cli.errors import opened
from pilu.cli.files import check_output, read_text, write_whole
from pilu.cli.options import Json, Out, Store, TableNow
from pilu.exceptions import CertificateMismatch, LedgerMismatch

_FILES = "a receipt, a release, a certificate or a proof"

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
    from pilu.deletion.ledger import Ledger, check_is_store
    from pilu.deletion.merkle import Head
    from pilu.deletion.proofs import proof_of_growth, proof_of_place

    check_is_store(store)
    if entry is not None and proof is None:
        raise ValueError("entry must come with --proof FILE.")
    if proof is not None:
        check_output("proof", proof, store)
        if (since is None) == (entry is None):
            raise ValueError("proof must be of one thing: give --since or --entry.")
    noted = None if since is None else Head.parse(since)
    with closing(Ledger(store / "ledger.sqlite")) as opened_ledger, opened_ledger.reading():
        log = opened_ledger.log
    if noted is not None:
        log.growth_from(noted)
    entries, head = [found.record for found in log.entries], str(log.head)
    if proof is not None:
        made = proof_of_place(log, entry or 0) if noted is None else proof_of_growth(log, noted)
        write_whole(proof, json.dumps(made, indent=1) + "\n")
    lines = [(str(k), found["time"], entry_in_words(found)) for k, found in enumerate(entries)]
    checked = "" if since is None else "\nThe log has only grown since the noted head."
    written = "" if proof is None else f"\nProof: {proof}"
    text = table_text(("place", "time", "what"), lines) + f"\nHead: {head}{checked}{written}"
    say({"entries": entries, "head": head}, text, as_json)


def verify(
    what: Annotated[Path, typer.Argument(help=f"A store, {_FILES}.")],
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
    text = read_text(what, _FILES)
    record = _record_of(what, text)
    schema = str(record["schema"])
    try:
        if schema.startswith("pilu.receipt"):
            say_checks(what, _verified_receipt(text, store, table, public_key), as_json)
        elif table is not None or public_key is not None:
            raise ValueError(f"{what} must be a receipt to be checked against table or key.")
        elif schema.startswith("pilu.release"):
            say_checks(what, _verified_release(record, store), as_json)
        elif store is not None:
            raise ValueError(f"{what} must be a receipt or a release to be looked for in a store.")
        elif schema.startswith("pilu.proof"):
            from pilu.deletion.proofs import check_proof

            found = check_proof(record)
            say(found, f"{what} holds.\n{found['says']}", as_json)
        else:
            say_checks(what, _verified_certificate(what, text), as_json)
    except (CertificateMismatch, LedgerMismatch) as error:
        raise type(error)(f"{what}: {error}") from None


def _record_of(path: Path, text: str) -> dict[str, Any]:
    from pilu.certify.certificate import strict_json

    try:
        record: dict[str, Any] = strict_json(text)
        record["schema"]
    except (ValueError, TypeError, KeyError) as error:
        reason = str(error) if isinstance(error, ValueError) else "other text"
        raise ValueError(f"{path} must be {_FILES}, got {reason}.") from None
    return record


def _verified_release(record: dict[str, Any], folder: Path | None) -> dict[str, bool]:
    from pilu.deletion.release import check_release

    if folder is None:
        return check_release(record, None)
    with opened(folder) as desk:
        return check_release(record, desk.log())


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
    as_json: Json = False,
) -> None:
    """A pair of Ed25519 keys, to sign receipts and to check them."""
    from pilu.deletion.signing import make_keys

    make_keys(private, public)
    text = f"{private}: sign with it, --sign {private}\n{public}: give it to everybody"
    say({"private": str(private), "public": str(public)}, text, as_json)


def release(store: Store, out: Out, as_json: Json = False) -> None:
    """Coefficients only, rounded to a grid well below the noise, bound to the last certificate."""

    def deliver(record: dict[str, Any]) -> None:
        write_whole(out, json.dumps(record, indent=1) + "\n")

    with opened(store) as desk:
        check_output("out", out, store, inputs=(desk.table(),))
        record = desk.release(deliver)
    bound = record["certificate_sha256"] or "none: nobody was forgotten yet"
    units = record["grid_rounding_units"]
    size = "" if units is None else f", {units:.2g} of their rounding units"
    text = f"{out}: coefficients on a grid of {record['grid']:.3g}{size}. Certificate: {bound}"
    say({name: record[name] for name in ("sha256", "certificate_sha256", "grid")}, text, as_json)


def predict(
    store: Store,
    rows: Annotated[Path, typer.Option(help="A table with the features of the fit.")],
    out: Out,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="And how likely each class is (logistic).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Predictions for new rows, as CSV."""
    from pilu.deletion.predicting import predict_table

    with opened(store) as desk:
        check_output("out", out, store, inputs=(rows, desk.table()))
        n = predict_table(desk.store.read(), rows, out, probabilities=probabilities)
    say({"out": str(out), "n_rows": n}, f"{out}: {n:,} predictions", as_json)


def table(
    store: Store,
    table: TableNow = None,
    rewrite: Annotated[
        Path | None,
        typer.Option(help="Write a table without them; it may be the same file or folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Which rows of forgotten people are still in your table; a table without them."""
    from pilu.data.file_sets import is_pattern
    from pilu.deletion.rewriting import rewrite_without_forgotten, still_in_table

    with opened(store) as desk:
        moment, key, path = desk.store.read(), desk.store.key, desk.table(table)
    found = still_in_table(moment, key, path)
    shown = ", ".join(map(str, found[:12].tolist())) + (", ..." if len(found) > 12 else "")
    text = f"{path}: {len(found):,} row(s) of forgotten people are still in it"
    text += f": {shown}" if len(found) else "."
    if rewrite is not None:
        check_output("rewrite", rewrite, store, is_folder=is_pattern(path))
        n_left = rewrite_without_forgotten(moment, key, path, rewrite)
        text += f"\n{rewrite}: {n_left:,} rows without them"
    rewritten = None if rewrite is None else str(rewrite)
    say({"table": str(path), "rows": found.tolist(), "rewritten": rewritten}, text, as_json)


def report(
    store: Store,
    out: Out,
    table: TableNow = None,
    people: Annotated[int, typer.Option(help="Quote at most so many, drawn at random.")] = 500,
    as_json: Json = False,
) -> None:
    """One page for people: what is certified, what it costs, what is left, all certificates."""
    from pilu.cli.reporting import contents_of
    from pilu.report.page import render

    with opened(store) as desk:
        check_output("out", out, store, inputs=(desk.table(table),))
        page = render(contents_of(desk, table, people))
    write_whole(out, page)
    say({"out": str(out)}, f"{out}: open it in a browser", as_json)
