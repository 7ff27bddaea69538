"""examples/attack.py gives deleted rows back, and its noise-aware guess is the likeliest one."""

import itertools
import math

import numpy as np
import pytest
from examples import attack
from scipy.optimize import linprog, minimize
from scipy.special import expit
from scipy.stats import norm
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, Ridge

EXACT = LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-12)


def parameters(model):
    return np.vstack([np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)])


def table(n_classes, n=120, p=6):
    return make_classification(
        n, p, n_informative=4, n_classes=n_classes, flip_y=0.1, random_state=3
    )


def ones(X):
    return np.column_stack([X, np.ones(len(X))])


def penalty(p, alpha):
    return np.array([alpha] * p + [0.0])


def assert_is(found, row):
    assert np.linalg.norm(found - row) < 1e-6 * np.linalg.norm(row)


@pytest.mark.parametrize("row", [0, 17, 119])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_ridge_gives_a_row_back_exactly(row, n_targets, rng):
    X = rng.normal(2.0, 3.0, size=(120, 6))
    Y = X @ rng.normal(size=(6, n_targets)) + rng.normal(size=(120, n_targets))
    left, Y_left = np.delete(X, row, axis=0), np.delete(Y, row, axis=0)
    before, after = (Ridge(alpha=2.0, solver="cholesky").fit(*d) for d in ((X, Y), (left, Y_left)))
    expected = np.outer([*X[row], 1.0], before.predict(X[[row]])[0] - Y[row])

    rows, d = ones(left), penalty(6, 2.0)
    seen = attack.left_over(parameters(before), rows, Y_left, d, attack.identity)
    assert_is(seen, expected)
    assert_is(attack.row_of(seen), X[row])
    assert_is(attack.target_of(seen, parameters(before), attack.identity), Y[row])

    A = np.kron(np.eye(n_targets), rows.T @ rows + np.diag(d)).reshape(n_targets, 7, n_targets, 7)
    both = attack.from_both(parameters(before), parameters(after), A)
    assert_is(both, expected)
    assert_is(attack.row_of(both), X[row])


@pytest.mark.parametrize("row", [0, 17, 119])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_and_softmax_give_a_row_back_exactly(row, n_classes):
    X, y = table(n_classes)
    model = EXACT.fit(X, y)
    classes = range(n_classes) if n_classes > 2 else [1]
    Y = np.array([[float(label == c) for c in classes] for label in y])
    p = model.predict_proba(X)[:, -len(classes) :]
    link = attack.probabilities if n_classes > 2 else expit
    left, Y_left = np.delete(X, row, axis=0), np.delete(Y, row, axis=0)
    seen = attack.left_over(parameters(model), ones(left), Y_left, penalty(6, 2.0), link)
    assert_is(seen, np.outer([*X[row], 1.0], p[row] - Y[row]))
    assert_is(attack.row_of(seen), X[row])
    assert attack.target_of(seen, parameters(model), link) == pytest.approx(Y[row], abs=1e-6)


def test_the_means_of_a_scaler_give_a_row_back(rng):
    X = rng.normal(5.0, 2.0, size=(50, 3))
    assert_is(attack.row_from_means(X.mean(axis=0), X[1:].mean(axis=0), 50), X[0])


@pytest.mark.parametrize(
    ("link", "K"), [(attack.identity, 2), (expit, 1), (attack.probabilities, 3)]
)
def test_the_hessian_is_the_slope_of_the_gradient(link, K, rng):
    Z, Y = ones(rng.normal(size=(40, 3))), rng.normal(size=(40, K))
    d, theta = penalty(3, 0.7), rng.normal(size=(4, K))
    H = attack.hessian(theta, Z, d, link)
    for q, b in itertools.product(range(4), range(K)):
        step = np.zeros((4, K))
        step[q, b] = 1e-6
        change = attack.left_over(theta - step, Z, Y, d, link) - attack.left_over(
            theta + step, Z, Y, d, link
        )
        assert pytest.approx(change / 2e-6, abs=1e-6) == H[:, :, b, q].T


@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_the_guess_from_noise_is_the_likeliest_row(noise, rng):
    """Against a general optimiser of the posterior, from many starts."""
    rows, residuals = rng.normal(1.0, 1.0, size=(200, 3)), rng.normal(0, 0.5, size=(200, 2))
    root = rng.normal(size=(8, 8))
    covariance = noise**2 * (root @ root.T + np.eye(8))  # of the entries, output by output
    x, r = np.array([2.0, -1.0, 0.5]), np.array([0.7, -0.4])
    entries = np.outer(r, [*x, 1.0]).ravel() + np.linalg.cholesky(covariance) @ rng.normal(size=8)
    W = np.linalg.inv(covariance)
    mean, S = rows.mean(axis=0), np.cov(rows.T)
    S = S + 1e-3 * np.trace(S) / 3 * np.eye(3)

    def misfit(v):
        off = entries - np.outer(v[3:], [*v[:3], 1.0]).ravel()
        far = v[:3] - mean
        return off @ W @ off + far @ np.linalg.solve(S, far) + v[3:] @ v[3:] / np.mean(residuals**2)

    rough = min(
        (minimize(misfit, rng.normal(0, 2, size=5)) for _ in range(30)), key=lambda one: one.fun
    )
    fine = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10_000, "maxfev": 10_000}
    best = minimize(misfit, rough.x, method="Nelder-Mead", options=fine)
    whiten = np.linalg.cholesky(W).T.reshape(8, 2, 4)
    guess = attack.likeliest_row(entries.reshape(2, 4).T, whiten, rows, residuals)
    assert guess == pytest.approx(best.x[:3], abs=1e-6)


