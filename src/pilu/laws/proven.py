"""The difference of one request's two runs: projected, grown where needed, dense at last.

The projection is used where its proved errors are negligible at the noise in question, else the
space grows; past a size at which it is no longer cheaper the dense form is taken.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from pilu.laws.difference import ChainDifference, dense_difference
from pilu.laws.iterates import IterateLaw
from pilu.laws.krylov import Enclosure, KrylovDifference, krylov_difference
from pilu.laws.lanczos import BlockLanczos

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
_ROUNDING_LIMIT = 1e-8
_INVARIANCE = 2e-14  # a step's error once directions below the deflation tolerance were left out


class ProvenDifference:
    """What tells the run with some rows from the run without them, as safe or as rough as asked.

    Parameters
    ----------
    law : IterateLaw
    Z : array
        The rows in the law's coordinates, R of them.
    targets : array
        Their targets, R x d.
    at_least : int
        Smallest projection worth trying, where that is known.
    """

    def __init__(self, law: IterateLaw, Z: Array, targets: Array, *, at_least: int = 0) -> None:
        self.law = law
        self._rows, self._targets = Z, targets
        self._krylov: KrylovDifference | None = None
        self._dense: ChainDifference | None = None
        self._rounding_asked, self._rounding = (math.nan, 0, 0), math.inf  # the last answer
        self._nothing = not Z.any()  # rows of zeros leave no trace
        if self._nothing:
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

    def likely_log_noise(self, mu: float, n_steps: int) -> float:
        """About where the difference is that of a mu-Gaussian mechanism."""
        start = math.log(self.law.schedule.segments[0].noise)
        if self._nothing:
            return start
        while True:
            guess = self._root(self.squared_shift, mu**2, n_steps, start)
            if guess is None:  # without any noise the shifts are small: the excesses decide
                guess = self._root(self._squared_size, mu**2, n_steps, start)
            if guess is None:
                return start
            if self._krylov is None:
                return guess
            errors = self._krylov.relative_errors(math.exp(guess), n_steps)
            if max(errors) <= _GUESS_ERROR or not self._sizes:
                return guess
            self._grow()

    def _root(
        self, size: Callable[[float, int], float], aim: float, n_steps: int, start: float
    ) -> float | None:
        def excess(log_noise: float) -> float:
            return math.log(size(math.exp(log_noise), n_steps) / aim + 1e-300)

        low, high = start - 20, start + 20
        if excess(low) <= 0 or excess(high) > 0:
            return None
        return float(brentq(excess, low, high, xtol=1e-5))

    def _squared_size(self, noise: float, n_steps: int) -> float:
        # Twice the Kullback-Leibler divergence, to leading order
        try:
            shifts, _, _, excesses = self.moments(noise, n_steps)
        except ArithmeticError:
            return math.inf
        return shifts + self.law.n_outputs / 2 * excesses

    def squared_shift(self, noise: float, n_steps: int) -> float:
        """The sum of all squared shifts."""
        return 0.0 if self._nothing else self._shown.total_squared_shift(noise, n_steps)

    def rough(self, noise: float, n_steps: int) -> tuple[Array, Array]:
        """Excesses and squared shifts as the projection sees them, without its error.

        Raises
        ------
        ArithmeticError
            Where the laws are too narrow to be told from rounding.
        """
        if self._nothing:
            return np.zeros(1), np.zeros(1)
        self._check_rounding(noise, n_steps)
        x, a2 = self._shown.whitened(noise, n_steps).principal()
        _check_not_degenerate(x, noise)
        return x, a2

    def moments(self, noise: float, n_steps: int) -> tuple[float, float, float, float]:
        """Sums of a^2, x a^2, x^2 a^2 and x^2 over the directions, as the projection sees them."""
        if self._nothing:
            return 0.0, 0.0, 0.0, 0.0
        self._check_rounding(noise, n_steps)
        white = self._shown.whitened(noise, n_steps)
        turned = white.core @ white.shift
        return (
            float(np.sum(np.square(white.shift))),
            float(np.sum(white.shift * turned)),
            float(np.sum(np.square(turned))),
            float(np.sum(np.square(white.core))),
        )

    def enclosure(self, noise: float, n_steps: int) -> Enclosure:
        """The same with all errors on the safe side."""
        if self._nothing:
            return Enclosure(np.zeros(1), np.zeros(1), 0.0, 0.0)
        self._check_rounding(noise, n_steps)
        while self._krylov is not None:
            found = self._krylov.enclosure(noise, n_steps)
            if self._is_tight(found, noise, n_steps) or self._will_do(found):
                return self._with_rounding(found, noise, n_steps)
            self._grow()
        shown = self._shown
        least = float(np.min(shown.variances + shown.later_variances(noise, n_steps)))
        found = Enclosure(
            *shown.whitened(noise, n_steps).principal(),
            shown.mean_rest / math.sqrt(least),
            shown.covariance_rest / least,
        )
        return self._with_rounding(found, noise, n_steps)

    def _is_tight(self, found: Enclosure, noise: float, n_steps: int) -> bool:
        assert self._krylov is not None
        size = float(np.linalg.norm(found.excesses))
        # There is no point in being surer of the projection than of the arithmetic.
        rounding = max(
            self._rounding_error(noise, n_steps), *self._krylov.span_errors(noise, n_steps)
        )
        rounding = min(rounding, _ROUNDING_LIMIT)
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

    @property
    def _shown(self) -> ChainDifference:
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

    def _rounding_error(self, noise: float, n_steps: int) -> float:
        asked = (noise, n_steps, len(self._shown.eigenvalues))
        if asked != self._rounding_asked:
            unit = self._shown.rounding_error(noise, n_steps)
            if self._krylov is not None and self._lanczos.deflated:
                unit += _INVARIANCE * self.law.schedule.n_steps
            self._rounding_asked, self._rounding = asked, unit
        return self._rounding

    def _check_rounding(self, noise: float, n_steps: int) -> None:
        if self._rounding_error(noise, n_steps) > _ROUNDING_LIMIT:
            raise ArithmeticError(
                f"with noise={noise!r} the two laws are too narrow to be told from rounding. Use "
                "more noise."
            )

    def _with_rounding(self, e: Enclosure, noise: float, n_steps: int) -> Enclosure:
        _check_not_degenerate(e.excesses, noise)
        unit = self._rounding_error(noise, n_steps)
        size = math.sqrt(float(np.sum(e.squared_shifts)))
        # An excess of rounding size is none: merging would take its ratio to others seriously.
        dust = np.abs(e.excesses) <= unit
        lost = float(np.linalg.norm(e.excesses[dust]))
        return Enclosure(
            np.where(dust, 0.0, e.excesses),
            e.squared_shifts,
            e.shift_error + unit * (1 + size) + self._shown.shift_rounding(noise, n_steps),
            e.covariance_error + unit + lost,
        )


def _check_not_degenerate(excesses: Array, noise: float) -> None:
    if not float(np.min(excesses)) > -1.0:
        raise ArithmeticError(
            f"with noise={noise!r} one of the two laws is degenerate. Use more noise."
        )
