"""Accountants for records that are kept: their numbers have few digits and reveal little.

Noise is rounded up to a grid. The requested epsilon is stated, not the smaller one reached. Totals
are composed with coarse deltas. All statements remain true, at a few per cent more noise.
"""

from dataclasses import dataclass, replace
from typing import Any

from pilu._digits import decade_up, up_to_grid
from pilu.accounting.cumulants import log_down
from pilu.accounting.curves import CoarseCurve, GaussianCurve
from pilu.accounting.noise_search import mu_of
from pilu.certify.accountant import Calibration, Target
from pilu.certify.exact import Checked, Exact
from pilu.certify.theorem import Theorem
from pilu.chains.problem import Law
from pilu.data.rows import Request

_PER_OCTAVE = 8  # up to 9 % more noise
_TRIES = 64


@dataclass(frozen=True)
class CoarseExact(Exact):
    """As `Exact`, with answers that reveal little about the rows."""

    def describe(self) -> dict[str, Any]:
        """Name and options, as a certificate records them."""
        return {**super().describe(), "coarse": True}

    def _settled(self, found: Checked, target: Target) -> Calibration:
        comparison, noise = found.comparison, found.noise
        aim = log_down(target.delta)
        for _ in range(_TRIES):  # to the next grid point until the target is met
            noise = _coarse(noise, target)
            try:
                enclosure = comparison.enclosure(noise, target.n_unlearn_steps)
                curve = self._curve(enclosure, comparison.n_outputs, target)
                if curve.log_delta(target.epsilon, aim) <= aim:
                    break
            except ArithmeticError:  # too little noise for the precision of the laws
                pass
            noise = max(noise * (1 + 1e-6), target.floor)  # the next grid point
        else:
            raise ArithmeticError("no noise on the grid meets the target; please report this.")
        answer = self._calibration(comparison, enclosure, curve, noise, target.epsilon, target)
        errors = {name: decade_up(error) for name, error in answer.numerical_error.items()}
        ladder = CoarseCurve(answer.curve, mu_of(target.epsilon, target.delta))
        return replace(answer, curve=ladder, numerical_error=errors)


@dataclass(frozen=True)
class CoarseTheorem(Theorem):
    """As `Theorem`, with answers that reveal little about the rows."""

    def describe(self) -> dict[str, Any]:
        """Name and options, as a certificate records them."""
        return {**super().describe(), "coarse": True}

    def calibrate(self, law: Law, request: Request, target: Target) -> Calibration:
        """The least noise on the grid that certifies the target for one request."""
        bound = self._bound(law, request, self._slack(target), target.n_unlearn_steps)
        mu = self._target_mu(target)
        noise = _coarse(self._least_noise(law, bound, target), target)
        answer = self._calibration(law, bound, noise, target)
        if answer.mu is None or answer.mu > mu:
            raise ArithmeticError("noise on the grid misses its target; please report this.")
        return replace(
            answer,
            epsilon=target.epsilon,
            mu=mu,
            curve=GaussianCurve(mu, self._slack(target)),
            checks={},
        )


def coarse_accountant(law: Law) -> CoarseExact | CoarseTheorem:
    """The exact accountant if the iterates are Gaussian, otherwise the theorem."""
    return CoarseExact() if law.is_gaussian else CoarseTheorem()


def _coarse(noise: float, target: Target) -> float:
    return up_to_grid(target.raised(noise), _PER_OCTAVE) if noise > 0 else 0.0
