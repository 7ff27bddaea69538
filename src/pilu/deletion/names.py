"""Who is who: names of rows as keyed hashes, one for every fit-time position.

Whoever has the key can ask whether a name that he knows is among them, and nobody can read one.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Names", "hash_of", "hashes_of"]

Hashes = NDArray[np.uint8]
Positions = NDArray[np.intp]

_BYTES = 16


@dataclass(frozen=True, eq=False)
class Names:
    """Hashes by kind, "id" and "subject"; those of forgotten rows are zeros."""

    hashes: Mapping[str, Hashes]

    @classmethod
    def blank(cls, kinds: Iterable[str], n_rows: int) -> "Names":
        """Room for the names of n rows."""
        return cls({kind: np.zeros((n_rows, _BYTES), dtype=np.uint8) for kind in kinds})

    def twice(self, kind: str) -> int | None:
        """The place of a row whose name another one has, if there is one."""
        hashes = np.ascontiguousarray(self.hashes[kind])
        halves = np.sort(hashes[:, :8].copy().view(np.uint64)[:, 0])
        if (halves[1:] != halves[:-1]).all():  # nearly always, and numbers sort ten times faster
            return None
        _, first, counts = np.unique(
            hashes.view(f"V{_BYTES}")[:, 0], return_index=True, return_counts=True
        )
        again = first[counts > 1]
        return int(again.min()) if len(again) else None

    def positions(self, kind: str, hashed: bytes) -> Positions:
        """Positions of the rows under a name."""
        wanted = np.frombuffer(hashed, dtype=np.uint8)
        return np.flatnonzero((self.hashes[kind] == wanted).all(axis=1))

    def by_hash(self, kind: str) -> dict[bytes, list[int]]:
        """All names of rows that are left, with their positions."""
        found: dict[bytes, list[int]] = {}
        hashes = self.hashes[kind]
        for position in np.flatnonzero(hashes.any(axis=1)).tolist():
            found.setdefault(hashes[position].tobytes(), []).append(position)
        return found

    def without(self, rows: Positions) -> "Names":
        """The names once rows are forgotten."""

        def struck(hashes: Hashes) -> Hashes:
            left = hashes.copy()
            left[rows] = 0
            return left

        return Names({kind: struck(hashes) for kind, hashes in self.hashes.items()})


def hashes_of(names: Sequence[Any], key: bytes) -> Hashes:
    """Keyed hashes of names, by their text: a command line knows no other."""
    begun, raw = hashlib.blake2b(key=key, digest_size=_BYTES), bytearray()
    for name in names:
        digest = begun.copy()  # the key is taken in once for all of them
        digest.update(str(name).encode())
        raw += digest.digest()
    return np.frombuffer(raw, dtype=np.uint8).reshape(len(names), _BYTES)


def hash_of(name: Any, key: bytes) -> bytes:
    """The keyed hash of one name."""
    return hashes_of([name], key).tobytes()
