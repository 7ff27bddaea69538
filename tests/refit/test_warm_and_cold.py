"""Releases after a history against releases of a cold run on the same rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from pilu import Forgetful, HuberRidge
from pilu.refit import solve as solve_module
from refit.standard import Noise, Standard

HEADS = {
    "ridge": Ridge(0.5),
    "ridge by steps": HuberRidge(0.5, threshold=1e6),  # ridge's own solver asks for no start
    "ridge classifier": RidgeClassifier(),
    "logistic": LogisticRegression(),
    "softmax": LogisticRegression(C=10.0),
    "liblinear": LogisticRegression(solver="liblinear", intercept_scaling=3.0),
    "squared hinge": LinearSVC(C=0.1),
    "poisson": PoissonRegressor(alpha=0.1),
    "huber": HuberRidge(threshold=0.5),
}


def rows_for(name, rng, n=40, p=4):
    X = rng.normal(size=(n, p)) * 10.0 ** rng.uniform(-2, 2, size=p) + rng.normal(size=p)
    score = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=p) + rng.normal(size=n)
    if name in ("ridge", "ridge by steps", "huber"):
        return X, score
    if name == "poisson":
        return X, np.floor(np.exp(np.clip(score, -2, 2)))
    classes = 3 if name in ("softmax", "ridge classifier") else 2
    return X, np.argsort(np.argsort(score)) * classes // n


def starts(theta, radius, X, rng):
    """Starts that nobody would choose: (name, standard parameters)."""
    direction = rng.normal(size=theta.shape)
    direction /= np.linalg.norm(direction)
    bits = np.unpackbits(np.frombuffer(X[0].tobytes(), dtype=np.uint8)).astype(float)
    yield "the forgotten row's bits", np.resize(bits, theta.shape)
    yield "the forgotten row itself", np.resize(X[0], theta.shape)
    yield "huge", 1e12 * direction
    yield "beyond double precision", 1e300 * direction
    yield "tiny", 1e-300 * direction
    yield "zero", np.zeros_like(theta)
    yield "the minimiser times -1", -theta
    for length in (0.5, 0.88, 0.999, 1.5, 1e3):
        yield f"{length} radii away", theta + length * radius * direction
        yield f"{length} radii to the other side", theta - length * radius * direction


def largest_ratio(name, seed, monkeypatch, epsilon, score_noise):
    """The largest distance of two noise-free answers on the same rows, over 2 b."""
    rng = np.random.default_rng(seed)
    noise = Noise(seed).instead_of_pilus(monkeypatch)
    X, y = rows_for(name, rng)
    estimator = make_pipeline(StandardScaler(), HEADS[name])
    options = {"epsilon": epsilon, "score_noise": score_noise}
    noise.silent = True
    cold = Forgetful(clone(estimator), **options).fit(X[1:], y[1:])
    standard = Standard(cold.released_, X[1:])
    answers = [standard.theta(cold.released_[-1])]
    far = X.copy()
    far[0] *= 1e6
    for table in (X, far):
        noise.silent = False
        model = Forgetful(clone(estimator), **options).fit(table, y)
        state = model.fitted_
        noise.silent = True
        certificate = model.unlearn(rows=[0])
        radius = certificate.evidence["radius"]
        answers.append(standard.theta(model.released_[-1]))
        assert np.array_equal(model.released_[0].mean_, cold.released_[0].mean_)
        for _, start in starts(answers[0], radius, X, rng):
            released = clone(state.released)
            released[-1].__dict__.update(state.released[-1].__dict__)
            with np.errstate(over="ignore", invalid="ignore"):
                standard.write(released[-1], start)
            model.fitted_ = replace(state, released=released)
            again = model.unlearn(rows=[0])
            assert (again.evidence["radius"], again.noise) == (radius, certificate.noise)
            answers.append(standard.theta(model.released_[-1]))
    gaps = [np.linalg.norm(a - b) for a in answers for b in answers]
    assert all(np.isfinite(gaps))
    return max(gaps) / (2 * radius)


@pytest.mark.parametrize("name", HEADS)
def test_no_start_moves_the_answer_by_more_than_the_radius(name, monkeypatch):
    """Loose targets, so that the solver stops where the start takes it."""
    score_noise = 0.01 if name == "huber" else 0.3  # no larger radius can be proved for it
    assert largest_ratio(name, 0, monkeypatch, epsilon=20.0, score_noise=score_noise) <= 1


@pytest.mark.parametrize("name", ["logistic", "softmax", "squared hinge"])
def test_nor_where_no_hessian_is_written_down(name, monkeypatch):
    monkeypatch.setattr(solve_module, "MOST_PARAMETERS", 0)
    assert largest_ratio(name, 1, monkeypatch, epsilon=5.0, score_noise=0.05) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("name", HEADS)
def test_no_start_moves_the_answer_by_more_than_the_radius_on_many_tables(
    name, epsilon, monkeypatch
):
    ratios = [
        largest_ratio(name, seed, monkeypatch, epsilon, score_noise=1e-4 * 3**seed)
        for seed in range(5)
    ]
    assert max(ratios) <= 1


def test_the_measure_of_distance_is_not_vacuous(monkeypatch):
    """Starts on both sides of the minimiser end well apart, near what the certificate allows."""
    assert largest_ratio("ridge by steps", 0, monkeypatch, epsilon=20.0, score_noise=0.3) > 0.4


# An audit of the releases themselves --------------------------------------------------------------


def epsilon_lower_bound(first, second, delta, confidence=0.999):
    """A lower confidence bound of epsilon from two samples of a statistic.

    The threshold is chosen on one half of each sample; rates are bounded on the other (Clopper and
    Pearson). Both directions are tried, each at half of the error.
    """
    best = 0.0
    for one, other in ((first, second), (second, first)):
        for sign in (1, -1):
            a, b = np.array_split(sign * one, 2), np.array_split(sign * other, 2)
            thresholds = np.quantile(np.concatenate([a[0], b[0]]), np.linspace(0.02, 0.98, 49))
            chosen = max(
                thresholds,
                key=lambda t: ((a[0] > t).mean() + 0.01) / ((b[0] > t).mean() + 0.01),
            )
            error = (1 - confidence) / 8
            hits, misses = (a[1] > chosen).sum(), (b[1] > chosen).sum()
            low = beta.ppf(error, hits, len(a[1]) - hits + 1) if hits else 0.0
            high = beta.ppf(1 - error, misses + 1, max(len(b[1]) - misses, 1e-9))
            if low > delta:
                best = max(best, math.log((low - delta) / high))
    return best


def released(model, state, n):
    """Standard parameters of n releases from the same state."""
    found = []
    for _ in range(n):
        model.fitted_ = state
        certificate = model.unlearn(rows=[0])
        found.append(Standard(model.released_, model.fitted_.table.X).theta().ravel())
    return np.array(found), certificate


def flattest_direction(standard, X):
    """Where the bound on the distance is tight: the least curved direction of Ridge(1)."""
    Z = np.hstack([(X - standard.shift) / standard.scale, np.ones((len(X), 1))])
    return np.linalg.eigh(Z.T @ Z + np.diag([*standard.scale**-2, 0.0]))[1][:, 0]


def audited(n):
    """Lower bounds of epsilon: for starts nearly a radius off on each side, and an honest one."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 2))
    y = X @ [10.0, -10.0] + rng.normal(size=30)  # so that a cold start is no better than any other
    options = {"epsilon": 3.0, "delta": 1e-3, "score_noise": 0.5}
    steps = HuberRidge(1.0, threshold=1e6)  # the same objective as Ridge(), solved by steps
    model = Forgetful(steps, **options).fit(X, y)
    state = model.fitted_
    certificate = model.unlearn(rows=[0])
    exact = Ridge().fit(X[1:], y[1:])
    standard = Standard(exact, X[1:])
    direction = flattest_direction(standard, X[1:])[:, None]
    samples = []
    for side in (1, -1):
        head = clone(state.released)
        head.__dict__.update(state.released.__dict__)
        away = side * 0.88 * certificate.evidence["radius"]
        standard.write(head, standard.theta(exact) + away * direction)
        theta, _ = released(model, replace(state, released=head), n)
        samples.append(theta @ direction.ravel())
    theta, _ = released(model, state, n)  # an honest history
    honest = theta @ direction.ravel()
    cold = [
        Standard(m.released_, X[1:]).theta().ravel() @ direction.ravel()
        for m in (Forgetful(steps, **options).fit(X[1:], y[1:]) for _ in range(n))
    ]
    bounds = [
        epsilon_lower_bound(one, other, certificate.delta)
        for one, other in (samples, (samples[0], np.array(cold)), (honest, np.array(cold)))
    ]
    return bounds, certificate, (samples, certificate.noise)


def test_no_audit_shows_more_than_the_certificate():
    bounds, certificate, (samples, noise) = audited(100)
    assert max(bounds) <= certificate.epsilon
    assert np.std(samples[0]) == pytest.approx(noise, rel=0.3)


@pytest.mark.slow
def test_no_audit_shows_more_than_the_certificate_in_many_releases():
    bounds, certificate, (samples, noise) = audited(4000)
    assert max(bounds) <= certificate.epsilon
    # Means differ by nearly 2 b, the worst that a start can do: starts are 0.88 b off.
    gap = (samples[0].mean() - samples[1].mean()) / noise
    assert gap == pytest.approx(0.88 * certificate.mu, abs=5 * math.sqrt(2 / 4000))
    assert bounds[0] > 0.2 * certificate.epsilon  # it has power


def test_the_audit_finds_a_certificate_that_is_false():
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=2000), rng.normal(size=2000) + 3.0
    # Gaussian DP with mu = 3 has delta(3) = 0.27, far above 1e-3.
    delta = norm.cdf(-3 / 3 + 1.5) - math.exp(3) * norm.cdf(-3 / 3 - 1.5)
    assert delta > 0.1
    assert epsilon_lower_bound(first, second, 1e-3) > 3.0
