"""delta of two Gaussians from the region where one law outweighs the other.

In one coordinate P = N(a, 1 + x), Q = N(0, 1). log dP/dQ > t is a quadratic inequality,

    x z^2 + 2 a z - a^2 - (1 + x) (2 t + log(1 + x)) > 0,

and delta(t) = P(region) - e^t Q(region). A second, independent coordinate moves the threshold:
delta(eps) = E_{z ~ P1} delta_2(eps - log dP1/dQ1(z)).
"""

from mpmath import mp, mpf


def _mass(low: mpf, high: mpf) -> mpf:
    """N(0, 1) between two points, by tails that do not cancel."""
    if low > 0:
        low, high = -high, -low
    root = mp.sqrt(2)
    return (mp.erfc(-high / root) - mp.erfc(-low / root)) / 2


def _roots(x: mpf, a: mpf, t: mpf) -> list[mpf]:
    """Where log dP/dQ = t."""
    constant = -(a**2) - (1 + x) * (2 * t + mp.log(1 + x))
    if x == 0:
        return [-constant / (2 * a)]
    disc = a**2 - x * constant
    if disc <= 0:
        return []
    return sorted([(-a - mp.sqrt(disc)) / x, (-a + mp.sqrt(disc)) / x])


def _region_delta(x: mpf, a: mpf, t: mpf) -> mpf:
    ends = _roots(x, a, t)
    if x > 0:
        pieces = [(-mp.inf, ends[0]), (ends[1], mp.inf)] if ends else [(-mp.inf, mp.inf)]
    elif x < 0:
        pieces = [(ends[0], ends[1])] if ends else []
    else:
        pieces = [(ends[0], mp.inf)]
    deviation = mp.sqrt(1 + x)
    return mp.fsum(
        _mass((low - a) / deviation, (high - a) / deviation) - mp.exp(t) * _mass(low, high)
        for low, high in pieces
    )


def _exchanged(x: mpf, a: mpf) -> tuple[mpf, mpf]:
    return -x / (1 + x), a / mp.sqrt(1 + x)


def one_coordinate_delta(x: float, a2: float, eps: float) -> mpf:
    """The larger delta(eps) of the two directions; x and a2 are not both zero."""
    with mp.workdps(100):
        law = (mpf(x), mp.sqrt(mpf(a2)))
        return max(_region_delta(*law, mpf(eps)), _region_delta(*_exchanged(*law), mpf(eps)))


def two_coordinates_delta(one: tuple[float, float], two: tuple[float, float], eps: float) -> mpf:
    """The same for two coordinates (x, a2), by quadrature over the first; the second has x != 0."""
    with mp.workdps(24):
        laws = [(mpf(x), mp.sqrt(mpf(a2))) for x, a2 in (one, two)]
        back = [_exchanged(*law) for law in laws]
        return max(_nested(*laws, mpf(eps)), _nested(*back, mpf(eps)))


def _nested(one: tuple[mpf, mpf], two: tuple[mpf, mpf], eps: mpf) -> mpf:
    (x, a), (y, b) = one, two
    deviation = mp.sqrt(1 + x)

    def loss(z: mpf) -> mpf:
        return (x * z**2 + 2 * a * z - a**2) / (2 * (1 + x)) - mp.log(1 + x) / 2

    def integrand(w: mpf) -> mpf:
        return mp.npdf(w) * _region_delta(y, b, eps - loss(a + deviation * w))

    # The second coordinate's loss has an extreme value, where the integrand is not smooth.
    extreme = -(b**2) / (2 * y) - mp.log(1 + y) / 2
    kinks = [(z - a) / deviation for z in _roots(x, a, eps - extreme)]
    ends = sorted([mpf(k) for k in (-14, -5, 0, 5, 14)] + [w for w in kinks if abs(w) < 14])
    return mp.quad(integrand, ends)
