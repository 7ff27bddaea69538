"""Noncentral chi-square quantiles against 60-digit quadrature: never too small."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import chi2

from oracles.high_precision import ncx2_sf_mp, ncx2_upper_quantile_mp
from oracles.quantiles import norm_quantile_gap
from pilu.accounting import ncx2_upper_quantile
from pilu.accounting.quantiles import noncentral_chi_upper_quantile

DFS = [1, 2, 10, 1000]
TAILS = [0.5, 1e-3, 1e-8, 1e-30]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("df", DFS)
@pytest.mark.parametrize("nc", [0.0, 1e-6, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("tail", TAILS)
def test_safe_and_tight(df, nc, tail):
    q = ncx2_upper_quantile(tail, df, nc)
    exact = ncx2_upper_quantile_mp(tail, df, nc)
    assert exact <= q <= exact * (1 + mpf("1e-9"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("df", DFS)
@pytest.mark.parametrize("nc", [1.1e6, 1e8, 1e12, 1e16])
@pytest.mark.parametrize("tail", TAILS)
def test_far_out_the_isoperimetric_bound_holds(df, nc, tail):
    q = ncx2_upper_quantile(tail, df, nc)
    assert ncx2_sf_mp(q, df, nc) <= tail
    r = math.sqrt(nc)
    root = r + norm_quantile_gap(tail, df, r)
    # Mean of the norm against its second moment, and its variance 1 - (df - 1)/r^2 against 1.
    z = max(root - r, 0.0)
    assert math.sqrt(q) - root <= (1 + z * df / r) / r + 1e-13 * root


@pytest.mark.one_in(4)
@pytest.mark.parametrize("df", DFS)
@pytest.mark.parametrize("tail", TAILS)
def test_chords_lie_above_the_curve(df, tail, rng):
    r = np.concatenate([[0.0, 1e-9], 10 ** rng.uniform(-3, 4, 5000), [1.5e4, 1e7]])
    bound = noncentral_chi_upper_quantile(tail, df, r)  # enough values for a table
    for i in np.concatenate([[0, 1], rng.integers(2, len(r) - 2, 12)]):
        exact = r[i] + norm_quantile_gap(tail, df, r[i])
        assert exact * (1 - 1e-13) <= bound[i] <= exact * (1 + 2e-9)


def test_quantile_is_convex_in_the_shift(rng):
    # The fact on which the chords rest, on the oracle's values.
    for df, tail in itertools.product([1, 3, 50], [0.3, 1e-6]):
        for a, b in rng.uniform(0, 8, (15, 2)):
            values = [r + norm_quantile_gap(tail, df, r) for r in (a, (a + b) / 2, b)]
            assert values[1] <= (values[0] + values[2]) / 2 * (1 + 1e-12)


def test_tails_above_one_half_and_arrays():
    q = ncx2_upper_quantile(0.9, 3, [0.0, 1.0, 1e9])
    assert q.shape == (3,)
    assert q[0] == pytest.approx(chi2.isf(0.9, 3), rel=1e-10)
    assert float(ncx2_sf_mp(q[2], 3, 1e9)) <= 0.9
    many = ncx2_upper_quantile([0.1, 0.01], [1, 5], [[0.0], [3.0]])
    assert many.shape == (2, 2)
    assert many[1, 1] == ncx2_upper_quantile(0.01, 5, 3.0)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("df", [1, 3, 100])
@pytest.mark.parametrize("nc", [0.0, 10.0, 1e4])
@pytest.mark.parametrize("tail", [1e-90, 1e-150, 1e-200, 1e-300])
def test_tails_where_the_library_is_wrong(df, nc, tail):
    # scipy's isf returns values that are finite, positive and far too small here.
    q = ncx2_upper_quantile(tail, df, nc)
    with mp.workdps(400):
        r = mp.sqrt(mpf(nc))
        assert mp.sqrt(mpf(q)) >= r + mp.sqrt(2) * mp.erfinv(1 - 2 * mpf(tail))
    if df == 3:  # a closed form: the density of |Z + r e| in three dimensions
        with mp.workdps(400):
            R = mp.sqrt(mpf(q))
            if r == 0:
                true = mp.erfc(R / mp.sqrt(2)) + mp.sqrt(2 / mp.pi) * R * mp.exp(-R * R / 2)
            else:
                phi = [mp.exp(-((R - t) ** 2) / 2) / mp.sqrt(2 * mp.pi) for t in (r, -r)]
                true = (mp.erfc((R - r) / mp.sqrt(2)) + mp.erfc((R + r) / mp.sqrt(2))) / 2
                true += (phi[0] - phi[1]) / r
            assert true <= tail


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 1, 1.0), "tail must be"),
        ((1.0, 1, 1.0), "tail must be"),
        ((0.1, 0, 1.0), "df must be an integer >= 1, got df=0."),
        ((0.1, 1.5, 1.0), "df must be an integer"),
        ((0.1, 1, -1.0), "nc must be"),
        ((0.1, 1, np.nan), "nc must be"),
        ((0.1, 1, np.inf), "nc must be"),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(ValueError, match=words):
        ncx2_upper_quantile(*arguments)
