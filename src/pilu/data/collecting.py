"""What one pass over rows notes of them: digests, hashed names, magnitudes, sums of targets.

Partitions of dask and users' tables are fitted through it, here or by a cluster. X'X and X'Y are
added up in the same pass by `Statistics`.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import LARGEST_NUMBER, check_scale
from pilu.data.names import Names
from pilu.data.rows import digests_of

Array = NDArray[np.float64]
Hashes = NDArray[np.uint8]


class Collector:
    """Notes of n rows, taken block by block; several threads may take them.

    Parameters
    ----------
    n_rows, n_outputs : int
    key : bytes
        Of digests and hashes.
    kinds : tuple of str
        Kinds of names: "id", "subject".
    called : pair of str
        What an error calls features and targets.
    """

    def __init__(
        self,
        n_rows: int,
        n_outputs: int,
        key: bytes,
        kinds: tuple[str, ...] = (),
        called: tuple[str, str] = ("X", "y"),
    ) -> None:
        self.key, self.called = key, called
        self.digests = np.zeros((n_rows, 16), dtype=np.uint8)
        self.names = Names.blank(kinds, n_rows)
        self.largest = np.zeros(2)  # magnitudes of features and targets
        self.target_sums = np.zeros(n_outputs)
        self.n_noted = 0
        self._lock = threading.Lock()

    @property
    def is_complete(self) -> bool:
        """Whether every row was noted."""
        return self.n_noted == len(self.digests)

    def note(
        self, places: Any, X: Array, Y: Array, hashes: Mapping[str, Hashes] | None = None
    ) -> None:
        """Note a block of rows; `places` indexes them, `hashes` are of their names, by kind."""
        self.digests[places] = digests_of(X, Y, self.key)
        for kind, hashed in (hashes or {}).items():
            self.names.hashes[kind][places] = hashed
        largest = [_largest(values) for values in (X, Y)]
        for name, most in zip(self.called, largest, strict=True):
            if most > LARGEST_NUMBER:  # before it is squared
                check_scale(name, most)
        with self._lock:
            self.largest = np.maximum(self.largest, largest)
            self.target_sums += Y.sum(axis=0)
            self.n_noted += len(X)

    def noted(self, blocks: Iterable[tuple[Any, Array, Array]]) -> Iterator[tuple[Array, Array]]:
        """Features and targets of blocks (places, X, Y), each noted on the way."""
        for places, X, Y in blocks:
            self.note(places, X, Y)
            yield X, Y

    def put_together(self, parts: Iterable["Collector"]) -> None:
        """Take over the notes of consecutive parts of the rows."""
        first = 0
        for part in parts:
            here = slice(first, first + len(part.digests))
            first = here.stop
            self.digests[here] = part.digests
            for kind, hashes in part.names.hashes.items():
                self.names.hashes[kind][here] = hashes
            self.largest = np.maximum(self.largest, part.largest)
            self.target_sums += part.target_sums
            self.n_noted += part.n_noted

    def check_scale(self) -> None:
        """Refuse magnitudes that the proofs' arithmetic does not cover."""
        for name, most in zip(self.called, self.largest, strict=True):
            check_scale(name, most)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "key": b""}


def _largest(values: Array) -> float:
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))  # no copy
