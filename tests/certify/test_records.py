"""Parts of certificates: values that cannot change, checked types, sentences, grids, shares."""

import json
import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from oracles.high_precision import epsilon_from_mu_mp
from pilu import Certificate, CertificateMismatch, LangevinRidge
from pilu.accounting.curves import CoarseCurve, GaussianCurve
from pilu.certify.accountant import Target
from pilu.certify.coarse import _coarse
from pilu.certify.exact import closeness
from pilu.certify.exposing import _epsilon_bounds
from pilu.certify.issue import Terms, read_delta, set_terms
from pilu.certify.promises import line_of, promises_of
from pilu.certify.theorem import Theorem
from pilu.exceptions import BeyondPrecision


@cache
def certificate():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    model = LangevinRidge(alpha=0.1, n_steps=20, noise=0.1, batch_size=10).fit(X, y)
    return model.unlearn([3, 4], epsilon=1.0, delta=1e-3, n_unlearn_steps=6)


def test_nothing_inside_of_a_certificate_can_be_changed():
    for field in ("accountant", "scope", "checks", "numerical_error", "versions", "evidence"):
        with pytest.raises(TypeError):
            getattr(certificate(), field)["name"] = 1
    assert isinstance(certificate().evidence["directions"][0], tuple)
    with pytest.raises(TypeError):
        certificate().evidence["prior"]["total"] = (0.0, 0.0)
    again = Certificate.from_json(certificate().to_json())
    assert isinstance(again.schedule[0], tuple)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("batch_size", [1, 30, None], [0, -1, 1.5, True, "1"]),
        ("rows", [[], [0], [7, 0]], [[-1], [3, -1], [-1, 3], [1, 2.5], [True], "12", None]),
        ("conditional_on", [[], ["a"]], [[1], ["a", 1], [1, "a"], "a", None]),
        ("n_unlearn_steps", [0, 3], [1.0, True, None]),
        ("mu", [None, 0.5, 1], ["1", True]),
        (
            "schedule",
            [[[None, 1.0]], [[3, 0]]],
            [[[3]], [[3, 1, 1]], [[1.0, 1]], [[3, 1], [None, 1]]],
        ),
    ],
)
def test_types_of_fields(field, good, bad):
    record = json.loads(certificate().to_json())
    for value in good:
        text = json.dumps(record | {field: value})
        assert json.loads(Certificate.from_json(text).to_json())[field] == value
    for value in bad:
        with pytest.raises(CertificateMismatch):
            Certificate.from_json(json.dumps(record | {field: value}))


def test_the_line_never_shows_less_than_is_certified():
    record = {"method": "langevin", "rows": [1], "conditional_on": ["x"]}
    line = line_of(record | {"total_epsilon": 1.00001, "total_delta": 2.00001e-5})
    assert line == "langevin, 1 row, total epsilon 1.001, total delta 2.001e-05"
    line = line_of(
        {**record, "rows": [], "conditional_on": []} | {"total_epsilon": 1, "total_delta": 0}
    )
    assert line == "langevin, epsilon 1, delta 0"


def test_sentences_about_earlier_releases():
    def person(rows, n, epsilon):
        return {"rows": rows, "n_releases": n, "epsilon": epsilon, "delta": 1e-4}

    people = [
        person([1, 2, 3, 4, 5, 6], 2, 0.500001),
        person([7, 8, 9, 10, 11], 1, 0.25),
        person([12], 1, None),
        person([13], 3, None),
    ]
    record = {
        "method": "refit",
        "scope": {"private": True},
        "schedule": [],
        "epsilon": 1.0,
        "delta": 1e-5,
        "evidence": {"earlier": {"covers_preprocessing": False, "people": people}},
    }
    words = [sentence for sentence in promises_of(record) if sentence.startswith("Rows ")]
    assert len(words) == 4
    assert words[0].startswith("Rows 1, 2, 3, 4, 5, ...: 2 earlier releases together are within")
    assert "epsilon = 0.5001 and delta = 0.0001 of the same" in words[0]
    assert "the penalties, the preprocessing and the other changes" in words[0]
    assert words[1].startswith("Rows 7, 8, 9, 10, 11: 1 earlier release is within")
    assert words[2] == "Rows 12: nothing bounds what 1 earlier release revealed about them."
    assert words[3] == "Rows 13: nothing bounds what 3 earlier releases revealed about them."


