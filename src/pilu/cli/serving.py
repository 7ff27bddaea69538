"""Commands of the service: serve, work, token."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilu.cli.answers import format_table, in_one_line, print_answer
from pilu.cli.options import Json, Sign
from pilu.exceptions import WrongArgument, WrongInput
from pilu.report.entries import count

if TYPE_CHECKING:
    from pilu.service.database import Database

StoresFolder = Annotated[
    Path | None,
    typer.Option("--stores", metavar="DIR", help="The folder whose folders are stores."),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="PILU_DATABASE",
        show_envvar=False,
        help="postgresql://... for requests, tokens and callbacks; also read from PILU_DATABASE. "
        "Default: a file in DIR/.service.",
    ),
]
Nightly = Annotated[
    str, typer.Option(metavar="HH:MM", help="When requests are carried out, in local time.")
]
CallbackHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--callback-host", metavar="HOST", help="A host that may get callbacks; repeat it."
    ),
]
AnswersEvery = Annotated[
    int,
    typer.Option(
        metavar="SECONDS",
        help="Requesters learn of an end at a multiple of this, at least one interval after the "
        "request was due, so that the time tells nothing. 0: at once.",
    ),
]
KeepReceipts = Annotated[
    int, typer.Option(metavar="DAYS", help="When receipts are deleted from the database.")
]
Address = Annotated[
    str | None,
    typer.Option(metavar="URL", help="How others reach the service, for OpenDSR and for links."),
]
Certificate = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The X.509 certificate (PEM) of OpenDSR's signatures."),
]
CertificateKey = Annotated[Path | None, typer.Option(metavar="FILE", help="Its RSA key (PEM).")]


def serve(
    stores: StoresFolder = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen.")
    ] = "127.0.0.1:8080",
    database: DatabaseUrl = None,
    nightly: Nightly = "02:00",
    sign: Sign = None,
    callback_hosts: CallbackHosts = None,
    address: Address = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Serve TLS by this certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of that certificate (PEM).")
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy", metavar="", help="A proxy in front of the service ends TLS."
        ),
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, max=64, metavar="NUMBER", help="Processes that answer calls.")
    ] = 1,
    answers_every: AnswersEvery = 3600,
    keep_receipts: KeepReceipts = 90,
    max_body: Annotated[
        int,
        typer.Option(
            metavar="BYTES",
            help="The largest body from officers and predictors; others may send 64 kB.",
        ),
    ] = 10_000_000,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    demo: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Make a store of made-up customers there, and serve it."),
    ] = None,
) -> None:
    """Serve the stores of a folder over HTTP, with a page, and carry out what is due."""
    from pilu.service.configuration import Configuration
    from pilu.service.server import check_address, check_installed, log_to_stderr, serve

    check_installed()
    if (stores is None) == (demo is None):
        raise WrongInput("exactly one of --stores and --demo must be given.")
    if (tls_certificate is None) != (tls_key is None):
        raise WrongInput("--tls-certificate and --tls-key must come together.")
    host, port = _host_and_port(listen)
    folder = stores or demo
    assert folder is not None
    secure = tls_certificate is not None or behind_proxy
    configuration = Configuration(
        folder.resolve(), database, nightly, tuple(callback_hosts or ()), answers_every,
        keep_receipts, max_body, _absolute(sign), address, _absolute(certificate),
        _absolute(certificate_key), processes, secure,
    )  # fmt: skip
    check_address(host, tls=tls_certificate is not None, behind_proxy=behind_proxy)
    shown = f"{'https' if tls_certificate else 'http'}://{listen}"
    if demo is not None:
        _make_demo(demo, database, shown)
    elif not folder.is_dir():
        raise WrongArgument("stores", "a folder of stores", str(folder), "`pilu fit` makes one.")
    typer.echo(f"Serving {folder} at {shown}")
    if not _has_tokens(folder, database):
        typer.echo(
            f"Nobody can log in yet: pilu token add --stores {shlex.quote(str(folder))} "
            "--name YOU --role officer"
        )
    log_to_stderr()
    serve(
        configuration, host, port, tls_certificate=tls_certificate, tls_key=tls_key,
        behind_proxy=behind_proxy,
    )  # fmt: skip


def work(
    stores: StoresFolder = None,
    database: DatabaseUrl = None,
    everywhere: Annotated[
        bool,
        typer.Option(
            "--everywhere",
            metavar="",
            help="Look after all stores, not only those where something is due.",
        ),
    ] = False,
    sign: Sign = None,
    callback_hosts: CallbackHosts = None,
    address: Address = None,
    keep_receipts: KeepReceipts = 90,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    as_json: Json = False,
) -> None:
    """Carry out once what is due, and send callbacks: for cron, or a systemd timer."""
    from pilu.service.configuration import Configuration
    from pilu.service.server import check_installed
    from pilu.service.work import send, work

    check_installed()
    configuration = Configuration(
        _folder(stores), database, callback_hosts=tuple(callback_hosts or ()), sign=_absolute(sign),
        address=address, keep_receipts=keep_receipts, certificate=_absolute(certificate),
        certificate_key=_absolute(certificate_key),
    )  # fmt: skip
    done, sent = work(configuration, everywhere=everywhere), send(configuration)
    record = {"ended": done.ended, "put_back": done.put_back, "busy": done.busy, "sent": sent}
    text = f"Ended: {count(done.ended, 'request')}. To be tried again: {done.put_back:,}."
    text += f" Callbacks delivered: {sent:,}."
    if done.busy:
        text += f" Another worker is in {', '.join(done.busy)}."
    print_answer(record, text, as_json)


token = typer.Typer(
    name="token", help="Who may call the service.", no_args_is_help=True, add_completion=False
)


def add(
    name: Annotated[str, typer.Option(metavar="TEXT", help="Whose it is, or which system's.")],
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="requester, officer, auditor or predictor.")
    ],
    stores: StoresFolder = None,
    database: DatabaseUrl = None,
    days: Annotated[int, typer.Option(metavar="NUMBER", help="Days until it expires.")] = 365,
    per_second: Annotated[
        float, typer.Option(metavar="NUMBER", help="Calls that it may make in a second.")
    ] = 100.0,
    as_json: Json = False,
) -> None:
    """Make a token, and print it: it is shown this once."""
    from pilu.service import actions, tokens

    with _opened(stores, database) as (opened, names), opened.writing() as tx:
        number, text = tokens.add_token(tx, name, role, days=days, per_second=per_second)
        actions.note_action(tx, _OWNER, f"made the token {number} ({role})", names)
    print_answer({"id": number, "token": text}, text, as_json)


def listed(
    stores: StoresFolder = None, database: DatabaseUrl = None, as_json: Json = False
) -> None:
    """Show all tokens, without their secrets."""
    from pilu.service import tokens

    with _opened(stores, database) as (opened, _), opened.reading() as tx:
        found = [dict(row) for row in tokens.list_tokens(tx)]
    shown = [
        {
            "id": one["id"],
            "name": one["name"],
            "role": one["role"],
            "expires": _day(one["expires"]),
            "revoked": None if one["revoked"] is None else _day(one["revoked"]),
        }
        for one in found
    ]
    lines = [[str(value or "") for value in one.values()] for one in shown]
    table = format_table(["id", "name", "role", "expires", "revoked"], lines)
    print_answer({"tokens": shown}, table if shown else "There are no tokens.", as_json)


def revoke(
    number: Annotated[str, typer.Argument(metavar="ID", help="The id of the token.")],
    stores: StoresFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Revoke a token, and end its sessions, at once."""
    from pilu.service import actions, tokens

    with _opened(stores, database) as (opened, names), opened.writing() as tx:
        if not tokens.revoke_token(tx, number):
            raise WrongInput(f"there is no token {number}, or it was revoked before.")
        actions.note_action(tx, _OWNER, f"revoked the token {number}", names)
    print_answer({"revoked": number}, f"Revoked {number}.", as_json)


