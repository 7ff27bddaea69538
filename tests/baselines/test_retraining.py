"""Retraining and the redraw: one law, that of Algorithm A on what is left."""

import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

from oracles.dense import dense_laws
from pilu.baselines import Redraw, Retraining

RUNS = 500


def law_without(task, rows, segments):
    X, Y = (np.delete(values, rows, axis=0) for values in (task.X, task.Y))
    start = np.zeros((X.shape[1], Y.shape[1]))
    means, covariances = dense_laws(X, Y, task.alpha, task.step_size, segments, start)
    return means[-1], covariances[-1]


def draws(make_task, method, rows):
    found = []
    for seed in range(RUNS):
        task = make_task(n_steps=12, noise=0.5, random_state=seed)
        found.append(method.fit(task).answer(rows).theta)
    return np.array(found), task


@pytest.mark.parametrize("rows", [[4], [4, 9, 11]])
def test_redraw_equals_literal_retraining_in_law(make_task, rows):
    literal, task = draws(make_task, Retraining(), rows)
    redrawn, _ = draws(make_task, Redraw(), rows)
    mean, covariance = law_without(task, rows, [(12, 0.5)])
    rng = np.random.default_rng(1)
    for direction in rng.normal(size=(4, 5)):
        scale = np.sqrt(direction @ covariance @ direction)
        for output in range(2):
            centre = direction @ mean[:, output]
            one, two = (values[:, :, output] @ direction for values in (literal, redrawn))
            assert ks_2samp(one, two).pvalue > 1e-4
            for sample in (one, two):
                assert kstest((sample - centre) / scale, "norm").pvalue > 1e-4


@pytest.mark.parametrize("method", [Retraining(), Redraw()])
def test_what_they_tell(make_task, method):
    task = make_task()
    answer = method.fit(task).answer([4, 9])
    assert (answer.epsilon, answer.delta, answer.certified) == (0.0, 0.0, True)
    assert answer.rows_touched == (2 if isinstance(method, Redraw) else 40 * 28)
    mean, covariance = law_without(task, [4, 9], [(40, 0.1)])
    points = task.X[:6]
    law = answer.predictions(points)
    np.testing.assert_allclose(law.mean, points @ mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(law.variance, np.diag(points @ covariance @ points.T), rtol=1e-8)
