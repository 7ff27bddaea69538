"""Commands that check records and write files for others."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pilu.cli.answers import opened, print_answer, print_checks
from pilu.cli.files import check_output, read_text, write_whole
from pilu.cli.options import (
    Json,
    Out,
    Since,
    Store,
    TableNow,
    langevin_option,
    options_of_langevin,
    refuse_if,
)
from pilu.cli.showing import show_log
from pilu.exceptions import CertificateMismatch, LedgerMismatch, WrongArgument, WrongInput
from pilu.report.entries import count
from pilu.store.log import check_proof
from pilu.store.merkle import Head

_FILES = "a receipt, a release, a certificate or a proof"


def ledger(
    store: Store,
    since: Since = None,
    place: Annotated[
        int | None,
        typer.Option("--entry", metavar="NUMBER", help="The number of an entry, for --proof."),
    ] = None,
    proof: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file for a proof of --since or --entry; `pilu verify` checks it.",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Show so many entries. Default: 50, with --json all."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the log, and check that it has only grown since an earlier head."""
    refuse_if(
        {
            f"--last must be an integer >= 1, got {last}.": last is not None and last < 1,
            "--entry must come with --proof FILE.": place is not None and proof is None,
            "--proof must come with either --since or --entry.": (
                proof is not None and (since is None) == (place is None)
            ),
        }
    )
    show_log(store, since=since, place=place, proof=proof, last=last, as_json=as_json)


