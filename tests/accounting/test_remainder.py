"""The parts of the quadrature's error bound (docs/margins.md), one by one, in 30 digits.

Derivatives are mpmath's, of the integrand that tests/oracles/ray.py states. Suprema over a disc are
compared with points of it, the rise along a vertical ray with a point far up.
"""

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from pilu.accounting import GaussianPair
from pilu.accounting.quadrature import CELL, Path, Remainder, _rise

STEP, N_CELLS = 0.04, 3
PAIRS = [
    ([0.5, -0.3, 1e-3], [0.3, 0.1, 0.2], [1, 2, 1], 0.8),
    ([-0.4, -0.2], [0.0, 0.7], [3, 1], 2.5),
    ([2.0], [0.5], [1], 0.2),
]


def log_integrand(x, a2, half, z):
    """Without e^{-eps z}."""
    total = -mp.log(z) - mp.log(1 + z)
    for v, a, h in zip(x, a2, half, strict=True):
        total += a * z * (1 + z) / (2 * (1 - z * v)) - h * (mp.log(1 - z * v) + z * mp.log(1 + v))
    return total


@pytest.mark.parametrize(("x", "a2", "counts", "gap"), PAIRS)
@pytest.mark.parametrize("kappa", [-0.4, 0.0, 0.3])
def test_each_disc_bounds_the_integrand_around_a_cell(x, a2, counts, gap, kappa):
    half = [n / 2 for n in counts]
    width = 0.3 * gap
    path = Path(np.array([gap]), np.array([width]), np.array([kappa]), STEP)
    arrays = [np.array([part], dtype=float) for part in (x, a2, half)]
    remainder = Remainder(*arrays, path, np.array([N_CELLS]))

    def place(tau):
        return gap + width * (1j * mp.sinh(tau) + kappa * (mp.cosh(tau) - 1))

    def speed(tau):
        return 1j * mp.cosh(tau) + kappa * mp.sinh(tau)

    last = STEP * (CELL * N_CELLS - 1)
    centres = [STEP * (CELL * k + CELL // 2) for k in range(N_CELLS)] + [last]
    with mp.workdps(30):
        x, a2, half = ([mpf(v) for v in part] for part in (x, a2, half))
        for k, tau in enumerate(centres):
            centre = place(tau)
            slope = mp.diff(lambda z: log_integrand(x, a2, half, z), centre)
            assert abs(remainder._slopes[0, k] - slope) < 1e-10 * abs(slope)

            # A cell reaches half of its width to both sides, the last disc half a step.
            aside = STEP / 2 if k == N_CELLS else STEP * CELL / 2
            reach, square = mpf(remainder._reach[0, k]), mpf(0)
            for u in np.linspace(-aside, aside, 5):
                for y in (-0.2, 0.0, 0.2):
                    point = mpc(tau + u, y)
                    assert abs(place(point) - centre) <= reach * (1 + mpf("1e-12"))
                    square = max(square, abs(speed(point)) ** 2)
            assert reach < 1.5 * width * mp.sqrt(square) * mp.hypot(aside, 0.2)

            # What is summed in log M, at the largest |z| and the least |D| ("size" on that page).
            far, size = abs(centre) + reach, mpf(0)
            for v, a, h in zip(x, a2, half, strict=True):
                A = far * abs(v) / (abs(1 - centre * v) - reach * abs(v))
                near = 1 / (abs(1 - centre * v) - reach * abs(v))
                size += (1 + far) * far * a * near * (1 + A)
                size += 2 * h * (far * abs(v) + A + far * abs(mp.log(1 + v)))
            assert abs(remainder._sizes[0, k] - size) < 1e-11 * size

            # The sum of the moduli of the parts of (log F)'', at the nearest the disc comes.
            bent = 1 / (abs(centre) - reach) ** 2 + 1 / (abs(1 + centre) - reach) ** 2
            for v, a, h in zip(x, a2, half, strict=True):
                near = 1 / (abs(1 - centre * v) - reach * abs(v))
                bent += a * (1 + v) * near**3 + h * v**2 * near**2
            for turn in range(8):
                z = centre + reach * mp.expjpi(mpf(turn) / 4)
                assert abs(mp.diff(lambda z: log_integrand(x, a2, half, z), z, 2)) <= bent
            curved = mpf(remainder._curved[0, k])
            assert curved >= mp.log(square) / 2 + bent * reach**2 / 2 - mpf("1e-12") * bent
            steepest = mp.sqrt(1 + mpf(kappa) ** 2) * mp.cosh(tau + aside)
            assert abs(curved - mp.log(steepest) - bent * reach**2 / 2) < 1e-11 * (1 + bent)

        # Beyond the last node: half a step along the path, then straight up.
        end = place(last + STEP / 2)
        assert abs(remainder._to_end[0] - (end - centre)) < 1e-14
        expected = abs(end - centre) ** 2 * bent / 2
        expected += mp.log(abs(end * (1 + end)) / (width * end.imag))
        rise = _rise(*arrays[:2], np.array([complex(end)]))[0]
        assert abs(remainder._log_cut[0] - expected - rise) < 1e-11 * (1 + abs(expected))


@pytest.mark.parametrize("beyond", [0.7, 1.5, 4.0])
def test_what_may_grow_on_the_vertical_ray(beyond):
    """With hardly any count only the shifts' part is left, and it rises to its limit."""
    x, a2 = [0.5, 0.8, -0.3], [0.4, 0.2, 0.6]
    with mp.workdps(30):
        end = mpc(beyond * 2, 1.5)
        rise = mpf(_rise(np.array([x]), np.array([a2]), np.array([complex(end)]))[0])

        def growth(v, a, z):
            there, here = (mp.re(a * w * (1 + w) / (2 * (1 - w * v))) for w in (z, end))
            return there - here

        rising = [(v, a) for v, a in zip(x, a2, strict=True) if v * end.real > 1]
        limit = mp.fsum(growth(v, a, mpc(end.real, 1e12)) for v, a in rising)
        assert abs(rise - limit) < 1e-10
        assert (rise > 0) == bool(rising)
        for up in (0.1, 1.0, 10.0):
            everything = mp.fsum(growth(v, a, end + 1j * up) for v, a in zip(x, a2, strict=True))
            assert everything <= rise


@pytest.mark.parametrize(("x", "a2", "counts", "gap"), PAIRS)
def test_paths_stay_within_the_angle_of_the_proof(x, a2, counts, gap):
    for epsilon in (0.0, 0.5, 4.0):
        bends = GaussianPair(x, a2, counts)._bends(epsilon)
        assert max(map(abs, bends)) <= np.tan(np.radians(25)) * (1 + 1e-15)
        assert len(set(bends)) == 5
