"""Proved errors of the projection, against dense laws: they bound the truth, at every size."""

import numpy as np
import pytest

from oracles.pairs import output_laws, whitened
from pilu.accounting import GaussianPair
from pilu.accounting.curves import PrivacyCurve
from pilu.certify.exact import closeness
from pilu.chains.schedule import Schedule, Segment
from pilu.ridge.krylov import KrylovView
from pilu.ridge.lanczos import BlockLanczos
from pilu.ridge.law import RidgeLaw
from pilu.ridge.spectral import Spectrum

ALPHA = 0.05
SCHEDULES = {
    "learning": [(60, 0.1)],
    "a loud request since": [(60, 0.1), (10, 1.5)],
    "a quiet request since": [(60, 0.1), (10, 1.5), (10, 1e-3)],
    "a request without noise since": [(60, 0.1), (10, 1.5), (10, 0.0)],
    "a quiet start": [(30, 1e-3), (20, 0.4), (5, 0.05)],
}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(150, 60)) * np.arange(1, 61) ** -0.7
    return X, X @ rng.normal(size=(60, 2)) + rng.normal(size=(150, 2))


def law_of(X, Y, segments):
    spectrum = Spectrum.of_statistics(X.T @ X, X.T @ Y, ALPHA)
    schedule = Schedule(tuple(Segment(*s) for s in segments))
    return RidgeLaw(spectrum, 0.9 / spectrum.largest, schedule, np.zeros((X.shape[1], 2)))


def projected(law, X, Y, rows, size):
    Z = law.coordinates(X[rows])
    lanczos = BlockLanczos(law.spectrum, Z.T)
    lanczos.extend(size)
    return lanczos, KrylovView(law, lanczos, Y[rows])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rows", [[3], [3, 8]])
@pytest.mark.parametrize("size", [4, 8, 12, 20])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_mean_and_covariance_errors_bound_the_true_ones(schedule, size, rows, data):
    X, Y = data
    law = law_of(X, Y, SCHEDULES[schedule])
    lanczos, view = projected(law, X, Y, rows, size)
    P, Q = output_laws(X, Y, rows, ALPHA, law.step_size, SCHEDULES[schedule], 0.0, 0)
    V = law.spectrum.basis @ lanczos.basis
    seen = view.before(1).reduced
    retained = lanczos.projected.copy()
    k = lanczos.width
    retained[:k, :k] -= lanczos.first @ lanczos.first.T
    turn = V @ np.linalg.eigh(retained)[1]
    mean = turn @ seen.span @ seen.mean
    covariance = turn @ seen.span @ np.diag(seen.sizes) @ seen.span.T @ turn.T
    slack = 1e-13
    off = np.linalg.norm(P[0] - Q[0] - mean)
    assert off <= view.mean_error + seen.mean_rest + slack * np.linalg.norm(P[0])
    off = np.linalg.norm(P[1] - Q[1] - covariance)
    size_of_law = np.linalg.norm(Q[1])
    assert off <= view.covariance_error + seen.covariance_rest + slack * size_of_law
    if size == 4:  # the bounds are put to the test
        assert np.linalg.norm(P[0] - Q[0] - mean) > 1e-10 * np.linalg.norm(mean)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("noise", [0.02, 0.5])
@pytest.mark.parametrize("size", [12, 16, 20, 28])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_enclosure_is_never_safer_than_the_truth(schedule, size, noise, data):
    X, Y = data
    segments, K, rows = SCHEDULES[schedule], 6, [5]
    law = law_of(X, Y, segments)
    _, view = projected(law, X, Y, rows, size)
    enclosure = view.inflated(view.before(K), noise)
    P, Q = output_laws(X, Y, rows, ALPHA, law.step_size, segments, noise, K)
    truth = GaussianPair(*whitened(P, Q), 2).without_dust()
    if enclosure.excesses.min() <= -1:
        assert size < 28  # too coarse a space: nothing is claimed
        return
    pair = GaussianPair(enclosure.excesses, enclosure.squared_shifts, 2)
    least = 1 + min(float(enclosure.excesses.min()), 0.0)
    compared = 0
    for epsilon in (0.2, 1.0, 3.0):
        log_tail = -60.0
        try:
            error = closeness(
                enclosure.shift_error / np.sqrt(0.9 * least),
                enclosure.covariance_error / (0.9 * least),
                2,
                log_tail,
            )
            curve = PrivacyCurve(pair, True, error, log_tail)
            bound = curve.log_delta(epsilon)
        except ArithmeticError:
            continue  # too coarse again
        true = max(truth.log_delta(epsilon), truth.reversed().log_delta(epsilon))
        assert bound >= true - 1e-9
        compared += 1
    if size == 28:
        assert compared == 3
        assert enclosure.inflation < 1e-6
