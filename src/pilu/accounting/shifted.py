"""Shifted interpolation: from per-step sensitivities to mu, the (QP) of Proposition 1 solved.

In a chain that contracts by c and adds noise of variance var_k at step k, a sensitivity s_k that
arrives at step k may be paid for at that step or at any later one, contracted on the way. Measured
at the last step, with w_k = c^(steps after k):

    mass that arrives   w_k s_k          noise that can pay   w_k^2 var_k
    minimise   sum_k b_k^2 / (w_k^2 var_k)   over   b >= 0,
    subject to   sum_{j<=k} b_j <= sum_{j<=k} w_j s_j,  with equality at the end     [PILU, (QP)]

Plotted as cumulated payment over cumulated noise, the optimum is the greatest convex minorant of
the cumulated mass: isotonic regression. Its straight pieces, the blocks, are all that is needed:

    mu^2 = sum over blocks of mass^2 / variance.

One block is the paper's closed form. Where that is infeasible it is smaller than the truth.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from pilu._checks import as_numbers, complaint

Array = NDArray[np.float64]

_UP = 1 + 1e-12  # covers the rounding of the sums below
_TINY_WEIGHT = 1e-140  # its square is still a normal double


def mu_from_sensitivities(
    sensitivities: ArrayLike, variances: ArrayLike, contraction: float
) -> float:
    """Least mu, rounded up, for which Proposition 1 certifies mu-GDP of the last iterate.

    Parameters
    ----------
    sensitivities : array of shape (n_sensitive,), >= 0
        Bounds on the distance between the two chains' updates at each step; steps after the last
        one given have none.
    variances : array of shape (n_steps,), >= 0
        Variance of the isotropic Gaussian noise added at each step (2 eta sigma_k^2).
    contraction : float in [0, 1]
        Lipschitz constant of the reference chain's deterministic step.

    Returns
    -------
    mu : float
        ``inf`` where some sensitivity meets no noise at all.

    Examples
    --------
    >>> round(mu_from_sensitivities([1.0, 1.0], [1.0, 1.0, 2.0], contraction=1.0), 6)
    1.0
    """
    s, var = as_numbers("sensitivities", sensitivities), as_numbers("variances", variances)
    for name, array in (("sensitivities", s), ("variances", var)):
        if array.ndim != 1 or not (np.isfinite(array) & (array >= 0)).all():
            raise complaint(name, "a sequence of finite numbers >= 0", array.tolist())
    if len(s) > len(var):
        raise complaint("sensitivities", f"no longer than variances ({len(var)})", len(s))
    c = float(as_numbers("contraction", contraction))
    if not 0.0 <= c <= 1.0:
        raise complaint("contraction", "in [0, 1]", c)
    size, spread = float(np.max(s, initial=0.0)), float(np.max(var, initial=0.0))
    if size == 0.0:
        return 0.0
    if spread == 0.0:
        return math.inf
    padded = np.concatenate([s / size, np.zeros(len(var) - len(s))])
    # In units of the largest of each, no square leaves the doubles.
    return blocks_from_sensitivities(padded, var / spread, c).mu() * size / math.sqrt(spread)


@dataclass(frozen=True)
class Blocks:
    """The straight pieces of the optimum of a chain so far, in order of increasing slope.

    Masses and variances are measured at the chain's last step. Later steps on which the two
    chains agree add noise (`extra`, measured likewise) but no mass, and pool with the last blocks.
    Mass that has met no noise yet is a last block of variance 0.
    """

    masses: Array
    variances: Array

    def mu(self, extra: float = 0.0) -> float:
        """mu once `extra` noise variance has been added after the last step."""
        return self.pooled(extra).mu_as_pooled(extra)

    def pooled(self, extra: float) -> "Blocks":
        """The blocks that `extra` noise leaves; the last one's variance is without `extra`."""
        # Going back from the end, a block pools with what follows while its slope is not smaller.
        j, mass, variance = len(self.masses), 0.0, extra
        while j > 0 and self.masses[j - 1] * variance >= mass * self.variances[j - 1]:
            j -= 1
            mass, variance = mass + self.masses[j], variance + self.variances[j]
            if extra == 0.0:
                break  # no later noise: every block pays for itself
        return Blocks(
            np.append(self.masses[:j], np.sum(self.masses[j:])),
            np.append(self.variances[:j], np.sum(self.variances[j:])),
        )

    def mu_as_pooled(self, extra: float) -> float:
        """mu of blocks that have been pooled for this `extra` noise."""
        variances = self.variances.copy()
        variances[-1] += extra
        with np.errstate(divide="ignore", invalid="ignore"):
            costs = np.where(self.masses == 0, 0.0, self.masses**2 / variances)
        return math.sqrt(float(np.sum(costs))) * _UP

    def coarsened(self, limit: int) -> "Blocks":
        """At most `limit` pooled blocks with the same mu, or one that is higher by rounding."""
        first = len(self.masses) - limit + 1
        if first <= 1:
            return self
        mass = float(np.sum(self.masses[:first]))
        cost = float(np.sum(self.masses[:first] ** 2 / self.variances[:first])) * _UP
        return Blocks(
            np.concatenate([[mass], self.masses[first:]]),
            np.concatenate([[mass**2 / cost if cost > 0 else 1.0], self.variances[first:]]),
        )

    def extra_for(self, mu: float) -> float:
        """Least extra variance, rounded up, that brings the chain down to `mu` > 0; may be 0."""
        if self.mu() <= mu:
            return 0.0
        budget = (mu / _UP) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(self.masses == 0, 0.0, self.masses**2 / self.variances)
            slopes = self.masses / self.variances
        room = budget - np.concatenate([[0.0], np.cumsum(own)[:-1]])
        left = np.cumsum(self.masses[::-1])[::-1]
        # Pooling from block j on costs left_j^2 / (variance + extra) = room_j, and is feasible
        # where its slope room_j / left_j does not exceed block j's; that of the last block that
        # there is room for always is.
        possible = np.flatnonzero(room > 0)
        feasible = room[possible] <= slopes[possible] * left[possible]
        feasible[-1] = True
        j = int(possible[np.argmax(feasible)])
        # The whole variance is rounded up, not the extra part: that may be the smaller by far.
        return max(float(left[j] ** 2 / room[j] * _UP**4 - np.sum(self.variances[j:])), 0.0)


