"""The exact accountant: Definition 1 evaluated, not bounded.

For ridge both sides of Definition 1 are known Gaussians. Their hockey-stick divergence is computed
(`accounting.gaussians`) from a few numbers (`ridge.krylov`, with a proved error). The remaining
error, a shift nu and a covariance tau in units of the retained run's noise, is added to epsilon
(`accounting.curves`).
"""

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from pilu._checks import check_choice
from pilu._processes import map_in_order, pack
from pilu.accounting.cumulants import log_down
from pilu.accounting.curves import CoarseCurve, Curve, PrivacyCurve
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.many_curves import log_deltas
from pilu.accounting.noise_search import (
    LARGEST_LOG_NOISE,
    NoiseSearch,
    likely_epsilon,
    log_delta_fall,
    mu_of,
)
from pilu.certify.accountant import TOLERANCE, Calibration, Progress, Target, require
from pilu.certify.certificate import Certificate
from pilu.certify.pieces import Answer, answer_piece
from pilu.chains.comparison import Comparison, Enclosure
from pilu.chains.problem import Law
from pilu.data.rows import Request
from pilu.exceptions import BeyondPrecision

Array = NDArray[np.float64]
Groups = Iterable[tuple[Request, NDArray[np.intp]]]  # blocks, each with the sizes of its groups

_UP = 1 + 1e-12
_LOOSE = 3e-7  # relative excess noise that is worth a second search
_ROOM = 1.01  # of the errors' likely share, left by the search
_TIGHT = 5e-6  # in log delta: so close to delta the target counts as the least epsilon
_FAR_BELOW = 1e-3  # in log delta: a search that ends further below delta is repeated
_LARGEST_NOISE = math.exp(LARGEST_LOG_NOISE)
_EVIDENCE_DIRECTIONS = 16
_PIECE = 32  # rows sent to a process at a time
_REACHES = (10.0, 100.0, 1e3, 1e4)  # epsilons
_LOG_REST = 40.0  # e^-40 of delta is set aside for the event not covered by the epsilon error


class Checked(NamedTuple):
    """A noise that certifies the target with all errors included."""

    comparison: Comparison
    noise: float
    enclosure: Enclosure
    curve: PrivacyCurve
    reached: float  # log delta at the target's epsilon


# Asks for log delta of curves at the target's epsilon, so that many searches are answered together.
_Search = Generator[PrivacyCurve, float, Checked]


