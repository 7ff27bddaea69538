"""Plans: from a tolerated loss to the least epsilon."""

import dataclasses
import pickle

import numpy as np
import pytest

from conftest import with_ones
from oracles.predictions import accuracy_of_law, law_of_run, rmse_of_law
from pilu import AlreadyForgotten, LangevinRidge, LangevinRidgeClassifier, Plan

RNG = np.random.default_rng(11)
X, X_VAL = RNG.normal(size=(60, 4)), RNG.normal(size=(25, 4))
WEIGHTS = RNG.normal(size=(4, 3))
Y, Y_VAL = (x @ WEIGHTS + 0.7 * RNG.normal(size=(len(x), 3)) for x in (X, X_VAL))
LABELS, LABELS_VAL = np.argmax(Y, axis=1), np.argmax(Y_VAL, axis=1)
RMSE, ACCURACY = (X_VAL, Y_VAL), (X_VAL, LABELS_VAL)


@pytest.fixture(scope="module")
def regressor():
    return LangevinRidge(alpha=0.2, n_steps=40, noise=0.2).fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    return LangevinRidgeClassifier(alpha=0.2, n_steps=40, noise=0.1).fit(X, LABELS)


EVERY, LEFT = list(range(60)), [i for i in range(60) if i not in (5, 9)]


def law_after(model, targets, learning_noise, noise, K):
    """The dense law once rows 5 and 9 are forgotten."""
    phases = [(EVERY, 40, learning_noise), (LEFT, K, noise)]
    start = np.zeros((5, targets.shape[1]))
    return law_of_run(with_ones(X), targets, 0.2, model.step_size_, phases, start)


def dense_accuracy(model, noise, K):
    law = law_after(model, np.eye(3)[LABELS], 0.1, noise, K)
    return accuracy_of_law(*law, with_ones(X_VAL), [int(c) for c in LABELS_VAL])


