"""Learning at stationarity: the law of what is released, predictions, stores, refusals."""

import copy
import pickle

import numpy as np
import pytest
import scipy.linalg
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import Ridge

import pilu
from conftest import with_ones
from pilu import LangevinHuber, LangevinLogistic, LangevinRidge, LangevinRidgeClassifier
from pilu.accounting import PrivacyCurve
from pilu.auditing import RidgeRuns
from pilu.exceptions import WrongInput


def stationary_law(X, Y, alpha, eta, noise):
    """Mean and covariance by SciPy: a linear system, and a discrete Lyapunov equation."""
    p = X.shape[1]
    A = X.T @ X + alpha * np.eye(p)
    M = np.eye(p) - eta * A
    covariance = scipy.linalg.solve_discrete_lyapunov(M, 2 * eta * noise**2 * np.eye(p))
    return np.linalg.solve(A, X.T @ Y), covariance


def after_steps(law, X, Y, alpha, eta, steps, noise):
    mean, cov = law
    M = np.eye(X.shape[1]) - eta * (X.T @ X + alpha * np.eye(X.shape[1]))
    for _ in range(steps):
        mean, cov = M @ mean + eta * X.T @ Y, M @ cov @ M + 2 * eta * noise**2 * np.eye(len(M))
    return mean, cov


@pytest.mark.parametrize("method", ["langevin", "redraw"])
def test_what_is_released_has_the_right_law(method):
    rng, runs, releases = np.random.default_rng(5), 800, []
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    model = LangevinRidge(alpha=0.2, n_steps=None, noise=0.3)
    for _ in range(runs):
        model.fit(X, y)
        options = {"epsilon": 2.0, "delta": 0.1, "accountant": "theorem", "method": method}
        c = model.unlearn([4, 5], n_unlearn_steps=3, **options)
        releases.append(np.append(model.coef_, model.intercept_))
    eta, Xa, Y, left = model.step_size_, with_ones(X), y[:, None], np.delete(np.arange(20), [4, 5])
    if method == "redraw":
        mean, cov = stationary_law(Xa[left], Y[left], 0.2, eta, 0.3)
    else:
        law = stationary_law(Xa, Y, 0.2, eta, 0.3)
        mean, cov = after_steps(law, Xa[left], Y[left], 0.2, eta, 3, c.noise)
    draws, sd = np.array(releases), np.sqrt(np.diag(cov))
    for j in range(3):
        assert stats.kstest((draws[:, j] - mean[j, 0]) / sd[j], "norm").pvalue > 1e-5
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / runs)
    assert (np.abs(np.cov(draws.T) - cov) < 5 * error).all()


def test_the_mean_is_the_minimiser_of_scikit_learn(diabetes):
    X, y = diabetes
    model = LangevinRidge(alpha=0.1, n_steps=None, noise=1e-6).fit(X, y)
    ones = Ridge(alpha=0.1, fit_intercept=False).fit(with_ones(X), y)
    np.testing.assert_allclose(model.predict(X), ones.predict(with_ones(X)), atol=1e-2)
    assert model.score(X, y) == pytest.approx(ones.score(with_ones(X), y), abs=1e-5)