def test_the_grid_of_noises_keeps_zero_and_never_goes_down():
    target = Target(1.0, 1e-3, 5, floor=0.5)
    assert _coarse(0.0, target) == 0.0
    assert _coarse(1e-9, target) == 0.5
    for noise in np.geomspace(0.6, 50, 40):
        assert noise <= _coarse(noise, target) <= 1.1 * noise


def test_a_ladder_of_gaussian_curves_is_above_the_curve_and_near_it():
    ladder = CoarseCurve(GaussianCurve(0.5, 1e-9), 0.45)
    epsilons = np.linspace(0.0, 3.0, 30)
    fine, coarse = GaussianCurve(0.5, 1e-9).deltas(epsilons), ladder.deltas(epsilons)
    assert (coarse >= fine).all()
    # A rung is a quarter of an octave above the last one.
    assert (coarse <= GaussianCurve(0.5 * 2**0.26, 1e-8).deltas(epsilons)).all()
    tiny = CoarseCurve(GaussianCurve(0.05, 0.0), 0.45).deltas(epsilons)
    assert (tiny <= GaussianCurve(0.1125 * (1 + 1e-9), 0.0).deltas(epsilons)).all()  # two octaves
    beyond = CoarseCurve(GaussianCurve(50.0, 0.0), 0.45).deltas(np.zeros(1))
    assert beyond[0] == 1.0


def test_laws_that_are_known_too_coarsely_are_refused():
    assert closeness(0.0, 0.0, 3, -50.0) == 0.0
    for shift, covariance in ((0.1001, 0.0), (0.0, 0.1001), (np.nan, 0.0), (0.0, np.nan)):
        with pytest.raises(BeyondPrecision, match="too coarse to certify"):
            closeness(shift, covariance, 1, -50.0)


@pytest.mark.parametrize("mu", [1e-4, 0.02, 0.5, 4.0])
def test_an_exposure_spends_half_of_delta_on_its_bounds_at_its_own_epsilon(mu, monkeypatch):
    # P(S) <= e^eps (Q(S) + slack) + delta/2 needs e^eps slack <= delta/2   [docs/exposure.md]
    delta, slacks, done = 1e-3, [], []

    def mu_now(self, law, request, slack):
        slacks.append(slack)
        return mu

    monkeypatch.setattr(Theorem, "mu_now", mu_now)
    (epsilon,) = _epsilon_bounds(None, [None], delta, done.append)
    assert epsilon >= epsilon_from_mu_mp(mu, delta / 2)
    assert slacks[-1] * math.exp(epsilon) <= delta / 2 * (1 - 5e-13)
    assert sum(done) == 1


def test_an_exposure_whose_bounds_cannot_be_paid_is_infinite(monkeypatch):
    done = []
    monkeypatch.setattr(Theorem, "mu_now", lambda self, law, request, slack: 60.0)
    assert _epsilon_bounds(None, [None, None], 1e-3, done.append).tolist() == [math.inf] * 2
    assert sum(done) == 2
    monkeypatch.setattr(Theorem, "mu_now", lambda self, law, request, slack: math.inf)
    assert _epsilon_bounds(None, [None], 1e-3, done.append).tolist() == [math.inf]


@pytest.mark.parametrize(("noise", "epsilon"), [(0.5, 1.0), (0.6, 0.9), (0.0, 0.0)])
def test_answers_at_the_floor_and_at_the_target_are_accepted(noise, epsilon):
    assert terms(noise, epsilon).calibrate(None).noise == noise


def test_answers_below_the_floor_or_above_the_target_are_not():
    with pytest.raises(ArithmeticError, match="below the floor"):
        terms(0.4999, 1.0).calibrate(None)
    for epsilon in (1.0001, math.nan, math.inf):
        with pytest.raises(ArithmeticError, match="reaches only"):
            terms(0.6, epsilon).calibrate(None)


def terms(noise, epsilon):
    class Answer:
        def calibrate(self, law, request, target):
            return SimpleNamespace(noise=noise, epsilon=epsilon)

    return Terms(Answer(), None, Target(1.0, 1e-3, 5, floor=0.5))


@pytest.mark.parametrize("epsilon", [10001.0, 0.999e-9, 0.0])
def test_targets_that_no_certificate_serves_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be"):
        set_terms(None, "exact", epsilon, 1e-3, 5)


def test_deltas_next_to_zero_are_refused():
    assert read_delta(None, 1e-300) == 1e-300
    with pytest.raises(ValueError, match="delta must be at least 1e-300"):
        read_delta(None, 0.99e-300)
