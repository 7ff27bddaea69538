"""Two Gaussians that nearly are a Gaussian mechanism: delta by a series, to search with."""

import math

from scipy.special import log_ndtr

__all__ = ["nearly_gaussian_log_delta"]

_SMALL_CORRECTION = 2e-2  # by a series, relative to the Gaussian mechanism's delta


def nearly_gaussian_log_delta(
    shifts: float,
    mixed: float,
    mixed_twice: float,
    excesses: float,
    outputs: int,
    epsilon: float,
    *,
    both: bool,
) -> float:
    """log delta(epsilon) for small excesses, to second order in them: an estimate for searching.

    With A, B, D and E the sums of a^2, x a^2, x^2 a^2 and x^2,

        log M(s) = s(s-1)/2 (A + dE/2 + (s-1) B + (s-1)^2 D) + ...

    and a factor s - 1 in the integrand is a derivative by -epsilon of p(epsilon), the density
    of the Gaussian mechanism's loss.
    """

    def forward(A: float, B: float, D: float) -> float:
        mu = math.sqrt(A + outputs * excesses / 2)
        t = epsilon / mu - mu / 2
        first = float(log_ndtr(-t))
        gap = epsilon + float(log_ndtr(-t - mu)) - first
        if not gap < 0:
            raise ArithmeticError("too small a mechanism for a series.")
        log_delta = first + math.log(-math.expm1(gap))
        density = math.exp(min(-t * t / 2 - log_delta, 700.0)) / math.sqrt(2 * math.pi) / mu
        first_order = B * t / mu
        second_order = D * (t**2 - 1) / mu**2
        second_order += B**2 / 4 * ((t**4 - 6 * t**2 + 3) / mu**4 + (t**3 - 3 * t) / mu**3)
        correction = density / 2 * (first_order + second_order)
        if not abs(correction) < _SMALL_CORRECTION:
            raise ArithmeticError("too far from a Gaussian mechanism for a series.")
        return log_delta + math.log1p(correction)

    here = forward(shifts, mixed, mixed_twice)
    if not both:
        return here
    # The reversed pair has -x/(1+x) and a^2/(1+x).
    return max(here, forward(shifts - mixed + mixed_twice, 2 * mixed_twice - mixed, mixed_twice))
