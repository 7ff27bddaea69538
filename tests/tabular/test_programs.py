"""The default pipelines: what they minimise, what they do to odd columns, and that they forget."""

import numpy as np
import pyarrow as pa
import pytest
import skops.io as skops
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from pilu import Forgetful
from pilu.exceptions import WrongInput
from pilu.refit.refusals import check_program
from pilu.tabular import MODELS, describe_program, frame_of, lay_out, make_program
from pilu.tabular.pipelines import ALPHAS, SKOPS_TYPES

N = 240


def customers(seed=0, n=N):
    """Customers with two rows each, and columns of every kind."""
    rng = np.random.default_rng(seed)
    age = rng.normal(45, 12, size=n)
    plan = rng.choice(["basic", "plus", "pro"], size=n)
    spend = np.exp(0.02 * (age - 45) + 0.4 * (plan == "pro") + rng.normal(0, 0.3, size=n))
    left = rng.random(n) < 1 / (1 + np.exp(0.05 * (age - 45) - 0.8 * (plan == "basic")))
    moods = np.array(["slow", "kind", "rude", "late", "good", "fine", "dear", "new"])
    notes = [" ".join(rng.choice(moods, size=4)) + f" {i}" for i in range(n)]
    return pa.table(
        {
            "who": [f"p{i // 2}" for i in range(n)],
            "age": pa.array(np.where(rng.random(n) < 0.1, np.nan, age), from_pandas=True),
            "active": rng.random(n) < 0.5,
            "joined": pa.array(rng.integers(15000, 20000, size=n).astype("int32"), pa.date32()),
            "plan": pa.array(plan, mask=rng.random(n) < 0.05),
            "note": notes,
            "constant": np.full(n, 7.0),
            "empty": pa.nulls(n, pa.float64()),
            "blank": pa.nulls(n, pa.string()),
            "left": np.where(left, "yes", "no"),
            "level": rng.choice(["low", "mid", "high"], size=n),
            "spend": spend,
            "visits": rng.poisson(3 * spend),
        }
    )


TARGETS = {
    "logistic": "left",
    "svm": "left",
    "ridge": "spend",
    "poisson": "visits",
    "gamma": "spend",
}
ALL_TARGETS = {"left", "spend", "visits", "level"}


def laid_out(table, model, target=None, *, words=True, subject=True):
    target = target or TARGETS[model]
    ignore = [
        *(ALL_TARGETS - {target}),
        *([] if words else ["note"]),
        *([] if subject else ["who"]),
    ]
    who = "who" if subject else None
    return lay_out(table, target=target, subject=who, ignore=ignore, model=model)


def losses(model, score, y):
    """The losses of docs/tables.md and their slopes, in plain formulas."""
    if model == "ridge":
        return (score - y) ** 2 / 2, score - y
    if model == "logistic":
        return np.logaddexp(0, -y * score), -y / (1 + np.exp(y * score))
    if model == "svm":
        short = np.maximum(0, 1 - y * score)
        return short**2, -2 * y * short
    if model == "poisson":
        return np.exp(score) - y * score, np.exp(score) - y
    return score + y * np.exp(-score), 1 - y * np.exp(-score)


