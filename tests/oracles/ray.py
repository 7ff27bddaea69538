"""delta of two Gaussians in 30 digits, along a straight ray and by the double-exponential rule.

The integral is that of docs/exact.md, "From two Gaussians to delta", in z = s - 1. Path, rule and
saddle point share nothing with the package or with `pairs.contour_delta`. The sum is formed twice,
on nodes half a step apart: their difference says how good it is.
"""

from collections.abc import Sequence

from mpmath import mp, mpf

_DIGITS = 30
_STEP = mpf(1) / 10
_GOOD = mpf("1e-10")  # the mean of both sums is then off by about its square


def ray_delta(
    x: Sequence[float], a2: Sequence[float], counts: Sequence[float], epsilon: float
) -> mpf:
    """delta(epsilon) of P against Q, to 16 digits."""
    with mp.workdps(_DIGITS):
        law = [(mpf(v), mpf(a), mpf(n) / 2) for v, a, n in zip(x, a2, counts, strict=True)]
        linear = mpf(epsilon) + sum(half * mp.log(1 + v) for v, _, half in law)

        def log_integrand(z: mpf) -> mpf:
            total = -linear * z - mp.log(z) - mp.log(1 + z)
            for v, a, half in law:
                total += a * z * (1 + z) / (2 * (1 - z * v)) - half * mp.log(1 - z * v)
            return total

        start = _saddle(law, linear)
        peak, ahead = log_integrand(start), mp.diff(log_integrand, start, 2)
        for degrees in (70, 110, 82, 98):
            turn = mp.expjpi(mpf(degrees) / 180)

            def term(t: mpf, turn: mpf = turn) -> mpf:
                r = mp.exp(t - mp.exp(-t)) / mp.sqrt(ahead)
                value = mp.exp(log_integrand(start + r * turn) - peak) * turn
                return mp.im(value) * r * (1 + mp.exp(-t))

            both = [_sum(term, offset) for offset in (0, _STEP / 2)]
            if abs(both[0] - both[1]) < _GOOD * abs(both[0]):
                return mp.exp(peak) * (both[0] + both[1]) / (2 * mp.pi)
    raise RuntimeError("no ray resolves this pair.")


def _sum(term, offset) -> mpf:  # type: ignore[no-untyped-def]
    """The sum over all nodes at which the term is not negligible."""
    total = mpf(0)
    for side in (1, -1):
        k = 0 if side == 1 else 1
        while k < 400:
            new = term(offset + side * k * _STEP)
            if abs(new) > mpf(10) ** 30:
                return mp.nan  # uphill
            total, k = total + new, k + 1
            if k > 20 and abs(new) < mpf("1e-24") * abs(total):
                break
    return total * _STEP


def _saddle(law, linear) -> mpf:  # type: ignore[no-untyped-def]
    end = min((1 / v for v, _, _ in law if v > 0), default=mpf("1e30"))
    low, high = mpf(-40), mpf(80)
    for _ in range(40):
        middle = (low + high) / 2
        z = 1 / (1 / end + mp.exp(-middle))
        rise = -linear - 1 / z - 1 / (1 + z)
        for v, a, half in law:
            D = 1 - z * v
            rise += a * ((2 * z + 1) * D + z * (1 + z) * v) / (2 * D**2) + half * v / D
        low, high = (low, middle) if rise > 0 else (middle, high)
    return 1 / (1 / end + mp.exp(-low))
