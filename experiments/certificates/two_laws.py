"""The two runs of Definition 1 for ridge and one row, by dense matrices of A and of A - xx'.

Nothing here is taken from pilu. In an eigenvector with eigenvalue a, r = 1 - eta a, a step is

    theta -> r theta + eta b + sqrt(2 eta) sigma xi,

so that after k steps from zero the mean is b times sum_j eta r^j, and the variance sigma^2 times
sum_j 2 eta r^2j. Sums are taken term by term. P learns with the row and Q without it; both then
take K steps without it. Whitened by Q's covariance, P has variances 1 + x_l and shifts a_l along
principal directions l, and

    log dP/dQ = sum_l |t_l|^2 / 2 - |t_l - a_l|^2 / (2 (1 + x_l)) - (d/2) log(1 + x_l).

Only directions in which the two laws differ are kept. Leaving one out makes the score a little less
than optimal, and no bound wrong: it is a function of the run all the same.

Beside the runs, delta(eps) = P(l > eps) - e^eps Q(l > eps) is computed by inverting characteristic
functions on a grid   [J. Gil-Pelaez, Biometrika 38 (1951); R. B. Davies, Biometrika 60 (1973)].
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NEGLIGIBLE = 1e-12  # of the divergence that a direction contributes
_SPACING, _N_POINTS = 0.02, 500_000  # l and epsilon may be 2 pi / 0.02 = 314 apart
_WIDEST = np.pi / _SPACING  # of |l|, for that
_LEAST = 1e-6  # what may be left at the last frequency, and of the laws beyond the widest


class Problem(NamedTuple):
    """Ridge with all rows, in the eigenbasis of A = X'X + alpha I."""

    values: Array  # p
    basis: Array  # p x p
    cross: Array  # X'Y in the basis, p x d

    @classmethod
    def of(cls, X: Array, Y: Array, alpha: float) -> "Problem":
        """From the rows."""
        values, basis = np.linalg.eigh(X.T @ X + alpha * np.eye(X.shape[1]))
        return cls(values, basis, basis.T @ (X.T @ Y))


class Steps(NamedTuple):
    """Learning and unlearning."""

    step_size: float
    n_learn: int
    noise_learn: float
    n_unlearn: int


class Sums(NamedTuple):
    """r^k, sum_j eta r^j and sum_j 2 eta r^2j for eigenvalues a."""

    kept: Array
    drift: Array
    spread: Array

    @classmethod
    def of(cls, a: Array, eta: float, k: int) -> "Sums":
        """Term by term, as the chain adds them up."""
        r = 1.0 - eta * a
        kept, drift, spread = np.ones_like(a), np.zeros_like(a), np.zeros_like(a)
        for _ in range(k):
            kept, drift, spread = r * kept, r * drift + eta, r * r * spread + 2 * eta
        return cls(kept, drift, spread)


@dataclass(frozen=True, eq=False)
class WithoutRow:
    """What both runs of one row share, whatever the noise of unlearning."""

    steps: Steps
    turn: Array  # U: eigenvectors of A' in the basis of A
    own: Sums  # T steps on A
    retained: Sums  # T steps on A'
    last: Sums  # K steps on A'
    cross: Array  # (X'Y without the row) in U
    mean_difference: Array  # of P and Q after learning, in U
    covariance_difference: Array  # for learning noise 1, in U

    @classmethod
    def of(cls, problem: Problem, x: Array, y: Array, steps: Steps) -> "WithoutRow":
        """For the row (x, y)."""
        eta, T = steps.step_size, steps.n_learn
        z = problem.basis.T @ x
        values, U = np.linalg.eigh(np.diag(problem.values) - np.outer(z, z))
        own, retained = Sums.of(problem.values, eta, T), Sums.of(values, eta, T)
        cross = U.T @ (problem.cross - np.outer(z, y))
        mean = U.T @ (own.drift[:, None] * problem.cross) - retained.drift[:, None] * cross
        covariance = (U.T * own.spread) @ U - np.diag(retained.spread)
        last = Sums.of(values, eta, steps.n_unlearn)
        return cls(steps, U, own, retained, last, cross, mean, covariance)

    def pair(self, noise: float) -> "Pair":
        """The two laws after unlearning with this noise."""
        sigma, kept = self.steps.noise_learn, self.last.kept
        variance = (sigma * kept) ** 2 * self.retained.spread + noise**2 * self.last.spread
        whiten = 1 / np.sqrt(variance)
        factor = sigma * kept * whiten
        excess, directions = np.linalg.eigh(
            factor[:, None] * self.covariance_difference * factor[None, :]
        )
        shift = directions.T @ ((whiten * kept)[:, None] * self.mean_difference)
        d = shift.shape[1]
        divergence = d * (excess - np.log1p(excess)) + np.sum(np.square(shift), axis=1)
        matters = divergence > _NEGLIGIBLE
        E = directions[:, matters]
        from_own = (E * factor[:, None]).T @ (self.turn.T * np.sqrt(self.own.spread))
        from_retained = (E * (factor * np.sqrt(self.retained.spread))[:, None]).T
        from_last = (E * (noise * whiten * np.sqrt(self.last.spread))[:, None]).T
        return Pair(excess[matters], shift[matters], from_own, from_retained, from_last)