def later_variance(n_steps: int, contraction: float) -> float:
    """Variance that n further steps of unit noise variance add, measured before them.

    sum_{j<n} c^{2j} / c^{2n}
    """
    rate = -2 * math.log(contraction)
    total = math.expm1(rate * n_steps) / -math.expm1(-rate) if rate > 0 else float(n_steps)
    return total / _UP


def representable_contraction(n_steps: int, contraction: float) -> float:
    """The least contraction >= the given one whose n-th power is still a comfortable double.

    A chain that contracts by c contracts by any larger factor too, so this is always valid.
    """
    if n_steps == 0:
        return contraction
    return max(contraction, math.exp(math.log(_TINY_WEIGHT) / n_steps))


def _step_weights(n_steps: int, contraction: float) -> tuple[Array, Array]:
    """Weights c^(steps after k) for masses, rounded up, and their squares for variances.

    Where c^k is about to leave the doubles the mass keeps a tiny weight and the noise loses its
    own: more to pay, less to pay it with.
    """
    after = np.arange(n_steps - 1, -1, -1)
    with np.errstate(under="ignore"):
        weights = np.power(contraction, after)
    kept = weights >= _TINY_WEIGHT
    return np.maximum(weights, _TINY_WEIGHT), np.where(kept, weights, 0.0) ** 2


def blocks_from_sensitivities(sensitivities: Array, variances: Array, contraction: float) -> Blocks:
    """Solve the (QP) of a chain of len(variances) steps."""
    weights, squares = _step_weights(len(variances), contraction)
    masses, noise = weights * sensitivities, squares * variances
    # Steps without noise cannot pay: their mass waits for the next step that can, or for what
    # comes after the chain.
    starts = np.flatnonzero(noise > 0)
    if len(starts) == 0:
        return Blocks(np.array([masses.sum()]), np.zeros(1))
    waiting = float(masses[starts[-1] + 1 :].sum())
    carried = np.add.reduceat(masses[: starts[-1] + 1], np.concatenate([[0], starts[:-1] + 1]))
    noise = noise[starts]
    fit = isotonic_regression(carried / noise, weights=noise, increasing=True)
    edges = fit.blocks[:-1]
    block_masses, block_noise = np.add.reduceat(carried, edges), np.add.reduceat(noise, edges)
    if waiting > 0:
        block_masses, block_noise = np.append(block_masses, waiting), np.append(block_noise, 0.0)
    return Blocks(block_masses, block_noise)


def extra_noise_for_each(
    sensitivities: Array, variances: Array, contraction: float, mu: float, least: float = 0.0
) -> tuple[Array, Array]:
    """Extra variance that brings each row of `sensitivities` down to `mu`, and the mu it reaches.

    Where some is needed, no less than `least` is taken.

    The paper's closed form answers at once for all rows where it is feasible; only the rest are
    solved one by one.
    """
    weights, squares = _step_weights(len(variances), contraction)
    masses, noise = sensitivities * weights, variances * squares
    # Pairwise sums: the errors of cumulated ones grow with the number of steps.
    total, available = np.sum(masses, axis=1), float(np.sum(noise))
    arrived, payable = np.cumsum(masses, axis=1), np.cumsum(noise)
    arrived *= 1 - 4 * len(noise) * 2.0**-52
    needed = (total / mu) ** 2 * _UP**4
    extra = needed - available
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = total / needed
        closed = (extra > 0) & (slope[:, None] * payable <= arrived).all(axis=1)
    reached = np.full(len(extra), mu / _UP)
    for i in np.flatnonzero(~closed | (extra < least)):
        blocks = blocks_from_sensitivities(sensitivities[i], variances, contraction)
        extra[i] = blocks.extra_for(mu)
        if 0 < extra[i] < least:
            extra[i] = least
        reached[i] = blocks.mu(extra[i])
    return extra, reached
