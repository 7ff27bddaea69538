"""The true epsilon of two laws.

    delta(eps) = sup_S P(S) - e^eps Q(S) = E_P (1 - e^(eps - l))_+,     l = log dP/dQ,

and the true epsilon at delta is the least eps >= 0 with delta(eps) <= delta. Every answer is an
interval. Its lower end is what refutes a claim:

| laws | how | the interval |
| --- | --- | --- |
| `Gaussian` | the law of l on a lattice, by convolution | l rounded down and rounded up |
| `Bins` | a sum over the bins | the change from half as many bins and 0.1 %, on both sides |
| `Draws` | one threshold on a score, by Clopper and Pearson | a lower bound, with 99 % confidence |
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from experiments.truth import empirical, gaussian_losses
from experiments.truth.laws import Array, Bins, Draws, Gaussian, Law


@dataclass(frozen=True)
class Interval:
    """Bounds on one number; `value` is between them."""

    lower: float
    value: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.value <= self.upper:
            raise ValueError(
                f"The laws have no epsilon: its bounds are {self.lower}, {self.value} and "
                f"{self.upper}. Are they finite, and are their probabilities?"
            )


@dataclass(frozen=True)
class Truth:
    """The true epsilon of P against Q, and of Q against P."""

    forward: Interval
    backward: Interval

    def of(self, direction: str) -> Interval:
        """That of one direction, or the worse of both."""
        if direction != "both":
            return getattr(self, direction)
        both = (self.forward, self.backward)
        return Interval(*(max(getattr(one, end) for one in both) for end in _ENDS))


_LEAST = 1e-300  # of a bin's probability
_LEAST_DELTA = 1e-9  # three orders of magnitude above the rounding of the lattice
_ERROR = 1e-3  # of bins, relative, at least
_ENDS = ("lower", "value", "upper")


def true_epsilon(P: Law, Q: Law, delta: float) -> Truth:
    """Both directions at one delta."""
    match P, Q:
        case Gaussian(), Gaussian():
            return Truth(of_gaussians(P, Q, delta), of_gaussians(Q, P, delta))
        case Bins(), Bins():
            return Truth(of_bins(P, Q, delta), of_bins(Q, P, delta))
        case (Draws(), Draws()) | (Draws(), Gaussian()) | (Gaussian(), Draws()):
            forward, backward = empirical.lower_bounds(P, Q, delta)
            return Truth(Interval(forward, forward, np.inf), Interval(backward, backward, np.inf))
    raise TypeError(
        f"P and Q must be laws of one form, got {type(P).__name__} and {type(Q).__name__}."
    )


def of_gaussians(P: Gaussian, Q: Gaussian, delta: float) -> Interval:
    """The true epsilon of P against Q."""
    if delta < _LEAST_DELTA:
        raise ValueError(f"delta must be at least {_LEAST_DELTA:g}, got delta={delta}.")
    lower, upper = gaussian_losses.delta_functions(P, Q)
    low, high = least_epsilon(lower, delta), least_epsilon(upper, delta)
    return Interval(low, (low + high) / 2, high)


def of_bins(P: Bins, Q: Bins, delta: float) -> Interval:
    """The true epsilon of P against Q."""
    for law in (P, Q):
        for masses in (law.probabilities, law.coarser):
            if not (masses >= 0).all() or abs(masses.sum() - 1) > 1e-9:
                raise ValueError(f"Probabilities must add up to 1, got {masses.sum()}.")
    fine, coarse = (
        least_epsilon(lambda epsilon, p=p, q=q: delta_of_bins(p, q, epsilon), delta)
        for p, q in ((P.probabilities, Q.probabilities), (P.coarser, Q.coarser))
    )
    error = abs(fine - coarse) + _ERROR * fine if fine < np.inf else 0.0
    return Interval(max(fine - error, 0.0), fine, fine + error)


def delta_of_bins(p: Array, q: Array, epsilon: float) -> float:
    """sum (p - e^eps q)_+, without e^eps, which overflows. No q is taken for less than 1e-300."""
    there = p > 0
    loss = np.log(p[there]) - np.log(np.maximum(q[there], _LEAST))
    return float(p[there] @ -np.expm1(np.minimum(epsilon - loss, 0.0)))


def least_epsilon(delta_of: Callable[[float], float], delta: float) -> float:
    """The least eps >= 0 with delta_of(eps) <= delta, to a relative 1e-9."""
    if delta_of(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_of(high) > delta:
        low, high = high, 2 * high
        if high > 1e12:
            return np.inf
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return (low + high) / 2
