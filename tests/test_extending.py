"""A new kind of problem is one module, a new accountant one file and one line: both tried here."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import pilu
from pilu.accounting.gdp import epsilon_from_mu
from pilu.accounting.shifted import mu_from_sensitivities
from pilu.certify.exact import Exact
from pilu.certify.verify import ACCOUNTANTS
from pilu.chains.chain import walk
from pilu.chains.problem import Law, Problem
from pilu.chains.sensitivities import (
    ROUNDING,
    Sensitivities,
    contraction_between,
    gaussian_norm_bound,
)
from pilu.estimators.outputs import LangevinRegressor
from pilu.ridge.problem import RidgeProblem


# A kind of problem: the mean, f(theta) = sum_j |theta - y_j|^2 / 2 + alpha |theta|^2 / 2.
@dataclass(frozen=True, eq=False)
class MeanProblem(Problem):
    source: object
    alpha: float
    n_outputs: int

    keeps_law = False
    reads_rows = True
    minibatch_size = None

    @property
    def largest(self):
        return self.source.n_rows + self.alpha

    def walk(self, theta, step_size, segment, first_step, gaussian):
        total = sum(y.sum(axis=0) for _, y in self.source.blocks())
        curvature = self.source.live.sum() + self.alpha
        return walk(theta, lambda t, k: curvature * t - total, step_size, segment, gaussian)

    def law(self, run, *, corrected=False):
        return MeanLaw(self, *run)

    def without(self, rows, x, y):
        return replace(self, source=self.source.without(rows))

    def reading(self, source):
        return replace(self, source=source)

    def drawing_privately(self):
        return self

    def batch_facts(self, rows, n_steps, n_unlearn_steps):
        return {}

    def timing_sample(self, n_steps):
        return n_steps, 0.0

    def redraw_work(self, learning):
        return learning.steps * self.source.n_rows

    def shortfall(self, run, theta):
        return None

    def describe_loss(self):
        return {"name": "mean"}

    def record(self):
        return {}


class MeanLaw(Law):
    is_gaussian = False  # no comparison of two runs is supplied: the theorem certifies

    def __init__(self, problem, step_size, schedule, start):
        self.problem, self.step_size = problem, step_size
        self.schedule, self.start = schedule, start

    @property
    def alpha(self):
        return self.problem.alpha

    @property
    def n_outputs(self):
        return self.problem.n_outputs

    @property
    def sensitivities(self):
        return MeanSensitivities(self)

    def iterates(self):
        """Mean and variance of every iterate, step by step."""
        targets = np.vstack([y for _, y in self.problem.source.blocks()])
        keep = 1 - self.step_size * (len(targets) + self.alpha)
        m, v, means, variances = self.start[0], 0.0, [], []
        for added in self.schedule.variances(self.step_size):
            means.append(m)
            variances.append(v)
            m, v = keep * m + self.step_size * targets.sum(axis=0), keep**2 * v + added
        return np.array(means), np.array(variances)

    def largest_size(self, n_more_steps):
        targets = np.vstack([y for _, y in self.problem.source.blocks()])
        noise = np.sqrt(self.schedule.variances(self.step_size).sum())
        return float(np.abs(targets).sum() + np.abs(self.start).sum() + noise)


class MeanSensitivities(Sensitivities):
    def __init__(self, law):
        self.law = law

    def check_options(self, *, group, strong_convexity):
        assert (group, strong_convexity) == ("sum", "alpha")

    def of_each(self, rows, slack):
        means, variances = self.law.iterates()
        away = np.linalg.norm(means[None] - rows.Y[:, None], axis=2)
        tail = slack / len(means)
        bounds = gaussian_norm_bound(away, np.sqrt(variances), self.law.n_outputs, tail)
        return self.law.step_size * bounds * (1 + ROUNDING)

    def of_group_sum(self, rows, slack):
        return self.of_each(rows, slack / len(rows.Y)).sum(axis=0)

    def contraction(self, rows, strong_convexity):
        problem = self.law.problem
        return contraction_between(problem.alpha, problem.largest, self.law.step_size)


class LangevinMean(LangevinRegressor):
    def __init__(self, alpha=1.0, n_steps=30, noise=0.2, random_state=None):
        self.alpha, self.n_steps, self.noise = alpha, n_steps, noise
        self.random_state = random_state

    step_size, batch_size, fit_intercept = "auto", None, False

    def make_problem(self, source, n_outputs):
        for _ in source.features(first=True):  # digests of the rows
            pass
        return MeanProblem(source, float(self.alpha), n_outputs)

    def restore_problem(self, record, arrays, source):
        raise AssertionError("no store is made here")


def test_a_new_kind_of_problem_learns_quotes_forgets_and_verifies(rng):
    y = rng.normal(size=40)
    model = LangevinMean().fit(np.ones((40, 1)), y)
    quote = model.quote(epsilon=0.5, n_unlearn_steps=3)
    farthest = int(np.argmax(np.abs(y - y.mean())))
    assert np.argmax(quote.noise) == farthest
    certificate = model.unlearn(farthest, epsilon=0.5, n_unlearn_steps=3)
    assert certificate.noise == pytest.approx(quote.noise[farthest], rel=1e-9)
    assert certificate.accountant["name"] == "theorem"
    assert all(model.verify(certificate)[name] for name in ("epsilon_recomputed", "issuer_checked"))
    model.unlearn([1, 2], epsilon=1.0, n_unlearn_steps=3)
    assert model.unlearn(method="redraw").epsilon == 0.0
    with pytest.raises(ValueError, match="validation must be None"):
        model.quote([5], validation=(np.ones((2, 1)), [0.0, 1.0]))


def test_its_certificate_is_what_the_theorem_says_of_the_literal_run(rng):
    """Sensitivities written out step by step, and the theorem's (QP) on them."""
    y, K, delta = rng.normal(size=40), 3, 1e-3
    model = LangevinMean().fit(np.ones((40, 1)), y)
    noise = 0.7
    claimed = model.certified_epsilon(4, noise=noise, n_unlearn_steps=K, delta=delta)
    eta, m, v, s = model.step_size_, 0.0, 0.0, []
    for _ in range(30):
        draws = np.abs(m + np.sqrt(v) * rng.normal(size=200_000) - y[4])
        s.append(eta * np.quantile(draws, 1 - delta / 2 / 30))
        keep = 1 - eta * 41
        m, v = keep * m + eta * y.sum(), keep**2 * v + 2 * eta * 0.2**2
    variances = np.concatenate([np.full(30, 2 * eta * 0.2**2), np.full(K, 2 * eta * noise**2)])
    mu = mu_from_sensitivities(np.append(s, np.zeros(K)), variances, 1 - eta * 1.0)
    assert claimed == pytest.approx(float(epsilon_from_mu(mu, delta / 2)), rel=0.02)


