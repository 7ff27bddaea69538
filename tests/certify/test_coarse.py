"""Few digits, on the safe side: against the exact accountant, and against 50 digits."""

import copy
import dataclasses
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilu
from pilu._digits import decade_up, up_to_grid
from pilu.accounting.curves import CoarseCurve, GaussianCurve, Spent
from pilu.certify.certificate import Certificate
from pilu.certify.coarse import CoarseExact
from pilu.certify.issue import _two_digits_up
from pilu.exceptions import CertificateMismatch

OPTIONS = {"n_unlearn_steps": 2, "delta": 1e-3}


def gaussian_delta(mu, epsilon):
    """delta of the Gaussian mechanism, to 50 digits."""
    with mpmath.workdps(50):
        m, e = mpmath.mpf(float(mu)), mpmath.mpf(float(epsilon))
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 4))
    return X, X @ rng.normal(size=4) + rng.normal(size=50)


@pytest.fixture
def model(rows):
    return pilu.LangevinRidge(n_steps=40, noise=0.01).fit(*rows)


@given(value=st.floats(1e-300, 1e300, allow_nan=False), per_octave=st.sampled_from([1, 2, 3, 8]))
def test_the_next_point_of_the_grid(value, per_octave):
    found = up_to_grid(value, per_octave)
    with mpmath.workdps(50):
        steps = mpmath.log(mpmath.mpf(found), 2) * per_octave
        assert abs(steps - mpmath.nint(steps)) < 1e-9
        assert value <= found <= value * 2 ** (1 / per_octave) * (1 + 1e-9)


@pytest.mark.parametrize("k", range(-40, 41))
def test_points_of_the_grid_and_their_neighbours(k):
    point = 2.0 ** (k / 8)
    for value in (math.nextafter(point, 0.0), point, math.nextafter(point, math.inf)):
        assert value <= up_to_grid(value, 8) <= value * 2 ** (1 / 8) * (1 + 1e-9)
    assert up_to_grid(point, 8) == point


@pytest.mark.parametrize("error", [1e-15, 2e-15, 1.2345e-14, 9.99e-13, 1.0000000001e-15, 0.0])
def test_two_digits_are_never_below(error):
    found = _two_digits_up(error)
    assert error <= found <= 1.2 * error
    assert float(f"{found:.1e}") == found


def test_what_a_given_noise_certifies_is_told_as_it_is(model):
    for noise in (0.3, 3.0, 1e3):
        exact, coarse = (
            model.certified_epsilon(7, noise=noise, accountant=accountant, **OPTIONS)
            for accountant in (pilu.Exact(), CoarseExact())
        )
        assert coarse == exact


@pytest.mark.parametrize("group", [[3], [5, 6, 7]])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_noise_is_the_next_eighth_of_an_octave(model, group, epsilon):
    fine = model.quote([group], epsilon=epsilon, **OPTIONS).noise[0]
    coarse = model.quote([group], epsilon=epsilon, accountant=CoarseExact(), **OPTIONS)
    assert fine > 0
    assert coarse.noise[0] == pytest.approx(2 ** (math.ceil(8 * math.log2(fine)) / 8), rel=1e-12)
    assert coarse.epsilon[0] == epsilon
    # by the accountant that rounds nothing, the stated epsilon is not below the truth
    reached = model.certified_epsilon(group, noise=float(coarse.noise[0]), **OPTIONS)
    assert 0.75 * epsilon <= reached <= epsilon


def test_all_rows_are_quoted_as_each_of_them(model):
    every = model.quote(accountant=CoarseExact(), **OPTIONS).noise
    each = model.quote(range(50), accountant=CoarseExact(), **OPTIONS).noise
    np.testing.assert_array_equal(every, each)


def test_many_requests_stay_true_and_close(rows):
    """Totals with coarse deltas are above those with all digits, and not by much."""
    fine = pilu.LangevinRidge(n_steps=40, noise=0.01, random_state=0).fit(*rows)
    coarse = pilu.LangevinRidge(n_steps=40, noise=0.01, random_state=0).fit(*rows)
    for row in range(6):
        a = fine.unlearn(row, **OPTIONS)
        b = coarse.unlearn(row, accountant=CoarseExact(), **OPTIONS)
        assert pilu.verify(b)["total_recomputed"]
        assert b.total_epsilon == pytest.approx(row + 1)
        assert a.total_epsilon <= b.total_epsilon
        assert b.total_delta < 0.05