def test_noise_in_the_parameters_is_white_after_whitening(rng):
    root = rng.normal(size=(6, 6))
    H, C = root @ root.T + np.eye(6), np.diag([1.0, 2.0, 3.0]) + 0.5
    noise = rng.multivariate_normal(np.zeros(6), np.kron(np.eye(2), C), size=100_000) @ H
    white = noise @ attack.whitening(H.reshape(2, 3, 2, 3), C).reshape(6, 6).T
    assert white.T @ white / len(white) == pytest.approx(np.eye(6), abs=0.02)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-5), (3.0, 0.01)])
def test_the_best_accuracy_is_that_of_the_best_test(epsilon, delta):
    e = math.exp(epsilon)  # over the rates t and f of any test, in both directions
    limits = [[1, -e], [-e, 1], [e, -1], [-1, e]]
    found = linprog([-0.5, 0.5], limits, [delta, delta, delta + e - 1, delta + e - 1])
    assert attack.best_accuracy(epsilon, delta) == pytest.approx(0.5 - found.fun, abs=1e-9)


def test_the_guess_between_two_laws_is_as_good_as_their_distance(rng):
    root = rng.normal(size=(4, 4))
    C, a, b = root @ root.T, rng.normal(size=4), rng.normal(size=4)
    mu = math.sqrt((a - b) @ np.linalg.inv(C) @ (a - b))
    for centre, says in ((a, True), (b, False)):
        draws = rng.multivariate_normal(centre, C, size=20_000)
        right = (attack.says_it_was_there(draws, a, b, C) == says).mean()
        assert right == pytest.approx(norm.cdf(mu / 2), abs=0.02)


def test_customers_are_recovered_with_age_and_categories():
    study, places, people = attack.customers()
    exact, Z = study.fit(study.head), ones(study.X)
    for row in (5, 700, 3_999):
        left, Y = np.delete(Z, row, axis=0), np.delete(study.Y, row, axis=0)
        found = attack.row_of(attack.left_over(exact, left, Y, study.penalty, study.link))
        assert_is(found, study.X[row])
        age, centre_and_scale = people["age"].iloc[row], attack.SCALES["age"]
        if not math.isnan(age):
            assert found[6] * centre_and_scale[1] + centre_and_scale[0] == pytest.approx(age)
        for place, category in zip(places, ("plan", "region", "payment", "device"), strict=False):
            names = sorted(set(people[category]))
            assert names[found[place].argmax()] == people[category].iloc[row]


def found_in(study, model, rows):
    """Likeness of what the strong attacker finds, for releases of a model."""
    Z, exact = ones(study.X), study.fit(study.head)
    draws = np.array([study.fit(model, seed=seed) for seed in range(60)])
    noise, alike = attack.noise_of(draws, exact), []
    for j, row in enumerate(rows):
        left, Y = np.delete(Z, row, axis=0), np.delete(study.Y, row, axis=0)
        seen = attack.left_over(draws[j], left, Y, study.penalty, study.link)
        H = attack.hessian(draws[j], left, study.penalty, study.link)
        residuals = study.link(left @ draws[j]) - Y
        guess = attack.likeliest_row(seen, attack.whitening(H, noise), left[:, :-1], residuals)
        alike.append(attack.likeness(guess, study.X[row], left[:, :-1].mean(axis=0)))
    return np.array(alike)


def test_default_releases_give_digits_back_nearly():
    study = attack.digits(Ridge(solver="cholesky"), attack.identity)
    alike = found_in(study, attack.Forgetful(study.head), range(0, 1400, 100))
    assert np.median(alike) > 0.95
    assert (alike > 0.9).mean() > 0.7


def test_a_public_sample_is_nearly_enough():
    study = attack.diabetes()
    before, alike = study.fit(study.head), []
    for row in range(0, 350, 25):
        after = study.fit(study.head, without=row)
        H = attack.hessian(after, ones(study.public), study.penalty, study.link)
        guess = attack.row_of(attack.from_both(before, after, H))
        left = np.delete(study.X, row, axis=0)
        alike.append(attack.likeness(guess, study.X[row], left.mean(axis=0)))
    assert np.median(alike) > 0.9


def test_likeness_is_one_for_the_row_and_zero_for_the_mean():
    row, mean = np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 1.0])
    assert attack.likeness(row, row, mean) == pytest.approx(1.0)
    assert attack.likeness(mean, row, mean) == 0.0
    assert attack.likeness(2 * mean - row, row, mean) == pytest.approx(-1.0)
