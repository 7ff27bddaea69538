"""From sensitivities to noise and epsilon, and what certificates, pickles and redraws keep."""

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

import pilu
from conftest import with_ones
from losses.plain import CASES, FORMS, THRESHOLD, model_for, problem_for
from oracles.high_precision import delta_from_mu_mp, epsilon_from_mu_mp, mu_from_epsilon_mp
from oracles.qp import closed_form_mu, minmax_mu, solve_qp
from pilu import Certificate, CertificateMismatch, LangevinHuber, LangevinLogistic
from pilu.certify import issue
from pilu.certify.accountant import Target
from pilu.certify.certificate import scope_of
from pilu.data.rows import Request
from pilu.exceptions import AlreadyForgotten, RowsChanged, RowsNotAttached
from pilu.losses.law import SmoothSensitivities

ALPHA, STEPS, NOISE, K = 0.5, 30, 0.1, 6
OPTIONS = {"alpha": ALPHA, "n_steps": STEPS, "noise": NOISE}
REQUEST = {"epsilon": 1.0, "delta": 0.01, "n_unlearn_steps": K}


def fitted(name, **options):
    X, y, _ = problem_for(name)
    return model_for(name, **OPTIONS | options).fit(X, y)


def forget(model, rows, **options):
    if hasattr(model, "classes_"):
        options["keep_empty_classes"] = True
    return model.unlearn(rows, **REQUEST | options)


def sensitivities(model, name, rows, slack=0.005):
    """Of one request, as `unlearn` would take them; they are tested in test_sensitivities."""
    X, _, Y = problem_for(name)
    rows = np.atleast_1d(rows)
    request = Request(with_ones(X)[rows], Y[rows], rows)
    return SmoothSensitivities(model.fitted_.law).of_group_sum(request, slack)


def mu_of_chain(s, schedule, noise, eta, solve=minmax_mu):
    """Value of the (QP) of Proposition 1 for a chain that goes on with K steps of `noise`."""
    sigmas = np.concatenate([np.full(steps, sigma) for steps, sigma in [*schedule, (K, noise)]])
    all_s = np.concatenate([s, np.zeros(K)])
    return solve(all_s, 2 * eta * sigmas**2, 1 - eta * ALPHA)


def least_noise(s, schedule, eta, delta_m=0.005):
    """Theorem 1(ii) by bisection: the least sigma with mu(sigma) <= mu*(1, delta_m)."""
    target = float(mu_from_epsilon_mp(1.0, delta_m))
    low, high = 0.0, 1.0
    while mu_of_chain(s, schedule, high, eta) > target:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        enough = mu_of_chain(s, schedule, middle, eta) <= target
        low, high = (low, middle) if enough else (middle, high)
    return high


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("b", [None, 5])
def test_noise_and_epsilon_by_proposition_1_and_theorem_1(name, b):
    model = fitted(name, batch_size=b)
    eta = model.step_size_
    quoted = model.quote(**REQUEST)
    for rows in (2, [9, 17]):
        schedule = model.schedule_
        s = sensitivities(model, name, rows)
        expected = least_noise(s, schedule, eta)
        assert model.quote([rows], **REQUEST).noise[0] == pytest.approx(expected, rel=1e-6)
        if rows == 2:
            assert quoted.noise[2] == pytest.approx(expected, rel=1e-6)
        spent = model.certified_epsilon(rows, noise=0.7, delta=0.01, n_unlearn_steps=K)
        mu = mu_of_chain(s, schedule, 0.7, eta)
        assert spent == pytest.approx(float(epsilon_from_mu_mp(mu, 0.005)), rel=1e-6)
        certificate = forget(model, rows)
        assert expected * (1 - 1e-9) <= certificate.noise <= expected * (1 + 1e-6)
        mu = mu_of_chain(s, schedule, certificate.noise, eta, minmax_mu)
        assert certificate.mu == pytest.approx(mu, rel=1e-8)
        assert certificate.epsilon <= 1.0
        assert delta_from_mu_mp(mu, certificate.epsilon) <= 0.005 * (1 + 1e-9)
        by_hand = closed_form_mu(
            np.append(s, np.zeros(K)),
            2
            * eta
            * np.repeat([n for _, n in model.schedule_], [k for k, _ in model.schedule_]) ** 2,
            1 - eta * ALPHA,
        )
        pooled = certificate.checks["closed_form_feasible"]
        assert mu == pytest.approx(by_hand, rel=1e-9) if pooled else mu >= by_hand * (1 - 1e-9)
        if rows == 2:  # a generic solver is for short chains
            short = mu_of_chain(s, schedule, certificate.noise, eta, solve_qp)
            assert short == pytest.approx(mu, rel=1e-6)
        assert model.verify(certificate)["epsilon_recomputed"]


