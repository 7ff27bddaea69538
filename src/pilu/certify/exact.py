"""The exact accountant: Definition 1 evaluated, not bounded.

For ridge both sides of Definition 1 are Gaussian with known law, so their hockey-stick divergence
can be computed (`accounting.gaussians`) from a few numbers (`laws.krylov`, with its proved error).
What is left of that error, a shift nu and a covariance tau in units of the retained run's noise,
is paid for in epsilon (`accounting.curves`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from pilu._checks import check_choice
from pilu._processes import shared_out
from pilu.accounting.curves import PrivacyCurve, closeness
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import delta_from_mu, mu_from_epsilon
from pilu.accounting.search import safe_root
from pilu.accounting.series import nearly_gaussian_log_delta
from pilu.certify.accountant import Calibration, Law, Progress, Request, Target
from pilu.certify.floor import noise_floor
from pilu.laws.comparison import Comparison
from pilu.laws.cyclic import CyclicLaw
from pilu.laws.cyclic_difference import CyclicDifference
from pilu.laws.difference import Enclosure
from pilu.laws.iterates import IterateLaw
from pilu.laws.proven import ProvenDifference

__all__ = ["Exact"]

Array = NDArray[np.float64]

_NOISE_TOLERANCE = 1e-10
_MARGIN = 1e-8  # in log delta, kept while searching for what the errors will take
_LOOSE = 2e-9  # relative noise that is worth a second look
_SECANT_STEPS = 8
_SECANT_END = 1e-5  # a step of this size leaves an error of its square
_NEARLY_GAUSSIAN = 1e-7  # squared excesses below which a series will do for the search
_CLEARLY = 1e-7  # in log delta: a direction this much smaller is left out of the search
_WIDE_OF_THE_MARK = 1e-3  # in log delta
_LARGEST_LOG_NOISE = 250.0
_LARGEST_NOISE = math.exp(_LARGEST_LOG_NOISE)
_EVIDENCE_DIRECTIONS = 16
_PIECE = 32  # rows that are handed to a process at a time
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

    takes_corrections: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ("both", "definition"))

    def describe(self) -> dict[str, Any]:
        """Name and options, as they stand in a certificate."""
        return {"name": "exact", **asdict(self)}

    def prepare(self, law: Law, rows: NDArray[np.intp]) -> None:
        """Requests share nothing but the law."""

    def calibrate(self, law: Law, request: Request, target: Target) -> Calibration:
        """The least noise that certifies the target for one request."""
        return self.calibrate_targets(law, request, [target])[0]

    def calibrate_targets(
        self, law: Law, request: Request, targets: Sequence[Target]
    ) -> list[Calibration]:
        """The same for several targets, which share all that depends on the rows alone."""
        with _threads_for(law):
            difference, floor = _difference(law, request), noise_floor(law)
            return [self._calibrate(difference, target, floor) for target in targets]

    def calibrate_each(
        self, law: Law, blocks: Iterable[Request], target: Target, progress: Progress
    ) -> tuple[Array, Array]:
        """Noise and certified epsilon of every row of the blocks as a request by itself.

        The rows go to as many processes as `joblib.parallel_config` allows, in small pieces; on
        mini-batches, where each takes all cores, they come one after the other.
        """
        if isinstance(law, CyclicLaw):
            return self._calibrate_in_turn(law, blocks, target, progress)
        floor, bare = noise_floor(law), law.without_basis()

        def pieces() -> Iterator[tuple[Any, ...]]:
            for rows in blocks:
                with _one_thread():  # the other cores are with the pieces
                    Z = law.coordinates(rows.X)
                for i in range(0, len(Z), _PIECE):
                    some = slice(i, i + _PIECE)
                    yield bare, Z[some], rows.Y[some], target, floor

        found = []
        for piece in shared_out(self._calibrate_piece, pieces(), effective_n_jobs(None)):
            found.append(piece)
            progress(len(piece))
        noise, epsilon = np.concatenate(found).T
        return noise, epsilon

    def _calibrate_in_turn(
        self, law: CyclicLaw, blocks: Iterable[Request], target: Target, progress: Progress
    ) -> tuple[Array, Array]:
        found = []
        for block in blocks:
            for i in range(len(block.X)):
                row = Request(block.X[[i]], block.Y[[i]], block.rows[[i]])
                answer = self.calibrate(law, row, target)
                found.append((answer.noise, answer.epsilon))
                progress(1)
        noise, epsilon = np.array(found).T
        return noise, epsilon

    def _calibrate_piece(
        self, law: IterateLaw, Z: Array, Y: Array, target: Target, floor: float
    ) -> Array:
        found, sizes = [], [0, 0]
        with _one_thread():
            for i in range(len(Z)):
                # The next row most likely needs as large a space as the last two did.
                difference = ProvenDifference(law, Z[[i]], Y[[i]], at_least=min(sizes[-2:]))
                answer = self._calibrate(difference, target, floor)
                sizes.append(difference.size)
                found.append((answer.noise, answer.epsilon))
        return np.array(found)

    def spend(self, law: Law, request: Request, noise: float, target: Target) -> Calibration:
        """What a given noise certifies."""
        with _threads_for(law):
            difference = _difference(law, request)
            enclosure = difference.enclosure(noise, target.n_unlearn_steps)
            # What is set aside for e0 depends on the epsilon that it should serve.
            for reach in (target.epsilon, 10.0, 100.0, 1e3, 1e4):
                curve = self._curve(enclosure, law.n_outputs, target._replace(epsilon=reach))
                epsilon = curve.epsilon(target.delta)
                if epsilon <= reach:
                    break
            return self._calibration(difference, enclosure, curve, noise, epsilon, target)

    def _calibrate(self, difference: Comparison, target: Target, floor: float) -> Calibration:
        guess = difference.likely_log_noise(
            _target_mu(target.epsilon, target.delta), target.n_unlearn_steps
        )
        for series in (True, False):
            search = _Search(difference, target, self.direction, series=series)
            noise = math.exp(search.log_noise(guess, math.log(floor)))
            answer, reached = self._checked(difference, target, noise, floor, search.steepness)
            # A noise that is far too large was found by a series that does not hold.
            unused = math.log(target.delta) - reached
            if answer.noise <= floor or unused <= _WIDE_OF_THE_MARK:
                break
        if answer.noise > floor and _LOOSE < unused / search.steepness < 1.0:
            # Where delta falls slowly the margin of the search is much noise: most is taken back.
            less = answer.noise * (1 - 0.95 * unused / search.steepness)
            tighter, _ = self._checked(difference, target, less, floor, search.steepness)
            answer = tighter if tighter.noise < answer.noise else answer
        return answer

    def _checked(
        self,
        difference: Comparison,
        target: Target,
        noise: float,
        floor: float,
        steepness: float,
    ) -> tuple[Calibration, float]:
        """The least noise from `noise` on that certifies the target, all errors included."""
        K, aim, step = target.n_unlearn_steps, math.log(target.delta), 1e-10
        while noise < _LARGEST_NOISE:
            try:
                enclosure = difference.enclosure(noise, K)
                curve = self._curve(enclosure, difference.law.n_outputs, target)
                reached = curve.log_delta(target.epsilon, aim)
            except ArithmeticError:  # so little noise that rounding hides the laws
                noise = max(2 * noise, floor)
                continue
            if reached <= aim:
                tight = reached >= aim - 1e-6  # then the target is the least epsilon, to rounding
                epsilon = target.epsilon if tight else curve.epsilon(target.delta)
                found = self._calibration(difference, enclosure, curve, noise, epsilon, target)
                return found, reached
            # The search saw neither the projection's error nor the merging: step over them.
            step = min(max(2 * step, 1.1 * (reached - aim) / steepness), 1.0)
            noise = noise * (1 + step) if noise > 0 else floor
        raise ArithmeticError("no noise was found to suffice; please report this.")

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
        difference: Comparison,
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


class _Search:
    """The least noise that is enough, as the projection sees it, without its error."""

    def __init__(
        self, difference: Comparison, target: Target, direction: str, *, series: bool = True
    ) -> None:
        self._difference, self._target = difference, target
        self._both, self._uses_series = direction == "both", series
        self._reverse_only = False
        self.steepness = math.inf  # how fast log delta falls with log noise, once known

    def log_noise(self, guess: float, floor: float) -> float:
        """-inf for none at all, else not below the floor."""
        root = self._by_secant(guess, floor)
        return self._by_bracket(max(guess, floor), floor) if root is None else root

    def _excess(self, log_noise: float) -> float:
        """log delta over its target: falls with the noise."""
        noise, K = math.exp(log_noise), self._target.n_unlearn_steps
        aim = math.log(self._target.delta)
        try:
            reached = self._by_series(noise, K)
            if reached is None:
                outputs = np.array(self._difference.law.n_outputs)
                pair = GaussianPair(*self._difference.rough(noise, K), outputs)
                reached = self._log_delta(pair.without_dust(), aim)
            return reached - aim + _MARGIN
        except ArithmeticError:
            return math.inf  # too far apart to evaluate, or to tell from rounding: more noise

    def _by_series(self, noise: float, n_steps: int) -> float | None:
        """log delta where the laws are nearly those of a Gaussian mechanism, else None."""
        moments = self._difference.moments(noise, n_steps)
        outputs = self._difference.law.n_outputs
        small = 0 < outputs * moments[3] < _NEARLY_GAUSSIAN < moments[0]
        if not (small and self._uses_series) or self._reverse_only:
            return None
        epsilon = self._target.epsilon
        try:
            return nearly_gaussian_log_delta(*moments, outputs, epsilon, both=self._both)
        except ArithmeticError:
            return None

    def _log_delta(self, pair: GaussianPair, aim: float) -> float:
        epsilon = self._target.epsilon
        if self._reverse_only:
            return pair.reversed().log_delta(epsilon, aim - 1)
        forward = pair.log_delta(epsilon, aim - 1)
        if not self._both:
            return forward
        backward = pair.reversed().log_delta(epsilon, aim - 1)
        if aim - 1 < max(forward, backward) < math.inf and abs(forward - backward) > _CLEARLY:
            # One direction leads, and will near the root; the answer is checked in both.
            self._both, self._reverse_only = False, backward > forward
        return max(forward, backward)

    def _by_secant(self, guess: float, floor: float) -> float | None:
        """The root from a good guess in two or three evaluations; None where that fails."""
        slope = self._likely_slope(guess)
        here, value = guess, self._excess(guess)
        for _ in range(_SECANT_STEPS):
            if not (math.isfinite(value) and slope < 0 and here > floor):
                return None
            step = -value / slope
            if abs(step) > 1.0:
                return None
            there = here + step
            if abs(step) < _SECANT_END:
                self.steepness = -slope
                return there if there > floor else None
            after = self._excess(there)
            slope = (after - value) / step
            here, value = there, after
        return None

    def _likely_slope(self, guess: float) -> float:
        """d log delta / d log noise, as if the pair were a Gaussian mechanism."""
        target, h = self._target, 1e-3
        K = target.n_unlearn_steps
        shift = [self._difference.squared_shift(math.exp(guess + t), K) for t in (-h, h)]
        if not min(shift) > 0:
            return 0.0
        rate = math.log(shift[1] / shift[0]) / (4 * h)  # of log mu
        return rate * _log_delta_rate(target.epsilon, target.delta)

    def _by_bracket(self, start: float, floor: float) -> float:
        low = high = start
        step = 0.01
        while self._excess(high) > 0:
            low, high, step = high, high + step, min(4 * step, 1.0)
            if high > _LARGEST_LOG_NOISE:
                raise ArithmeticError("no noise was found to suffice; please report this.")
        while low == high or self._excess(low) <= 0:
            if low <= floor:  # under the floor noise is pointless; perhaps none is needed
                return -math.inf if self._excess(-math.inf) <= 0 else floor
            low, high, step = max(low - step, floor), low, min(4 * step, 1.0)
        root = safe_root(self._excess, low, high, tolerance=_NOISE_TOLERANCE)
        h = 1e-4
        self.steepness = max((self._excess(root) - self._excess(root + h)) / h, 1e-3)
        return root


def _difference(law: Law, request: Request) -> Comparison:
    if isinstance(law, CyclicLaw):
        return CyclicDifference(law, request.rows, request.X, request.Y)
    return ProvenDifference(law, law.coordinates(request.X), request.Y)


def _threads_for(law: Law) -> AbstractContextManager[Any]:
    return nullcontext() if isinstance(law, CyclicLaw) else _one_thread()


def _one_thread() -> AbstractContextManager[Any]:
    # Matrices of a few dozen rows: a second BLAS thread only costs.
    limits: AbstractContextManager[Any] = _thread_pools().limit(limits=1, user_api="blas")
    return limits


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the libraries takes milliseconds


@lru_cache(maxsize=64)
def _target_mu(epsilon: float, delta: float) -> float:
    return float(mu_from_epsilon(epsilon, delta))


@lru_cache(maxsize=64)
def _log_delta_rate(epsilon: float, delta: float) -> float:
    """d log delta / d log mu of the Gaussian mechanism at the target."""
    mu, h = _target_mu(epsilon, delta), 1e-4
    low, high = (math.log(float(delta_from_mu(mu * (1 + t), epsilon))) for t in (-h, h))
    return (high - low) / (2 * h)
