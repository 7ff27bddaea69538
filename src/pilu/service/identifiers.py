"""Ids, and keyed hashes: names of people are known to the database by these alone."""

import hashlib
import json
import uuid
from typing import Any

from pilu.data.names import hash_of


def new_id() -> str:
    """An id that cannot be guessed."""
    return str(uuid.uuid4())


def hash_name(subject: str, key: bytes) -> str:
    """The keyed hash by which the database knows a person: the one of the store."""
    return hash_of(subject, key).hex()


def fingerprint(key: bytes, content: Any) -> str:
    """A keyed hash of the content of a request: names cannot be tried on it."""
    text = json.dumps(content, sort_keys=True, default=str).encode()
    return hashlib.blake2b(text, key=key, digest_size=16).hexdigest()


def receipt_id(leaf: str, person: str) -> str:
    """The id of the receipt of a person in an entry of a log, which is named by its hash."""
    return hashlib.sha256(f"{leaf}:{person}".encode()).hexdigest()[:32]