@pytest.fixture
def certificate():
    return forget(fitted("logistic", random_state=0), 3)


def altered(certificate, path, value):
    record = json.loads(certificate.to_json())
    target = record
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return Certificate.from_json(json.dumps(record))


def test_what_the_accountant_says(certificate):
    assert certificate.accountant["loss"] == {"name": "logistic"}
    assert certificate.accountant["auxiliary_runs"] == 32
    terms = certificate.accountant["delta_tails"] + certificate.accountant["delta_means"]
    assert terms == pytest.approx(0.005, rel=1e-15)
    assert terms <= certificate.accountant["delta_split"] * certificate.delta
    X, y, _ = problem_for("huber")
    huber = LangevinHuber(threshold=THRESHOLD, **OPTIONS).fit(X, y).unlearn(3)
    assert huber.accountant["loss"] == {"name": "huber", "threshold": THRESHOLD}
    assert Certificate.from_json(certificate.to_json()) == certificate


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["epsilon"], 0.5),
        (["epsilon_target"], 0.5),
        (["noise"], 0.01),
        (["noise"], 50.0),
        (["mu"], 0.01),
        (["delta"], 1e-9),
        (["total_epsilon"], 0.1),
        (["total_delta"], 1e-9),
        (["n_unlearn_steps"], 60),
        (["evidence", "blocks", 0, 0], 1e-9),
        (["evidence", "contraction"], 0.5),
        (["evidence", "step_size"], 9.0),
        (["accountant", "delta_split"], 0.25),
        (["accountant", "name"], "exact"),
        (["accountant", "delta_tails"], 1e-9),
        (["accountant", "delta_tails"], 0.5),
        (["accountant", "delta_means"], 0.0),
        (["accountant", "auxiliary_runs"], 0),
        (["accountant", "auxiliary_runs"], "many"),
        (["accountant", "loss"], "logistic"),
        (["accountant", "loss"], {"name": "huber", "threshold": 3.0}),
        (["accountant", "auxiliary_runs"], 10**6),
        (["accountant", "group"], "joint"),
        (["accountant", "strong_convexity"], "retained"),
    ],
)
def test_verify_refuses_what_was_changed(certificate, path, value):
    pilu.verify(certificate)
    with pytest.raises(CertificateMismatch):
        pilu.verify(altered(certificate, path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["mu"], -1.0),
        (["mu"], None),
        (["mu"], 50.0),
        (["accountant", "name"], "theoremx"),
        (["accountant", "delta_split"], -0.5),
        (["accountant", "delta_tails"], -0.005),
        (["accountant", "delta_means"], 0.0),
        (["accountant", "auxiliary_runs"], 0),
        (["accountant", "loss"], {}),
        (["accountant", "group"], "joint"),
        (["evidence_sha256"], ""),
    ],
)
def test_verify_refuses_what_was_changed_without_the_evidence(certificate, path, value):
    public = certificate.without_evidence()
    pilu.verify(public)
    with pytest.raises(CertificateMismatch):
        pilu.verify(altered(public, path, value))


@pytest.mark.parametrize("b", [None, 5])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["rows"], [5, 6]),
        (["rows"], [2, 7]),
        (["conditional_on", 0], "0" * 64),
        (["schedule", 0, 0], STEPS + 1),
        (["schedule", 1, 1], 2.5),
        (["epsilon_target"], 2.0),
        (["numerical_error", "conversions_relative"], 1e-3),
        (["accountant", "seen"], True),
    ],
)
def test_a_model_knows_which_certificate_it_issued(path, value, b):
    model = fitted("logistic", batch_size=b)
    forget(model, 2)
    certificate = forget(model, [3, 4])
    model.verify(certificate)
    model.verify(certificate.without_evidence())
    with pytest.raises(CertificateMismatch):
        model.verify(altered(certificate, path, value))


