"""Conversions between mu-GDP and (epsilon, delta), never on the unsafe side.

    delta(mu, eps) = Phi(-x) - exp(eps) Phi(-x - mu),   x = eps/mu - mu/2     [PILU, App. A]
                   = phi(x) [m(x) - m(x + mu)],          m = Phi(-.)/phi, the Mills ratio

The second form neither overflows nor cancels: for small mu the bracket is the integral of
-m'(t) = 1 - t m(t) over [x, x + mu]. `_log_delta_bound` adds a bound on its own rounding error, and
all searches keep the private end, so an epsilon or a delta is never too small and a mu never
too large.
"""

import decimal
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr

from pilu._checks import as_numbers, complaint
from pilu.accounting.search import bisect_to_safe_end

Array = NDArray[np.float64]

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_SMALL_MU = 0.25  # below it the Mills difference is taken as an integral
_FAR = 40.0  # phi(40) is below the least positive double: a crude bound is enough
_UNIT = 2.0**-52
_NODES, _WEIGHTS = (0.5 * np.polynomial.legendre.leggauss(12)[i] for i in (0, 1))
_PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def delta_from_mu(mu: ArrayLike, epsilon: ArrayLike) -> NDArray[np.float64] | float:
    """Least delta, rounded up, for which mu-GDP implies (epsilon, delta)-DP.

    Parameters
    ----------
    mu : float or array, >= 0
    epsilon : float or array, >= 0

    Examples
    --------
    >>> round(delta_from_mu(1.0, 1.0), 6)
    0.126937
    """
    m, e = np.broadcast_arrays(_checked("mu", mu), _checked("epsilon", epsilon))
    with np.errstate(under="ignore"):
        # The next double, too: below the normal doubles a rounding is more than two ulps.
        delta = np.nextafter(np.exp(_log_delta_bound(m, e)) * (1 + 2 * _UNIT), 2.0)
    return _plain(np.where(m > 0, np.minimum(delta, 1.0), 0.0))


def epsilon_from_mu(mu: ArrayLike, delta: ArrayLike) -> NDArray[np.float64] | float:
    """Least epsilon, rounded up, for which mu-GDP implies (epsilon, delta)-DP.

    Parameters
    ----------
    mu : float or array, >= 0
        ``inf`` is answered by ``inf``.
    delta : float or array, in (0, 1)

    Examples
    --------
    >>> round(epsilon_from_mu(1.0, 1e-5), 3)
    4.377
    """
    m, d = np.broadcast_arrays(_checked("mu", mu, infinite=True), _checked_delta(delta))
    result = np.zeros(m.shape)
    result[np.isinf(m)] = np.inf
    todo = (m > 0) & np.isfinite(m)
    if todo.any():
        result[todo] = _epsilon(m[todo], d[todo])
    return _plain(result)


def mu_from_epsilon(epsilon: ArrayLike, delta: ArrayLike) -> NDArray[np.float64] | float:
    """Largest mu, rounded down, for which mu-GDP implies (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float or array, >= 0
    delta : float or array, in (0, 1)

    Examples
    --------
    >>> round(mu_from_epsilon(1.0, 1e-5), 4)
    0.2681
    """
    e, d = np.broadcast_arrays(_checked("epsilon", epsilon), _checked_delta(delta))
    log_delta = np.log(d)
    # Phi(-x) bounds delta, so x >= sqrt(2 log(1/delta)) is private: a positive mu to start from.
    # Doubling it ends where mu is surely not private any more.
    tail = np.sqrt(-2 * log_delta) + 1.0
    safe = e / (tail + np.sqrt(tail**2 + 2 * e))
    safe = np.maximum(safe, d)  # delta(mu, .) <= delta(mu, 0) < mu / sqrt(2 pi)
    unsafe = 2 * safe
    for _ in range(1100):
        grow = _log_delta_bound(unsafe, e) <= log_delta
        if not grow.any():
            break
        safe, unsafe = np.where(grow, unsafe, safe), np.where(grow, 2 * unsafe, unsafe)
    mu = bisect_to_safe_end(lambda t: _log_delta_bound(t, e) <= log_delta, unsafe, safe)
    return _plain(mu)


def _epsilon(mu: Array, delta: Array) -> Array:
    log_delta = np.log(delta)
    tail = np.sqrt(-2 * log_delta) * (1 + 1e-12)
    safe = mu * (tail + mu / 2) * (1 + 1e-12)
    near_zero = 0.01 * mu

    epsilon = np.zeros_like(mu)
    small = _log_delta_bound(mu, near_zero) <= log_delta
    small &= mu < 4
    for i in np.flatnonzero(small):
        epsilon[i] = _epsilon_near_zero(float(mu[i]), float(delta[i]))
    large = ~small
    if large.any():
        m, level = mu[large], log_delta[large]
        epsilon[large] = bisect_to_safe_end(
            lambda t: _log_delta_bound(m, t) <= level,
            np.where(m < 4, near_zero[large], 0.0),
            safe[large],
        )
    return epsilon