@dataclass(frozen=True)
class Exact:
    """The exact divergence between the two runs of Definition 1.

    Parameters
    ----------
    direction : {"both", "definition"}, default="both"
        "both" certifies both directions; "definition" only that of Definition 1.
    """

    direction: str = "both"

    takes_corrections: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ("both", "definition"))

    def describe(self) -> dict[str, Any]:
        """Name and options, as a certificate records them."""
        return {"name": "exact", **asdict(self)}

    def prepare(self, law: Law, rows: NDArray[np.intp]) -> None:
        """Do nothing: requests share only the law."""

    def calibrate(self, law: Law, request: Request, target: Target) -> Calibration:
        """The least noise that certifies the target for one request."""
        return self.calibrate_targets(law, request, [target])[0]

    def calibrate_targets(
        self, law: Law, request: Request, targets: Sequence[Target]
    ) -> list[Calibration]:
        """The same for several targets, which share the comparison of the two runs."""
        with law.threads():
            comparison = law.comparison(request)
            return [self._calibrate([comparison], target)[0] for target in targets]

    def calibrate_each(
        self, law: Law, blocks: Iterable[Request], target: Target, progress: Progress
    ) -> tuple[Array, Array]:
        """Noise and certified epsilon of every row as a separate request."""
        ones = ((block, np.ones(len(block.X), dtype=np.intp)) for block in blocks)
        return self.calibrate_groups(law, ones, target, progress)

    def calibrate_groups(
        self,
        law: Law,
        blocks: Groups,
        target: Target,
        progress: Progress,
    ) -> tuple[Array, Array]:
        """Noise and certified epsilon of groups of rows, each a request."""
        answer = partial(self._calibrate, target=target)
        return self._answer_groups(law, blocks, answer, progress)

    def spend_groups(
        self, law: Law, blocks: Groups, noise: float, target: Target, progress: Progress
    ) -> Array:
        """Epsilon of groups of rows, each a request, that a given noise certifies."""
        answer = partial(self._spend_each, noise=noise, target=target)
        return self._answer_groups(law, blocks, answer, progress)[1]

    def _answer_groups(
        self,
        law: Law,
        blocks: Groups,
        answer: Answer,
        progress: Progress,
    ) -> tuple[Array, Array]:
        """Noise and epsilon of the answers to groups of rows.

        A block comes with the sizes of its consecutive groups. If the law is portable, small pieces
        are sent to as many processes as `joblib.parallel_config` allows.
        """
        portable = law.portable()
        work = partial(answer_piece, portable or law, answer)

        def pieces() -> Iterator[tuple[Any, ...]]:
            for block, sizes in blocks:
                with law.threads():  # other cores work on pieces
                    block = block._replace(X=law.coordinates(block.X))
                for groups, rows in pack(sizes, _PIECE if portable is not None else 1):
                    yield block.part(rows), sizes[groups]

        answers, n_jobs = [], 1
        if portable is not None:  # None: what `joblib.parallel_config` says
            n_jobs = effective_n_jobs(None)  # type: ignore[arg-type]  # the stub forgets None
        for piece in map_in_order(work, pieces(), n_jobs):
            answers.append(piece)
            progress(len(piece))
        noise, epsilon = np.concatenate(answers).T
        return noise, epsilon

    def spend(self, law: Law, request: Request, noise: float, target: Target) -> Calibration:
        """What a given noise certifies."""
        with law.threads():
            return self._spend(law.comparison(request), noise, target)

    def _spend_each(
        self, comparisons: Sequence[Comparison], noise: float, target: Target
    ) -> list[Calibration]:
        return [self._spend(comparison, noise, target) for comparison in comparisons]

    def _spend(self, comparison: Comparison, noise: float, target: Target) -> Calibration:
        enclosure, outputs = (
            comparison.enclosure(noise, target.n_unlearn_steps),
            comparison.n_outputs,
        )
        size = float(np.sum(enclosure.squared_shifts + outputs / 2 * enclosure.excesses**2))
        near = likely_epsilon(math.sqrt(size), target.delta)
        # The part of delta set aside for the error depends on the epsilon, not known yet.
        first = target.epsilon if near <= 1.05 * target.epsilon else 1.1 * near
        for reach in (first, *(r for r in _REACHES if r > first)):
            curve = self._curve(enclosure, outputs, target, reach)
            epsilon = curve.epsilon(target.delta, near)
            if epsilon <= reach:
                break
        if epsilon < reach / 1.5:
            tighter = self._curve(enclosure, outputs, target, epsilon)
            if (less := tighter.epsilon(target.delta, epsilon)) < epsilon:
                curve, epsilon = tighter, less
        return self._calibration(comparison, enclosure, curve, noise, epsilon, target)

    def _calibrate(self, comparisons: Sequence[Comparison], target: Target) -> list[Calibration]:
        """The least noise of each comparison; their checks are evaluated together."""
        aim = math.log(target.delta)
        searches = [self._search(comparison, target) for comparison in comparisons]
        asked = {i: next(search) for i, search in enumerate(searches)}
        answers: dict[int, Calibration] = {}
        while asked:
            reached = log_deltas(list(asked.values()), target.epsilon, aim)
            for i, value in zip(list(asked), reached, strict=True):
                try:
                    asked[i] = searches[i].send(value)
                except StopIteration as found:
                    del asked[i]
                    answers[i] = self._settled(found.value, target)
        return [answers[i] for i in range(len(comparisons))]

    def _search(self, comparison: Comparison, target: Target) -> _Search:
        """The search for the least noise; asks for log delta of curves at the target's epsilon."""
        epsilon, delta, K, floor = target
        guess = comparison.likely_log_noise(mu_of(epsilon, delta), K)
        margin = self._likely_margin(comparison, target, math.exp(guess))
        for series in (True, False):
            search = NoiseSearch(
                comparison,
                comparison.n_outputs,
                K,
                epsilon,
                delta,
                both=self.direction == "both",
                series=series,
                margin=margin,
            )
            log_noise = search.log_noise(guess, math.log(floor))
            noise = 0.0 if math.isinf(log_noise) else floor
            if log_noise > math.log(floor):  # exp(log(floor)) may differ from the floor
                noise = math.exp(log_noise)
            answer = yield from self._checked(comparison, target, noise, search.steepness)
            unused = math.log(target.delta) - answer.reached
            if answer.noise <= floor or unused <= _FAR_BELOW or not search.used_series:
                break  # otherwise the series was invalid and the noise is far too large
        if answer.noise > floor and _LOOSE < unused / search.steepness < 1.0:
            # If delta falls slowly, the margin of the search is much noise. Take most of it back.
            less = answer.noise * (1 - 0.95 * unused / search.steepness)
            tighter = yield from self._checked(comparison, target, less, search.steepness)
            answer = tighter if tighter.noise < answer.noise else answer
        return answer

    def _likely_margin(self, comparison: Comparison, target: Target, noise: float) -> float:
        """About by how much log delta must be below its target for what the errors take."""
        shift, covariance = comparison.likely_errors(noise, target.n_unlearn_steps)
        try:
            error = _error(shift, covariance, 0.0, comparison.n_outputs, _log_tail(target))
        except ArithmeticError:
            return 0.0
        likely = _ROOM * error * (1 + log_delta_fall(target.epsilon, target.delta))
        return min(likely, _FAR_BELOW)

    def _checked(
        self,
        comparison: Comparison,
        target: Target,
        noise: float,
        steepness: float,
    ) -> _Search:
        """The least noise >= `noise` that certifies the target with all errors included."""
        K, floor = target.n_unlearn_steps, target.floor
        aim, step = log_down(target.delta), 1e-10
        while noise < _LARGEST_NOISE:
            try:
                enclosure = comparison.enclosure(noise, K)
                curve = self._curve(enclosure, comparison.n_outputs, target)
            except ArithmeticError:  # too little noise for the precision of the laws
                noise = max(2 * noise, floor)
                continue
            reached = yield curve
            if math.isnan(reached):  # the same
                noise = max(2 * noise, floor)
                continue
            if reached <= aim:
                return Checked(comparison, noise, enclosure, curve, reached)
            # The search ignores the errors of projection and merging. Increase the noise for them.
            step = min(max(2 * step, 1.1 * (reached - aim) / steepness), 1.0)
            noise = noise * (1 + step) if noise > 0 else floor
        raise ArithmeticError("no noise meets the target; please report this.")

    def _settled(self, found: Checked, target: Target) -> Calibration:
        """The answer once the noise is found."""
        comparison, noise, enclosure, curve, reached = found
        tight = reached >= math.log(target.delta) - _TIGHT  # then the target is the least epsilon
        epsilon = target.epsilon if tight else curve.epsilon(target.delta)
        return self._calibration(comparison, enclosure, curve, noise, epsilon, target)

    def _curve(
        self, enclosure: Enclosure, outputs: int, target: Target, reach: float | None = None
    ) -> PrivacyCurve:
        """The curve, with a negligible tail up to the epsilon `reach` (default: the target's)."""
        log_tail = _log_tail(target, reach)
        shift_error, covariance_error = enclosure.shift_error, enclosure.covariance_error
        least = min(float(np.min(enclosure.excesses)), 0.0)
        error = _error(shift_error, covariance_error, least, outputs, log_tail)
        pair = GaussianPair(enclosure.excesses, enclosure.squared_shifts, np.array(outputs))
        both = self.direction == "both"
        if pair.is_trivial and shift_error == covariance_error == 0.0:
            return PrivacyCurve(pair, both)  # the rows are zero: both runs have the same law
        return PrivacyCurve(pair.merged(_EVIDENCE_DIRECTIONS), both, error, log_tail)

    def _calibration(
        self,
        comparison: Comparison,
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
            checks={"dense": comparison.is_dense},
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

    @staticmethod
    def check(certificate: Certificate) -> None:
        """The exact accountant states no mu."""
        require(certificate.mu is None, "mu is stated, but the exact accountant has none")

    @staticmethod
    def recompute(certificate: Certificate) -> tuple[float, Curve]:
        """Epsilon and the curve from the principal directions in the evidence."""
        c, evidence = certificate, certificate.evidence or {}
        curve = curve_of(evidence, both=c.accountant["direction"] == "both")
        recomputed = curve.epsilon(c.delta)
        forward: Curve = curve.forward()
        if c.accountant.get("coarse") is True:  # the requested epsilon is stated, an upper bound
            close = c.epsilon == c.epsilon_target
            forward = CoarseCurve(forward, mu_of(c.epsilon_target, c.delta))
        else:
            # A calibrated noise certifies the target, which is slightly above the least epsilon.
            close = c.epsilon <= recomputed * (1 + 1e-5) + 1e-9
        close = close and recomputed <= c.epsilon * (1 + TOLERANCE) + 1e-12
        return (c.epsilon if close else recomputed), forward


def curve_of(evidence: Mapping[str, Any], *, both: bool = False) -> PrivacyCurve:
    """The privacy curve that the exact accountant's evidence describes."""
    numbers = np.array(evidence["directions"], dtype=np.float64)
    log_tail, error = evidence["log_tail"], float(evidence["epsilon_error"])
    require(
        numbers.ndim == 2 and numbers.shape[1] == 3 and 0 <= error < math.inf,
        "the evidence is out of range",
    )
    tail = -math.inf if log_tail is None else float(log_tail)
    return PrivacyCurve(GaussianPair(*numbers.T), both, error, tail)


def _log_tail(target: Target, reach: float | None = None) -> float:
    """log of what is set aside for the error up to the epsilon `reach`, or the target's."""
    return math.log(target.delta) - _LOG_REST - (target.epsilon if reach is None else reach)


def _error(
    shift: float, covariance: float, least_excess: float, outputs: int, log_tail: float
) -> float:
    """`closeness`, of errors in units of Q's noise: it needs them in units of P's."""
    least = 0.9 * (1 + least_excess)
    return closeness(shift / math.sqrt(least), covariance / least, outputs, log_tail)


def closeness(shift: float, covariance: float, outputs: int, log_tail: float) -> float:
    """e0 for laws whose whitened means and covariances differ by `shift` and `covariance`.

    D_alpha(P || P^) <= alpha t^2, t^2 = shift^2 + d covariance^2 / 2, while
    (alpha - 1) covariance <= 1/2. By Chernoff's bound the loss exceeds
    e0 = alpha t^2 + |log_tail| / (alpha - 1) with probability at most e^log_tail; alpha is chosen.
    """
    size, tail = math.hypot(shift, math.sqrt(outputs / 2) * covariance), abs(log_tail)
    if not max(size, covariance) <= 0.1:
        raise BeyondPrecision(
            f"the two laws are known only up to {size:.2g}: too coarse to certify. Use more noise."
        )
    if size == 0.0:
        return 0.0
    more = min(math.sqrt(tail) / size, 1 / (2 * covariance) if covariance > 0 else math.inf)
    return ((1 + more) * size**2 + tail / more) * _UP
