"""Callbacks: kept in the database until they are delivered, signed, repeated with longer waits.

A body is signed as Standard Webhooks has it, by Ed25519: the headers `webhook-id`,
`webhook-timestamp` and `webhook-signature` let a receiver recognise what is forged or sent again
(`pilu.client.check_callback`). Those of OpenDSR also have its own headers.
"""

import asyncio
import base64
import json
import logging
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pilu._extras import need
from pilu.desk.signing import load_key, make_keys
from pilu.service import leases, opendsr, outbox
from pilu.service.asking import time_of, told_status
from pilu.service.configuration import Configuration
from pilu.service.database import Database, Found
from pilu.service.identifiers import new_id
from pilu.service.own_keys import made_once

ATTEMPTS = 16  # then it is given up, after two to three days
_FIRST, _LONGEST = 30.0, 12 * 3600.0  # seconds between attempts
_TIMEOUT = 10.0  # for the whole of one
_LEASE = 120.0
_AT_ONCE = 100  # in one lease
_log = logging.getLogger("pilu.service")


class Sender:
    """Sends callbacks that are due."""

    def __init__(self, configuration: Configuration, database: Database) -> None:
        self.configuration, self.database = configuration, database

    def run(self) -> int:
        """Send what is due now, at most a hundred; returns how many were delivered.

        They go out side by side, each within ten seconds, so that no receiver keeps others waiting.
        """
        holder = new_id()
        with self.database.writing() as tx:
            if not leases.take_lease(tx, "callbacks", holder, _LEASE):
                return 0
            due = outbox.take_callbacks(tx, time.time(), most=_AT_ONCE)
        try:
            problems = asyncio.run(self._send_all(due))
            for row, problem in zip(due, problems, strict=True):
                self._note(row, problem)
        finally:
            with self.database.writing() as tx:
                leases.give_back(tx, "callbacks", holder)
        return problems.count(None)

    async def _send_all(self, due: Sequence[Found]) -> list[str | None]:
        httpx = need("httpx", for_="callbacks", extra="serve")
        async with httpx.AsyncClient(follow_redirects=False, trust_env=False) as client:
            return list(await asyncio.gather(*(self._send(client, row) for row in due)))

    async def _send(self, client: Any, row: Found) -> str | None:
        """Send a callback; what was wrong, or None if it was accepted."""
        if not self.configuration.allows_callback(row["url"]):  # options may have changed
            return "its host is not allowed any more"
        body = json.dumps(_body(self.configuration, row)).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "pilu"}
        headers |= signed(self.configuration, row["id"], body)
        if row["shape"] == "opendsr":
            headers |= opendsr.signature(self.configuration, body)
        try:
            async with asyncio.timeout(_TIMEOUT):
                wanted = client.stream("POST", row["url"], content=body, headers=headers)
                async with wanted as answer:  # its content is not read
                    return None if answer.is_success else f"it answered {answer.status_code}"
        except Exception as error:  # whatever a network does
            return type(error).__name__

    def _note(self, row: Found, problem: str | None) -> None:
        attempts, now = int(row["attempts"]) + 1, time.time()
        wait = min(_FIRST * 2.0 ** min(attempts - 1, 20), _LONGEST) * random.uniform(0.8, 1.2)
        following = None if problem is None or attempts >= ATTEMPTS else now + wait
        if problem is not None and following is None:
            _log.error("callback %s was given up: %s", row["id"], problem)
        with self.database.writing() as tx:
            outbox.callback_tried(
                tx,
                row["id"],
                problem=problem,
                delivered=None if problem else now,
                following=following,
            )


def _body(configuration: Configuration, row: Found) -> dict[str, Any]:
    if row["shape"] == "opendsr":
        return opendsr.callback_of(configuration, row)
    ended = time_of(row["told_at"])
    return {
        "type": "request.ended",
        "id": row["request"],
        "store": row["store"],
        "request_type": row["type"],
        "status": told_status(row),
        "ended": None if ended is None else ended.isoformat(),
    }


# Signatures


def key_files(configuration: Configuration) -> tuple[Path, Path]:
    """The keys that sign callbacks, made at the first use."""
    own = configuration.own
    return made_once(own / "callbacks.key", own / "callbacks.pub", make_keys)


def signed(configuration: Configuration, number: str, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks for a body."""
    private, _ = key_files(configuration)
    when = str(int(time.time()))
    content = f"{number}.{when}.".encode() + body
    signature = base64.b64encode(load_key(private, "private").sign(content)).decode()
    return {
        "webhook-id": number,
        "webhook-timestamp": when,
        "webhook-signature": f"v1a,{signature}",
    }


def public_key(configuration: Configuration) -> str:
    """The public key as Standard Webhooks writes it."""
    _, public = key_files(configuration)
    raw: bytes = load_key(public, "public").public_bytes_raw()
    return f"whpk_{base64.b64encode(raw).decode()}"