# An accountant: the exact one with twice the noise.
@dataclass(frozen=True)
class Cautious(Exact):
    def describe(self):
        return {**super().describe(), "name": "cautious"}

    def calibrate(self, law, request, target):
        least = super().calibrate(law, request, target)
        return self.spend(law, request, 2 * least.noise, target)


@dataclass(frozen=True)
class Careless(Exact):
    below_floor: bool = False

    def calibrate(self, law, request, target):
        least = super().calibrate(law, request, target)
        if self.below_floor:
            return replace(least, noise=target.floor / 2)
        return self.spend(law, request, least.noise / 2, target)


@pytest.mark.parametrize(
    ("below_floor", "match"), [(False, "reaches only"), (True, "below the floor")]
)
def test_what_an_accountant_does_not_reach_is_refused_before_the_first_step(
    below_floor, match, rng, monkeypatch
):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    model = pilu.LangevinRidge(n_steps=5, noise=0.05).fit(X, y)
    before, walked = model.fitted_, []
    monkeypatch.setattr(RidgeProblem, "walk", lambda *arguments: walked.append(arguments))
    with pytest.raises(ArithmeticError, match=match):
        model.unlearn(3, n_unlearn_steps=2, accountant=Careless(below_floor=below_floor))
    assert not walked
    assert model.fitted_ is before


def test_a_new_accountant_is_one_line_in_the_registry(rng, monkeypatch):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    model = pilu.LangevinRidge(n_steps=5, noise=0.05).fit(X, y)
    with pytest.raises(ValueError, match="accountant must be one of 'exact', 'theorem'"):
        model.unlearn(3, accountant="cautious")
    monkeypatch.setitem(ACCOUNTANTS, "cautious", Cautious())
    usual = model.quote([3], n_unlearn_steps=2)
    certificate = model.unlearn(3, n_unlearn_steps=2, accountant="cautious")
    assert certificate.noise == pytest.approx(2 * usual.noise[0], rel=1e-9)
    assert usual.noise[0] > 0.01
    assert certificate.epsilon < usual.epsilon[0]
    assert model.verify(certificate)["epsilon_recomputed"]
    forged = replace(certificate, noise=certificate.noise / 2)
    with pytest.raises(pilu.CertificateMismatch):
        pilu.verify(forged)
    monkeypatch.undo()
    with pytest.raises(pilu.CertificateMismatch, match="is not known"):
        pilu.verify(certificate)
