"""The law of predictions at given points: now, after forgetting some rows, after a redraw.

A point v predicts v'theta ~ N(v'm, (v'Sv) I_d). With N steps of the schedule done on A, of gradient
g = A m_N - B, and residual means u = X_f m_N - Y_f of the rows to forget, A' = A - X_f'X_f:

    before   m_N,  h(A)
    after    m_{N+K} + drift_K(A) g - drift_K(A') (g - X_f'u),
             (1 - eta A')^K h(A) (1 - eta A')^K + sigma^2 spread_K(A')
    redraw   the same means with N = 0 and the learning's T steps,  sigma_learn^2 spread_T(A').

The second line solves e_{k+1} = (1 - eta A') e_k + eta X_f' u_{N+k}, e_0 = 0, the lead of the run
without the rows over the run that goes on with them. All differences between functions of A and of
A' live in the Krylov space of X_f' (docs/utility.md), so a request costs one product of the points
with its basis, whatever the number of steps.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pilu.chains.predictions import Predictions, Prospect
from pilu.chains.problem import Run
from pilu.chains.schedule import UNIT
from pilu.chains.shortfall import Shortfall
from pilu.ridge.krylov import reached_space
from pilu.ridge.lanczos import BlockLanczos
from pilu.ridge.spectral import RequestSpace, Spectrum, decay, drift, spread

if TYPE_CHECKING:
    from pilu.ridge.law import RidgeLaw

Array = NDArray[np.float64]

_GROWTH = (24, 32, 40, 56, 80, 112, 160, 240)  # Krylov dimensions for each row, tried in turn
_LEAK = 1e-7  # share of X_f' that may leave the space: predictions then erred by at most 1e-9


class RidgeForecast:
    """Predictions of a chain at fixed points (n x p, with the intercept's ones).

    `n_unlearn_steps` is the largest K of the requests to come.
    """

    def __init__(self, law: "RidgeLaw", points: Array, n_unlearn_steps: int) -> None:
        self.law, self.n_unlearn_steps = law, n_unlearn_steps
        self.points = law.coordinates(points)
        spectrum = law.spectrum
        a, N = spectrum.eigenvalues[:, None], law.schedule.duration
        self.start = spectrum.basis.T @ law.start
        self.mean = drift(a, law.step_size, N) * spectrum.cross
        self.mean += decay(a, law.step_size, N) * self.start
        # Outside the row space A is alpha with and without the rows, and B is zero.
        self._outside, self._outside_start = np.zeros(len(points)), np.zeros((len(points), 1))
        if spectrum.has_complement:
            outside = points - self.points @ spectrum.basis.T
            self._outside = np.sum(np.square(outside), axis=1)
            self._outside_start = outside @ law.start
        self._continued: dict[int, Prospect] = {}

    @cached_property
    def before(self) -> Predictions:
        """Predictions of the chain as it is now."""
        return Predictions(
            self._means(self.law.schedule.duration), self._variances(self.law.final_variances)
        )

    def without(self, X: Array, Y: Array, rows: object = None) -> "RidgeRequestForecast":
        """The forecast for a request: rows X (R x p) with targets Y (R x d), perhaps none.

        A full batch does not depend on their positions, `rows`.
        """
        return RidgeRequestForecast(self, X, Y)

    def continued(self, n_steps: int) -> Prospect:
        """K more steps with all rows still there."""
        if n_steps not in self._continued:
            law = self.law
            self._continued[n_steps] = Prospect(
                self._means(law.schedule.duration + n_steps),
                self._variances(
                    lambda a: decay(a, law.step_size, n_steps) ** 2 * law.final_variances(a)
                ),
                self._variances(lambda a: spread(a, law.step_size, n_steps)),
            )
        return self._continued[n_steps]

    @cached_property
    def relearned(self) -> Prospect:
        """The learning steps again, from the start, with all rows still there."""
        steps = self.law.schedule.segments[0].duration
        per_noise = self._variances(lambda a: spread(a, self.law.step_size, steps))
        return Prospect(self._means(steps), np.zeros(len(self.points)), per_noise)

    def _means(self, k: float) -> Array:
        spectrum, eta = self.law.spectrum, self.law.step_size
        a = spectrum.eigenvalues[:, None]
        mean = drift(a, eta, k) * spectrum.cross + decay(a, eta, k) * self.start
        outside = decay(np.array(spectrum.alpha), eta, k) * self._outside_start
        return np.asarray(self.points @ mean + outside)

    def _variances(self, function: Callable[[Array], Array]) -> Array:
        spectrum = self.law.spectrum
        inside = self._squares @ function(spectrum.eigenvalues)
        return np.asarray(inside + self._outside * function(np.array([spectrum.alpha])))

    @cached_property
    def _squares(self) -> Array:
        return np.square(self.points)


class RidgeRequestForecast:
    """What forgetting some rows does to the predictions."""

    def __init__(self, forecast: RidgeForecast, X: Array, Y: Array) -> None:
        self._forecast, self._law = forecast, forecast.law
        self._targets = Y
        self._rows = self._law.coordinates(X)
        self._space: RequestSpace | None = None
        if self._rows.any():  # otherwise the two runs are the same
            # Words of A and A' in a covariance have up to two factors for each step.
            length = 2 * (self._law.schedule.duration + forecast.n_unlearn_steps)
            self._space = _space_for(self._law, self._rows, length)
            self._own, self._other = self._space.see(forecast.points)

    def after(self, n_steps: int) -> Prospect:
        """Predictions once K steps without the rows have followed."""
        forecast, law, eta = self._forecast, self._law, self._law.step_size
        base = forecast.continued(n_steps)
        if self._space is None:
            return base
        space = self._space
        h = law.final_variances(space.own.values)
        kept = self._own * decay(space.own.values, eta, n_steps)
        moved = (self._other * decay(space.retained.values, eta, n_steps)) @ space.turn.T
        return Prospect(
            base.mean + self._lead(forecast.mean, n_steps),
            np.maximum(base.variance + (np.square(moved) - np.square(kept)) @ h, 0.0),
            self._spread(base.variance_per_noise, n_steps),
        )

    @cached_property
    def redraw(self) -> Predictions:
        """Predictions of a chain that learns again, without the rows."""
        learning, base = self._law.schedule.segments[0], self._forecast.relearned
        steps, noise = learning.duration, learning.noise
        if self._space is None:
            return base.at(noise)
        mean = base.mean + self._lead(self._forecast.start, steps)
        return Predictions(mean, noise**2 * self._spread(base.variance_per_noise, steps))

    def _lead(self, mean: Array, k: float) -> Array:
        """v'e_k, k steps from `mean` without the rows against k steps with them."""
        space, spectrum, eta = self._space, self._law.spectrum, self._law.step_size
        assert space is not None
        residuals = self._rows @ mean - self._targets
        own, other = space.see((spectrum.eigenvalues[:, None] * mean - spectrum.cross).T)
        other = other.T - space.retained.rows @ residuals
        return np.asarray(
            self._own @ (drift(space.own.values[:, None], eta, k) * own.T)
            - self._other @ (drift(space.retained.values[:, None], eta, k) * other)
        )

    def _spread(self, base: Array, k: float) -> Array:
        """v' spread_k(A') v, from that of A."""
        space, eta = self._space, self._law.step_size
        assert space is not None
        change = np.square(self._other) @ spread(space.retained.values, eta, k)
        change -= np.square(self._own) @ spread(space.own.values, eta, k)
        return np.maximum(base + change, 0.0)


def _space_for(law: "RidgeLaw", Z: Array, length: float) -> RequestSpace:
    """The smallest space of the list that keeps words of this length in A and A' on X_f'."""
    spectrum = law.spectrum
    is_large = len(spectrum.eigenvalues) > 2 * _GROWTH[0] * len(Z)  # else the eigenbasis is cheap
    if is_large and math.isfinite(length):
        lanczos = BlockLanczos(spectrum, Z.T)
        for size in _GROWTH:
            lanczos.extend(size * lanczos.width)
            space = reached_space(law, lanczos)
            if lanczos.exhausted or _leak(law, space, lanczos, int(length)) <= _LEAK:
                return space
    return RequestSpace.whole(spectrum, law.step_size, Z)


def _leak(law: "RidgeLaw", space: RequestSpace, lanczos: BlockLanczos, length: int) -> float:
    """Bound on what M^i X_f' and M'^i X_f' have outside of the space, relative to |X_f|.

    eta |B| sum_{l<i} |E_last'(1 - eta T)^l R| (docs/exact.md); the coupling B is at most |A|.
    """
    coupling = law.spectrum.largest * np.eye(lanczos.coupling.shape[1])
    leaks = [half.leaks(coupling, length) for half in (space.own, space.retained)]
    return law.step_size * float(np.sum(leaks)) / float(np.linalg.norm(lanczos.first, 2))


def shortfall_of(spectrum: Spectrum, run: Run, n_live: int | None) -> Shortfall | None:
    """R2 of the mean after learning, and of the minimiser; None if targets are all zero.

    `n_live` is the number of rows if there is an intercept, else None.
    """
    total = spectrum.target_norm**2
    if not 0.0 < total < math.inf:
        return None
    a, B, k = spectrum.eigenvalues[:, None], spectrum.cross, run.schedule.segments[0].duration
    start = spectrum.basis.T @ run.start
    learned = drift(a, run.step_size, k) * B + decay(a, run.step_size, k) * start
    flat = a <= UNIT * spectrum.largest  # directions without data and penalty
    best = np.where(flat, 0.0, B / np.where(flat, 1.0, a))
    scatter = total
    if n_live is not None:  # B's last row is the sum of the targets
        scatter -= float(np.sum(np.square(spectrum.basis[-1] @ B))) / max(n_live, 1)
    scatter = scatter if scatter > 1e-9 * total else total

    def explained(m: Array) -> float:
        squares = total + float(np.sum(m * ((a - spectrum.alpha) * m - 2 * B)))
        return 1 - max(squares, 0.0) / scatter

    return Shortfall(explained(learned), explained(best))
