"""The scale s of shaped noise: fixed, or chosen so that nobody's exposure is above a cap.

A chosen scale is a power of 2^(1/4), a function of the rows and options alone: it is read off the
solution that a cold start finds. It depends on the most exposed person, so exposure is stated
"given s".
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.gdp import mu_from_epsilon
from pilu.exceptions import BeyondPrecision, WrongInput
from pilu.refit.exposures import measure, measure_exactly
from pilu.refit.people import People
from pilu.refit.program import Prepared
from pilu.refit.settings import Options
from pilu.refit.shape import Shape
from pilu.refit.shifts import Measured
from pilu.refit.solve import solve

Array = NDArray[np.float64]

_PER_OCTAVE = 4  # scales that may be chosen
_RADIUS = 2.0**-16  # of the solution, in units of the noise, unless epsilon asks for less
_CANDIDATES = 64  # beyond those who may be above the cap
_FACTOR = 8.0  # from one shape that is tried to the next
_MOST_SHAPES = 12
_LIMITED = 0.25  # share of the cap that the shape itself may take before another one is tried


def shape_noise(
    prepared: Prepared, options: Options, people: People
) -> tuple[Prepared, Array | None]:
    """The program with shaped noise, and the cold solution if it was needed to choose the scale."""
    if options.noise_scale is not None:
        return with_noise(prepared, options, options.noise_scale), None
    cold = solve(prepared.objective, None, prepared.radius)
    scale, shape = best_noise(prepared, cold, people, options)
    return with_noise(prepared, options, scale, shape), cold


def with_noise(
    prepared: Prepared, options: Options, scale: float, shape: Shape | None = None
) -> Prepared:
    """The program with shaped noise of a scale."""
    shape = shape or Shape.of(prepared.objective)
    return replace(prepared, noise=scale, radius=_units(options) * scale, shape=shape)


def _units(options: Options) -> float:
    """The radius of a solution in units of the noise."""
    return min(_RADIUS, 0.5 * options.mu) * (1 - 1e-12)


def best_noise(
    prepared: Prepared,
    theta: Array,
    people: People,
    options: Options,
    tried: dict[int, tuple[Shape, Measured]] | None = None,
) -> tuple[float, Shape]:
    """Scale and shape for a cap on exposure, with the least noise in a typical score.

    Theta is the solution of a release without shaped noise. `tried` are shapes that were measured
    for another cap. The shape without a larger penalty is the best unless its own dependence on
    single rows takes much of the cap.
    """
    tried = {} if tried is None else tried
    best: tuple[float, float, Shape] | None = None
    refused: CapOutOfReach | None = None
    for k in range(_MOST_SHAPES):
        if k not in tried:
            try:
                shape = Shape.of(prepared.objective, penalty_factor=_FACTOR**k)
                measured = measure_people(prepared, theta, prepared.radius, people, shape)
            except BeyondPrecision:
                if k == 0:
                    raise
                break
            tried[k] = shape, measured
        shape, measured = tried[k]
        # In no direction less noise than a release without shaped noise has.
        least = prepared.noise * math.sqrt(shape.largest)
        try:
            # More units than the release itself needs, for solutions it will be measured from.
            scale = choose_scale(measured, options, 6 * _units(options), least)
        except CapOutOfReach as error:
            if refused is None or error.count < refused.count:
                refused = error
            continue
        noise = scale * shape.typical_score(prepared.objective)
        if best is not None and noise >= best[0]:
            break
        best = noise, scale, shape
        if _own_exposure(measured, options) <= _LIMITED * float(options.max_exposure or 0.0):
            break
    if best is None:
        assert refused is not None
        raise refused
    return best[1], best[2]


def _own_exposure(measured: Measured, options: Options) -> float:
    """Exposure by the shape alone, at a scale without limit, for the people the cap is for."""
    epsilons = np.sort(measured.epsilons(math.inf, 2 * _units(options), options.exposure_delta))
    return float(epsilons[math.ceil(options.exposure_quantile * len(epsilons)) - 1])


def measure_people(
    prepared: Prepared,
    theta: Array,
    within: float,
    people: People,
    shape: Shape | None,
    *,
    exact: bool = False,
) -> Measured:
    """Shifts of people for a theta within a distance of the minimiser.

    Without a shape the noise has one size in all directions.
    """
    metric = shape or Shape.of(prepared.objective)
    objective = prepared.objective
    given: dict[str, Any] = {"shaped": shape is not None, "solutions": people.solutions}
    rows, needed = people.rows_of(prepared), people.who_cannot_be_left_out(prepared)
    for i in needed.tolist():
        rows[i] = rows[i][:0]
    if prepared.folded is not None:
        measured = measure_exactly(
            objective,
            theta,
            within,
            rows,
            metric,
            **given,
            places=np.setdiff1d(np.arange(len(people)), needed).tolist(),
            penalty_without=people.penalty_without(prepared),
        )
    elif exact:
        measured = measure_exactly(objective, theta, within, rows, metric, **given)
    else:
        measured = measure(objective, theta, within, rows, metric, **given)
    return measured.with_unbounded(needed)


def choose_scale(measured: Measured, options: Options, charge: float, least: float) -> float:
    """The least scale of the grid at which at most the allowed share of people is above the cap.

    Only the likely candidates are followed through the search. Everybody is asked at its end.
    """
    exposure, delta = float(options.max_exposure or 0.0), options.exposure_delta
    allowed = math.floor((1.0 - options.exposure_quantile) * measured.n * (1 + 1e-12))

    def above(some: Measured, k: float) -> NDArray[np.intp]:
        scale = 2.0 ** (k / _PER_OCTAVE)
        return np.flatnonzero(some.epsilons(scale, charge, delta) > exposure)

    def kept(some: Measured, k: int) -> bool:
        return len(above(some, k)) <= allowed

    lengths = measured.lengths()
    first = _largest(lengths, allowed + _CANDIDATES)
    candidates = np.union1d(first, _largest(measured.leverages(), allowed + _CANDIDATES))
    lowest = math.ceil(_PER_OCTAVE * math.log2(least))
    guess = float(lengths[first[-1]]) / float(mu_from_epsilon(exposure, delta))
    guess = guess if math.isfinite(guess) else 0.0
    k = max(math.ceil(_PER_OCTAVE * math.log2(max(guess, least))), lowest)
    while True:
        some = measured.take(candidates)
        if len(above(some, math.inf)) > allowed:
            raise _out_of_reach(options, measured.n, len(above(measured, math.inf)))
        k = _search(partial(kept, some), k, lowest)
        too_high = above(measured, k)
        if len(too_high) <= allowed:
            return float(2.0 ** (k / _PER_OCTAVE))
        candidates = np.union1d(candidates, too_high)


def _largest(values: Array, count: int) -> NDArray[np.intp]:
    """Places of the largest values, the largest first."""
    return np.argsort(-values, kind="stable")[:count]


def _search(holds: Callable[[int], bool], k: int, lowest: int) -> int:
    """The least k >= lowest from which on something holds, near a guess."""
    if holds(k):
        while k > lowest and holds(k - 1):
            k -= 1
        return k
    step = 1
    while not holds(k + step):
        k, step = k + step, 2 * step
    low, high = k, k + step  # does not hold, holds
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class CapOutOfReach(WrongInput):
    """A cap on exposure that no noise of a shape reaches for everybody it is meant for."""

    def __init__(self, message: str, count: int) -> None:
        super().__init__(message)
        self.count = count  # people


def _out_of_reach(options: Options, n: int, never: int) -> CapOutOfReach:
    share = math.floor((1 - never / n) * 1e4) / 1e4
    message = (
        f"max_exposure={options.max_exposure!r} cannot be reached for {never} of {n} people, "
        "however much noise is added: they are the only ones in their class, or rows of theirs "
        "almost decide a coefficient. Regularise more, leave out rare columns, raise "
        f"max_exposure, or set exposure_quantile to at most {share:g}."
    )
    return CapOutOfReach(message, never)
