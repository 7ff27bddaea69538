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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.accounting.many_pairs import epsilons_of_pairs
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
from pilu.refit.solve import MOST_PARAMETERS, has_exact_hessian, solve

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_UP = 1 + 1e-9
_LOOSE = 0.25  # of a shift, above which a refit is worth its time
_NEGLIGIBLE = 1e-12  # leverage relative to the largest of a group


@dataclass(frozen=True, eq=False)
class Shifts:
    """Directions of N groups of rows and the shifts along them, for noise of scale 1."""

    leverages: Array  # N x D; zero for directions whose variance does not change
    known: Array  # N x D: length of the computed shift
    rest: Array  # N: what may have to be added to each; infinite if nothing is proved
    count: int  # outputs that share the directions

    def pairs(self, scale: float, charge: float, *, least: bool = False) -> tuple[Array, Array]:
        """Excesses and squared shifts, the largest possible ones or the least.

        `charge` is the solver's part in units of the noise.
        """
        known, rest = self.known / scale, self.rest[:, None] / scale + charge
        shifts = np.maximum(known - rest, 0.0) if least else known + rest
        return -self.leverages, np.asarray(shifts**2 * _UP)

    def epsilons(self, scale: float, charge: float, delta: float, *, least: bool = False) -> Array:
        """Epsilon of each group, both directions; infinite where nothing is proved."""
        out = np.full(len(self.rest), 0.0 if least else np.inf)
        fine = np.isfinite(self.rest) & (self.leverages.max(axis=1) < 1.0)
        if fine.any():
            pairs = self.take(fine).pairs(scale, charge, least=least)
            out[fine] = epsilons_of_pairs(*pairs, self.count, delta)
        return out

    def lengths(self) -> Array:
        """Length of each shift, without its rest."""
        return np.asarray(np.sqrt((self.known**2).sum(axis=1)))

    def take(self, which: NDArray[np.bool_] | Rows) -> "Shifts":
        """Some of the groups."""
        return replace(
            self,
            leverages=self.leverages[which],
            known=self.known[which],
            rest=self.rest[which],
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """Shifts of people, in parts of people with equally many rows."""

    n: int
    parts: tuple[tuple[Rows, Shifts], ...]  # places among the n people, and their shifts

    @classmethod
    def of(cls, n: int, parts: Sequence[tuple[Rows, Shifts]]) -> "Measured":
        """Parts with equally many directions, which are worked on together, as one."""
        alike: dict[tuple[int, int], list[tuple[Rows, Shifts]]] = {}
        for places, shifts in parts:
            alike.setdefault((shifts.known.shape[1], shifts.count), []).append((places, shifts))
        joined = (
            (np.concatenate([p for p, _ in some]), _joined([s for _, s in some]))
            for some in alike.values()
        )
        return cls(n, tuple(joined))

    def epsilons(self, scale: float, charge: float, delta: float, *, least: bool = False) -> Array:
        """Epsilon of each person, or the least that it can be."""
        out = np.zeros(self.n)
        for places, shifts in self.parts:
            out[places] = shifts.epsilons(scale, charge, delta, least=least)
        return out

    def lengths(self) -> Array:
        """Largest possible length of the shift of each person, at noise of scale 1."""
        out = np.zeros(self.n)
        for places, shifts in self.parts:
            out[places] = shifts.lengths() + shifts.rest
        return out

    def loose(self, share: float, within: float) -> Rows:
        """Places of people whose shift is not proved to a share of its length or to `within`."""
        some = [p[s.rest >= np.maximum(share * s.lengths(), within)] for p, s in self.parts]
        return np.sort(np.concatenate([*some, np.array([], dtype=np.intp)]))

    def corrected(self, places: Rows, other: "Measured") -> "Measured":
        """With the shifts of some people in place of these."""
        kept = [(p, s, ~np.isin(p, places)) for p, s in self.parts]
        parts = [(p[left], s.take(left)) for p, s, left in kept if left.any()]
        return Measured.of(self.n, [*parts, *((places[p], s) for p, s in other.parts)])

    def with_unbounded(self, places: Rows) -> "Measured":
        """The same with people of whom nothing was measured, and to whom nothing is promised."""
        if not len(places):
            return self
        zeros = np.zeros((len(places), 1))
        nothing = Shifts(zeros, zeros, np.full(len(places), np.inf), 1)
        return Measured(self.n, (*self.parts, (places, nothing)))

    def take(self, places: Rows) -> "Measured":
        """Some people, numbered anew."""
        number = np.full(self.n, -1)
        number[places] = np.arange(len(places))
        parts = [(number[p], s.take(number[p] >= 0)) for p, s in self.parts]
        return Measured(len(places), tuple((p[p >= 0], s) for p, s in parts if (p >= 0).any()))


def measure(
    objective: Objective,
    theta: Array,
    within: float,
    people: Sequence[Rows],
    shape: Shape,
    *,
    shaped: bool,
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
    with progress_bar(int((sizes > 0).sum()), what="measuring exposure", unit="person") as bar:
        for m in np.unique(sizes[sizes > 0]).tolist():
            places = np.flatnonzero(sizes == m)
            groups, done = np.array([people[i] for i in places.tolist()], dtype=np.intp), []
            for part in in_blocks(len(places), m * objective.shape[0] * _scores(radii)):
                done.append(_proved(radii, shape, shaped, groups[part]))
                bar.update(part.stop - part.start)
            shifts = _joined(done)
            parts.append((places, replace(shifts, rest=shifts.rest + off)))
    measured = Measured(len(people), tuple(parts))
    # A refit proves 2 off at best. Noise without a shape hides nobody, so any bound will do.
    loose = measured.loose(_LOOSE if shaped else 1e9, 8 * off)
    if not len(loose):
        return measured
    some = [people[i] for i in loose.tolist()]
    return measured.corrected(
        loose, measure_exactly(objective, theta, within, some, shape, shaped=shaped)
    )


def measure_exactly(
    objective: Objective,
    theta: Array,
    within: float,
    people: Sequence[Rows],
    shape: Shape,
    *,
    shaped: bool,
    penalty_without: Callable[[int], Array] | None = None,
) -> Measured:
    """The same by a refit without each person, solved to the same distance.

    `penalty_without` gives the penalties without a person, where they depend on the rows.
    """
    rest, parts = np.array([2 * _in_noise(within, shape, shaped)]), []
    with progress_bar(len(people), what="refitting without", unit="person") as bar:
        for place, rows in enumerate(people):
            if len(rows):
                after = objective.without(rows)
                if penalty_without is not None:
                    after = replace(after, penalty=penalty_without(place))
                try:
                    step, own = solve(after, theta, within) - theta, rest
                except BeyondPrecision:  # nothing is proved
                    step, own = np.zeros_like(theta), np.array([np.inf])
                if penalty_without is not None and shaped:
                    shifts = _dense_shifts(shape, shape.of_rows(after), step, own)
                else:
                    shifts = _shifts(objective, shape, shaped, rows[None], step[None], own)
                parts.append((np.array([place]), shifts))
            bar.update()
    return Measured.of(len(people), parts)


def _in_noise(within: float, shape: Shape, shaped: bool) -> float:
    """A distance of parameters in units of noise of scale 1."""
    return within * (math.sqrt(shape.largest) if shaped else 1.0) * _UP


def _dense_shifts(before: Shape, after: Shape, step: Array, rest: Array) -> Shifts:
    """Shifts where the two shapes differ in every direction."""
    shared = len(before.metrics) == 1
    leverages, known = [], []
    for k, (metric, other) in enumerate(zip(before.metrics, after.metrics, strict=True)):
        half = metric.whiten(np.ascontiguousarray(metric.whiten(other.matrix).T))
        ratios, V = np.linalg.eigh((half + half.T) / 2)  # variance of P over that of Q
        moved = V.T @ metric.factor.T @ (step if shared else step[:, k : k + 1])
        error = 1 + 4 * (metric.error + other.error) + 1e-9
        leverages.append((1 - ratios) * error)
        known.append(np.sqrt((moved**2).sum(axis=1) * np.maximum(ratios, 0.0)) * error)
    count = step.shape[1] if shared else 1
    return Shifts(np.hstack(leverages)[None], np.hstack(known)[None], rest, count)


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
    return math.sqrt(system.metric.ratio(matrix) * (1 + shape.metrics[0].error)) * _UP


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
        h, E = _spectrum(move.gram, system.metric.error)
        along = np.sqrt(((E.transpose(0, 2, 1) @ residuals) ** 2).sum(axis=2))
        with np.errstate(divide="ignore", invalid="ignore"):
            known.append(np.where(h < 1, along * np.sqrt(h / (1 - h)), 0.0) * _UP)
        leverages.append(h)
        rest += move.rest**2
    count = systems[0].outputs.stop - systems[0].outputs.start if len(systems) == 1 else 1
    return Shifts(np.hstack(leverages), np.hstack(known), np.sqrt(rest) * _UP, count)


def _spectrum(gram: Array, error: float) -> tuple[Array, Array]:
    """Leverages of N groups, rounded up, and their directions, from N leverage matrices."""
    if gram.shape[1] == 1:
        h, E = gram[:, :, 0], np.ones_like(gram)
    else:
        h, E = np.linalg.eigh(gram)
    h = np.maximum(h, 0.0) * (1 + 4 * error + gamma(8 * gram.shape[1]))
    return np.minimum(h, 1.0), E


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
        h, E = _spectrum(products(U), metric.error)
        seen = h > _NEGLIGIBLE * h.max(axis=1, keepdims=True)
        along = ((E.transpose(0, 2, 1) @ (U @ moved)) ** 2).sum(axis=2)
        along = np.where(seen, along / np.where(seen, h, 1.0), 0.0)
        total = (moved**2).sum(axis=(1, 2)) * _UP
        other = np.maximum(total - along.sum(axis=1), 0.0)
        h = np.where(seen, h, 0.0)
        sizes = np.hstack([along * (1 - h), other[:, None]]) * (1 + 4 * metric.error) * _UP
        leverages.append(np.hstack([h, np.zeros((N, 1))]))
        known.append(np.sqrt(sizes))
    return Shifts(np.hstack(leverages), np.hstack(known), rest, K if shared else 1)


def _joined(parts: list[Shifts]) -> Shifts:
    return Shifts(
        np.concatenate([p.leverages for p in parts]),
        np.concatenate([p.known for p in parts]),
        np.concatenate([p.rest for p in parts]),
        parts[0].count,
    )
