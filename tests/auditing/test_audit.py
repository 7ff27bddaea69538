"""Audits of laws that are known: estimates near the truth, bounds below it."""

import warnings

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest, norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oracles.high_precision import epsilon_from_mu_mp
from pilu.auditing import MLP, Known, Logistic, audit, most_provable
from pilu.auditing.audit import fit_mu, trade_off
from pilu.auditing.distinguishers import cross_scores

FIRST = Known(lambda runs: runs[:, 0], "first output")


def gaussians(mu, n, features, seed):
    rng = np.random.default_rng(seed)
    unlearned, retrained = rng.normal(size=(2, n, features))
    unlearned[:, 0] += mu
    return unlearned, retrained


@pytest.mark.parametrize("mu", [1.0, 2.5, 5.0])
@pytest.mark.parametrize("distinguisher", ["logistic", FIRST])
def test_two_gaussians(mu, distinguisher):
    """Within 15 % of mu at 10,000 runs of each kind, and below it."""
    runs = gaussians(mu, 10_000, 4, seed=1)
    found = audit(*runs, delta=1e-3, seed=1, distinguisher=distinguisher)
    assert 0.85 * mu <= found.mu_lower <= mu
    assert found.mu_hat == pytest.approx(mu, rel=0.06)
    assert found.auc == pytest.approx(norm.cdf(mu / np.sqrt(2)), abs=0.01)
    epsilon = float(epsilon_from_mu_mp(mu, 1e-3))
    assert 0 < found.epsilon_lower <= epsilon
    assert 0 < found.epsilon_lower_reverse <= epsilon
    assert found.epsilon_hat == pytest.approx(float(epsilon_from_mu_mp(found.mu_hat, 1e-3)))
    assert found.fit_error < 1e-3
    apart = 2000 if distinguisher == "logistic" else 500
    assert found.n_counted == (10_000 - apart, 10_000 - apart)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("distinguisher", ["mlp", "logistic", FIRST])
def test_equal_laws(distinguisher):
    wrong = 0
    times = 10 if distinguisher == "mlp" else 40
    for seed in range(times):
        runs = gaussians(0.0, 40, 3, seed)
        found = audit(*runs, delta=1e-3, confidence=0.8, seed=seed, distinguisher=distinguisher)
        wrong += found.mu_lower > 0
    assert binomtest(int(wrong), times, 0.2, alternative="greater").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("distinguisher", ["logistic", FIRST])
@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_coverage_over_a_thousand_audits(distinguisher, mu):
    """The stated level holds for each of the three bounds."""
    truth = float(epsilon_from_mu_mp(mu, 1e-2)) if mu > 0 else 0.0
    wrong = np.zeros(3, dtype=int)
    for seed in range(1000):
        found = audit(
            *gaussians(mu, 100, 3, seed), delta=1e-2, seed=seed, distinguisher=distinguisher
        )
        bounds = found.mu_lower, found.epsilon_lower, found.epsilon_lower_reverse
        wrong += np.array(bounds) > np.array([mu, truth, truth])
    for count in wrong:
        assert binomtest(int(count), 1000, 0.05, alternative="greater").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("mu", [1.0, 2.0, 4.0])
def test_the_bound_is_near_again_and_again(mu):
    for seed in range(20):
        found = audit(*gaussians(mu, 10_000, 2, seed), delta=1e-3, seed=seed)
        assert 0.85 * mu <= found.mu_lower


def test_the_mlp_sees_what_a_line_cannot():
    """Equal means, different spread: half of the first kind's outputs lie far out."""
    rng = np.random.default_rng(0)
    unlearned, retrained = rng.normal(0, 4, (400, 2)), rng.normal(0, 1, (400, 2))
    line = audit(unlearned, retrained, delta=1e-2, seed=0)
    network = audit(unlearned, retrained, delta=1e-2, seed=0, distinguisher=MLP(width=16))
    assert abs(line.auc - 0.5) < 0.1
    assert network.auc > 0.85
    assert network.mu_lower > 0.8
    assert network.distinguisher == "mlp"