def test_a_model_knows_whom_a_redraw_left_out():
    model = fitted("huber")
    certificate = forget(model, [3, 4], method="redraw")
    model.verify(certificate)
    for rows in ([5, 6], [3], []):
        with pytest.raises(CertificateMismatch, match="belongs to other numbers"):
            model.verify(altered(certificate, ["rows"], rows))
        bare = dataclasses.replace(certificate.without_evidence(), rows=tuple(rows))
        with pytest.raises(CertificateMismatch, match="the model did not issue it"):
            model.verify(bare)


def test_langevin_steps_are_not_taken_for_a_redraw():
    model = fitted("logistic")
    certificate = forget(model, 3)
    forged = dataclasses.replace(
        certificate, method="redraw", accountant={"name": "redraw"}, epsilon=0.0, delta=0.0,
        epsilon_target=0.0, noise=0.0, n_unlearn_steps=0, mu=0.0, total_epsilon=0.0,
        total_delta=0.0, checks={}, numerical_error={}, evidence=None,
        scope=scope_of("redraw", private=certificate.scope["private"]),
    )  # fmt: skip
    for schedule in (forged.schedule, forged.schedule[:1]):
        with pytest.raises(CertificateMismatch):
            model.verify(dataclasses.replace(forged, schedule=schedule))
    redrawn = forget(model, 4, method="redraw").without_evidence()
    pilu.verify(redrawn)
    for change in ({"total_epsilon": 3.0}, {"epsilon": 1.0}, {"conditional_on": ("0" * 64,)}):
        with pytest.raises(CertificateMismatch):
            pilu.verify(dataclasses.replace(redrawn, **change))


@pytest.mark.parametrize("name", ["logistic", "huber"])
def test_rows_at_the_floor_are_quoted_alike_alone_and_together(name, monkeypatch):
    model = fitted(name)
    before = model.quote(**REQUEST)
    floor = float(np.median(before.noise))  # as if so much were lost in rounding
    monkeypatch.setattr(issue, "set_target", lambda law, *asked: Target(*asked, floor))
    every, alone = model.quote(**REQUEST), model.quote([[i] for i in range(24)], **REQUEST)
    raised = (before.noise > 0) & (before.noise < floor)
    assert raised.sum() > 5
    assert (every.noise[raised] == floor).all()
    np.testing.assert_allclose(every.noise, alone.noise, rtol=1e-9)
    np.testing.assert_allclose(every.epsilon, alone.epsilon, rtol=1e-8)
    assert (every.epsilon[raised] < 0.9999).any()


def test_terms_belong_together_and_to_the_evidence(certificate):
    record = json.loads(certificate.to_json())
    others = json.loads(certificate.to_json())
    others["accountant"] |= {"delta_tails": 0.001, "delta_means": 0.004}
    for name in ("loss", "auxiliary_runs", "delta_tails", "delta_means"):
        del record["accountant"][name]  # as if it were ridge's
    for changed in (record, others):
        with pytest.raises(CertificateMismatch, match="belongs to other numbers"):
            pilu.verify(Certificate.from_json(json.dumps(changed)))


@pytest.mark.parametrize("name", ["logistic", "softmax", "huber"])
@pytest.mark.parametrize("b", [None, 5])
def test_groups_repeated_requests_and_a_redraw(name, b):
    model = fitted(name, batch_size=b)
    single = model.quote([2, 9, 17], **REQUEST).noise
    first = forget(model, [2, 9, 17])
    assert first.noise > single.max()
    assert first.rows == (2, 9, 17)
    assert not first.conditional_on
    assert model.verify(first)["unconditional"]
    with pytest.raises(AlreadyForgotten):
        model.quote([9])
    second = forget(model, 4)
    assert second.conditional_on == (first.sha256,)
    assert second.schedule == ((STEPS, NOISE), (K, first.noise), (K, second.noise))
    assert second.total_epsilon > second.epsilon
    assert second.total_delta > second.delta
    assert second.total_epsilon <= 2.0
    assert model.total_ == (second.total_epsilon, second.total_delta)
    # Both have Gaussian curves: the plain rule e^eps is an upper bound of the total.
    assert second.total_delta <= first.delta + np.exp(first.epsilon) * second.delta * (1 + 1e-9)
    assert not model.verify(second)["unconditional"]
    redrawn = model.unlearn(5, method="redraw", **options_of(model))
    assert (redrawn.epsilon, redrawn.delta, redrawn.total_epsilon) == (0.0, 0.0, 0.0)
    assert model.verify(redrawn)["epsilon_recomputed"]
    assert model.total_ == (0.0, 0.0)
    assert sorted(set(range(24)) - set(model.remaining_.tolist())) == [2, 4, 5, 9, 17]
    third = forget(model, 6)
    assert not third.conditional_on
    assert third.schedule[0] == (STEPS, NOISE)
    assert len(third.schedule) == 2
    s_as_if_new = sensitivities_without(name, b, [2, 4, 5, 9, 17], 6)
    assert third.noise == pytest.approx(least_noise(*s_as_if_new), rel=0.2)  # other means


