"""A cap on exposure stops the attack of examples/attack.py as far as its certificate says."""

import math
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from examples import attack
from scipy.special import expit
from scipy.stats import beta, multivariate_normal
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, Ridge

from pilu import Forgetful
from pilu.auditing import audit
from pilu.estimators import refitted
from pilu.refit.noise_scale import with_noise

# Half a minute; `make test` has the exact laws (tests/refit/test_exposure_oracle.py).
pytestmark = pytest.mark.slow

EPSILON, DELTA = 1.0, 1e-5
N_DRAWS = 400
RISK = 1e-4  # of a limit being wrong by chance


def at_least(count, n):
    """Clopper and Pearson's lower limit of a rate."""
    return beta.ppf(RISK, count, n - count + 1) if count else 0.0


def at_most(count, n):
    return 1 - at_least(n - count, n)


def capped(head):
    return Forgetful(head, max_exposure=EPSILON, exposure_delta=DELTA)


@contextmanager
def same_scale():
    """Choose the scale for the first fit, so that hundreds of releases take seconds."""
    known, choose = [], refitted.shape_noise

    def shape_noise(prepared, options, people):
        if not known:
            known.append(choose(prepared, options, people)[0])
        return with_noise(prepared, options, known[0].noise, known[0].shape), None

    with patch.object(refitted, "shape_noise", shape_noise):
        yield


@cache
def diabetes():
    """Draws of a capped release less the minimiser, and what both laws need."""
    study = attack.diabetes()
    Z = np.column_stack([study.X, np.ones(len(study.X))])
    model = capped(study.head).fit(study.X, study.y)
    A = Z.T @ Z + model.noise_penalty_ * np.diag([study.alpha] * study.X.shape[1] + [0.0])
    exact = study.fit(study.head)[:, 0]
    with same_scale():
        fits = [study.fit(capped(study.head), seed=s)[:, 0] for s in range(2 * N_DRAWS)]
    return study, Z, A, exact, np.array(fits) - exact


def minimiser_without(row):
    study, Z, _, _, _ = diabetes()
    left = np.delete(np.arange(len(Z)), row)
    H = Z[left].T @ Z[left] + np.diag([study.alpha] * study.X.shape[1] + [0.0])
    return np.linalg.solve(H, Z[left].T @ study.y[left])


@cache
def rows_by_exposure():
    """The row first whose absence moves the release most, in units of the noise."""
    _, Z, A, exact, _ = diabetes()
    moved = [minimiser_without(row) - exact for row in range(len(Z))]
    return np.argsort([-(d @ A @ d) for d in moved])


def symmetric_root(A, power):
    values, vectors = np.linalg.eigh(A)
    return (vectors * values**power) @ vectors.T


def releases_of(row, shrunk_by=1.0):
    """Releases with the row and without it, at the same size of noise.

    The size of the noise is taken as given by the certificate, so both worlds have the same one.
    Draws for the world without the row are those of other seeds, brought to that world's shape.
    """
    _, Z, A, exact, noise = diabetes()
    A_left = A - np.outer(Z[row], Z[row])
    to_left = symmetric_root(A_left, -0.5) @ symmetric_root(A, 0.5)
    there = exact + noise[:N_DRAWS] / shrunk_by
    return there, minimiser_without(row) + noise[N_DRAWS:] / shrunk_by @ to_left.T, A_left


def worlds(row, shrunk_by=1.0):
    """Log likelihood ratios of these releases."""
    _, _, A, exact, noise = diabetes()
    there, gone, A_left = releases_of(row, shrunk_by)
    without = minimiser_without(row)
    noise = noise / shrunk_by
    size = np.einsum("ij,jk,ik->", noise, A, noise) / noise.size
    P = multivariate_normal(exact, size * np.linalg.inv(A))
    Q = multivariate_normal(without, size * np.linalg.inv(A_left))
    return P.logpdf(there) - Q.logpdf(there), P.logpdf(gone) - Q.logpdf(gone)


def proved(there, gone):
    """Accuracy of the best guess, and epsilon in both directions, that the draws prove."""
    n = len(there)
    accuracy = at_least((there > 0).sum(), n) / 2 + at_least((gone <= 0).sum(), n) / 2
    epsilons = []
    for c in (-1.0, -0.5, 0.0, 0.5, 1.0):
        for more, less in (
            ((there > c).sum(), (gone > c).sum()),
            ((gone <= c).sum(), (there <= c).sum()),
        ):
            excess = at_least(more, n) - DELTA
            epsilons.append(math.log(excess / at_most(less, n)) if excess > 0 else -math.inf)
    return accuracy, max(epsilons)


@pytest.mark.slow
def test_the_noise_has_the_shape_of_the_rows():
    """Otherwise the tests below compare with the wrong world."""
    _, _, A, _, noise = diabetes()
    white = noise @ symmetric_root(A, 0.5)
    sizes = np.linalg.eigvalsh(white.T @ white / len(white))
    assert sizes[-1] / sizes[0] < 2  # 800 draws of 11 numbers: about 1.6 by chance


