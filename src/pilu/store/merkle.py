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


@dataclass(frozen=True)
class Peaks:
    """The roots of the whole subtrees of a log, the largest first: all that an append needs."""

    size: int = 0
    roots: tuple[Hash, ...] = ()

    def followed_by(self, one: Hash) -> "Peaks":
        """The peaks with one more leaf."""
        roots, size = self.roots, self.size
        while size % 2 == 1:  # two subtrees of equal size are one of twice the size
            one, roots, size = _node(roots[-1], one), roots[:-1], size // 2
        return Peaks(self.size + 1, (*roots, one))

    @property
    def head(self) -> Head:
        """The head of the log."""
        if not self.roots:
            return Head(0, hashlib.sha256(b"").digest())
        root = self.roots[-1]
        for left in reversed(self.roots[:-1]):
            root = _node(left, root)
        return Head(self.size, root)


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
    return _path(_levels(leaves), place)


def inclusions(leaves: Sequence[Hash]) -> list[list[Hash]]:
    """The proofs of all entries: every node is hashed once."""
    levels = _levels(leaves)
    return [_path(levels, place) for place in range(len(leaves))]


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
    return _levels(leaves)[-1][0] if leaves else hashlib.sha256(b"").digest()


def _levels(leaves: Sequence[Hash]) -> list[Sequence[Hash]]:
    """All nodes from the leaves upwards; a node without a partner goes up as it is."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        below = levels[-1]
        pairs = [_node(below[k], below[k + 1]) for k in range(0, len(below) - 1, 2)]
        levels.append([*pairs, below[-1]] if len(below) % 2 else pairs)
    return levels


def _path(levels: Sequence[Sequence[Hash]], place: int) -> list[Hash]:
    path = []
    for level in levels[:-1]:
        sibling = place ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        place //= 2
    return path


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
