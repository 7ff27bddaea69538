"""Accountants for records that are kept: their answers have few digits.

Noise is rounded up to a grid, the epsilon asked for is stated in place of the smaller one reached,
and totals are carried on with coarse deltas. Everything stays true, a few per cent above the least.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from pilu._digits import up_to_grid
from pilu.accounting.coarse import CoarseCurve, decade_up
from pilu.accounting.curves import GaussianCurve
from pilu.certify.accountant import Calibration, Law, Target
from pilu.certify.exact import Exact
from pilu.certify.floor import noise_floor
from pilu.certify.noise_search import mu_of
from pilu.certify.theorem import Theorem
from pilu.chains.comparison import Comparison
from pilu.chains.request import Request
from pilu.losses.law import SmoothLaw

__all__ = ["CoarseExact", "CoarseTheorem", "coarse_accountant"]

_PER_OCTAVE = 8  # up to 9 % more noise
_TRIES = 64


@dataclass(frozen=True)
class CoarseExact(Exact):
    """As `Exact`, with answers that tell little of the rows."""

    def describe(self) -> dict[str, Any]:
        """Name and options, as they stand in a certificate."""
        return {**super().describe(), "coarse": True}

    def _calibrate(self, difference: Comparison, target: Target, floor: float) -> Calibration:
        least = super()._calibrate(difference, target, floor).noise
        return self._stated(difference, least, target, floor)

    def _stated(
        self, difference: Comparison, noise: float, target: Target, floor: float
    ) -> Calibration:
        """The least noise on the grid, from `noise` on, that meets the target."""
        aim = math.log(target.delta) - 1e-13
        for _ in range(_TRIES):
            noise = _coarse(noise, floor)
            try:
                enclosure = difference.enclosure(noise, target.n_unlearn_steps)
                curve = self._curve(enclosure, difference.law.n_outputs, target)
                if curve.log_delta(target.epsilon, aim) <= aim:
                    break
            except ArithmeticError:  # so little noise that rounding hides the laws
                pass
            noise = max(noise * (1 + 1e-6), floor)  # the next one
        else:
            raise ArithmeticError("no noise on the grid was found to suffice; please report this.")
        answer = self._calibration(difference, enclosure, curve, noise, target.epsilon, target)
        errors = {name: decade_up(error) for name, error in answer.numerical_error.items()}
        ladder = CoarseCurve(answer.curve, mu_of(target.epsilon, target.delta))
        return replace(answer, curve=ladder, numerical_error=errors)


@dataclass(frozen=True)
class CoarseTheorem(Theorem):
    """As `Theorem`, with answers that tell little of the rows."""

    def describe(self) -> dict[str, Any]:
        """Name and options, as they stand in a certificate."""
        return {**super().describe(), "coarse": True}

    def calibrate(self, law: Law, request: Request, target: Target) -> Calibration:
        """The least noise on the grid that certifies the target for one request."""
        bound, mu = self._bound(law, request, target), self._target_mu(target)
        floor = noise_floor(law, target.n_unlearn_steps)
        noise = _coarse(self._least_noise(law, bound, target), floor)
        found = self._calibration(law, bound, noise, target)
        if found.mu is None or found.mu > mu:
            raise ArithmeticError("noise on the grid misses its target; please report this.")
        return replace(
            found,
            epsilon=target.epsilon,
            mu=mu,
            curve=GaussianCurve(mu, self._slack(target)),
            checks={},
        )


def coarse_accountant(law: Law) -> CoarseExact | CoarseTheorem:
    """Exact where the iterates are Gaussian."""
    return CoarseTheorem() if isinstance(law, SmoothLaw) else CoarseExact()


def _coarse(noise: float, floor: float) -> float:
    return up_to_grid(max(noise, floor), _PER_OCTAVE) if noise > 0 else 0.0
