"""The scale s of shaped noise: fixed, or chosen so that nobody's exposure is above a cap.

A chosen scale is a power of 2^(1/4), a function of the rows and options alone: it is read off the
solution that a cold start finds. It depends on the most exposed person, so exposure is stated
"given s".
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.gdp import mu_from_epsilon
from pilu.exceptions import WrongInput
from pilu.refit.exposures import Measured, measure, measure_exactly
from pilu.refit.people import People
from pilu.refit.program import Prepared
from pilu.refit.settings import Options
from pilu.refit.shape import Shape
from pilu.refit.solve import solve

Array = NDArray[np.float64]

_PER_OCTAVE = 4  # scales that may be chosen
_RADIUS = 2.0**-16  # of the solution, in units of the noise, unless epsilon asks for less
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
    prepared: Prepared, theta: Array, people: People, options: Options
) -> tuple[float, Shape]:
    """Scale and shape for a cap on exposure, with the least noise in a typical score.

    Theta is the solution of a release without shaped noise. The shape without a larger penalty is
    the best unless its own dependence on single rows takes much of the cap.
    """
    best: tuple[float, float, Shape] | None = None
    refused: WrongInput | None = None
    for k in range(_MOST_SHAPES):
        shape = Shape.of(prepared.objective, penalty_factor=_FACTOR**k)
        measured = measure_people(prepared, theta, prepared.radius, people, shape)
        # In no direction less noise than a release without shaped noise has.
        least = prepared.noise * math.sqrt(shape.largest)
        try:
            scale = choose_scale(measured, options, 2 * _units(options), least)
        except WrongInput as error:
            refused = refused or error
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
    objective, shaped = prepared.objective, shape is not None
    ends = people.who_end_a_class(prepared)  # which the class names show
    rows = people.rows_of(prepared, without=ends)
    if prepared.folded is not None:
        measured = measure_exactly(
            objective,
            theta,
            within,
            rows,
            metric,
            shaped=shaped,
            penalty_without=people.penalty_without(prepared),
        )
    elif exact:
        measured = measure_exactly(objective, theta, within, rows, metric, shaped=shaped)
    else:
        measured = measure(objective, theta, within, rows, metric, shaped=shaped)
    return measured.with_unbounded(ends)


def choose_scale(measured: Measured, options: Options, charge: float, least: float) -> float:
    """The least scale of the grid at which at most the allowed share of people is above the cap."""
    exposure, delta = options.max_exposure, options.exposure_delta
    assert exposure is not None
    allowed = math.floor((1.0 - options.exposure_quantile) * measured.n * (1 + 1e-12))

    def above(some: Measured, k: float) -> NDArray[np.intp]:
        scale = 2.0 ** (k / _PER_OCTAVE)
        return np.flatnonzero(some.epsilons(scale, charge, delta) > exposure)

    lowest = math.ceil(_PER_OCTAVE * math.log2(least))
    too_high = above(measured, lowest)
    if len(too_high) <= allowed:
        return float(2.0 ** (lowest / _PER_OCTAVE))
    never = above(measured.take(too_high), math.inf)
    if len(never) > allowed:
        raise _out_of_reach(options, measured.n, len(never))
    mu = float(mu_from_epsilon(exposure, delta))
    lengths = np.sort(measured.lengths())[::-1]
    guess = lengths[allowed] / mu if np.isfinite(lengths[allowed]) else least
    high = max(math.ceil(_PER_OCTAVE * math.log2(max(guess, least))), lowest + 1)
    some = measured.take(too_high)  # nobody else is above at a larger scale
    while len(above(some, high)) > allowed:
        high += 1 + (high - lowest) // 8
    low = high - 1
    while low > lowest and len(above(some, low)) <= allowed:
        low -= 1
    # The guess may have been passed by more than one step.
    return float(2.0 ** ((low + 1) / _PER_OCTAVE))


def _out_of_reach(options: Options, n: int, never: int) -> WrongInput:
    share = math.floor((1 - never / n) * 1e4) / 1e4
    return WrongInput(
        f"max_exposure={options.max_exposure!r} cannot be reached for {never} of {n} people, "
        "however much noise is added: they are the only ones in their class, or rows of theirs "
        "almost decide a coefficient. Regularise more, leave out rare columns, raise "
        f"max_exposure, or set exposure_quantile to at most {share:g}."
    )