def test_the_mlps_score_orders_runs_as_its_probabilities_do():
    unlearned, retrained = gaussians(1.0, 60, 3, 0)
    score = MLP(width=4).fit(unlearned, retrained, seed=0)
    network = make_pipeline(
        StandardScaler(),
        MLPClassifier((4, 4), activation="tanh", solver="lbfgs", alpha=1e-2, random_state=0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(np.concatenate([unlearned, retrained]), np.repeat([1, 0], 60))
    runs = np.random.default_rng(1).normal(size=(200, 3))
    chances = network.predict_proba(runs)[:, 1]
    np.testing.assert_allclose(expit(score(runs)), chances, rtol=1e-6, atol=1e-12)


def test_trade_off_and_area():
    rng = np.random.default_rng(0)
    unlearned, retrained = np.round(rng.normal(1, 1, 80), 1), np.round(rng.normal(0, 1, 90), 1)
    curve = trade_off(unlearned, retrained)
    labels = np.repeat([1, 0], [80, 90])
    area = roc_auc_score(labels, np.concatenate([unlearned, retrained]))
    assert curve.auc == pytest.approx(area, abs=1e-12)
    assert (curve.alpha[0], curve.beta[0]) == (0, 1)
    assert (curve.alpha[-1], curve.beta[-1]) == (1, 0)
    for threshold in (-1.0, 0.0, 0.7):
        alpha, beta = np.mean(retrained >= threshold), np.mean(unlearned < threshold)
        assert (np.isclose(curve.alpha, alpha) & np.isclose(curve.beta, beta)).any()


def test_no_error_at_all_fits_no_more_than_the_runs_show():
    curve = trade_off(np.arange(10.0, 60.0), np.arange(-50.0, 0.0))
    mu, error = fit_mu(curve, 50)
    assert curve.auc == 1
    assert mu == pytest.approx(2 * norm.isf(0.01), rel=1e-6)
    assert error < 1e-3


def test_scores_come_from_distinguishers_that_have_not_seen_the_run():
    """One feature for every run: a distinguisher that remembers runs would separate all of them."""
    runs = np.eye(60)
    unlearned, retrained = cross_scores(Logistic(), runs[:30], runs[30:], seed=0)
    assert abs(trade_off(unlearned, retrained).auc - 0.5) < 0.2


def test_functions_run_once_for_every_seed():
    seeds = []

    def run(seed):
        seeds.append(seed)
        return np.random.default_rng(seed).normal(size=(2, 2))

    found = audit(run, run, delta=1e-2, n_runs=20, seed=3)
    assert len(set(seeds)) == 40
    assert max(seeds) < 2**32
    assert found.n_unlearned == found.n_retrained == 20
    again = audit(run, run, delta=1e-2, n_runs=20, seed=3)
    assert seeds[:40] == seeds[40:]
    assert again.auc == found.auc


def test_kinds_of_different_number():
    unlearned, retrained = gaussians(9.0, 3000, 1, 0)
    found = audit(unlearned[:200], retrained, delta=1e-3, seed=0)
    assert found.n_counted == (100, 2900)
    assert found.mu_lower <= found.mu_provable
    assert found.epsilon_lower <= found.epsilon_provable
    assert found.epsilon_lower > most_provable(100, 1e-3)[1]  # false alarms are the many


def test_confidence_next_to_one():
    found = audit(*gaussians(3.0, 2000, 1, 0), delta=1e-3, confidence=1 - 1e-15, seed=0)
    assert 0 < found.mu_lower < audit(*gaussians(3.0, 2000, 1, 0), delta=1e-3, seed=0).mu_lower


class Remembering:
    """A distinguisher that keeps every run it has seen, and knows it again."""

    name, learns = "remembering", True

    def __init__(self):
        self.seen = []

    def fit(self, unlearned, retrained, seed):
        self.seen += [(1, unlearned), (-1, retrained)]

        def score(runs):
            found = np.zeros(len(runs))
            for sign, known in self.seen:
                distances = np.linalg.norm(runs[:, None] - known[None], axis=2).min(axis=1)
                found += sign * (distances < 1e-12)
            return found + 1e-9 * runs[:, 0]

        return score


def test_nothing_remembered_reaches_the_bounds():
    found = audit(*gaussians(0.0, 200, 5, 0), delta=1e-2, seed=0, distinguisher=Remembering())
    assert found.mu_lower == 0


def test_a_score_cannot_tell_kinds_by_their_batch():
    """Ranks within a batch, or its length, would betray which kind is asked about."""
    runs = np.random.default_rng(0).normal(size=(4000, 1))
    unlearned, retrained = runs[:3000], runs[3000:]
    for score in (
        lambda runs: np.argsort(np.argsort(runs[:, 0])).astype(float),
        lambda runs: runs[:, 0] + len(runs),
    ):
        found = audit(unlearned, retrained, delta=1e-2, seed=0, distinguisher=Known(score))
        assert found.mu_lower == 0


class Nearest:
    """Calls a run unlearned if its nearest neighbour was retrained."""

    name, learns = "nearest", True

    def fit(self, unlearned, retrained, seed):
        def score(runs):
            near = [
                np.linalg.norm(runs[:, None] - known[None], axis=2).min(axis=1)
                for known in (unlearned, retrained)
            ]
            return near[0] - near[1] + 1e-12 * runs[:, 0]

        return score


def test_runs_with_a_seed_in_common_stay_together():
    runs = np.random.default_rng(0).normal(size=(400, 3))
    found = audit(runs, runs + 1e-9, delta=1e-2, seed=0, distinguisher=Nearest())
    assert found.mu_lower == 0


def test_records_do_not_change():
    found = audit(*gaussians(1.0, 50, 2, 0), delta=1e-2, seed=0)
    with pytest.raises(AttributeError):
        found.auc = 1.0
    with pytest.raises(ValueError, match="read-only"):
        found.alpha[0] = 1.0


GOOD = np.random.default_rng(0).normal(size=(2, 30, 3))


@pytest.mark.parametrize(
    ("unlearned", "retrained", "options", "message"),
    [
        (GOOD[0][:11], GOOD[1], {}, "unlearned must have at least 12 runs for confidence=0.95"),
        (GOOD[0], GOOD[1][:20], {"confidence": 0.9999}, "retrained must have at least 30 runs"),
        (GOOD[0], GOOD[1][:, :2], {}, "the same number of features, got 3 and 2"),
        (GOOD[0][0], GOOD[1], {}, r"unlearned must be an array of shape \(n_runs, n_features\)"),
        (GOOD[0], np.where(GOOD[1] > 1, np.nan, GOOD[1]), {}, "retrained must be finite in run"),
        (GOOD[0], GOOD[1], {"delta": 0.0}, "delta must be"),
        (GOOD[0], GOOD[1], {"confidence": 1.0}, "confidence must be"),
        (GOOD[0], GOOD[1], {"seed": -1}, "seed must be"),
        (GOOD[0], GOOD[1], {"distinguisher": "svm"}, "distinguisher must be one of 'logistic'"),
        (np.ones((30, 2)), np.ones((30, 2)), {}, "more than one score, got the same for every run"),
        (GOOD[0], GOOD[1], {"distinguisher": LogisticRegression()}, "fit, learns and name"),
        (GOOD[0], GOOD[1], {"distinguisher": Known(lambda runs: runs[0])}, r"of shape \(15,\)"),
        (GOOD[0] + 1j, GOOD[1], {}, "unlearned must be real numbers"),
        ([[1.0], [1.0, 2.0]] * 10, GOOD[1], {}, "unlearned must be real numbers, equally many"),
        (1e200 * GOOD[0], GOOD[1], {}, "unlearned must be at most 1e.100 in size"),
        (
            GOOD[0],
            GOOD[1],
            {"distinguisher": Known(lambda runs: np.full(len(runs), np.inf))},
            "scores must be finite",
        ),
        (lambda seed: [1.0], GOOD[1], {}, "n_runs must be given if unlearned is a function"),
        (
            lambda seed: np.ones(1 + seed // 2 % 2),
            GOOD[1],
            {"n_runs": 30},
            "unlearned must return the same number of outputs for every seed",
        ),
    ],
)
def test_bad_input(unlearned, retrained, options, message):
    arguments = {"delta": 1e-2, "seed": 0} | options
    with pytest.raises(ValueError, match=message):
        audit(unlearned, retrained, **arguments)