@pytest.mark.parametrize("n_rows", [30, 6])  # 6 are fewer than there are parameters
def test_predicted_utility_and_audit(n_rows, rng):
    X, Y = rng.normal(size=(n_rows, 8 if n_rows == 6 else 4)), rng.normal(size=(n_rows, 2))
    X_val, Y_val = rng.normal(size=(9, X.shape[1])), rng.normal(size=(9, 2))
    model = LangevinRidge(alpha=0.4, n_steps=None, noise=0.05).fit(X, Y)
    eta, Xa, left = model.step_size_, with_ones(X), np.delete(np.arange(n_rows), [1, 2])
    quote = model.quote([[1, 2]], epsilon=0.3, n_unlearn_steps=4, validation=(X_val, Y_val))

    def rmse(mean, cov):
        V = with_ones(X_val)
        spread = np.einsum("ij,jk,ik->i", V, cov, V)
        return np.sqrt(np.mean(np.square(V @ mean - Y_val)) + np.mean(spread))

    law, less = (stationary_law(Xa[r], Y[r], 0.4, eta, 0.05) for r in (np.arange(n_rows), left))
    after = after_steps(law, Xa[left], Y[left], 0.4, eta, 4, quote.noise[0])
    assert quote.utility.before == pytest.approx(rmse(*law), rel=1e-9)
    assert quote.utility.after[0] == pytest.approx(rmse(*after), rel=1e-9)
    assert quote.utility.redraw[0] == pytest.approx(rmse(*less), rel=1e-9)
    plan = model.plan([1, 2], validation=(X_val, Y_val), tolerated_loss=0.5, n_unlearn_steps=4)
    assert plan.after <= plan.before + 0.5 + 1e-9
    # The exact curve of the audit, by dense matrices, at the quoted noise.
    pair = RidgeRuns(model, [1, 2], noise=quote.noise[0], n_unlearn_steps=4).pair
    assert PrivacyCurve(pair, True).epsilon(1 / n_rows) == pytest.approx(0.3, rel=1e-6)


def test_quotes_of_all_rows_in_processes_equal_single_ones(digits):
    X, y = digits
    model = LangevinRidgeClassifier(alpha=1.0, n_steps=None).fit(X[:260, 20:30], y[:260])
    every = model.quote(n_jobs=2)
    np.testing.assert_allclose(every.noise[[5, 77]], model.quote([5, 77]).noise, rtol=1e-8)
    model.unlearn(5)
    assert len(model.quote(n_jobs=1)) == 259


def test_it_survives_pickling_cloning_and_copies(small):
    X, Y = small
    model = LangevinRidge(alpha=0.4, n_steps=None, random_state=1).fit(X, Y)
    assert clone(model).n_steps is None
    again = pickle.loads(pickle.dumps(model)).attach(X, Y)
    other = copy.deepcopy(model)
    first = model.unlearn([1, 2])
    for same in (again, other):
        assert same.unlearn([1, 2]).noise == first.noise
        np.testing.assert_array_equal(same.coef_, model.coef_)
    second = again.unlearn(3)
    assert second.conditional_on == (again.fitted_.certificates[0],)
    assert again.verify(second)["issuer_checked"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LangevinRidge(alpha=0.0, n_steps=None), "alpha must be > 0 for n_steps=None"),
        (LangevinRidge(n_steps=None, batch_size=5), "batch_size must be None for n_steps=None"),
        (LangevinRidge(n_steps=None, solver="gradient"), "solver must be 'spectral'"),
        (LangevinHuber(n_steps=None), "n_steps must be an integer for losses other than ridge"),
        (LangevinRidge(n_steps=10**7), "Use n_steps=None"),
    ],
)
def test_where_there_is_no_stationary_law_none_is_refused(model, words, small):
    with pytest.raises(WrongInput, match=words):
        model.fit(*small)


def test_other_refusals(small):
    X, Y = small
    with pytest.raises(WrongInput, match="n_steps must be an integer"):
        LangevinLogistic(n_steps=None).fit(X, Y[:, 0] > 0)
    with pytest.raises(WrongInput, match="coef_init must be None"):
        LangevinRidge(n_steps=None).fit(X, Y, coef_init=np.zeros((2, 4)))
    with pytest.raises(WrongInput, match="n_steps must be an integer in a comparison"):
        pilu.compare(X, Y, [3], epsilon=1.0, model=LangevinRidge(n_steps=None))
    model = LangevinRidge(alpha=0.1, n_steps=None).fit(X, Y)
    with pytest.raises(WrongInput, match="group must be 'sum' for learning at stationarity"):
        model.quote([[1, 2]], accountant=pilu.Theorem(group="joint"))
