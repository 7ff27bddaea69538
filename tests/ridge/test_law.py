"""Laws of iterates and residuals over several segments, against dense propagation."""

import pickle

import numpy as np
import pytest

from oracles.dense import dense_laws, residual_law
from pilu.chains.schedule import Schedule, Segment
from pilu.data.rows import RowSource
from pilu.ridge.law import RidgeLaw
from pilu.ridge.problem import RidgeProblem

SEGMENTS = [(12, 0.3), (4, 1.5), (3, 0.0), (1, 0.7)]


@pytest.mark.parametrize("shape", [(25, 4), (4, 7)])
@pytest.mark.parametrize("zero_start", [True, False])
def test_residual_laws(shape, zero_start, rng):
    X, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 3))
    source = RowSource.of(X, Y, fit_intercept=False)
    problem = RidgeProblem.fit(source, 0.05, 3)
    step_size = 1.0 / problem.spectrum.largest
    start = np.zeros((shape[1], 3)) if zero_start else rng.normal(size=(shape[1], 3))
    schedule = Schedule(tuple(Segment(*s) for s in SEGMENTS))
    law = RidgeLaw(problem.spectrum, step_size, schedule, start)
    Z = law.coordinates(X)
    norms, variances = law.residual_mean_norms(Z, Y), law.residual_variances(Z)
    means = law.residual_means(Z, Y)
    dense = dense_laws(X, Y, 0.05, step_size, SEGMENTS, start)
    for i in range(shape[0]):
        u, v = residual_law(X[i], Y[i], *dense)
        np.testing.assert_allclose(means[i].T, u, atol=1e-12)
        np.testing.assert_allclose(norms[i], np.linalg.norm(u, axis=1), atol=1e-12)
        np.testing.assert_allclose(variances[i], v, rtol=1e-11, atol=1e-14)
    variances = schedule.variances(step_size)
    assert len(variances) == schedule.n_steps == 20
    np.testing.assert_allclose(
        variances[[0, 12, 16, 19]], 2 * step_size * np.array([0.09, 2.25, 0, 0.49])
    )


class AskedWhenPickled(Schedule):
    """Stands for the other thread: while the law is pickled, it is asked for what it keeps."""

    def __reduce__(self):
        for law in ASKED:
            law.mean_bounds, law.mean_profile(0)
        return Schedule, (self.segments,)


ASKED = []


@pytest.mark.parametrize("profiles_before", [True, False])
def test_a_law_is_sent_while_another_thread_asks_it(profiles_before, rng, monkeypatch):
    X, Y = rng.normal(size=(25, 4)), rng.normal(size=(25, 3))
    problem = RidgeProblem.fit(RowSource.of(X, Y, fit_intercept=False), 0.05, 3)
    schedule = AskedWhenPickled(tuple(Segment(*s) for s in SEGMENTS))
    step_size, start = 1.0 / problem.spectrum.largest, rng.normal(size=(4, 3))
    law = RidgeLaw(problem.spectrum, step_size, schedule, start)
    monkeypatch.setitem(globals(), "ASKED", [law])
    if profiles_before:
        law.mean_profile(1)
    sent = pickle.loads(pickle.dumps(law))
    Z = law.coordinates(X)
    np.testing.assert_array_equal(sent.residual_mean_norms(Z, Y), law.residual_mean_norms(Z, Y))
