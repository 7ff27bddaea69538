"""The exact accountant: Definition 1 evaluated, not bounded.

For ridge both sides of Definition 1 are Gaussian with known law, so their hockey-stick divergence
can be computed (`accounting.gaussians`) from a few numbers (`ridge.krylov`, with its proved error).
What is left of that error, a shift nu and a covariance tau in units of the retained run's noise,
is paid for in epsilon (`accounting.curves`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from pilu._checks import check_choice, complaint
from pilu._processes import packed, shared_out
from pilu.accounting.curves import PrivacyCurve, closeness
from pilu.accounting.gaussians import GaussianPair
from pilu.certify.accountant import Calibration, Law, Progress, Target
from pilu.certify.floor import noise_floor
from pilu.certify.noise_search import LARGEST_LOG_NOISE, NoiseSearch, mu_of
from pilu.chains.comparison import Comparison
from pilu.chains.difference import Enclosure
from pilu.chains.request import Request
from pilu.losses.law import SmoothLaw
from pilu.minibatch.difference import MinibatchDifference
from pilu.minibatch.law import MinibatchLaw
from pilu.ridge.law import RidgeLaw
from pilu.ridge.proven import ProvenDifference

__all__ = ["Exact"]

Array = NDArray[np.float64]

_LOOSE = 2e-9  # relative noise that is worth a second look
_WIDE_OF_THE_MARK = 1e-3  # in log delta
_LARGEST_NOISE = math.exp(LARGEST_LOG_NOISE)
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
        law = _gaussian(law)
        with _threads_for(law):
            difference = _difference(law, request)
            return [
                self._calibrate(difference, target, noise_floor(law, target.n_unlearn_steps))
                for target in targets
            ]

    def calibrate_each(
        self, law: Law, blocks: Iterable[Request], target: Target, progress: Progress
    ) -> tuple[Array, Array]:
        """Noise and certified epsilon of every row of the blocks as a request by itself.

        On mini-batches, where each takes all cores, they come one after the other.
        """
        law = _gaussian(law)
        if isinstance(law, MinibatchLaw):
            return self._calibrate_in_turn(law, blocks, target, progress)
        ones = ((block, np.ones(len(block.X), dtype=np.intp)) for block in blocks)
        return self.calibrate_groups(law, ones, target, progress)

    def calibrate_groups(
        self,
        law: RidgeLaw,
        blocks: Iterable[tuple[Request, NDArray[np.intp]]],
        target: Target,
        progress: Progress,
    ) -> tuple[Array, Array]:
        """Noise and certified epsilon of groups of rows, each a request.

        A block comes with the sizes of its groups, which stand in it one after the other. They go
        to as many processes as `joblib.parallel_config` allows, in small pieces.
        """
        floor = noise_floor(law, target.n_unlearn_steps)
        calibrate = partial(self._calibrate_piece, law.without_basis(), target, floor)

        def pieces() -> Iterator[tuple[Any, ...]]:
            for block, sizes in blocks:
                with _one_thread():  # the other cores are with the pieces
                    Z = law.coordinates(block.X)
                for groups, rows in packed(sizes, _PIECE):
                    yield Z[rows], block.Y[rows], sizes[groups]

        found = []
        for piece in shared_out(calibrate, pieces(), effective_n_jobs(None)):
            found.append(piece)
            progress(len(piece))
        noise, epsilon = np.concatenate(found).T
        return noise, epsilon

    def _calibrate_in_turn(
        self, law: MinibatchLaw, blocks: Iterable[Request], target: Target, progress: Progress
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
        self,
        law: RidgeLaw,
        target: Target,
        floor: float,
        Z: Array,
        Y: Array,
        sizes: NDArray[np.intp],
    ) -> Array:
        found, spaces, ends = [], [0, 0], np.cumsum(sizes)
        with _one_thread():
            for end, size in zip(ends.tolist(), sizes.tolist(), strict=True):
                # The next row most likely needs as large a space as the last two did.
                likely, group = min(spaces[-2:]) if size == 1 else 0, slice(end - size, end)
                difference = ProvenDifference(law, Z[group], Y[group], at_least=likely)
                answer = self._calibrate(difference, target, floor)
                spaces.append(difference.size if size == 1 else 0)
                found.append((answer.noise, answer.epsilon))
        return np.array(found)

    def spend(self, law: Law, request: Request, noise: float, target: Target) -> Calibration:
        """What a given noise certifies."""
        with _threads_for(law):
            return self._spend(_difference(_gaussian(law), request), noise, target)

    def _spend(self, difference: Comparison, noise: float, target: Target) -> Calibration:
        enclosure = difference.enclosure(noise, target.n_unlearn_steps)
        # What is set aside for e0 depends on the epsilon that it should serve.
        for reach in (target.epsilon, 10.0, 100.0, 1e3, 1e4):
            curve = self._curve(enclosure, difference.law.n_outputs, target, reach)
            epsilon = curve.epsilon(target.delta)
            if epsilon <= reach:
                break
        if epsilon < reach:
            tighter = self._curve(enclosure, difference.law.n_outputs, target, epsilon)
            if (less := tighter.epsilon(target.delta)) < epsilon:
                curve, epsilon = tighter, less
        return self._calibration(difference, enclosure, curve, noise, epsilon, target)

    def _calibrate(self, difference: Comparison, target: Target, floor: float) -> Calibration:
        guess = difference.likely_log_noise(
            mu_of(target.epsilon, target.delta), target.n_unlearn_steps
        )
        for series in (True, False):
            search = NoiseSearch(difference, target, self.direction, series=series)
            noise = math.exp(search.log_noise(guess, math.log(floor)))
            noise = max(noise, floor) if noise > 0 else noise  # exp(log(floor)) may be less
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

    def _curve(
        self, enclosure: Enclosure, outputs: int, target: Target, reach: float | None = None
    ) -> PrivacyCurve:
        """The curve, with little set aside up to the epsilon `reach` (the target's)."""
        pair = GaussianPair(enclosure.excesses, enclosure.squared_shifts, np.array(outputs))
        both = self.direction == "both"
        if pair.is_trivial and enclosure.shift_error == enclosure.covariance_error == 0.0:
            return PrivacyCurve(pair, both)  # the rows are zero: the two runs are one
        log_tail = math.log(target.delta) - _LOG_REST - (target.epsilon if reach is None else reach)
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


def _gaussian(law: Law) -> RidgeLaw | MinibatchLaw:
    if isinstance(law, SmoothLaw):
        raise complaint(
            "accountant",
            f"'theorem' for the {law.problem.loss.name} loss",
            "exact",
            "The iterates are Gaussian for ridge only.",
        )
    return law


def _difference(law: RidgeLaw | MinibatchLaw, request: Request) -> Comparison:
    if isinstance(law, MinibatchLaw):
        return MinibatchDifference(law, request.rows, request.X, request.Y)
    return ProvenDifference(law, law.coordinates(request.X), request.Y)


def _threads_for(law: Law) -> AbstractContextManager[Any]:
    return nullcontext() if isinstance(law, MinibatchLaw) else _one_thread()


def _one_thread() -> AbstractContextManager[Any]:
    # Matrices of a few dozen rows: a second BLAS thread only costs.
    limits: AbstractContextManager[Any] = _thread_pools().limit(limits=1, user_api="blas")
    return limits


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the libraries takes milliseconds