@pytest.mark.parametrize("rank", [0, 1, 10, 100])
def test_membership_is_guessed_no_better_than_certified(rank):
    accuracy, epsilon = proved(*worlds(rows_by_exposure()[rank]))
    assert accuracy <= attack.best_accuracy(EPSILON, DELTA)
    assert epsilon <= EPSILON


def test_noise_that_is_too_small_would_be_noticed():
    accuracy, epsilon = proved(*worlds(rows_by_exposure()[0], shrunk_by=20.0))
    assert accuracy > attack.best_accuracy(EPSILON, DELTA)
    assert epsilon > EPSILON


@pytest.mark.parametrize("rank", [0, 50])
def test_an_audit_proves_no_more_than_the_exposure(rank):
    """A trained distinguisher that knows nothing of the laws, as auditors use it."""
    row = int(rows_by_exposure()[rank])
    exposure = capped(diabetes()[0].head).fit(diabetes()[0].X, diabetes()[0].y).exposure([row])
    there, gone, _ = releases_of(row)
    found = audit(there, gone, delta=DELTA, confidence=0.999, seed=0)
    assert max(found.epsilon_lower, found.epsilon_lower_reverse) <= exposure.epsilon[0]
    there, gone, _ = releases_of(row, shrunk_by=100.0)
    found = audit(there, gone, delta=DELTA, confidence=0.999, seed=0)
    assert found.epsilon_lower > exposure.epsilon[0]


def test_without_a_cap_membership_is_no_secret():
    study, _, _, exact, _ = diabetes()
    row = int(rows_by_exposure()[0])
    without = study.fit(study.head, without=row)[:, 0]
    model = Forgetful(study.head)
    releases = np.array([study.fit(model, seed=s)[:, 0] for s in range(100)])
    noise = np.cov((releases - exact).T)
    right = attack.says_it_was_there(releases, exact, without, noise).sum()
    assert at_least(right, 100) > attack.best_accuracy(EPSILON, DELTA)


@pytest.mark.slow
def test_membership_in_logistic_regression_is_guessed_no_better_than_certified():
    X, y = make_classification(300, 5, n_informative=3, flip_y=0.1, random_state=3)
    head = LogisticRegression(solver="newton-cholesky", tol=1e-12)
    study = attack.Study("", X, y, y[:, None].astype(float), X, head, 1.0, expit)
    exact = study.fit(head)[:, 0]
    Z = np.column_stack([X, np.ones(300)])
    root = np.linalg.cholesky(Z.T @ Z / 4 + np.diag([1.0] * 5 + [0.0]))
    moved = [(study.fit(head, without=i)[:, 0] - exact) @ root for i in range(300)]
    row = int(np.argsort(np.linalg.norm(moved, axis=1))[-2])  # the last one may set the noise
    law = study.fit(head, without=row)[:, 0]
    rates = {}
    for name, model in (("capped", capped(head)), ("default", Forgetful(head))):
        with same_scale():
            there = np.array([study.fit(model, seed=s)[:, 0] for s in range(200)])
        with same_scale():
            gone = np.array([study.fit(model, row, seed=1_000 + s)[:, 0] for s in range(200)])
        guess = (exact, law, np.cov((there - exact).T))
        right = attack.says_it_was_there(there, *guess).sum()
        wrong = attack.says_it_was_there(gone, *guess).sum()
        rates[name] = at_least(right, 200) / 2 + at_least(200 - wrong, 200) / 2
    assert rates["capped"] <= attack.best_accuracy(EPSILON, DELTA) < rates["default"]


@pytest.mark.slow
def test_the_example_runs(tmp_path, monkeypatch, capsys):
    arguments = ["attack.py", "--out", str(tmp_path), "--rows", "9", "--draws", "50"]
    monkeypatch.setattr("sys.argv", arguments)
    attack.main()
    assert 10_000 < (tmp_path / "attack.png").stat().st_size < 200_000
    assert "73.1%" in capsys.readouterr().out


def test_the_attack_finds_no_more_than_where_the_row_never_was():
    study = attack.digits(Ridge(solver="cholesky"), attack.identity)
    rows = np.arange(0, 1400, 100)
    found = attack.attacked(study, rows)

    def alike(name):
        means = [np.delete(study.X, row, axis=0).mean(axis=0) for row in rows]
        return np.array(
            [attack.likeness(*t) for t in zip(found[name], study.X[rows], means, strict=True)]
        )

    capped, never = alike(attack.CAPPED), alike(attack.NEVER)
    error = math.sqrt((capped.var() + never.var()) / len(rows))
    assert capped.mean() - never.mean() < 3.5 * error
    assert (capped > 0.9).mean() == 0
    assert (alike(attack.DEFAULT) > 0.9).mean() > 0.7
    assert alike(attack.EXACT).min() > 1 - 1e-9