def test_coarse_curves_chain_to_an_upper_bound():
    """Five mu-GDP mechanisms compose to one of 5 mu along a line: the truth, to 50 digits."""
    mu, total = 0.2, Spent()
    for _ in range(5):
        curve = CoarseCurve(GaussianCurve(mu, 0.0), mu=0.31)
        total = total.after(epsilon=1.0, delta=1e-3, curve=curve)
    least, most = (float(gaussian_delta(5 * m, total.epsilon)) for m in (mu, 0.31))  # its rung
    assert least <= total.delta <= 1.2 * most


def test_what_is_kept_of_a_request_has_few_digits(model):
    certificate = model.unlearn([3, 4], accountant=CoarseExact(), **OPTIONS)
    assert certificate.accountant["coarse"] is True
    assert certificate.epsilon == certificate.total_epsilon == 1.0
    assert certificate.mu is None
    for name in ("shift", "covariance", "epsilon"):
        error = certificate.numerical_error[name]
        assert float(f"1e{round(math.log10(error))}") == error


@pytest.mark.parametrize("mu", [1e-4, 0.11, 0.29, 1.7])
def test_deltas_stand_on_a_ladder_of_gaussian_curves(mu):
    """Against 50 digits: never below the curve, on the next rung above it."""
    epsilons = np.array([0.0, 0.3, 1.0, 2.0])
    found = CoarseCurve(GaussianCurve(mu, 0.0), mu=0.3).deltas(epsilons)
    octaves = [-3, -2, -1, *(k / 4 for k in range(17))]
    least = next(0.3 * 2**k for k in octaves if 0.3 * 2**k >= mu)
    for eps, delta in zip(epsilons, found, strict=True):
        assert gaussian_delta(mu, eps) <= delta
        assert delta == pytest.approx(float(gaussian_delta(least, eps)), rel=1e-9, abs=1e-300)
    assert CoarseCurve(GaussianCurve(50.0, 0.0), mu=0.3).deltas(epsilons).tolist() == [1.0] * 4


def test_the_table_of_a_total_says_on_which_rungs_the_row_stood(model):
    """Not more: rows of about one price leave one table."""
    tables = set()
    for row in range(12):
        twin = copy.deepcopy(model)
        twin.unlearn(row, accountant=CoarseExact(), **OPTIONS)
        tables.add(tuple(twin.fitted_.spent.record()["deltas"]))
    assert len(tables) <= 6


@pytest.mark.parametrize("error", [0.0, 1e-15, 1e-9, 2e-9, 1e-8, 3.3e-4, 1.0])
def test_errors_by_decades(error):
    found = decade_up(error)
    assert max(error, 1e-9) <= found <= max(10 * error, 1e-9) * (1 + 1e-12)
    assert round(math.log10(found)) == pytest.approx(math.log10(found), abs=1e-12)


def test_the_hash_of_the_evidence_cannot_be_tried(rows):
    """Two private runs with one calibration have different hashes; a seeded run is repeatable."""
    settings = {"n_steps": 40, "noise": 0.01}
    private = [pilu.LangevinRidge(**settings).fit(*rows).unlearn(3, **OPTIONS) for _ in range(2)]
    assert private[0].noise == private[1].noise
    assert private[0].evidence_sha256 != private[1].evidence_sha256
    seeded = [
        pilu.LangevinRidge(**settings, random_state=1).fit(*rows).unlearn(3, **OPTIONS)
        for _ in range(2)
    ]
    assert seeded[0].evidence_sha256 == seeded[1].evidence_sha256


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.5, "epsilon_target": 0.5},
        {"epsilon": 0.5},
        {"epsilon": 0.9},
        {"accountant": {"name": "exact", "direction": "both"}},
        {"total_delta": 1e-4},
        {"noise": 0.1},
    ],
)
def test_altered_certificates_are_refused(model, changes):
    certificate = model.unlearn(3, accountant=CoarseExact(), **OPTIONS)
    assert pilu.verify(Certificate.from_json(certificate.to_json()))["epsilon_recomputed"]
    with pytest.raises(CertificateMismatch):
        pilu.verify(dataclasses.replace(certificate, **changes))