def verify(
    what: Annotated[Path, typer.Argument(metavar="WHAT", help=f"A store, {_FILES}.")],
    store: Annotated[
        Path | None, typer.Option(metavar="STORE", help="The store of the receipt or the release.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="TABLE", help="A table with the rows, to check them, too.")
    ] = None,
    since: Since = None,
    public_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The public key (PEM) that must have signed the receipt."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a store, or a file that was written for others; with the table, also the data."""
    if what.is_dir():
        from pilu.desk.checking import check_store

        refuse_if(
            {
                "--store must be left out when a store is verified.": store is not None,
                "--public-key must be left out when a store is verified.": public_key is not None,
            }
        )
        with opened(what) as desk:
            noted = None if since is None else Head.parse(since)
            print_checks(what, check_store(desk, since=noted, table=table), as_json)
        return
    if what.suffix.lower() == ".skops":
        refuse_if(
            {
                "--store must be given with a .skops file: its log has the hash.": store is None,
                "--table must be left out with a .skops file.": table is not None,
                "--public-key must be left out with a .skops file.": public_key is not None,
            }
        )
        print_checks(what, _verified_skops(what, store), as_json)
        return
    text = read_text(what, _FILES)
    record = _record_of(what, text)
    kind = str(record["schema"]).partition("/")[0]
    is_receipt = kind == "pilu.receipt"
    refuse_if(
        {
            "--since must come with a store.": since is not None,
            "--table must come with a receipt and its --store.": (
                table is not None and not (is_receipt and store)
            ),
            "--public-key must come with a receipt.": public_key is not None and not is_receipt,
            "--store must come with a receipt or a release.": (
                store is not None and not (is_receipt or kind == "pilu.release")
            ),
        }
    )
    try:
        if is_receipt:
            print_checks(what, _verified_receipt(text, store, table, public_key), as_json)
        elif kind == "pilu.release":
            print_checks(what, _verified_release(record, store), as_json)
        elif kind.startswith("pilu.proof"):
            checked = check_proof(record)
            print_answer(checked, f"{what} holds.\n{checked['says']}", as_json)
        else:
            print_checks(what, _verified_certificate(what, text), as_json)
    except (CertificateMismatch, LedgerMismatch) as error:
        raise type(error)(f"{what}: {error}") from None


def _record_of(path: Path, text: str) -> dict[str, Any]:
    from pilu.certify.certificate import strict_json

    try:
        record: dict[str, Any] = strict_json(text)
        record["schema"]
    except (ValueError, TypeError, KeyError) as error:
        reason = str(error) if isinstance(error, ValueError) else "other text"
        raise WrongInput(f"{path} must be {_FILES}, got {reason}.") from None
    return record


def _verified_release(record: dict[str, Any], folder: Path | None) -> dict[str, bool]:
    from pilu.desk.release import check_release

    with nullcontext() if folder is None else opened(folder) as desk:
        return check_release(record, None if desk is None else desk.log())


def _verified_skops(path: Path, folder: Path | None) -> dict[str, bool]:
    from pilu.desk.release import check_released_file

    with opened(folder or path) as desk:
        return check_released_file(path.read_bytes(), desk.log())


def _verified_receipt(
    text: str, folder: Path | None, table: str | None, public_key: Path | None
) -> dict[str, bool]:
    from pilu.desk.checking import check_receipt
    from pilu.desk.receipt import Receipt
    from pilu.desk.signing import check_signature

    receipt = Receipt.from_json(text)
    if public_key is not None:
        check_signature(receipt, public_key)
    with nullcontext() if folder is None else opened(folder) as desk:
        checks = check_receipt(receipt, desk, table)
    signed = public_key is not None
    issuer = checks["issuer_checked"] or signed
    return {**checks, "issuer_checked": issuer, "signed_by_the_key": signed}


def _verified_certificate(path: Path, text: str) -> dict[str, bool]:
    from pilu.certify.certificate import Certificate
    from pilu.certify.verify import verify as recompute

    checks = recompute(Certificate.from_json(text))
    if not (checks["epsilon_recomputed"] and checks["total_recomputed"]):
        raise WrongInput(f"{path} must have its evidence, so that epsilon can be recomputed.")
    return checks


def keygen(
    private: Annotated[
        Path, typer.Option(metavar="FILE", help="The private key to write; keep it secret.")
    ],
    public: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The public key to write; give it to everyone who checks receipts."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Make a pair of Ed25519 keys, to sign receipts and to check signatures."""
    from pilu.desk.signing import make_keys

    make_keys(private, public)
    text = f"{private}: keep it secret, and sign with --sign {private}\n{public}: publish it"
    print_answer({"private": str(private), "public": str(public)}, text, as_json)


def release(store: Store, out: Out, as_json: Json = False) -> None:
    """Write the model for others: as JSON, or as a scikit-learn pipeline (.skops)."""
    format = out.suffix.lower().removeprefix(".") or "json"
    with opened(store) as desk:
        check_output("out", out, store, inputs=desk.tables())
        if format not in desk.formats:
            raise WrongArgument(
                "out", f"a file that ends in .{' or .'.join(desk.formats)}", str(out)
            )
        record = desk.release(out, format)
    bound = record["certificate_sha256"] or "none, since nothing was changed since the fit"
    shown = {
        name: record[name] for name in ("sha256", "certificate_sha256", "grid") if name in record
    }
    grid = f", coefficients on a grid of {record['grid']:.3g}" if "grid" in record else ""
    print_answer(shown, f"{out}: the model{grid}. Certificate: {bound}", as_json)


def predict(
    store: Store,
    rows: Annotated[
        str, typer.Option(metavar="TABLE", help="A table with the same features as the fitted one.")
    ],
    out: Out,
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", metavar="", help="Add the probability of each class."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write predictions for the rows of a table to a CSV file, each with its id."""
    with opened(store) as desk:
        check_output("out", out, store, inputs=[rows, *desk.tables()])
        n = desk.predict_table(rows, out, probabilities=probabilities)
    print_answer({"out": str(out), "n_rows": n}, f"{out}: {n:,} predictions", as_json)


def table(
    store: Store,
    table: TableNow = None,
    rewrite: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a table without those rows; it may replace the old one."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find rows of forgotten people that are still in your tables, and remove them."""
    from pilu.data.tables import is_pattern
    from pilu.desk.rewriting import rewrite_without

    with opened(store) as desk:
        forgotten, paths = desk.forgotten(), [table] if table else desk.tables()
    refuse_if(
        {
            f"--rewrite must come with --table: the store has {len(paths)} tables.": (
                rewrite is not None and len(paths) > 1
            )
        }
    )
    found = {path: forgotten.still_in(path).tolist() for path in paths}
    lines = [_describe_still_in(path, rows) for path, rows in found.items()]
    if rewrite is not None:
        path = Path(paths[0])
        check_output("rewrite", rewrite, store, is_folder=is_pattern(path))
        n_left = rewrite_without(forgotten, path, rewrite)
        lines.append(f"{rewrite}: {count(n_left, 'row')} without them")
    print_answer(
        {
            "tables": [{"table": path, "rows": rows} for path, rows in found.items()],
            "rewritten": None if rewrite is None else str(rewrite),
        },
        "\n".join(lines),
        as_json,
    )


def _describe_still_in(path: str, rows: Sequence[int]) -> str:
    text = f"{path}: {count(len(rows), 'row')} of forgotten people"
    if not rows:
        return text
    shown = ", ".join(str(row + 1) for row in rows[:12]) + ", ..." * (len(rows) > 12)
    return f"{text} (counted from 1, without the header): {shown}"


def report(
    store: Store,
    out: Out,
    table: TableNow = None,
    people: Annotated[
        int | None,
        langevin_option(metavar="NUMBER", help="The most people to quote. Default: 500."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write an HTML page: what is certified, how good the model is, who waits, what to do."""
    with opened(store) as desk:
        check_output("out", out, store, inputs=[table] if table else desk.tables())
        options = options_of_langevin(desk, {"people": people}, report)
        if people is not None and people < 1:
            raise WrongArgument("people", "an integer >= 1", people)
        desk.report(out, table, **options)
    print_answer({"out": str(out)}, f"Open {out} in a browser.", as_json)


def letter(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="The receipt of one person.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The letter to write: .html or .txt.")],
    template: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own Jinja2 template (docs/letters.md)."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The person's name, to be printed.")
    ] = None,
    company: Annotated[
        str | None, typer.Option(metavar="NAME", help="Your name, to be printed.")
    ] = None,
    contact: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Whom to ask, to be printed.")
    ] = None,
    key_at: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Where your public key is published.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a letter in plain words about a receipt."""
    from pilu.desk.letters import letter_of
    from pilu.desk.receipt import Receipt

    kinds: dict[str, Literal["html", "txt"]] = {".html": "html", ".txt": "txt"}
    format = kinds.get(out.suffix.lower())
    if format is None:
        raise WrongArgument("out", "a file that ends in .html or .txt", str(out))
    found = Receipt.from_json(read_text(receipt, "a receipt"))
    details = {"name": name, "company": company, "contact": contact, "key_at": key_at}
    given: dict[str, Any] = {key: text for key, text in details.items() if text is not None}
    write_whole(out, letter_of(found, format=format, template=template, **given))
    print_answer({"out": str(out)}, f"{out}: the letter", as_json)
