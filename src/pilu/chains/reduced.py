"""C and Delta of `chains.comparison` in the few directions in which they matter."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pilu.chains.schedule import UNIT

Array = NDArray[np.float64]

_STEPS_TO_A_UNIT = 200  # in the size below which the rest of C is ignored


@dataclass(frozen=True, eq=False)
class Reduced:
    """C = span diag(sizes) span' and Delta = span mean, up to rests of rounding size."""

    span: Array  # U, m x q
    sizes: Array  # q
    mean: Array  # q x d
    covariance_rest: float  # Frobenius norm
    mean_rest: float

    @classmethod
    def of(cls, mean: Array, covariance: Array, largest: float, n_steps: int) -> "Reduced":
        """Reduce Delta (m x d) and C (m x m), computed from N steps and variances <= largest."""
        sizes, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        # Smaller parts of C are rounding, in directions that mean nothing.
        kept = np.abs(sizes) > UNIT * (4 + n_steps / _STEPS_TO_A_UNIT) * largest
        kept[np.argmax(np.abs(sizes))] = True  # at least one
        span = vectors[:, kept]
        left, lengths, _ = np.linalg.svd(mean - span @ (span.T @ mean), full_matrices=False)
        fresh = left[:, lengths > UNIT * float(np.linalg.norm(mean))]
        fresh = fresh - span @ (span.T @ fresh)
        fresh = fresh[:, np.linalg.norm(fresh, axis=0) > 0.5]  # shorter ones are rounding of span
        if fresh.size:
            span = np.hstack([span, np.linalg.qr(fresh)[0]])
        seen = span.T @ mean
        return cls(
            span,
            np.concatenate([sizes[kept], np.zeros(fresh.shape[1])]),
            seen,
            float(np.linalg.norm(sizes[~kept])),
            float(np.linalg.norm(mean - span @ seen)),
        )

    @cached_property
    def squared_means(self) -> Array:
        """Delta in each of the m directions, squared and summed over the outputs."""
        return np.asarray(np.sum(np.square(self.span @ self.mean), axis=1))
