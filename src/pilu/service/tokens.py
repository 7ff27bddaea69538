"""Who may do what: bearer tokens, kept as salted hashes, and sessions of the page.

A token is `pilu_<id>_<secret>` with 256 random bits. Nobody can guess such a secret, so a salted
SHA-256 is enough: a slow hash protects passwords that people choose.
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass

from pilu.exceptions import WrongInput
from pilu.service.database import Database, Found, Transaction

ROLES = {
    "requester": "makes requests and reads how far its own are; never learns who is in a model",
    "officer": "everything",
    "auditor": "reads requests, receipts and the log; changes nothing and sees no names",
    "predictor": "asks the released model for predictions",
}
SESSION = 12 * 3600.0  # seconds
_DAY = 86_400.0
_SLOWEST = 0.001  # calls a second
_NO_SALT, _NO_HASH = "0" * 32, "0" * 64


@dataclass(frozen=True)
class Caller:
    """Who makes a call."""

    token: str  # its id
    name: str
    role: str
    per_second: float
    session: str | None = None  # the hash of a session of the page
    form_key: str = ""  # which every form of the session must have


def add_token(
    tx: Transaction, name: str, role: str, *, days: float = 365, per_second: float = 100.0
) -> tuple[str, str]:
    """Make a token; its id, and its text, which is kept nowhere."""
    if role not in ROLES:
        raise WrongInput(f"role must be one of {', '.join(ROLES)}, got {role!r}.")
    if not days > 0 or not per_second >= _SLOWEST:
        raise WrongInput(f"days must be above 0 and per_second at least {_SLOWEST}.")
    number, secret, salt = secrets.token_hex(6), secrets.token_hex(32), secrets.token_hex(16)
    now = time.time()
    tx.run(
        "INSERT INTO tokens (id, name, role, salt, hash, per_second, made, expires)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        number, name, role, salt, _hashed(salt, secret), per_second, now, now + _DAY * days,
    )  # fmt: skip
    return number, f"pilu_{number}_{secret}"


def revoke_token(tx: Transaction, number: str) -> bool:
    """End a token and its sessions; False if there is none, or it was ended before."""
    tx.run("DELETE FROM sessions WHERE token = ?", number)
    return bool(
        tx.run(
            "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", time.time(), number
        )
    )


def list_tokens(tx: Transaction) -> list[Found]:
    """All tokens, the newest first."""
    return tx.all("SELECT * FROM tokens ORDER BY made DESC, id")


def caller_of(database: Database, text: str) -> Caller | None:
    """Who has a token; None for one that is unknown, wrong, expired or revoked."""
    kind, _, rest = text.partition("_")
    number, _, secret = rest.partition("_")
    if kind != "pilu" or "\x00" in text:
        return None
    with database.reading() as tx:
        found = tx.one("SELECT * FROM tokens WHERE id = ?", number)
    # The same work for an unknown id, so that time does not tell which ids there are.
    salt, kept = (found["salt"], found["hash"]) if found else (_NO_SALT, _NO_HASH)
    right = hmac.compare_digest(_hashed(salt, secret), kept)
    return _caller(found) if found is not None and right and _is_valid(found) else None


def start_session(tx: Transaction, caller: Caller) -> str:
    """A session of the page; its text goes into a cookie and is kept nowhere."""
    text = secrets.token_urlsafe(32)
    until = time.time() + SESSION
    tx.run("DELETE FROM sessions WHERE expires < ?", time.time())
    tx.run(
        "INSERT INTO sessions (hash, token, form_key, expires) VALUES (?, ?, ?, ?)",
        _session_hash(text), caller.token, secrets.token_urlsafe(16), until,
    )  # fmt: skip
    return text


def caller_of_session(database: Database, text: str) -> Caller | None:
    """Who has a session, as long as its token is valid."""
    hashed = _session_hash(text)
    with database.reading() as tx:
        found = tx.one(
            "SELECT tokens.*, sessions.form_key, sessions.expires AS until FROM sessions"
            " JOIN tokens ON tokens.id = sessions.token WHERE sessions.hash = ?",
            hashed,
        )
    if found is None or found["until"] < time.time() or not _is_valid(found):
        return None
    return _caller(found, session=hashed, form_key=found["form_key"])


def end_session(tx: Transaction, caller: Caller) -> None:
    """Log out."""
    tx.run("DELETE FROM sessions WHERE hash = ?", caller.session)


def _caller(found: Found, **more: str) -> Caller:
    return Caller(found["id"], found["name"], found["role"], found["per_second"], **more)


def _is_valid(found: Found) -> bool:
    return found["revoked"] is None and found["expires"] > time.time()


def _hashed(salt: str, secret: str) -> str:
    return hashlib.sha256(f"{salt}:{secret}".encode("utf-8", "replace")).hexdigest()


def _session_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
