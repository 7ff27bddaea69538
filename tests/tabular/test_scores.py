"""Scores on held-out rows: metrics by hand, folds by person, and when a model is worth nothing."""

import math

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from pilu.exceptions import WrongInput
from pilu.tabular import Score, cross_validated, frame_of, lay_out, make_program, score_of


def prepared(columns, *, target="y", model="auto", **roles):
    table = pa.table(columns)
    layout = lay_out(table, target=target, model=model, **roles)
    return make_program(layout, model=model), frame_of(table, layout), layout


def pairs_in_order(truth, scores, weights):
    """ROC AUC by its definition: the weighted share of pairs in the right order."""
    right = total = 0.0
    for t, s, w in zip(truth, scores, weights, strict=True):
        for u, r, v in zip(truth, scores, weights, strict=True):
            if t and not u:
                total += w * v
                right += w * v * (1.0 if s > r else 0.5 if s == r else 0.0)
    return right / total


def test_roc_auc_by_its_definition(rng):
    x = rng.normal(size=60).round(1)
    y = np.where(x + rng.normal(size=60) > 0, "yes", "no")
    program, frame, _ = prepared({"x": x, "y": y})
    weights = rng.uniform(0, 2, size=60)
    fitted = program.fit(frame.X, frame.y)
    name, value = score_of(fitted, frame.X, frame.y, weights=weights)
    assert name == "ROC AUC"
    assert value == pytest.approx(pairs_in_order(y == "yes", x * fitted[-1].coef_[0, 0], weights))


def test_accuracy_and_r2_by_hand(rng):
    x, weights = rng.normal(size=80), rng.uniform(0.1, 2, size=80)
    y = np.array(["a", "b", "c"])[np.digitize(x + 0.3 * rng.normal(size=80), [-0.5, 0.5])]
    program, frame, _ = prepared({"x": x, "y": y})
    fitted = program.fit(frame.X, frame.y)
    right = fitted.predict(frame.X) == y
    assert score_of(fitted, frame.X, y, weights=weights) == (
        "accuracy",
        pytest.approx((weights * right).sum() / weights.sum()),
    )
    program, frame, _ = prepared({"x": x, "y": 3 * x + rng.normal(size=80)})
    fitted = program.fit(frame.X, frame.y)
    mean = weights @ frame.y / weights.sum()
    rest = weights @ (frame.y - fitted.predict(frame.X)) ** 2
    assert score_of(fitted, frame.X, frame.y, weights=weights) == (
        "R2",
        pytest.approx(1 - rest / (weights @ (frame.y - mean) ** 2)),
    )


@pytest.mark.parametrize("model", ["poisson", "gamma"])
def test_d2_by_hand(rng, model):
    x = rng.normal(size=200)
    y = rng.poisson(np.exp(x + 1)) + (1.0 if model == "gamma" else 0.0)
    program, frame, layout = prepared({"x": x, "y": y}, model=model)
    fitted = program.fit(frame.X, frame.y)

    def deviance(mu):
        if model == "gamma":
            return np.sum(np.log(mu / y) + y / mu - 1)
        logs = [t * math.log(t / m) if t else 0.0 for t, m in zip(y, mu, strict=True)]
        return np.sum(mu - y + logs)

    expected = 1 - deviance(fitted.predict(frame.X)) / deviance(np.full(200, y.mean()))
    assert score_of(fitted, frame.X, frame.y) == ("D2", pytest.approx(expected))
    score = cross_validated(program, frame, layout)
    assert (score.metric, score.constant) == ("D2", 0.0)
    assert score.is_useful()


def test_mean_and_spread_over_folds(rng):
    x = rng.normal(size=90)
    program, frame, layout = prepared({"x": x, "y": x + rng.normal(size=90)})
    frame = frame._replace(subjects=[f"p{i % 3}" for i in range(90)])
    score = cross_validated(program, frame, layout)
    assert score.folds == 3  # as many as people
    values = []
    for person in range(3):
        out = np.arange(90) % 3 == person
        z = (x[~out] - x[~out].mean()) / x[~out].std()
        slope = z @ (frame.y[~out] - frame.y[~out].mean()) / (z @ z + 1.0)
        predicted = frame.y[~out].mean() + slope * (x[out] - x[~out].mean()) / x[~out].std()
        rest = np.sum((frame.y[out] - predicted) ** 2)
        values.append(1 - rest / np.sum((frame.y[out] - frame.y[out].mean()) ** 2))
    assert score.value == pytest.approx(np.mean(values))
    assert score.spread == pytest.approx(np.std(values, ddof=1))
    assert score.how == "3-fold cross-validation, each person in one fold"


def test_weights_count_in_the_fit_and_in_the_score(rng):
    x = rng.normal(size=200)
    sign = np.repeat([1.0, -1.0], 100)  # the second half says the opposite
    columns = {"x": x, "y": sign * x, "w": np.where(sign > 0, 1.0, 1e-9)}
    program, frame, layout = prepared(columns, weight="w")
    assert cross_validated(program, frame, layout).value > 0.99
    assert cross_validated(program, frame._replace(weights=None), layout).value < 0.1


