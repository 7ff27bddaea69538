"""Exposure: the release with a person's rows against the release without them.

Shaped noise: P = N(theta, s^2 A^-1) and Q = N(theta', s^2 A'^-1), A' = A - kappa Z_S'W_S Z_S.
In units of Q's noise, P has the variance 1 - h_l in the directions u_l of the leverage matrix
G = U U' = E diag(h) E', U the rows (kappa W_S)^1/2 Z_S in the metric of A^-1, and 1 elsewhere. The
squared shift along u_l is (1 - h_l) (u_l' A^1/2 d)^2/s^2. For squares all of the shift is in these
directions; with residuals e it is

    h_l/(1 - h_l) (E' W_S^1/2 e)_l^2/s^2                             [one row: e^2 h/((1 - h) s^2)]

Noise of one size sigma in all directions: mu = |theta - theta'|/sigma.

The divergence rises with every |shift| (docs/exposure.md), so what is not known of a shift is
added to it in each direction.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.exceptions import BeyondPrecision, WrongInput
from pilu.refit.gram import gamma
from pilu.refit.leaving import (
    Groups,
    Moves,
    System,
    dense_rows,
    in_blocks,
    products,
    systems_of,
)
from pilu.refit.objective import Objective
from pilu.refit.shape import Shape
from pilu.refit.shifts import Measured, Shifts, joined
from pilu.refit.solve import MOST_PARAMETERS, has_exact_hessian, solve

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Solutions = dict[int, tuple[Array, float]]  # minimisers without a person, with their distances

_UP = 1 + 1e-9
_LOOSE = 0.25  # of a shift, above which a refit is worth its time
_NEGLIGIBLE = 1e-12  # leverage relative to the largest of a group


def measure(
    objective: Objective,
    theta: Array,
    within: float,
    people: Sequence[Rows],
    shape: Shape,
    *,
    shaped: bool,
    solutions: Solutions,
) -> Measured:
    """How far the release shifts without each person, whose rows are positions in the objective.

    Theta is proved to be within a distance of the minimiser. People for whom Newton's step proves
    little are left out of a refit, one by one.
    """
    _check_size(objective)
    radii = [
        [(system, _ratio(system, shape)) for system in systems]
        for systems in systems_of(objective, objective.at(theta), shape)
    ]
    sizes, parts = np.array([len(rows) for rows in people]), []
    off = _in_noise(within, shape, shaped)
    many = sizes > objective.shape[0]  # rows: matrices of rows times rows would be large
    few = sizes[(sizes > 0) & ~many]
    with progress_bar(len(few), what="measuring exposure", unit="person") as bar:
        for m in np.unique(few).tolist():
            places = np.flatnonzero(sizes == m)
            groups, done = np.array([people[i] for i in places.tolist()], dtype=np.intp), []
            for part in in_blocks(len(places), m * objective.shape[0] * _scores(radii)):
                done.append(_proved(radii, shape, shaped, groups[part]))
                bar.update(part.stop - part.start)
            shifts = joined(done)
            parts.append((places, replace(shifts, rest=shifts.rest + off)))
    measured = Measured(len(people), tuple(parts))
    # A refit proves 2 off at best. Noise without a shape hides nobody, so any bound will do.
    loose = np.union1d(measured.loose(_LOOSE if shaped else 1e9, 8 * off), np.flatnonzero(many))
    if not len(loose):
        return measured
    return measured.corrected(
        measure_exactly(
            objective,
            theta,
            within,
            people,
            shape,
            shaped=shaped,
            solutions=solutions,
            places=loose.tolist(),
        )
    )


def measure_exactly(
    objective: Objective,
    theta: Array,
    within: float,
    people: Sequence[Rows],
    shape: Shape,
    *,
    shaped: bool,
    solutions: Solutions,
    places: Sequence[int] | None = None,
    penalty_without: Callable[[int], Array] | None = None,
) -> Measured:
    """The same by a refit without each person, or without those at `places`.

    `penalty_without` gives the penalties without a person, where they depend on the rows.
    """
    asked = list(range(len(people)) if places is None else places)
    if penalty_without is None:  # else rows without weight may move the penalties
        asked = [i for i in asked if len(people[i])]
    parts = []
    with progress_bar(len(asked), what="refitting without", unit="person") as bar:
        for place in asked:
            rows, after = people[place], None
            if penalty_without is not None:
                after = replace(objective.without(rows), penalty=penalty_without(place))
            if place not in solutions:
                solutions[place] = _solution(after or objective.without(rows), theta, within)
            solution, distance = solutions[place]
            step = solution - theta
            rest = np.array([_in_noise(within + distance, shape, shaped)])
            if after is not None and shaped:
                shifts = _dense_shifts(shape, shape.of_rows(after), step, rest)
            else:
                shifts = _shifts(objective, shape, shaped, rows[None], step[None], rest)
            parts.append((np.array([place]), shifts))
            bar.update()
    return Measured.of(len(people), parts)


def _solution(objective: Objective, start: Array, within: float) -> tuple[Array, float]:
    """A minimiser with its proved distance; infinite if nothing is proved."""
    try:
        return solve(objective, start, within), within
    except BeyondPrecision:
        return start, math.inf


def _in_noise(within: float, shape: Shape, shaped: bool) -> float:
    """A distance of parameters in units of noise of scale 1."""
    return within * (math.sqrt(shape.largest) if shaped else 1.0) * _UP


def _dense_shifts(before: Shape, after: Shape, step: Array, rest: Array) -> Shifts:
    """Shifts where the two shapes differ in every direction."""
    shared = len(before.metrics) == 1
    leverages, known, widest = [], [], 1.0
    for k, (metric, other) in enumerate(zip(before.metrics, after.metrics, strict=True)):
        half = metric.whiten(np.ascontiguousarray(metric.whiten(other.matrix).T))
        ratios, V = np.linalg.eigh((half + half.T) / 2)  # variance of P over that of Q
        moved = V.T @ metric.factor.T @ (step if shared else step[:, k : k + 1])
        error = 1 + 4 * (metric.error + other.error) + 1e-9
        leverages.append((1 - ratios) * error)
        known.append(np.sqrt((moved**2).sum(axis=1) * np.maximum(ratios, 0.0)) * error)
        widest = max(widest, float(ratios[-1]))
    count = step.shape[1] if shared else 1
    stretch = np.array([math.sqrt(widest) * _UP])
    return Shifts(np.hstack(leverages)[None], np.hstack(known)[None], rest, count, stretch)


def _check_size(objective: Objective) -> None:
    if objective.loss.constant_curvature or has_exact_hessian(objective):
        return
    P, K = objective.shape
    count = P * (K if objective.loss.joint else 1)
    raise WrongInput(
        f"exposure of all people must have at most {MOST_PARAMETERS} parameters that share a "
        f"loss, got {count}. Ask for some people with exact=True."
    )


def _scores(radii: list[list[tuple[System, float]]]) -> int:
    J = radii[0][0][0].scores_per_row
    return J * J


def _ratio(system: System, shape: Shape) -> float:
    """A number c with |v|_A <= c |v|_B."""
    if system.is_shape:
        return 1.0
    matrix = shape.metric(system.outputs.start).matrix
    if system.scores_per_row > 1:
        matrix = np.asarray(np.kron(np.eye(system.scores_per_row), matrix))
    return (
        math.sqrt(system.metric.ratio(matrix) * (1 + shape.metric(system.outputs.start).error))
        * _UP
    )


def _proved(
    radii: list[list[tuple[System, float]]], shape: Shape, shaped: bool, groups: Groups
) -> Shifts:
    """Shifts with the first radius that proves them."""
    systems, *others = radii
    shifts = _by_newton(systems, shape, shaped, groups)
    open_ = ~np.isfinite(shifts.rest)
    if others and open_.any():
        again = _proved(others, shape, shaped, groups[open_])
        for mine, its in zip(
            (shifts.leverages, shifts.known, shifts.rest),
            (again.leverages, again.known, again.rest),
            strict=True,
        ):
            mine[open_] = its
    return shifts


def _by_newton(
    systems: list[tuple[System, float]], shape: Shape, shaped: bool, groups: Groups
) -> Shifts:
    objective = systems[0][0].objective
    squares = shaped and systems[0][0].is_shape
    moves = [system.moves(groups, with_steps=not squares) for system, _ in systems]
    if squares:
        return _of_squares([system for system, _ in systems], moves, groups)
    N, (P, K) = len(groups), objective.shape
    steps, rest = np.empty((N, P, K)), np.zeros(N)
    for (system, ratio), move in zip(systems, moves, strict=True):
        steps[:, :, system.outputs] = move.steps
        size = ratio if shaped else 1.0 / math.sqrt(system.metric.least)
        rest += (size * move.rest) ** 2
    return _shifts(objective, shape, shaped, groups, steps, np.sqrt(rest) * _UP)


def _of_squares(systems: list[System], moves: list[Moves], groups: Groups) -> Shifts:
    """Shifts of squared error, whose Hessian is the shape of the noise."""
    leverages, known, rest = [], [], np.zeros(len(groups))
    for system, move in zip(systems, moves, strict=True):
        roots = system.roots[groups, 0, 0]
        slopes = system.slopes[groups, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            residuals = np.where(roots[:, :, None] > 0, slopes / roots[:, :, None], 0.0)
        _, h, E = _spectrum(move.gram, system.metric.error)
        along = np.sqrt(((E.transpose(0, 2, 1) @ residuals) ** 2).sum(axis=2))
        with np.errstate(divide="ignore", invalid="ignore"):
            known.append(np.where(h < 1, along * np.sqrt(h / (1 - h)), 0.0) * _UP)
        leverages.append(h)
        # Directions of nearly equal leverage are known up to rounding.
        most, turned = h.max(axis=1), gamma(16 * h.shape[1])
        length = turned * np.sqrt((residuals**2).sum(axis=(1, 2)))
        with np.errstate(divide="ignore", invalid="ignore"):
            swing = np.where(most < 1, length * np.sqrt(most / (1 - most)), np.inf)
        rest += (move.rest + swing) ** 2
    count = systems[0].outputs.stop - systems[0].outputs.start if len(systems) == 1 else 1
    return Shifts(np.hstack(leverages), np.hstack(known), np.sqrt(rest) * _UP, count)


def _spectrum(gram: Array, error: float) -> tuple[Array, Array, Array]:
    """Leverages of N groups as computed and rounded up, and their directions."""
    if gram.shape[1] == 1:
        h, E = gram[:, :, 0], np.ones_like(gram)
    else:
        h, E = np.linalg.eigh(gram)
    h = np.maximum(h, 0.0)
    wrong = 4 * error + gamma(8 * gram.shape[1])  # relative to the largest
    return h, np.minimum(h + wrong * h.max(axis=1, keepdims=True), 1.0), E


def _shifts(
    objective: Objective, shape: Shape, shaped: bool, groups: Groups, steps: Array, rest: Array
) -> Shifts:
    """Shifts from steps, N x P x K, that are known up to a rest."""
    if not shaped:
        lengths = np.sqrt((steps**2).sum(axis=(1, 2)))[:, None] * _UP
        return Shifts(np.zeros_like(lengths), lengths, rest, 1)
    K = steps.shape[2]
    shared = len(shape.metrics) == 1
    leverages, known = [], []
    N, m = groups.shape
    z = dense_rows(objective, groups.ravel())
    for k, metric in enumerate(shape.metrics):
        w = objective.weights[groups, min(k, objective.weights.shape[1] - 1)]
        rows = metric.whiten(z.T).T.reshape(N, m, -1)
        U = rows * np.sqrt(shape.curvature * w)[:, :, None]
        d = steps if shared else steps[:, :, k : k + 1]
        moved = metric.factor.T @ d
        wide = m > U.shape[2]  # then by the directions, not by the rows' part in them
        gram = U.transpose(0, 2, 1) @ U if wide else products(U)
        h, high, E = _spectrum(gram, metric.error)
        seen = h > _NEGLIGIBLE * h.max(axis=1, keepdims=True)
        safe = np.where(seen, h, 1.0)
        along = ((E.transpose(0, 2, 1) @ (moved if wide else U @ moved)) ** 2).sum(axis=2)
        along = np.where(seen, along / (1.0 if wide else safe), 0.0)
        total = (moved**2).sum(axis=(1, 2)) * _UP
        other = np.maximum(total - along.sum(axis=1), 0.0)
        # A leverage that is rounded up multiplies its shift alike: never safer (docs/exposure.md).
        along = along * (1 - np.minimum(h, 1.0)) * np.where(seen, high / safe, 1.0)
        sizes = np.hstack([along, other[:, None]]) * (1 + 4 * metric.error) * _UP
        h = np.where(seen, high, 0.0)
        leverages.append(np.hstack([h, np.zeros((N, 1))]))
        known.append(np.sqrt(sizes))
    return Shifts(np.hstack(leverages), np.hstack(known), rest, K if shared else 1)