@pytest.mark.parametrize("accountant", ["exact", "theorem"])
def test_rmse_plan(regressor, accountant):
    before = pickle.dumps(regressor)
    plan = regressor.plan([5, 9], validation=RMSE, tolerated_loss=0.05, accountant=accountant)
    assert pickle.dumps(regressor) == before
    assert isinstance(plan, Plan)
    assert plan.rows == (5, 9)
    assert plan.metric == "rmse"
    assert plan.delta == 1 / 60
    assert plan.accountant["name"] == accountant
    assert [o.n_unlearn_steps for o in plan.table] == [1, 2, 5, 10, 20, 40, 80, 160, 320]
    for option in plan.table:
        # The whole loss is used, by the dense law, and the epsilon is what the noise certifies.
        law = law_after(regressor, Y, 0.2, option.noise, option.n_unlearn_steps)
        after = rmse_of_law(*law, with_ones(X_VAL), Y_VAL)
        assert option.after == pytest.approx(after, rel=1e-10)
        certified = regressor.certified_epsilon(
            [5, 9],
            noise=option.noise,
            n_unlearn_steps=option.n_unlearn_steps,
            accountant=accountant,
        )
        if option.epsilon == 1e-3:  # enough: the loss need not be used up
            assert certified <= 1e-3 * (1 + 1e-9)
            assert after < plan.before + 0.05
        else:
            assert certified == option.epsilon > 1e-3
            assert after == pytest.approx(plan.before + 0.05, rel=1e-10)
    assert plan.table[0].epsilon > 2e-3
    least = min(o.epsilon for o in plan.table)
    good = [o for o in plan.table if o.epsilon <= 1.05 * least]
    assert (plan.n_unlearn_steps, plan.noise, plan.epsilon, plan.after) == good[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.epsilon = 0.0


@pytest.mark.parametrize("loss", [0.02, 0.1, 0.4])
def test_accuracy_plan(classifier, loss):
    plan = classifier.plan(
        [5, 9], validation=ACCURACY, tolerated_loss=loss, n_unlearn_steps=[1, 4, 40], delta=1e-9
    )
    assert plan.metric == "accuracy"
    for option in plan.table:
        assert option.after >= plan.before - loss - 1e-12
        K, noise = option.n_unlearn_steps, option.noise
        certified = classifier.certified_epsilon([5, 9], noise=noise, n_unlearn_steps=K, delta=1e-9)
        if option.epsilon == 1e-3:  # enough: then no more noise than that takes
            assert certified <= 1e-3 * (1 + 1e-9)
            least = classifier.quote([[5, 9]], epsilon=1e-3, n_unlearn_steps=K, delta=1e-9).noise[0]
            assert noise == pytest.approx(least, rel=1e-6)
            continue
        assert option.epsilon == certified
        assert option.after == pytest.approx(plan.before - loss, abs=1e-8)
        # A finer search finds no larger noise that is tolerated, by integrals over dense laws.
        for factor in np.exp(np.linspace(1e-6, 3.0, 8)):
            assert dense_accuracy(classifier, noise * factor, K) < plan.before - loss + 1e-8
    assert any(o.epsilon > 2e-3 for o in plan.table)


def test_a_plan_can_be_followed(regressor):
    model = pickle.loads(pickle.dumps(regressor)).attach(X, Y)
    plan = model.plan(7, validation=RMSE, tolerated_loss=0.03, n_unlearn_steps=[3, 1], delta=1e-3)
    assert [o.n_unlearn_steps for o in plan.table] == [1, 3]
    certificate = model.unlearn(
        7,
        epsilon=plan.epsilon,
        delta=plan.delta,
        n_unlearn_steps=plan.n_unlearn_steps,
        validation=RMSE,
    )
    assert certificate.noise == pytest.approx(plan.noise, rel=1e-6)
    assert certificate.utility["after"] == pytest.approx(plan.after, rel=1e-6)
    assert certificate.utility["redraw"] == pytest.approx(plan.redraw, rel=1e-12)
    later = model.plan([1, 2], validation=RMSE, tolerated_loss=0.03, n_unlearn_steps=1, delta=1e-6)
    assert later.epsilon == model.certified_epsilon(
        [1, 2], noise=later.noise, n_unlearn_steps=1, delta=1e-6
    )
    enough = model.plan([1, 2], validation=RMSE, tolerated_loss=0.1)
    assert enough.epsilon == 1e-3
    assert enough.n_unlearn_steps == min(
        o.n_unlearn_steps for o in enough.table if o.epsilon == 1e-3
    )
    followed = model.unlearn([1, 2], epsilon=1e-3, n_unlearn_steps=enough.n_unlearn_steps)
    assert followed.noise == enough.noise
    with pytest.raises(AlreadyForgotten):
        model.plan(7, validation=RMSE, tolerated_loss=0.1)


def test_losses_that_are_too_small(rng):
    # The last row of a direction: without it the model cannot predict that direction any more.
    X = np.vstack([rng.normal(size=(30, 2)) @ [[1, 0, 0], [0, 1, 0]], [[0, 0, 3.0]]])
    y = X @ [1.0, 1.0, 5.0]
    validation = (np.eye(3), [1.0, 1.0, 5.0])
    model = LangevinRidge(alpha=1.0, n_steps=50, noise=0.5, fit_intercept=False).fit(X, y)
    with pytest.raises(
        ValueError, match=r"tolerated_loss must be at least \S+, the loss without"
    ) as caught:
        model.plan(30, validation=validation, tolerated_loss=1e-4)
    assert "A redraw would change the rmse from" in str(caught.value)
    least = float(str(caught.value).split("at least ")[1].split(",")[0])
    plan = model.plan(30, validation=validation, tolerated_loss=least + 1e-3)
    assert plan.after == pytest.approx(plan.before + least + 1e-3)
    with pytest.raises(ValueError, match="at least"):
        model.plan(30, validation=validation, tolerated_loss=least * (1 - 1e-3))
    # With hardly any noise in learning, a little noise hides nothing.
    model.set_params(noise=1e-6).fit(X, y)
    with pytest.raises(ValueError, match="at least") as caught:
        model.plan(30, validation=validation, tolerated_loss=0.0)
    least = float(str(caught.value).split("at least ")[1].split(",")[0])
    with pytest.raises(ValueError, match=r"noise with a finite epsilon, got tolerated_loss="):
        model.plan(30, validation=validation, tolerated_loss=least + 1e-6)


def test_more_loss_than_pure_noise(classifier):
    with pytest.raises(
        ValueError, match=r"tolerated_loss must be less than 0\.\d+, the loss for infinite"
    ):
        classifier.plan(5, validation=ACCURACY, tolerated_loss=0.9)
    plain = LangevinRidge(n_steps=5, fit_intercept=False).fit(X, Y)
    with pytest.raises(ValueError, match="an X with a nonzero row"):
        plain.plan(5, validation=(0 * X_VAL, Y_VAL), tolerated_loss=0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerated_loss": -0.1}, "tolerated_loss must be a finite number >= 0, got"),
        ({"tolerated_loss": np.inf}, "tolerated_loss must be"),
        ({"tolerated_loss": np.nan}, "tolerated_loss must be"),
        ({"tolerated_loss": "small"}, "tolerated_loss must be"),
        ({"n_unlearn_steps": 0}, "n_unlearn_steps must be an integer >= 1, got n_unlearn_steps=0"),
        ({"n_unlearn_steps": [5, 2.5]}, "n_unlearn_steps must be an integer >= 1"),
        ({"n_unlearn_steps": []}, "n_unlearn_steps must be at least one integer"),
        ({"n_unlearn_steps": "5"}, "n_unlearn_steps must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"accountant": "hope"}, "accountant must be"),
        ({"validation": None}, r"validation must be a pair \(X, y\), got validation=None"),
        ({"request": 99}, "rows must be in"),
        ({"request": []}, "rows must be at least one"),
    ],
)
def test_bad_plans(options, words, regressor):
    given = {"request": 3, "validation": RMSE, "tolerated_loss": 0.1, **options}
    with pytest.raises(ValueError, match=words):
        regressor.plan(given.pop("request"), **given)
