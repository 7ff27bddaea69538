"""A request to forget rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu.data.rows import RowSource

__all__ = ["Request"]

Array = NDArray[np.float64]


class Request(NamedTuple):
    """Rows to forget together: X is R x p (with the intercept's ones), Y is R x d."""

    X: Array
    Y: Array
    rows: NDArray[np.intp]  # their fit-time positions

    def part(self, rows: slice) -> "Request":
        """Some of the rows."""
        return Request(self.X[rows], self.Y[rows], self.rows[rows])

    @classmethod
    def read(cls, source: RowSource, rows: NDArray[np.intp]) -> "Request":
        """The request to forget `rows`, checked against their digests."""
        return cls(*source.take(rows), rows)
