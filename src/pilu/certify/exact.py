"""The exact accountant: Definition 1 evaluated, not bounded.

For ridge both sides of Definition 1 are Gaussian with known law, so their hockey-stick divergence
can be computed (`accounting.gaussians`) from a few numbers (`laws.krylov`, with its proved error).
What is left of that error, a shift nu and a covariance tau in units of the retained run's noise,
is paid for in epsilon (`accounting.curves`).
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from pilu._checks import check_choice
from pilu.accounting.curves import PrivacyCurve, closeness
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import mu_from_epsilon
from pilu.accounting.search import safe_root
from pilu.certify.accountant import Calibration, Request, Target
from pilu.certify.floor import noise_floor
from pilu.laws.difference import ChainDifference, dense_difference
from pilu.laws.iterates import IterateLaw
from pilu.laws.krylov import BlockLanczos, Enclosure, KrylovDifference, krylov_difference

__all__ = ["Exact"]

Array = NDArray[np.float64]

_GROWTH = (40, 64, 80, 112, 160, 240)  # dimensions of the Krylov space, tried in turn
_PROJECTION_ERROR = 1e-11  # above it the space grows, or the dense form is taken
_INFLATION = 1e-9  # of the squared shifts by whitening in the projection, likewise
_EXCESS_INFLATION = 1e-4  # of the excesses, which matter to second order
_DENSE_BELOW = 40  # parameters: a small problem is cheaper without a projection
_ROUNDING_LIMIT = 1e-8
_NOISE_TOLERANCE = 1e-10
_MARGIN = 3e-9  # in log delta, kept while searching for what the errors will take
_LARGEST_LOG_NOISE = 250.0
_EVIDENCE_DIRECTIONS = 16
_CHUNK = 64  # rows whose residual means are formed together
_LOG_REST = 40.0  # e^-40 of delta is set aside for the event that e0 does not cover


@dataclass(frozen=True)
class Exact:
    """The exact divergence between the two runs of Definition 1.

    Parameters
    ----------
    direction : {"both", "definition"}, default="both"
        "both" certifies the larger of the two directions; "definition" is Definition 1's alone.
    """

    direction: str = "both"

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ("both", "definition"))

    def describe(self) -> dict[str, Any]:
        """Name and options, as they stand in a certificate."""
        return {"name": "exact", **asdict(self)}

    def calibrate(self, law: IterateLaw, request: Request, target: Target) -> Calibration:
        """The least noise that certifies the target for one request."""
        Z, means = _rows_in_law(law, request)
        with _one_thread():
            return self._calibrate(_Difference(law, Z, means), target)

    def calibrate_each(self, law: IterateLaw, rows: Request, target: Target) -> tuple[Array, Array]:
        """Noise and certified epsilon of every row as a request by itself."""
        noise, epsilon = np.empty(len(rows.X)), np.empty(len(rows.X))
        for start in range(0, len(rows.X), _CHUNK):
            part = slice(start, start + _CHUNK)
            Z, means = _rows_in_law(law, Request(rows.X[part], rows.Y[part]))
            with _one_thread():
                for i in range(len(Z)):
                    answer = self._calibrate(_Difference(law, Z[[i]], means[[i]]), target)
                    noise[start + i], epsilon[start + i] = answer.noise, answer.epsilon
        return noise, epsilon

    def spend(self, law: IterateLaw, request: Request, noise: float, target: Target) -> Calibration:
        """What a given noise certifies."""
        Z, means = _rows_in_law(law, request)
        with _one_thread():
            difference = _Difference(law, Z, means)
            enclosure = difference.enclosure(noise, target.n_unlearn_steps)
            # What is set aside for e0 depends on the epsilon that it should serve.
            for reach in (target.epsilon, 10.0, 100.0, 1e3, 1e4):
                curve = self._curve(enclosure, law.n_outputs, target._replace(epsilon=reach))
                epsilon = curve.epsilon(target.delta)
                if epsilon <= reach:
                    break
            return self._calibration(difference, enclosure, curve, noise, epsilon, target)

    def _calibrate(self, difference: "_Difference", target: Target) -> Calibration:
        K, aim = target.n_unlearn_steps, math.log(target.delta)
        both = self.direction == "both"

        def excess(log_noise: float) -> float:
            noise = math.exp(log_noise)
            if difference.rounding_error(noise, K) > _ROUNDING_LIMIT:
                return math.inf  # too little noise to see the laws apart from their rounding
            try:
                pair = difference.rough_pair(noise, K)
                return PrivacyCurve(pair, both).log_delta(target.epsilon, aim) - aim + _MARGIN
            except ArithmeticError:
                return math.inf  # too far apart to evaluate: more noise

        noise = math.exp(self._root(excess, difference, target))
        step = 1e-10
        while step < 1:
            enclosure = difference.enclosure(noise, K)
            curve = self._curve(enclosure, difference.law.n_outputs, target)
            reached = curve.log_delta(target.epsilon, aim)
            if reached <= aim:
                tight = reached >= aim - 1e-6  # then the target is the least epsilon, to rounding
                epsilon = target.epsilon if tight else curve.epsilon(target.delta)
                return self._calibration(difference, enclosure, curve, noise, epsilon, target)
            # The search saw neither the projection's error nor the merging: step over them.
            noise = noise * (1 + step) if noise > 0 else noise_floor(difference.law)
            step *= 2
        raise ArithmeticError("the calibrated noise misses its target; please report this.")

    def _root(
        self, excess: Callable[[float], float], difference: "_Difference", target: Target
    ) -> float:
        """Least log noise that is enough: -inf for none at all, else not below the floor."""
        floor = math.log(noise_floor(difference.law))
        low = high = max(difference.likely_log_noise(target), floor)
        step = 0.01
        while excess(high) > 0:
            low, high, step = high, high + step, 4 * step
            if high > _LARGEST_LOG_NOISE:
                raise ArithmeticError("no noise was found to suffice; please report this.")
        while low == high or excess(low) <= 0:
            if low <= floor:  # under the floor noise is pointless; perhaps none is needed
                return -math.inf if excess(-math.inf) <= 0 else floor
            low, high, step = max(low - step, floor), low, 4 * step
        return safe_root(excess, low, high, tolerance=_NOISE_TOLERANCE)

    def _curve(self, enclosure: Enclosure, outputs: int, target: Target) -> PrivacyCurve:
        pair = GaussianPair(enclosure.excesses, enclosure.squared_shifts, np.array(outputs))
        both = self.direction == "both"
        if pair.is_trivial and enclosure.shift_error == enclosure.covariance_error == 0.0:
            return PrivacyCurve(pair, both)  # the rows are zero: the two runs are one
        log_tail = math.log(target.delta) - _LOG_REST - target.epsilon
        # The errors are in units of Q's noise; closeness wants those of P's, which may be smaller.
        least = 0.9 * (1 + min(float(np.min(enclosure.excesses)), 0.0))
        error = closeness(
            enclosure.shift_error / math.sqrt(least),
            enclosure.covariance_error / least,
            outputs,
            log_tail,
        )
        return PrivacyCurve(pair.merged(_EVIDENCE_DIRECTIONS), both, error, log_tail)

    def _calibration(
        self,
        difference: "_Difference",
        enclosure: Enclosure,
        curve: PrivacyCurve,
        noise: float,
        epsilon: float,
        target: Target,
    ) -> Calibration:
        pair = curve.pair
        return Calibration(
            noise=noise,
            epsilon=epsilon,
            delta=target.delta,
            mu=None,
            both_directions=curve.both,
            slack=0.0,
            curve=curve.forward(),
            checks={"dense": difference.is_dense},
            evidence={
                "directions": np.column_stack(
                    [pair.excesses, pair.squared_shifts, pair.counts]
                ).tolist(),
                "epsilon_error": curve.epsilon_error,
                "log_tail": None if math.isinf(curve.log_tail) else curve.log_tail,
            },
            numerical_error={
                "shift": enclosure.shift_error,
                "covariance": enclosure.covariance_error,
                "epsilon": curve.epsilon_error,
            },
        )


class _Difference:
    """The difference of one request's two runs: projected, grown where needed, dense at last.

    `Z` are the rows in the eigenbasis (R x r), `means` their residual means (R x d x N).
    """

    def __init__(self, law: IterateLaw, Z: Array, means: Array) -> None:
        self.law = law
        self._rows, self._means = Z, means
        self._krylov: KrylovDifference | None = None
        self._dense: ChainDifference | None = None
        self._nothing = not Z.any()  # rows of zeros leave no trace
        if self._nothing:
            return
        if Z.shape[1] <= _DENSE_BELOW or law.schedule.segments[-1].noise == 0.0:
            self._dense = dense_difference(law, Z, means)
        else:
            self._lanczos = BlockLanczos(law.spectrum.eigenvalues, Z.T)
            self._sizes = iter([size * self._lanczos.width for size in _GROWTH])
            self._grow()

    @property
    def is_dense(self) -> bool:
        """Whether the full eigenbasis had to be used."""
        return self._dense is not None

    @property
    def _shown(self) -> ChainDifference:
        shown = self._dense if self._krylov is None else self._krylov.projected
        assert shown is not None
        return shown

    def likely_log_noise(self, target: Target) -> float:
        """Where the squared shifts alone, a Gaussian mechanism, would meet the target."""
        aim, K = _target_mu(target.epsilon, target.delta) ** 2, target.n_unlearn_steps
        start = math.log(self.law.schedule.segments[0].noise)
        if self._nothing:
            return start

        def excess(log_noise: float) -> float:
            return math.log(self._shown.total_squared_shift(math.exp(log_noise), K) / aim + 1e-300)

        low, high = start - 20, start + 20
        if excess(low) <= 0 or excess(high) > 0:
            return start
        return float(brentq(excess, low, high, xtol=1e-3))

    def rough_pair(self, noise: float, n_steps: int) -> GaussianPair:
        """The pair as the projection sees it, without its error: for searching."""
        if self._nothing:
            return GaussianPair(np.zeros(1), np.zeros(1), np.ones(1))
        white = self._shown.whitened(noise, n_steps)
        _check_not_degenerate(white.excesses, noise)
        pair = GaussianPair(white.excesses, white.squared_shifts, np.array(self.law.n_outputs))
        return pair.without_dust()

    def enclosure(self, noise: float, n_steps: int) -> Enclosure:
        """The pair with all errors on the safe side."""
        if self._nothing:
            return Enclosure(np.zeros(1), np.zeros(1), 0.0, 0.0)
        if self.rounding_error(noise, n_steps) > _ROUNDING_LIMIT:
            raise ArithmeticError(
                f"with noise={noise!r} the two laws are too narrow to be told from rounding. Use "
                "more noise."
            )
        while self._krylov is not None and self._dense is None:
            raw = self._krylov.projected.whitened(noise, n_steps)
            found = self._krylov.whitened(noise, n_steps)
            shifts = found.squared_shifts.sum() <= raw.squared_shifts.sum() * (1 + _INFLATION)
            size = float(np.linalg.norm(raw.excesses))
            excesses = np.linalg.norm(found.excesses) <= size * (1 + _EXCESS_INFLATION) + 1e-9
            if shifts and excesses:
                return self._with_rounding(found, noise, n_steps)
            self._grow()
        assert self._dense is not None
        white = self._dense.whitened(noise, n_steps)
        found = Enclosure(white.excesses, white.squared_shifts, 0.0, 0.0)
        return self._with_rounding(found, noise, n_steps)

    def rounding_error(self, noise: float, n_steps: int) -> float:
        """Rounding of the whitened difference."""
        if self._nothing:
            return 0.0
        unit = self._shown.rounding_error(noise, n_steps)
        if self._krylov is not None and self._krylov.coupling.size == 0:
            # An invariant space is invariant up to the deflation tolerance, at every step.
            unit += 2e-14 * self.law.schedule.n_steps
        return unit

    def _with_rounding(self, e: Enclosure, noise: float, n_steps: int) -> Enclosure:
        _check_not_degenerate(e.excesses, noise)
        unit = self.rounding_error(noise, n_steps)
        size = math.sqrt(float(np.sum(e.squared_shifts)))
        # An excess of rounding size is none: merging would take its ratio to others seriously.
        dust = np.abs(e.excesses) <= unit
        lost = float(np.linalg.norm(e.excesses[dust]))
        return Enclosure(
            np.where(dust, 0.0, e.excesses),
            e.squared_shifts,
            e.shift_error + unit * (1 + size),
            e.covariance_error + unit + lost,
        )

    def _grow(self) -> None:
        for size in self._sizes:
            self._lanczos.extend(size)
            self._krylov = krylov_difference(self.law, self._lanczos, self._means)
            if self._krylov.relative_error <= _PROJECTION_ERROR:
                return
        self._dense = dense_difference(self.law, self._rows, self._means)


def _rows_in_law(law: IterateLaw, request: Request) -> tuple[Array, Array]:
    Z = law.coordinates(request.X)
    return Z, law.residual_means(Z, request.Y)


def _one_thread() -> AbstractContextManager[Any]:
    # Matrices of a few dozen rows: a second BLAS thread only costs.
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


def _check_not_degenerate(excesses: Array, noise: float) -> None:
    if not float(np.min(excesses)) > -1.0:
        raise ArithmeticError(
            f"with noise={noise!r} one of the two laws is degenerate. Use more noise."
        )


@lru_cache(maxsize=64)
def _target_mu(epsilon: float, delta: float) -> float:
    return float(mu_from_epsilon(epsilon, delta))
