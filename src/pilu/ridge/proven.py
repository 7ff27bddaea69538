"""The difference of one request's two runs: projected, grown where needed, dense at last.

The projection is used where its proved errors are negligible at the noise in question, else the
space grows; past a size at which it is no longer cheaper the dense form is taken.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pilu.chains.comparison import ROUNDING_LIMIT, Comparison
from pilu.chains.difference import ChainDifference, Enclosure
from pilu.ridge.difference import dense_difference
from pilu.ridge.iterates import RidgeIterates
from pilu.ridge.krylov import KrylovDifference, krylov_difference
from pilu.ridge.lanczos import BlockLanczos

__all__ = ["ProvenDifference"]

Array = NDArray[np.float64]

_GROWTH = (40, 64, 80, 112, 160, 240)  # dimensions for each row of the request, tried in turn
_LIKELY = 19.6  # times the sixth root of the steps: where to start if the problem has room for it
_DENSE_BELOW = 40  # parameters: a small problem is cheaper without a projection
_DENSE_SHARE = 0.6  # of the parameters: so is one of which the space is most
_GUESS_ERROR = 1e-5  # of the projection, above which a guess is none
_PROJECTION_ERROR = 2e-14  # for each step: above it the space grows, or the dense form is taken
_COARSE = 3e-4  # inflation, and ten times the other errors, that beat a slow dense form
_DENSE_IS_SLOW = 1000  # parameters
_INFLATION = 2e-9  # of the squared shifts by whitening in the projection, likewise
_EXCESS_INFLATION = 1e-4  # of the excesses, which matter to second order


class ProvenDifference(Comparison):
    """What tells the run with some rows from the run without them, as safe or as rough as asked.

    Parameters
    ----------
    law : RidgeIterates
    Z : array
        The rows in the law's coordinates, R of them.
    targets : array
        Their targets, R x d.
    at_least : int
        Smallest projection worth trying, where that is known.
    """

    law: RidgeIterates

    def __init__(self, law: RidgeIterates, Z: Array, targets: Array, *, at_least: int = 0) -> None:
        super().__init__(law, is_nothing=not Z.any())  # rows of zeros leave no trace
        self._rows, self._targets = Z, targets
        self._krylov: KrylovDifference | None = None
        self._dense: ChainDifference | None = None
        if self._is_nothing:
            return
        most = _DENSE_SHARE * Z.shape[1] if Z.shape[1] > _DENSE_BELOW else 0.0
        sizes = [s * len(Z) for s in _GROWTH if s * len(Z) <= most]
        likely = at_least or len(Z) * _LIKELY * law.schedule.n_steps ** (1 / 6)
        self._sizes = [s for s in sizes if s >= likely] or sizes
        self._lanczos = BlockLanczos(law.spectrum, Z.T)
        self._grow()

    @property
    def is_dense(self) -> bool:
        """Whether the full eigenbasis had to be used."""
        return self._dense is not None

    @property
    def size(self) -> int:
        """Dimensions of the projection in use; 0 without one."""
        return 0 if self._krylov is None or self.is_dense else len(self._lanczos.projected)

    def _likely_log_noise(self, mu: float, n_steps: int) -> float | None:
        while True:
            guess = super()._likely_log_noise(mu, n_steps)
            if guess is None or self._krylov is None:
                return guess
            errors = self._krylov.relative_errors(math.exp(guess), n_steps)
            if max(errors) <= _GUESS_ERROR or not self._sizes:
                return guess
            self._grow()

    def _enclosed(self, noise: float, n_steps: int) -> Enclosure:
        while self._krylov is not None:
            found = self._krylov.enclosure(noise, n_steps)
            if self._is_tight(found, noise, n_steps) or self._will_do(found):
                return found
            self._grow()
        return super()._enclosed(noise, n_steps)

    def _is_tight(self, found: Enclosure, noise: float, n_steps: int) -> bool:
        assert self._krylov is not None
        size = float(np.linalg.norm(found.excesses))
        # There is no point in being surer of the projection than of the arithmetic.
        rounding = max(
            self._rounding_error(noise, n_steps), *self._krylov.span_errors(noise, n_steps)
        )
        rounding = min(rounding, ROUNDING_LIMIT)
        limit = _PROJECTION_ERROR * self.law.schedule.n_steps
        return (
            max(self._krylov.relative_errors(noise, n_steps)) <= max(limit, rounding)
            and found.inflation <= max(_INFLATION, rounding)
            and found.excess_inflation <= size * _EXCESS_INFLATION + max(1e-9, rounding)
        )

    def _will_do(self, found: Enclosure) -> bool:
        """Whether a coarser answer beats the seconds that a large dense form takes."""
        return (
            not self._sizes
            and self._rows.shape[1] > _DENSE_IS_SLOW
            and max(found.shift_error, found.covariance_error) <= _COARSE / 10
            and max(found.inflation, found.excess_inflation) <= _COARSE
        )

    def _shown(self, n_steps: int) -> ChainDifference:
        shown = self._dense if self._krylov is None else self._krylov.projected
        assert shown is not None
        return shown

    def _grow(self) -> None:
        if self._sizes and not self._lanczos.exhausted:
            self._lanczos.extend(self._sizes.pop(0))
            self._krylov = krylov_difference(self.law, self._lanczos, self._targets)
            return
        self._krylov = None
        self._dense = dense_difference(self.law, self._rows, self._targets)