@dataclass(frozen=True, eq=False)
class Pair:
    """Coordinates of both runs along m principal directions, as maps of their noise (m x p)."""

    excess: Array  # m
    shift: Array  # m x d
    from_own: Array
    from_retained: Array
    from_last: Array

    def unlearned(self, learning: Array, unlearning: Array) -> Array:
        """Coordinates of runs that learned the row, from standard normals p x (R d)."""
        n_runs = learning.shape[1] // self.shift.shape[1]
        mean = np.tile(self.shift, (1, n_runs))
        return mean + self.from_own @ learning + self.from_last @ unlearning

    def retrained(self, learning: Array, unlearning: Array) -> Array:
        """Coordinates of runs that never saw it."""
        return self.from_retained @ learning + self.from_last @ unlearning

    def log_ratio(self, coordinates: Array) -> Array:
        """log dP/dQ of every run: (R,)."""
        (m, d), variance = self.shift.shape, (1 + self.excess)[:, None, None]
        t = coordinates.reshape(m, -1, d)
        terms = np.square(t) / 2 - np.square(t - self.shift[:, None]) / (2 * variance)
        return terms.sum(axis=(0, 2)) - d / 2 * float(np.sum(np.log1p(self.excess)))

    def deltas(self, epsilons: Array) -> tuple[Array, Array]:
        """delta(eps) without runs, to about 1e-9; and with P and Q exchanged.

        An `ArithmeticError` is raised where the grid is too short or too coarse for the two laws.
        """
        frequencies = (np.arange(_N_POINTS) + 0.5) * _SPACING
        of_q, of_p = self._moments(1j * frequencies), self._moments(1 + 1j * frequencies)
        for law in (of_p, of_q):
            rest, beyond = abs(law[-1]), abs(_tail(law, _WIDEST))
            if not max(rest, beyond) <= _LEAST:
                raise ArithmeticError(
                    f"the characteristic function must be below {_LEAST:g} at the last frequency, "
                    f"and so must the share of runs with |l| > {_WIDEST:.0f}, got {rest:.1e} and "
                    f"{beyond:.1e}. Laws that differ this much, or in one direction only, need "
                    "another grid."
                )
        growth = np.exp(epsilons)
        p, q = (np.array([_tail(law, e) for e in epsilons]) for law in (of_p, of_q))
        p_low, q_low = (np.array([1 - _tail(law, -e) for e in epsilons]) for law in (of_p, of_q))
        return p - growth * q, q_low - growth * p_low

    def _moments(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """E_Q exp(s l)."""
        d, log_moment = self.shift.shape[1], np.zeros_like(s)
        for x, a in zip(self.excess, self.shift, strict=True):
            D = 1 + (1 - s) * x
            log_moment += s * (s - 1) * (a @ a) / (2 * D)
            log_moment -= d / 2 * (np.log(D) + (s - 1) * np.log1p(x))
        return np.exp(log_moment)


def _tail(moments: NDArray[np.complex128], level: float) -> float:
    """P(l > level) from the characteristic function at half-integer multiples of the spacing."""
    places = np.arange(len(moments)) + 0.5
    terms = (moments * np.exp(-1j * _SPACING * level * places)).imag / places
    return 0.5 + float(np.sum(terms)) / np.pi


def scores(
    pairs: list[Pair], n_parameters: int, n_runs: int, seed: list[int], at_once: int
) -> list[tuple[Array, Array]]:
    """log dP/dQ of runs of both kinds, for several pairs that share their standard normals.

    Each run has its own learning and its own unlearning, all p x d coordinates of both.
    """
    found: list[list[tuple[Array, Array]]] = [[] for _ in pairs]
    d, rng = pairs[0].shift.shape[1], np.random.default_rng(seed)
    for count in _parts(n_runs, at_once):
        # The generator fills an array row by row, so that every part is a fresh draw.
        normals = [rng.standard_normal((n_parameters, count * d)) for _ in range(4)]
        for pair, parts in zip(pairs, found, strict=True):
            P, Q = pair.unlearned(*normals[:2]), pair.retrained(*normals[2:])
            parts.append((pair.log_ratio(P), pair.log_ratio(Q)))
    return [tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in found]


def _parts(total: int, most: int) -> Iterator[int]:
    while total > 0:
        yield min(total, most)
        total -= most