def test_a_model_that_only_recognises_people_is_not_useful(rng):
    # Each person has a constant class and a constant level of their own, 20 rows each.
    people = np.repeat(np.arange(40), 20)
    classes = np.where(rng.random(40) < 0.5, "yes", "no")[people]
    columns = {"who": [f"p{i}" for i in people], "y": classes, "own": [f"l{i}" for i in people]}
    options = {"categories": ["own"]}
    program, frame, layout = prepared(columns, subject="who", **options)
    by_person = cross_validated(program, frame, layout)
    assert not by_person.is_useful()
    assert by_person.value == pytest.approx(0.5, abs=0.05)
    by_row = cross_validated(program, frame._replace(subjects=None), layout)
    assert by_row.value > 0.95
    assert "by row" in by_row.how


def test_noise_is_seldom_called_useful_and_signal_always():
    useful = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=100), np.where(rng.random(100) < 0.5, "a", "b")
        useful.append(cross_validated(*prepared({"x": x, "y": y})).is_useful())
    assert sum(useful) <= 5  # two standard errors over five folds: about one in seventeen
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=100)
        y = np.where(x + rng.normal(size=100) > 0, "a", "b")
        assert cross_validated(*prepared({"x": x, "y": y})).is_useful()


@pytest.mark.parametrize(
    ("value", "spread", "folds", "useful"),
    [
        (0.7, 0.2, 5, True),  # 0.2 > 2 * 0.2/sqrt(5) = 0.179
        (0.67, 0.2, 5, False),  # 0.17
        (0.5, 0.0, 5, False),
        (0.4, 0.0, 5, False),
        (math.nan, math.nan, 1, False),
    ],
)
def test_the_rule_for_useful(value, spread, folds, useful):
    score = Score("ROC AUC", value, 0.5, spread, True, "5-fold", folds)
    assert score.is_useful() is useful
    if folds > 1:
        assert ("not clearly better" in score.words) is not useful
    else:
        assert "could not be measured" in score.words


def test_classes_that_are_missing_from_folds():
    # One class has a single person: in the fold of that person nothing can be learned of it.
    who = [f"p{i // 4}" for i in range(40)]
    y = ["rare"] * 4 + ["a", "b"] * 18
    program, frame, layout = prepared({"x": list(range(40)), "y": y, "who": who}, subject="who")
    score = cross_validated(program, frame, layout)
    assert (score.metric, score.folds) == ("accuracy", 5)
    assert score.constant == pytest.approx(18 / 40)
    # Two classes, one of them of one person: no fold has both in training and in test.
    y = ["yes"] * 4 + ["no"] * 36
    program, frame, layout = prepared({"x": list(range(40)), "y": y, "who": who}, subject="who")
    score = cross_validated(program, frame, layout)
    assert math.isnan(score.value)
    assert not score.is_useful()
    assert "could not be measured" in score.words


def test_counts_that_only_one_person_has():
    who = [f"p{i // 4}" for i in range(20)]
    columns = {"x": list(range(20)), "y": [3, 1, 2, 4] + [0] * 16, "who": who}
    program, frame, layout = prepared(columns, subject="who", model="poisson")
    score = cross_validated(program, frame, layout)
    assert score.folds == 0  # without that person there is no mean, and the others are all alike
    assert not score.is_useful()


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("classes", [True, False])
def test_tiny_tables(n, classes):
    y = ["a" if i % 2 else "b" for i in range(n)] if classes else [0.5 + i * i for i in range(n)]
    program, frame, layout = prepared({"x": [1.0 + i for i in range(n)], "y": y})
    score = cross_validated(program, frame, layout)
    assert score.folds <= n
    assert math.isnan(score.value) is (score.folds < 2)
    assert score.words


def test_alpha_is_chosen_inside_the_folds_by_person(rng):
    n = 120
    columns = {"x": rng.normal(size=n), "who": [f"p{i // 3}" for i in range(n)]}
    for target in (columns["x"] + rng.normal(size=n), np.where(columns["x"] > 0, "a", "b")):
        _, frame, layout = prepared(columns | {"y": target}, subject="who")
        score = cross_validated(make_program(layout, alpha="auto"), frame, layout)
        assert score.is_useful()


def test_a_plain_head_will_do_and_the_estimator_stays_unfitted(rng):
    x = rng.normal(size=60)
    _, frame, layout = prepared({"x": x, "y": np.where(x > 0, "a", "b")})
    head = LogisticRegression()
    assert cross_validated(head, frame, layout).value > 0.95
    assert not hasattr(head, "coef_")


def test_bad_arguments(rng):
    x = rng.normal(size=10)
    program, frame, layout = prepared({"x": x, "y": x})
    with pytest.raises(WrongInput, match="folds must be an integer >= 2"):
        cross_validated(program, frame, layout, folds=1)
    with pytest.raises(WrongInput, match="frame must have targets"):
        cross_validated(program, frame._replace(y=None), layout)