def _epsilon_near_zero(mu: float, delta: float) -> float:
    # Near epsilon = 0 one ulp of delta moves epsilon a lot. What is missing,
    #     delta(mu, 0) - delta = int_0^eps exp(t) Phi(-t/mu - mu/2) dt,
    # is therefore formed in 50-digit decimals; the right side is eps times a mean near Phi(-mu/2).
    missing = _delta_at_zero(mu) - decimal.Decimal(delta)
    if missing <= 0:
        return 0.0
    gap = float(missing) * (1 + 1e-12)
    epsilon = 0.0
    for _ in range(20):  # a contraction with factor < 0.01
        t = epsilon * (_NODES + 0.5)
        epsilon = gap / float(_WEIGHTS @ (np.exp(t) * ndtr(-t / mu - mu / 2)))
    return epsilon * (1 + 1e-12)


def _delta_at_zero(mu: float) -> decimal.Decimal:
    # delta(mu, 0) = erf(mu / sqrt(8)) by its Taylor series; mu < 4 needs few terms.
    with decimal.localcontext(prec=50):
        m = decimal.Decimal(mu)
        term = m
        total = decimal.Decimal(0)
        k = 0
        while abs(term) > decimal.Decimal("1e-40") * m:
            total += term / (2 * k + 1)
            k += 1
            term *= -m * m / (8 * k)
        return total / (2 * _PI).sqrt()


def _log_delta_bound(mu: Array, epsilon: Array) -> Array:
    """log delta(mu, epsilon) plus a bound on its rounding error; -inf for mu = 0."""
    shape = np.broadcast_shapes(mu.shape, epsilon.shape)
    mu, epsilon = (np.broadcast_to(a, shape).ravel() for a in (mu, epsilon))
    value = np.full(mu.shape, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        ratio = epsilon / mu
        x = ratio - mu / 2
        far = (mu > 0) & (x > _FAR)
        small = (mu > 0) & ~far & (mu < _SMALL_MU)
        above = ~far & (mu >= _SMALL_MU) & (x >= 0)
        below = ~far & (mu >= _SMALL_MU) & (x < 0)
        for branch, log_delta in (
            (far, _log_far),
            (small, _log_small),
            (above, _log_above),
            (below, _log_below),
        ):
            if branch.any():
                value[branch] = log_delta(x[branch], mu[branch])
        # x carries the rounding of eps/mu and mu/2, and |d log delta / dx| <= |x| + 1 here; the
        # Mills ratios lose x^2 of their four ulps in 1 - t m(t), and little elsewhere.
        slack = 4 * _UNIT * (np.abs(x) + 1) * (ratio + mu / 2) + 8 * _UNIT * (x * x + 200)
        value += np.where(far, 0.0, slack)
    return np.where(mu > 0, np.minimum(value, 0.0), -np.inf).reshape(shape)


def _log_phi(x: Array) -> Array:
    logs: Array = -0.5 * x * x - _LOG_ROOT_TWO_PI
    return logs


def _mills(t: Array) -> Array:
    ratio: Array = math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2))
    return ratio


def _log_far(x: Array, mu: Array) -> Array:
    # phi(x) has left the doubles, and m(x) - m(x + mu) <= m(x) <= 1/x. A thousandth of the
    # exponent is given away for all rounding.
    return 0.999 * _log_phi(x) - np.log(x)


def _log_small(x: Array, mu: Array) -> Array:
    t = x[:, None] + mu[:, None] * (_NODES + 0.5)
    return _log_phi(x) + np.log(mu * ((1 - t * _mills(t)) @ _WEIGHTS))


def _log_above(x: Array, mu: Array) -> Array:
    return _log_phi(x) + np.log(_mills(x) - _mills(x + mu))


def _log_below(x: Array, mu: Array) -> Array:
    # m(x) overflows for x far below 0; exp(eps) Phi(-x - mu) = phi(x) m(x + mu) never does.
    return np.asarray(np.log(ndtr(-x) - np.exp(_log_phi(x)) * _mills(x + mu)))


def _checked(name: str, value: ArrayLike, infinite: bool = False) -> Array:
    array = as_numbers(name, value)
    fine = (array >= 0) & (np.isfinite(array) | infinite)
    if not fine.all():
        raise complaint(name, "a finite number >= 0", float(array[~fine].flat[0]))
    return array


def _checked_delta(value: ArrayLike) -> Array:
    array = as_numbers("delta", value)
    fine = (array > 0) & (array < 1)
    if not fine.all():
        raise complaint("delta", "in the open interval (0, 1)", float(array[~fine].flat[0]))
    return array


def _plain(value: Array) -> NDArray[np.float64] | float:
    return float(value) if value.ndim == 0 else value
