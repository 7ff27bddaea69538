"""Laws of released parameters, in the three forms that the oracle can compare."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A normal law of p parameters with a regular covariance."""

    mean: Array
    covariance: Array

    @classmethod
    def isotropic(cls, mean: Array, deviation: float) -> "Gaussian":
        """Independent noise of one deviation."""
        return cls(np.asarray(mean, float), deviation**2 * np.eye(len(mean)))

    def then(self, matrix: Array, shift: Array, covariance: Array) -> "Gaussian":
        """The law of matrix theta + shift + noise."""
        return Gaussian(
            matrix @ self.mean + shift, matrix @ self.covariance @ matrix.T + covariance
        )

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """n draws, n x p."""
        factor = np.linalg.cholesky(self.covariance)
        return self.mean + rng.standard_normal((n, len(self.mean))) @ factor.T


@dataclass(frozen=True, eq=False)
class Bins:
    """Probabilities of bins of one parameter; the other law must have the same bins.

    Which bin the parameter falls into is a function of it, so what bins tell apart is told apart.
    `coarser` are the same probabilities computed with half as many bins. What changes between the
    two is counted as error, because it has to include that of the probabilities themselves.
    """

    probabilities: Array
    coarser: Array


@dataclass(frozen=True, eq=False)
class Draws:
    """Released parameters of many runs, n x p, where the law is not known."""

    values: Array


Law: TypeAlias = Gaussian | Bins | Draws
