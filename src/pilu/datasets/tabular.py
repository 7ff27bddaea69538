"""Digits and diabetes, which come with scikit-learn."""

from typing import Any, NamedTuple

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray

__all__ = ["Table", "load_diabetes", "load_digits"]


class Table(NamedTuple):
    """Rows of numbers and their targets."""

    X: NDArray[np.float64]
    y: NDArray[Any]


def load_digits() -> Table:
    """1,797 handwritten digits, 8 x 8 grey values divided by 16, and their labels."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    return Table(X / 16, y)


def load_diabetes() -> Table:
    """442 patients, ten measurements and the progress of their diabetes after a year.

    scikit-learn has standardised the measurements over all patients. A certificate does not cover
    what those means and deviations reveal (docs/guarantee.md).
    """
    return Table(*sklearn.datasets.load_diabetes(return_X_y=True))