def options_of(model):
    return {"keep_empty_classes": True} if hasattr(model, "classes_") else {}


def sensitivities_without(name, b, gone, row):
    """Of a model that was redrawn without `gone`: many auxiliary runs, the same formula."""
    other = fitted(name, batch_size=b)
    other.unlearn(gone, method="redraw", **options_of(other))
    return sensitivities(other, name, row), other.schedule_, other.step_size_


def test_a_row_whose_batch_has_had_no_turn_costs_nothing():
    model = fitted("logistic", batch_size=2, n_steps=5)
    certificate = forget(model, 20)
    assert certificate.noise == 0.0
    assert certificate.epsilon == 0.0
    model.verify(certificate)


def blob_of(array):
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("b", [None, 5])
@pytest.mark.parametrize("copied", [False, True])
def test_pickles_hold_neither_rows_nor_auxiliary_means(b, copied):
    X, y, _ = problem_for("logistic")
    model = LangevinLogistic(batch_size=b, random_state=3, **OPTIONS).fit(X, y)
    if copied:
        model = copy.deepcopy(model)
    expected = model.quote(**REQUEST)
    means = model.fitted_.law.simulated.means
    blob = pickle.dumps(model)
    for held in (X[3], means[3], means[:, 0], means, expected.noise):
        assert blob_of(held) not in blob
    loaded = pickle.loads(blob)
    assert "_kept_law" not in loaded.fitted_.chain.__dict__
    with pytest.raises(RowsNotAttached, match="attach"):
        loaded.quote([3])
    with pytest.raises(RowsNotAttached, match="attach"):
        loaded.unlearn(3)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    loaded.attach(X, y)
    np.testing.assert_allclose(loaded.quote(**REQUEST).noise, expected.noise, rtol=1e-12)


def test_forgetting_drops_the_means_and_takes_other_runs():
    model = fitted("logistic", random_state=3)
    model.quote(**REQUEST)
    before = model.fitted_.law
    forget(model, 3)
    after = model.fitted_.law
    assert after is not before
    assert "simulated" not in after.__dict__
    assert not after.problem.source.digests[3].any()
    rows = np.arange(4, 8)
    assert (after.mean_statistics(rows, STEPS) != before.mean_statistics(rows, STEPS))[:, 1:].all()
    assert not after.simulated.means[3].any()


@pytest.mark.parametrize("seed", [None, 3])
def test_a_redraw_takes_other_auxiliary_runs_only_where_the_law_is_another(seed):
    """Whoever could draw them again and again would take those that suit him."""
    model = fitted("logistic", random_state=seed)
    rows = np.arange(24)

    def means():
        return model.fitted_.law.mean_statistics(rows, STEPS)

    first = means()
    model.unlearn(method="redraw")
    np.testing.assert_array_equal(means(), first)
    forget(model, 7)
    model.unlearn(method="redraw")
    second = means()
    left = rows != 7
    np.testing.assert_array_equal(second[left, 0], first[left, 0])
    assert (second != first)[left, 1:].all()
    model.unlearn(method="redraw")
    np.testing.assert_array_equal(means(), second)


def test_a_quote_and_the_request_that_follows_see_the_same_means():
    for seed in (None, 5):
        model = fitted("softmax", random_state=seed)
        quoted = model.quote(**REQUEST)
        assert forget(model, 7).noise == pytest.approx(quoted.noise[7], rel=1e-9)


def test_auxiliary_noise_is_fresh_without_a_seed_and_fixed_with_one():
    quotes = [fitted("logistic", random_state=seed).quote(**REQUEST).noise for seed in (1, 1, None)]
    np.testing.assert_array_equal(quotes[0], quotes[1])
    assert (quotes[2] != quotes[0]).all()
    assert (fitted("logistic").quote(**REQUEST).noise != quotes[2]).all()


