"""A Merkle log: one hash for all entries so far, and short proofs about it   [RFC 6962, sec. 2].

    leaf    sha256(00 || entry)              node    sha256(01 || left || right)

A tree of n leaves splits at the largest power of two below n. An inclusion proof shows that an
entry stands at its place in the log with a given head; a consistency proof that the log of an older
head is the beginning of the log of a newer one: nothing was edited, dropped or put in between.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pilu.exceptions import LedgerMismatch

Hash = bytes


@dataclass(frozen=True)
class Head:
    """The number of entries and the hash of all of them: what an auditor notes down."""

    size: int
    root: Hash

    def __str__(self) -> str:
        return f"{self.size}:{self.root.hex()}"

    @classmethod
    def parse(cls, text: str) -> "Head":
        """Read what `str` wrote; anything else raises `LedgerMismatch`."""
        size, _, root = text.strip().partition(":")
        if not (size.isascii() and size.isdigit() and len(root) == 64):
            raise LedgerMismatch(f"a head must look like 3:<64 hexadecimal digits>, got {text!r}.")
        try:
            return cls(int(size), bytes.fromhex(root))
        except ValueError:
            raise LedgerMismatch(f"a head must end in hexadecimal digits, got {text!r}.") from None


def leaf(entry: bytes) -> Hash:
    """The hash of one entry."""
    return hashlib.sha256(b"\x00" + entry).digest()


def head(leaves: Sequence[Hash]) -> Head:
    """The head of a log."""
    return Head(len(leaves), _root(leaves))


def inclusion(leaves: Sequence[Hash], place: int) -> list[Hash]:
    """The proof that entry `place` stands there: siblings on the way up."""
    if not 0 <= place < len(leaves):
        raise LedgerMismatch(f"place must be in [0, {len(leaves) - 1}], got {place}.")
    return _path(leaves, place)


def consistency(leaves: Sequence[Hash], older: int) -> list[Hash]:
    """The proof that the log's first `older` entries are its beginning."""
    if not 0 <= older <= len(leaves):
        raise LedgerMismatch(f"older must be in [0, {len(leaves)}], got {older}.")
    return [] if older == 0 else _subproof(leaves, older, complete=True)


def check_inclusion(entry: bytes, place: int, proof: Sequence[Hash], noted: Head) -> None:
    """Refuse an entry that does not stand at its place in the log of a head."""
    if not 0 <= place < noted.size:
        raise LedgerMismatch(f"the log of this head has {noted.size} entries, got place {place}.")
    found, first, last, rest = leaf(entry), place, noted.size - 1, list(proof)
    while last > 0:
        if first % 2 == 1:
            found = _node(_next(rest), found)
        elif first < last:
            found = _node(found, _next(rest))
        first, last = first // 2, last // 2
    if rest or found != noted.root:
        raise LedgerMismatch(f"entry {place} is not in the log with the head {noted}.")


def check_consistency(older: Head, newer: Head, proof: Sequence[Hash]) -> None:
    """Refuse a newer log that does not begin with the older one."""
    if older.size > newer.size:
        raise LedgerMismatch(
            f"the log has {newer.size} entries and had {older.size}: it was cut short."
        )
    rest, seen_older, seen_newer = list(proof), older.root, newer.root
    if 0 < older.size < newer.size:
        seen_older, seen_newer = _both_roots(older, newer, rest)
    elif older.size == newer.size:
        seen_newer = older.root
    if older.size == 0:
        seen_older = _root([])
    if rest or seen_older != older.root or seen_newer != newer.root:
        raise LedgerMismatch(
            f"the log with the head {newer} does not begin with the one with the head {older}: it "
            "was rewritten."
        )


def _both_roots(older: Head, newer: Head, rest: list[Hash]) -> tuple[Hash, Hash]:
    first, last = older.size - 1, newer.size - 1
    while first % 2 == 1:
        first, last = first // 2, last // 2
    # A whole subtree is its own beginning, and its root needs no proof.
    start = older.root if first == 0 else _next(rest)
    small = large = start
    while last > 0:
        if first % 2 == 1:
            sibling = _next(rest)
            small, large = _node(sibling, small), _node(sibling, large)
        elif first < last:
            large = _node(large, _next(rest))
        first, last = first // 2, last // 2
    return small, large


def _root(leaves: Sequence[Hash]) -> Hash:
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = _split(len(leaves))
    return _node(_root(leaves[:k]), _root(leaves[k:]))


def _path(leaves: Sequence[Hash], place: int) -> list[Hash]:
    if len(leaves) == 1:
        return []
    k = _split(len(leaves))
    if place < k:
        return [*_path(leaves[:k], place), _root(leaves[k:])]
    return [*_path(leaves[k:], place - k), _root(leaves[:k])]


def _subproof(leaves: Sequence[Hash], older: int, *, complete: bool) -> list[Hash]:
    if older == len(leaves):
        return [] if complete else [_root(leaves)]
    k = _split(len(leaves))
    if older <= k:
        return [*_subproof(leaves[:k], older, complete=complete), _root(leaves[k:])]
    return [*_subproof(leaves[k:], older - k, complete=False), _root(leaves[:k])]


def _split(n: int) -> int:
    """The largest power of two below n."""
    return 1 << ((n - 1).bit_length() - 1)


def _node(left: Hash, right: Hash) -> Hash:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _next(rest: list[Hash]) -> Hash:
    if not rest:
        raise LedgerMismatch("the proof is too short.")
    return rest.pop(0)
