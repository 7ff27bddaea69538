"""Forgetting in place: laws, ids, subjects, interruption, pickling."""

import copy
import pickle
import re

import numpy as np
import pytest
from scipy import stats

import pilu
from conftest import with_ones
from oracles.dense import dense_laws
from oracles.pairs import contour_delta, whitened
from pilu import AlreadyForgotten, LangevinRidge, LangevinRidgeClassifier
from pilu.exceptions import NoiseBelowPrecision, RowsChanged, RowsNotAttached
from pilu.ridge.problem import RidgeProblem


def small_model(**options):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    return X, y, LangevinRidge(alpha=0.2, n_steps=12, noise=0.3, **options)


def snapshot(model):
    return pickle.dumps(model), model.coef_.tobytes(), model.total_, tuple(model.remaining_)


@pytest.mark.parametrize("solver", ["spectral", pytest.param("gradient", marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["langevin", "redraw"])
def test_what_is_released_has_the_right_law(solver, method):
    # Learn on all rows, forget {4, 5}, then {9}: the release against dense propagation.
    runs, releases = 400, []
    X, y, model = small_model(solver=solver)
    for _ in range(runs):
        model.fit(X, y)
        options = {"epsilon": 2.0, "delta": 0.1, "accountant": "theorem", "method": method}
        first = model.unlearn([4, 5], n_unlearn_steps=3, **options)
        second = model.unlearn(9, n_unlearn_steps=2, **options)
        releases.append(np.append(model.coef_, model.intercept_))
    eta, Xa, Y = model.step_size_, with_ones(X), y[:, None]
    left = np.delete(np.arange(20), [4, 5, 9])
    if method == "redraw":
        means, covs = dense_laws(Xa[left], Y[left], 0.2, eta, [(12, 0.3)], np.zeros((3, 1)))
        mean, cov = means[-1][:, 0], covs[-1]
    else:
        mean, cov = np.zeros((3, 1)), np.zeros((3, 3))
        for rows, steps, noise in (
            (np.arange(20), 12, 0.3),
            (np.delete(np.arange(20), [4, 5]), 3, first.noise),
            (left, 2, second.noise),
        ):
            M = np.eye(3) - eta * (Xa[rows].T @ Xa[rows] + 0.2 * np.eye(3))
            for _ in range(steps):
                mean = M @ mean + eta * Xa[rows].T @ Y[rows]
                cov = M @ cov @ M.T + 2 * eta * noise**2 * np.eye(3)
        mean = mean[:, 0]
    draws = np.array(releases)
    sd = np.sqrt(np.diag(cov))
    for j in range(3):
        assert stats.kstest((draws[:, j] - mean[j]) / sd[j], "norm").pvalue > 1e-5
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / runs)
    assert (np.abs(np.cov(draws.T) - cov) < 5 * error).all()


def test_quote_shapes_and_requests(diabetes):
    X, y = diabetes
    model = LangevinRidge(n_steps=50).fit(X, y)
    every = model.quote()
    assert len(every) == 442
    assert every.requests[5] == (5,)
    assert (every.delta == 1 / 442).all()
    assert (every.epsilon <= 1.0).all()
    assert not every.noise.flags.writeable
    some = model.quote([5, [7, 3], np.int64(9), (11,)])
    assert some.requests == ((5,), (3, 7), (9,), (11,))
    assert some.noise[0] == pytest.approx(every.noise[5], rel=1e-8)
    assert some.noise[1] > max(every.noise[3], every.noise[7])
    assert model.quote(4).requests == ((4,),)
    assert len(repr(every)) < 120
    words = r"noise \S+ to \S+, epsilon 1, delta 0.00226, n_unlearn_steps=80, exact"
    assert re.fullmatch(rf"Quote\(442 requests, {words}\)", repr(every))
    assert repr(model.quote(4)).startswith("Quote(1 request, noise ")
    assert repr(model.quote([])) == "Quote(0 requests)"
    frame = some.to_frame()
    assert list(frame.columns) == ["rows", "n_rows", "noise", "epsilon", "delta"]
    assert list(frame.n_rows) == [1, 2, 1, 1]
    model.unlearn([1, 2])
    assert len(model.quote()) == 440
    assert (1,) not in model.quote().requests


def test_quote_equals_unlearn(diabetes):
    X, y = diabetes
    model = LangevinRidge(n_steps=50).fit(X, y)
    quoted = model.quote([[10, 20]], epsilon=0.4, delta=1e-4, n_unlearn_steps=9)
    certificate = model.unlearn([20, 10], epsilon=0.4, delta=1e-4, n_unlearn_steps=9)
    assert certificate.noise == quoted.noise[0]
    assert certificate.epsilon == quoted.epsilon[0]


@pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")
def test_ids_and_subjects():
    X, y, model = small_model()
    ids = [f"r{i}" for i in range(20)]
    people = np.arange(20) % 5
    model.fit(X, y, sample_ids=ids, subjects=people)
    assert model.unlearn(ids="r3").rows == (3,)
    assert model.unlearn(ids=["r6", "r4"]).rows == (4, 6)
    assert model.unlearn(subject=1).rows == (1, 11, 16)  # r6 of theirs is gone already
    assert model.unlearn(subject=np.int64(2)).rows == (2, 7, 12, 17)
    for call in (
        {"ids": "r3"},
        {"ids": ["r5", "r11"]},
        {"subject": 1},
        {"subject": 2},
    ):
        before = snapshot(model)
        with pytest.raises(AlreadyForgotten):
            model.unlearn(**call)
        assert snapshot(model) == before
    blob = pickle.dumps(model)
    assert b"r11" not in blob  # names of the forgotten are not kept in the clear
    assert b"r13" in blob
    assert not np.isin([1, 2, 3, 4, 6, 7, 11, 12, 16, 17], model.remaining_).any()


def test_several_people_are_one_group_and_are_quoted_each():
    X, y, model = small_model(random_state=0)
    people = [f"p{i % 6}" for i in range(20)]
    model.fit(X, y, subjects=people)
    by_row = copy.deepcopy(model)
    rows = {name: [i for i in range(20) if people[i] == name] for name in ("p1", "p4")}
    assert model.quote(subject="p4").requests == (tuple(rows["p4"]),)
    each = model.quote(subjects=["p4", "p1"])
    assert each.requests == (tuple(rows["p4"]), tuple(rows["p1"]))
    np.testing.assert_array_equal(each.noise, by_row.quote([rows["p4"], rows["p1"]]).noise)
    together, score = sorted(rows["p1"] + rows["p4"]), {"validation": (X, y), "tolerated_loss": 1}
    assert model.plan(subjects=["p4", "p1"], **score) == by_row.plan(together, **score)
    assert model.plan(subject="p1", **score).rows == tuple(rows["p1"])
    certificate = model.unlearn(subjects=np.array(["p4", "p1"]))
    assert certificate.rows == tuple(together)
    by_row.unlearn(together)
    np.testing.assert_array_equal(model.coef_, by_row.coef_)
    before = snapshot(model)
    with pytest.raises(AlreadyForgotten, match="'p1'"):
        model.unlearn(subjects=["p0", "p1"])
    with pytest.raises(AlreadyForgotten, match="'p1'"):
        model.quote(subjects=["p0", "p1"])
    assert snapshot(model) == before


def test_a_row_is_forgotten_once():
    X, y, model = small_model()
    model.fit(X, y)
    model.unlearn([2, 3])
    before = snapshot(model)
    for call in (
        lambda: model.unlearn(2),
        lambda: model.unlearn([5, 3]),
        lambda: model.quote([3]),
        lambda: model.certified_epsilon([3], noise=1.0),
        lambda: model.unlearn(3, method="redraw"),
    ):
        with pytest.raises(AlreadyForgotten, match="already been forgotten"):
            call()
    assert snapshot(model) == before


def test_the_tenth_request_is_like_the_first():
    X, y, model = small_model()
    model.fit(X, y)
    for i in range(10):
        certificate = model.unlearn(i, epsilon=0.2, delta=1e-5, n_unlearn_steps=3)
        assert model.verify(certificate)["total_recomputed"]
        assert len(certificate.conditional_on) == i
    assert model.total_ == (certificate.total_epsilon, certificate.total_delta)
    assert 0 < model.total_[0] <= 2.0
    assert len(model.schedule_) == 11
    model.unlearn(method="redraw")
    assert model.total_ == (0.0, 0.0)
    assert model.schedule_ == ((12, 0.3),)
    assert len(model.remaining_) == 10


def test_ten_totals_beat_the_plain_rule():
    X, y, model = small_model()
    model.fit(X, y)
    epsilon = delta = 0.0
    for i in range(10):
        c = model.unlearn(i, epsilon=0.5, delta=1e-5, n_unlearn_steps=3)
        epsilon, delta = epsilon + c.epsilon, delta + np.exp(epsilon) * c.delta  # the plain rule
        again = pilu.Certificate.from_json(c.to_json())
        assert pilu.verify(again)["total_recomputed"]
        assert c.total_epsilon == pytest.approx(epsilon, rel=1e-12)
        assert c.total_delta <= delta * (1 + 1e-9)
        assert (c.total_delta < 0.9 * delta) == (i > 0)


def chain_law(X, y, alpha, eta, phases):
    """(mean, covariance) after phases (rows, steps, noise), by dense propagation."""
    p = X.shape[1]
    mean, cov = np.zeros((p, 1)), np.zeros((p, p))
    for rows, steps, noise in phases:
        M = np.eye(p) - eta * (X[rows].T @ X[rows] + alpha * np.eye(p))
        for _ in range(steps):
            mean = M @ mean + eta * X[rows].T @ y[rows, None]
            cov = M @ cov @ M.T + 2 * eta * noise**2 * np.eye(p)
    return mean, cov


@pytest.mark.parametrize("accountants", [("exact",), ("exact", "theorem")])
def test_totals_bound_the_true_divergence_of_the_whole_chain(accountants):
    X, y, model = small_model()
    model.fit(X, y)
    Xa, phases, schedule = with_ones(X), [(np.arange(20), 12, 0.3)], [(12, 0.3)]
    for i in range(5):
        accountant = accountants[i % len(accountants)]
        c = model.unlearn(i, epsilon=0.5, delta=1e-3, n_unlearn_steps=2, accountant=accountant)
        left = np.arange(i + 1, 20)
        phases.append((left, 2, c.noise))
        schedule.append((2, c.noise))
        never = [(left, *segment) for segment in schedule]
        P, Q = (chain_law(Xa, y, 0.2, model.step_size_, run) for run in (phases, never))
        x, a2 = whitened(P, Q)
        truth = contour_delta(x, a2, [1] * len(x), c.total_epsilon)
        assert float(truth) <= c.total_delta * (1 + 1e-6)


@pytest.mark.parametrize("order", [("theorem", "exact"), ("exact", "theorem"), ("theorem",)])
def test_accountants_may_be_mixed(order):
    X, y, model = small_model()
    model.fit(X, y)
    epsilon = delta = 0.0
    for i in range(4):
        c = model.unlearn(i, epsilon=0.5, delta=1e-4, accountant=order[i % len(order)])
        epsilon, delta = epsilon + c.epsilon, delta + np.exp(epsilon) * c.delta
        assert model.verify(c)["total_recomputed"]
        assert c.total_delta <= delta * (1 + 1e-9)
    assert c.total_delta < 0.95 * delta


def test_rows_that_leave_no_trace_have_totals_too():
    X, y, model = small_model(fit_intercept=False)
    X[:3] = 0.0
    model.fit(X, y)
    for i in (0, 5, 1, 6, 2):
        c = model.unlearn(i, epsilon=0.5, delta=1e-4, n_unlearn_steps=1)
        assert model.verify(c)["total_recomputed"]
    assert c.total_epsilon == 1.0
    # Only two of the five cost anything.
    assert c.total_delta < 1e-4 * (1 + np.exp(0.5))


@pytest.mark.parametrize("method", ["langevin", "redraw"])
def test_interrupt_between_steps_leaves_the_model_as_it_was(method, monkeypatch):
    X, y, model = small_model(solver="gradient")
    model.fit(X, y, sample_ids=range(20))
    model.unlearn(0)
    before = snapshot(model)
    taken = 0
    gradient = RidgeProblem.gradient

    def interrupted(*arguments):
        nonlocal taken
        taken += 1
        if taken == 5:
            raise KeyboardInterrupt
        return gradient(*arguments)

    monkeypatch.setattr(RidgeProblem, "gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.unlearn([3, 4], method=method)
    assert taken == 5
    assert snapshot(model) == before
    taken = 0
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert snapshot(model) == before
    monkeypatch.undo()
    model.unlearn([3, 4], method=method)


def test_pickle_has_no_rows_and_attach_gives_them_back():
    X, y, model = small_model()
    model.fit(X, y)
    model.unlearn(3)
    blob = pickle.dumps(model)
    for row in range(20):
        assert X[row].tobytes() not in blob
    loaded = pickle.loads(blob)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(RowsNotAttached, match="attach"):
        loaded.quote()
    with pytest.raises(RowsNotAttached, match="attach"):
        loaded.unlearn(4)
    with pytest.raises(RowsChanged, match="not those that the model was fitted on"):
        loaded.attach(X[::-1], y[::-1])
    gone = X.copy()
    gone[3] = np.nan  # the owner has erased the forgotten row
    assert loaded.attach(gone, y) is loaded
    np.testing.assert_allclose(loaded.quote().noise, model.quote().noise)
    left = np.delete(np.arange(20), 3)
    shorter = pickle.loads(blob).attach(X[left], y[left])
    certificate = shorter.unlearn(19)
    assert certificate.rows == (19,)
    assert len(certificate.conditional_on) == 1
    assert shorter.verify(certificate)["parameters_checked"]


def test_classifier_attach():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.array(["a", "b"] * 10)
    model = LangevinRidgeClassifier(n_steps=10, noise=0.1).fit(X, y)
    loaded = pickle.loads(pickle.dumps(model)).attach(X, y)
    assert loaded.quote([1]).noise == model.quote([1]).noise
    with pytest.raises(RowsChanged):
        loaded.attach(X, y[::-1])


def test_deepcopy_keeps_its_rows_and_its_own_state():
    X, y, model = small_model()
    model.fit(X, y)
    twin = copy.deepcopy(model)
    twin.unlearn(3)
    assert len(model.remaining_) == 20
    assert len(twin.remaining_) == 19


def test_rows_changed_under_the_model_are_noticed():
    X, y, model = small_model()
    model.fit(X, y)
    X[7, 0] += 1.0
    before = snapshot(model)
    with pytest.raises(RowsChanged, match="position 7"):
        model.unlearn(7)
    with pytest.raises(RowsChanged, match="position 7"):
        model.quote()
    assert snapshot(model) == before
    model.unlearn(8)


@pytest.mark.parametrize("shape", [(20, 2), (8, 20)])
def test_other_rows_changed_under_the_model_are_noticed_where_they_are_read(shape, rng):
    X, y = rng.normal(size=shape), rng.normal(size=shape[0])
    solver = "gradient" if shape[0] > shape[1] else "spectral"  # p > n reads the rows again
    model = LangevinRidge(alpha=0.2, n_steps=5, noise=0.3, solver=solver).fit(X, y)
    X[5] *= 1.5
    before = snapshot(model)
    for method in ("langevin", "redraw"):
        with pytest.raises(RowsChanged, match="position 5"):
            model.unlearn(2, method=method)
    assert snapshot(model) == before


def test_seeded_learning_is_never_called_private():
    X, y, model = small_model(random_state=0)
    model.fit(X, y).set_params(random_state=None)
    certificate = model.unlearn(3)
    assert certificate.scope["private"] is False
    assert not pilu.verify(certificate)["noise_is_private"]
    assert model.unlearn(method="redraw").scope["private"] is True


def test_parameters_changed_after_the_fit_do_not_change_the_model():
    X, y, model = small_model()
    model.fit(X, y)
    intercept, predictions = model.intercept_, model.predict(X)
    model.set_params(fit_intercept=False)
    assert model.intercept_ == intercept
    np.testing.assert_array_equal(model.predict(X), predictions)


def test_noise_too_small_to_be_seen_is_raised_to_a_floor(rng):
    # Well-conditioned data forget by contraction alone; the calibrated noise would be 1e-50.
    X, y = rng.normal(size=(300, 4)), rng.normal(size=300)
    model = LangevinRidge().fit(X, y)
    for accountant in (pilu.Theorem(strong_convexity="retained"), "exact"):
        quoted = model.quote([7], accountant=accountant).noise[0]
        certificate = model.unlearn(7, accountant=accountant)
        assert 0 < quoted == certificate.noise < 1e-6
        assert model.verify(certificate)["epsilon_recomputed"]
        model.fit(X, y)
        every = model.quote(accountant=accountant).noise
        assert ((every == 0) | (every >= 0.99 * quoted)).all()


def test_large_epsilon_is_no_trouble():
    X, y, model = small_model()
    model.fit(X, y)
    for accountant in ("theorem", "exact"):
        certificate = model.unlearn(3, epsilon=5000.0, accountant=accountant)
        assert model.verify(certificate)["epsilon_recomputed"]
        model.fit(X, y)


def test_certificates_are_frozen_all_the_way_down():
    X, y, model = small_model()
    certificate = model.fit(X, y).unlearn(3)
    with pytest.raises(TypeError):
        certificate.scope["private"] = True
    with pytest.raises(TypeError):
        certificate.evidence["directions"][0][0] = 0.0
    assert len({certificate, pilu.Certificate.from_json(certificate.to_json())}) == 1
    assert pickle.loads(pickle.dumps(certificate)) == certificate


@pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")
def test_last_row_of_a_class():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), np.array(["a"] * 6 + ["b"] * 5 + ["c"])
    model = LangevinRidgeClassifier(n_steps=20, noise=0.1).fit(X, y, subjects=list(y))
    before = snapshot(model)
    for call in (
        {"rows": 11},
        {"rows": [0, 11]},
        {"subject": "b"},
        {"rows": 11, "method": "redraw"},
    ):
        with pytest.raises(ValueError, match="keep_empty_classes=True"):
            model.unlearn(**call)
    assert snapshot(model) == before
    model.unlearn(11, keep_empty_classes=True)
    assert list(model.classes_) == ["a", "b", "c"]
    assert model.decision_function(X).shape == (12, 3)
    model.unlearn(method="redraw")
    model.unlearn([0, 6])


def test_noise_below_the_rounding_unit_is_refused(rng):
    X, y = rng.normal(size=(20, 2)), 1e12 * rng.normal(size=20)
    with pytest.raises(NoiseBelowPrecision, match="rounding units"):
        LangevinRidge(n_steps=20, noise=1e-4).fit(X, y)


def test_an_accountant_is_one_object(small):
    X, Y = small
    model = LangevinRidge(n_steps=20, noise=0.1).fit(X, Y)

    class Generous(pilu.Theorem):
        def describe(self):
            return {"name": "generous"}

    assert model.quote([1], accountant=Generous()).accountant == {"name": "generous"}
    with pytest.raises(ValueError, match="accountant must be one of 'exact', 'theorem'"):
        model.quote(accountant="exactly")
    with pytest.raises(ValueError, match="accountant must be"):
        model.quote(accountant=pilu.Theorem)