for _command, _called in ((add, "add"), (listed, "list"), (revoke, "revoke")):
    token.command(name=_called)(in_one_line(_command))


@contextmanager
def _opened(stores: Path | None, database: str | None) -> Iterator[tuple["Database", list[str]]]:
    """The database of a service, and the names of its stores."""
    from pilu.service.configuration import Configuration
    from pilu.service.database import open_database
    from pilu.service.stores import Stores

    folder = _folder(stores)
    configuration = Configuration(folder, database)
    configuration.own.mkdir(parents=True, exist_ok=True, mode=0o700)
    opened = open_database(configuration.where)
    try:
        yield opened, Stores(folder).names()
    finally:
        opened.close()


class _Owner:
    """Whoever has the command line; in the log as `command line`."""

    token = "command line"


_OWNER = _Owner()


def _folder(stores: Path | None) -> Path:
    if stores is None or not stores.is_dir():
        raise WrongInput(f"--stores must be a folder of stores, got {stores}.")
    return stores.resolve()


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.resolve()


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def _host_and_port(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise WrongArgument("listen", "HOST:PORT, such as 127.0.0.1:8080", listen)
    return host.strip("[]"), int(port)


def _has_tokens(stores: Path, database: str | None) -> bool:
    from pilu.service import tokens

    with _opened(stores, database) as (opened, _), opened.reading() as tx:
        return bool(tokens.list_tokens(tx))


def _make_demo(folder: Path, database: str | None, shown: str) -> None:
    """A store of made-up customers, and a token to try it."""
    from pilu.cli.demo import write_customers
    from pilu.desk.desk import Desk
    from pilu.service import tokens

    store = folder / "customers"
    if not store.exists():
        tables = folder / ".tables"
        tables.mkdir(parents=True, exist_ok=True)
        write_customers(tables)
        with Desk.fit(
            store, tables / "customers.parquet", target="churned", subject="customer", id="row"
        ):
            pass
    with _opened(folder, database) as (opened, _), opened.writing() as tx:
        _, text = tokens.add_token(tx, "demo", "officer", days=7)
    typer.echo(f"Open {shown} and log in with this token, an officer's for seven days:\n{text}")