@pytest.mark.parametrize("model", sorted(TARGETS))
@pytest.mark.parametrize("alpha", [3.0, 30.0])
def test_every_model_minimises_the_objective_that_is_stated(model, alpha):
    table = customers()
    layout = laid_out(table, model, words=False)
    frame = frame_of(table, layout)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=N)
    program = make_program(layout, model=model, alpha=alpha)
    program.set_params(model__tol=1e-10)
    program.fit(frame.X, frame.y, model__sample_weight=weights)
    Z, head = program[:-1].transform(frame.X), program[-1]
    y = np.where(frame.y == "yes", 1.0, -1.0) if layout.labels else frame.y
    penalty = np.full(Z.shape[1] + 1, alpha)
    if model in ("poisson", "gamma"):
        penalty *= weights.sum() / 1000  # alpha is per 1,000 rows
    if model != "svm":
        penalty[-1] = 0.0

    def objective(theta):
        loss, slope = losses(model, Z @ theta[:-1] + theta[-1], y)
        gradient = np.append((weights * slope) @ Z, weights @ slope) + penalty * theta
        return weights @ loss + penalty @ theta**2 / 2, gradient

    options = {"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5000, "maxfun": 20000}
    start = np.zeros(Z.shape[1] + 1)
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x

    def distance(head):
        theta = np.append(np.ravel(head.coef_), head.intercept_)
        return np.abs(Z @ (theta - best)[:-1] + (theta - best)[-1]).max()

    assert distance(head) < 1e-5
    other = make_program(layout, model=model, alpha=1.1 * alpha).set_params(model__tol=1e-10)
    other.fit(frame.X, frame.y, model__sample_weight=weights)
    assert distance(other[-1]) > 2e-5  # a penalty that is off by a tenth is noticed


def test_three_classes_minimise_the_softmax_objective():
    table = customers()
    layout = laid_out(table, "logistic", "level", words=False)
    frame = frame_of(table, layout)
    program = make_program(layout, alpha=2.0).set_params(model__tol=1e-10).fit(frame.X, frame.y)
    Z, head = program[:-1].transform(frame.X), program[-1]
    hot = (frame.y[:, None] == head.classes_).astype(float)

    def objective(flat):
        theta = flat.reshape(3, -1)
        scores = Z @ theta[:, :-1].T + theta[:, -1]
        loss = np.log(np.exp(scores).sum(axis=1)) - (hot * scores).sum(axis=1)
        return loss.sum() + 2.0 / 2 * (theta[:, :-1] ** 2).sum()

    found = objective(np.hstack([head.coef_, head.intercept_[:, None]]).ravel())
    best = minimize(objective, np.zeros(3 * (Z.shape[1] + 1)), method="L-BFGS-B", tol=1e-12)
    assert found <= best.fun + 1e-4
    assert found >= best.fun - 1e-2


@pytest.mark.parametrize("model", sorted(TARGETS))
@pytest.mark.parametrize("alpha", [1.0, "auto"])
@pytest.mark.parametrize("words", [False, True])
def test_programs_can_be_forgotten_from_and_saved(model, alpha, words):
    table = customers()
    layout = laid_out(table, model, words=words)
    assert ("note" in layout.kinds) is words
    frame = frame_of(table, layout)
    model_of = Forgetful(make_program(layout, model=model, alpha=alpha), random_state=0)
    model_of.fit(frame.X, frame.y, subjects=frame.subjects)
    certificate = model_of.unlearn(subject="p3")
    assert sorted(certificate.rows) == [6, 7]
    model_of.add(frame.X[:2], frame.y[:2], subjects=["new", "new"])
    saved = skops.dumps(model_of.released_)
    assert set(skops.get_untrusted_types(data=saved)) <= set(SKOPS_TYPES)
    loaded = skops.loads(saved, trusted=list(SKOPS_TYPES))
    assert np.array_equal(loaded.predict(frame.X), model_of.predict(frame.X))


@pytest.mark.parametrize("model", sorted(TARGETS))
@pytest.mark.parametrize("subject", [False, True])
def test_programs_are_accepted_and_name_their_folds(model, subject):
    layout = laid_out(customers(), model, subject=subject)
    for alpha in (1.0, "auto"):
        program = make_program(layout, model=model, alpha=alpha)
        check_program(program)
        clone(program)
        assert hasattr(program[-1], "cv") is (alpha == "auto")
    folds = type(program[-1].cv).__name__
    assert folds == ("GroupKFold" if subject else "KFold")


def test_ridge_without_people_or_words_leaves_out_one_row_at_a_time():
    layout = laid_out(customers(), "ridge", words=False, subject=False)
    assert make_program(layout, alpha="auto")[-1].cv is None


def test_auto_takes_the_alpha_with_the_best_score_over_people():
    table = customers(n=60)
    layout = laid_out(table, "ridge", words=False)
    frame = frame_of(table, layout)
    model = Forgetful(make_program(layout, alpha="auto"), random_state=0)
    model.fit(frame.X, frame.y, subjects=frame.subjects)
    chosen = model.released_[-1].alpha_
    Z = make_program(layout)[:-1].fit_transform(frame.X)
    people = np.unique(np.array(frame.subjects), return_inverse=True)[1]
    errors = {}
    for alpha in ALPHAS:
        parts = []
        for train, test in GroupKFold(3).split(Z, groups=people):
            mean, target = Z[train].mean(axis=0), frame.y[train].mean()
            centred = Z[train] - mean
            gram = centred.T @ centred + alpha * np.eye(Z.shape[1])
            coef = np.linalg.solve(gram, centred.T @ (frame.y[train] - target))
            parts.append(np.mean((frame.y[test] - target - (Z[test] - mean) @ coef) ** 2))
        errors[alpha] = np.mean(parts)
    assert errors[chosen] <= min(errors.values()) * 1.02
    assert errors[chosen] < max(errors.values())


def small_program(column, kinds_of=None, **options):
    table = pa.table({"y": [0.5, 1.5] * (len(column) // 2), "x": column})
    layout = lay_out(table, target="y", **options)
    assert layout.kinds == {"x": kinds_of}
    return make_program(layout), frame_of(table, layout), layout


def test_rare_levels_late_levels_and_missing_ones():
    column = ["a"] * 12 + ["b"] * 10 + ["c"] * 9 + ["d"] * 1 + [None] * 10
    program, frame, layout = small_program(column, "category")
    program.fit(frame.X, frame.y)
    levels = program[0].named_transformers_["categories"]
    assert list(levels.infrequent_categories_[0]) == ["c", "d"]
    later = pa.table({"x": ["a", "b", "c", "d", "never seen", None, ""]})
    Z = program[:-1].transform(frame_of(later, layout, targets=False).X)
    assert Z.shape == (7, 4)
    assert (Z.sum(axis=1) == 1).all()
    assert np.array_equal(Z[2], Z[3])
    assert np.array_equal(Z[2], Z[4])
    assert np.array_equal(Z[5], Z[6])
    assert len(np.unique(Z, axis=0)) == 4


def test_at_most_fifty_levels():
    column = [f"l{i % 70}" for i in range(1400)]
    program, frame, _ = small_program(column, "category")
    assert program[:-1].fit_transform(frame.X).shape == (1400, 50)


def test_numbers_are_imputed_flagged_and_scaled():
    column = [1.0, None, 3.0, 10.0, None, 3.0]
    program, frame, _ = small_program(pa.array(column), "number")
    Z = program[:-1].fit_transform(frame.X)
    filled = np.array([1.0, 3.0, 3.0, 10.0, 3.0, 3.0])
    flags = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    expected = [(v - v.mean()) / v.std() for v in (filled, flags)]
    assert np.allclose(Z, np.column_stack(expected), rtol=1e-14)


@pytest.mark.parametrize("column", [[5.0] * 8, pa.nulls(8, pa.float64())])
def test_constant_and_missing_numbers_become_zeros(column):
    program, frame, _ = small_program(column, "number")
    program.fit(frame.X, frame.y)
    assert not program[:-1].transform(frame.X).any()
    assert program.predict(frame.X) == pytest.approx(np.full(8, frame.y.mean()))


@pytest.mark.parametrize("texts", [[None] * 4, ["", " ", "?!", "..."], ["a", "I", "a", "I"]])
def test_words_without_words_do_not_break(texts):
    program, frame, _ = small_program(pa.array(texts, pa.string()), "words", words=["x"])
    program.fit(frame.X, frame.y)
    assert np.isfinite(program.predict(frame.X)).all()


def test_the_vocabulary_is_bounded():
    texts = [" ".join(f"w{i * 40 + k}" for k in range(40)) for i in range(60)]
    program, frame, _ = small_program(texts, "words")
    assert program[:-1].fit_transform(frame.X).shape == (60, 1000)


def test_what_a_forgotten_person_wrote_is_gone_from_the_program():
    table = customers()
    notes = table["note"].to_pylist()
    notes[6] = notes[7] = "xylophone for rent here"
    table = table.set_column(table.column_names.index("note"), "note", pa.array(notes))
    layout = laid_out(table, "ridge")
    frame = frame_of(table, layout)
    model = Forgetful(make_program(layout), random_state=0)
    model.fit(frame.X, frame.y, subjects=frame.subjects)
    words = "words 1"
    assert "xylophone" in model.released_[0].named_transformers_[words].vocabulary_
    model.unlearn(subject="p3")
    assert "xylophone" not in model.released_[0].named_transformers_[words].vocabulary_


def test_models_that_do_not_fit_the_layout_are_refused():
    table = customers()
    classes, numbers = laid_out(table, "logistic"), laid_out(table, "ridge")
    for layout, model in (
        (classes, "ridge"),
        (numbers, "svm"),
        (laid_out(table, "gamma"), "ridge"),
    ):
        with pytest.raises(WrongInput, match="model must be one for the target"):
            make_program(layout, model=model)
    for alpha in (0.0, -1.0, "best", float("nan")):
        with pytest.raises(WrongInput, match="alpha must be"):
            make_program(classes, alpha=alpha)
    with pytest.raises(WrongInput, match="model must be one of"):
        make_program(classes, model="forest")


def test_the_description_names_every_column_once():
    layout = laid_out(customers(), "poisson")
    lines = describe_program(layout, "poisson", "auto")
    assert lines[0] == "target: visits (a number)"
    assert lines[1] == "subject: who"
    assert lines[-1].startswith("model: poisson (counts")
    assert lines[-1].endswith("0.1, 1, 10, 100, 1000 per 1,000 rows")
    named = {line.split(": ")[0]: line.split(": ")[1].split(" (")[0] for line in lines[2:-1]}
    assert named["numbers"] == "age, constant, empty"
    assert named["booleans"] == "active"
    assert named["dates"] == "joined"
    assert named["categories"] == "plan, blank"
    assert named["words"] == "note"
    left_out = [line for line in lines if line.startswith("left out: ")]
    assert len(left_out) == len(layout.left_out) == 3
    plain = describe_program(laid_out(customers(), "logistic"), "auto", 0.5)
    assert plain[-1] == "model: logistic (classes, by logistic regression), penalty alpha = 0.5"
    assert set(MODELS) == {"auto", *TARGETS}
