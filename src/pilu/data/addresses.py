"""Addresses of tables in databases, parsed so that no password is ever shown."""

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from pilu.exceptions import WrongInput

_SECRETS = {
    "password",
    "sslpassword",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
}
_OWN = {"table", "order"}
_SAFE = "/.,:-"  # letters that stay as they are in a value, to be read by people
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:]*)(:\d*)?")
_TABLE = re.compile(r'("(?:[^"]|"")+"|[^."]+)(?:\.("(?:[^"]|"")+"|[^."]+))?')

Pairs = tuple[tuple[str, str], ...]


class Address(NamedTuple):
    """What an address says; `parameters` are those that go to the database."""

    scheme: str
    user: str
    password: str
    server: str
    path: str
    table: tuple[str, ...]
    order: tuple[str, ...]
    parameters: Pairs

    @property
    def public(self) -> str:
        """The address without its secrets."""
        kept = [(key, value) for key, value in self.parameters if key.lower() not in _SECRETS]
        own = [("table", ".".join(map(_written, self.table)))]
        own += [("order", name) for name in self.order]
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        return f"{self.scheme}://{user}{self.server}{self.path}?{_query([*kept, *own])}"

    def for_driver(self, defaults: Sequence[tuple[str, str]] = ()) -> str:
        """The address for the driver, with its secrets."""
        login = quote(self.user, safe="")
        if self.password:
            login += ":" + quote(self.password, safe="")
        given = {key for key, _ in self.parameters}
        pairs = [*self.parameters, *(pair for pair in defaults if pair[0] not in given)]
        login += "@" if login else ""
        return f"{self.scheme}://{login}{self.server}{self.path}?{_query(pairs)}"

    def without_secrets(self, text: str) -> str:
        """A message of the driver in which no password stands."""
        values = [value for key, value in self.parameters if key.lower() in _SECRETS]
        for secret in filter(None, [self.password, *values]):
            for form in (secret, quote(secret, safe=""), quote(secret, safe=_SAFE)):
                text = text.replace(form, "***")
        return text


def parse_address(where: str, example: str) -> Address:
    """Split an address; its errors show none of it, since a password may be anywhere."""
    try:
        parts = urlsplit(where)
    except ValueError:
        raise _wrong("an address", "one that cannot be split", example) from None
    login, _, server = parts.netloc.rpartition("@")
    if parts.fragment or "#" in where or "@" in parts.path or not _SERVER.fullmatch(server):
        raise _wrong("an address with a server and a number as its port", "another form", example)
    pairs = [piece.partition("=") for piece in parts.query.split("&") if piece]
    query = [(unquote(key), unquote(value)) for key, _, value in pairs]
    tables = [value for key, value in query if key == "table"]
    if len(tables) != 1:
        raise _wrong("an address with one table=", f"{len(tables) or 'none'}", example)
    table = _TABLE.fullmatch(tables[0])
    if table is None:
        raise WrongInput(
            f"table must be a name or schema.name, got table={tables[0]!r}. Put a name with a "
            'dot in double quotes: table="a.b".'
        )
    user, _, password = login.partition(":")
    return Address(
        parts.scheme.lower(),
        unquote(user),
        unquote(password),
        server,
        parts.path,
        tuple(_bare(part) for part in table.groups() if part is not None),
        tuple(value for key, value in query if key == "order"),
        tuple(pair for pair in query if pair[0] not in _OWN),
    )


def quoted(*names: str) -> str:
    """An identifier in SQL, whatever its letters.

    >>> print(quoted("main", 'odd "name"; --'))
    "main"."odd ""name""; --"
    """
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _wrong(allowed: str, got: str, example: str) -> WrongInput:
    return WrongInput(
        f"table must be {allowed}, got {got}. Write it as {example}, and any of @ / ? # in a "
        "password as %40 %2F %3F %23."
    )


def _query(pairs: Sequence[tuple[str, str]]) -> str:
    return "&".join(f"{quote(key)}={quote(value, safe=_SAFE)}" for key, value in pairs)


def _bare(part: str) -> str:
    return part[1:-1].replace('""', '"') if part[0] == '"' else part


def _written(part: str) -> str:
    return quoted(part) if "." in part or '"' in part else part
