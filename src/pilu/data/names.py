"""Names of rows as keyed hashes, one for every fit-time position.

With the key one can test whether a given name is among them. A name cannot be read back.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint8]
Positions = NDArray[np.intp]

_BYTES = 16


@dataclass(frozen=True, eq=False)
class Names:
    """Hashes by kind, "id" and "subject"; those of forgotten rows are zeros."""

    hashes: Mapping[str, Hashes]

    @classmethod
    def blank(cls, kinds: Iterable[str], n_rows: int) -> "Names":
        """Zeros for the names of n rows, to be filled in."""
        return cls({kind: np.zeros((n_rows, _BYTES), dtype=np.uint8) for kind in kinds})

    def first_duplicate(self, kind: str) -> int | None:
        """The first position whose name another row has too, if there is one."""
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
        listed: dict[bytes, list[int]] = {}
        hashes = self.hashes[kind]
        raw = np.ascontiguousarray(hashes).tobytes()  # slices of it are ten times faster than rows
        for position in np.flatnonzero(hashes.any(axis=1)).tolist():
            hashed = raw[_BYTES * position : _BYTES * (position + 1)]
            listed.setdefault(hashed, []).append(position)
        return listed

    def without(self, rows: Positions) -> "Names":
        """The names once rows are forgotten."""
        left = {kind: hashes.copy() for kind, hashes in self.hashes.items()}
        for hashes in left.values():
            hashes[rows] = 0
        return Names(left)


def hashes_of(names: Sequence[Any], key: bytes) -> Hashes:
    """Keyed hashes of names, by their text: a command line has nothing else."""
    begun, raw = hashlib.blake2b(key=key, digest_size=_BYTES), bytearray()
    for name in names:
        digest = begun.copy()  # the key is hashed once for all of them
        digest.update(str(name).encode("utf-8", "surrogatepass"))  # of arguments that are no text
        raw += digest.digest()
    return np.frombuffer(raw, dtype=np.uint8).reshape(len(names), _BYTES)


def hash_of(name: Any, key: bytes) -> bytes:
    """The keyed hash of one name."""
    return hashes_of([name], key).tobytes()