@pytest.mark.parametrize("b", [None, 5])
def test_changed_rows_are_noticed_and_nothing_is_forgotten(b):
    X, y, _ = problem_for("logistic")
    model = LangevinLogistic(batch_size=b, **OPTIONS).fit(X, y)
    X[20] += 1.0
    before = model.coef_
    for call in (lambda: model.quote([3]), lambda: model.unlearn(3), lambda: model.quote()):
        with pytest.raises(RowsChanged, match="position 20"):
            call()
    np.testing.assert_array_equal(model.coef_, before)
    assert len(model.remaining_) == 24


def test_forgotten_rows_may_hold_anything():
    """What is left after a redraw, a quote and a request reads none of them."""
    X, y, _ = problem_for("huber")
    X, y = X.copy(), y.copy()
    model = LangevinHuber(**OPTIONS).fit(X, y)
    model.unlearn([3, 4], **REQUEST)
    X[[3, 4]] = np.nan
    assert np.isfinite(model.quote(**REQUEST).noise).all()
    model.verify(model.unlearn(7, **REQUEST))
    model.unlearn(method="redraw")
    assert np.isfinite(model.coef_).all()
    loaded = pickle.loads(pickle.dumps(model)).attach(
        np.delete(X, [3, 4, 7], axis=0), np.delete(y, [3, 4, 7])
    )
    assert np.isfinite(loaded.quote(**REQUEST).noise).all()


def test_well_fitted_rows_are_cheap():
    """The point of it all: quotes follow how well a row is fitted, not its length alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = (X[:, 0] > 0).astype(int)
    y[0] = 1 - y[0]
    model = LangevinLogistic(0.1, n_steps=400, noise=0.02, fit_intercept=False, random_state=0)
    noise = model.fit(X, y).quote(**REQUEST).noise
    margin = np.abs(X[:, 0])
    assert noise[np.argmax(margin[1:]) + 1] < noise[np.argmin(margin[1:]) + 1] / 2
    assert noise[0] > np.median(noise)


def test_every_loss_issues_certificates():
    for name in CASES:
        certificate = forget(fitted(name), 8)
        expected = dataclasses.asdict(CASES[name].loss) | {"name": CASES[name].loss.name}
        assert dict(certificate.accountant["loss"]) == expected


def test_a_refused_call_leaves_no_floor_of_other_rows_behind():
    """The floor is kept with the law, so the rows that it rests on are checked first."""
    X, y, _ = problem_for("huber")
    X = X.copy()
    model = LangevinHuber(random_state=3, **OPTIONS).fit(X, y)
    expected = LangevinHuber(random_state=3, **OPTIONS).fit(X, y).fitted_.law.largest_size(5)
    kept = X.copy()
    X[:] = 0.0
    with pytest.raises(RowsChanged):
        model.quote([3], **REQUEST)
    X[:] = kept
    assert model.fitted_.law.largest_size(5) == expected


@pytest.mark.parametrize(
    "steps",
    [
        [("redraw", None)],
        [("redraw", 3)],
        [("langevin", 3)],
        [("langevin", 3), ("redraw", None)],
        [("redraw", 3), ("redraw", 4)],
    ],
)
def test_private_noise_ends_auxiliary_runs_of_a_chosen_seed(steps):
    """Else seeds could be tried until the means suit, and the certificate would say private."""
    quotes = []
    for _ in range(2):
        model = fitted("logistic", random_state=7).set_params(random_state=None)
        for method, row in steps:
            model.unlearn(row, method=method, **REQUEST)
        quotes.append(model.quote(**REQUEST).noise)
    assert (quotes[0] != quotes[1]).any()
    positive = (quotes[0] > 0) & (quotes[1] > 0)
    assert (quotes[0] != quotes[1])[positive].all()


def test_rows_that_change_after_the_floor_are_noticed_by_the_runs():
    X, y, _ = problem_for("huber")
    X = X.copy()
    model = LangevinHuber(random_state=3, **OPTIONS).fit(X, y)
    model.fitted_.law.largest_size(5)
    X[20] += 1.0
    with pytest.raises(RowsChanged, match="position 20"):
        model.fitted_.law.mean_statistics(np.array([3]), 1)
