"""`Forgetful` as a user meets it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

import pilu
from pilu import AlreadyForgotten, CertificateMismatch, Forgetful, LangevinRidge
from pilu.exceptions import PartOfPersonWarning, RowsChanged, RowsNotAttached, WrongInput


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "amount": rng.gamma(2.0, 50.0, size=n),
            "age": rng.integers(18, 80, size=n).astype(float),
            "city": pd.Categorical(rng.choice(["Bern", "Rome", "Oslo"], size=n)),
        }
    )
    odds = X["amount"] / 50 - X["age"] / 40 + (X["city"] == "Rome")
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "stays", "leaves")
    return X, y, [f"p{i // 2}" for i in range(n)]


def pipeline():
    columns = make_column_transformer(
        (StandardScaler(), ["amount", "age"]), (OneHotEncoder(sparse_output=False), ["city"])
    )
    return make_pipeline(columns, LogisticRegression())


def fitted(**options):
    X, y, people = frame()
    return Forgetful(pipeline(), **options).fit(X, y, subjects=people), X, y, people


def retrained(X, y):
    head = LogisticRegression(solver="newton-cholesky", tol=1e-12)
    return clone(pipeline()).set_params(logisticregression=head).fit(X, y)


def assert_like(model, expected, X):
    difference = model.decision_function(X) - expected.decision_function(X)
    assert np.abs(difference).max() < 0.01  # the noise of a score is 0.001
    assert np.abs(difference).max() > 0


def test_a_person_is_forgotten_with_the_scaler_and_the_encoder():
    model, X, y, people = fitted()
    certificate = model.unlearn(subject="p7")
    gone = np.array(people) == "p7"
    assert certificate.rows == tuple(np.flatnonzero(gone))
    expected = retrained(X[~gone], y[~gone])
    assert_like(model, expected, X)
    scaler, theirs = (
        m[0].named_transformers_["standardscaler"] for m in (model.released_, expected)
    )
    assert np.array_equal(scaler.mean_, theirs.mean_)
    assert certificate.method == "refit"
    assert certificate.scope["covers_preprocessing_fitted_with_the_row"]
    assert not certificate.scope["covers_earlier_releases_and_copies"]
    assert (certificate.total_epsilon, certificate.conditional_on) == (certificate.epsilon, ())
    assert pilu.verify(certificate)["epsilon_recomputed"]
    with pytest.raises(AlreadyForgotten):
        model.unlearn(subject="p7")


def test_the_last_row_of_a_category_takes_its_name_with_it():
    X, y, _ = frame()
    X["city"] = X["city"].cat.add_categories("Atlantis")
    X.loc[5, "city"] = "Atlantis"
    model = Forgetful(pipeline()).fit(X, y)
    assert "Atlantis" in str(model.released_[0].get_feature_names_out())
    model.unlearn(rows=[5])
    assert b"Atlantis" not in pickle.dumps(model)


def test_rows_come_and_go_and_end_where_a_fit_from_scratch_ends():
    rng = np.random.default_rng(3)
    X, y, _ = frame(400)
    start = 200
    model = Forgetful(pipeline()).fit(X[:start], y[:start])
    held = {i: (X.iloc[i], y[i]) for i in range(start)}
    for step in range(40):
        if step % 3 == 0:
            i = start + step
            new = X.iloc[i : i + 1].set_axis([f"new{i}"])
            model.add(new, y[i : i + 1])
            held[int(model.remaining_[-1])] = (X.iloc[i], y[i])
        elif step % 3 == 1:
            number = int(rng.choice(list(held)))
            row = X.iloc[[int(rng.integers(400))]]
            model.correct(row, [held[number][1]], rows=[number])
            held[number] = (row.iloc[0], held[number][1])
        else:
            gone = int(rng.choice(list(held)))
            assert model.unlearn(rows=gone).rows == (gone,)
            del held[gone]
    assert model.remaining_.tolist() == sorted(held)
    rows = pd.DataFrame([held[i][0] for i in sorted(held)]).astype({"amount": float, "age": float})
    assert_like(model, retrained(rows, np.array([held[i][1] for i in sorted(held)])), X)


def test_a_pickle_has_no_rows_and_takes_a_table_without_the_person():
    model, X, y, people = fitted()
    loaded = pickle.loads(pickle.dumps(model))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(RowsNotAttached):
        loaded.unlearn(subject="p7")
    left = np.array(people) != "p7"
    loaded.attach(X[left], y[left])
    with pytest.raises(WrongInput, match="missing from the attached table"):
        loaded.unlearn(subject="p8")
    loaded.unlearn(subject="p7")
    assert_like(loaded, retrained(X[left], y[left]), X)


def test_changed_and_unknown_rows_are_named():
    model, X, y, _ = fitted()
    loaded = pickle.loads(pickle.dumps(model))
    changed = X.copy()
    changed.loc[17, "amount"] += 1
    with pytest.raises(RowsChanged, match="17"):
        loaded.attach(changed, y)
    with pytest.raises(RowsChanged, match="5000"):
        loaded.attach(X.rename(index={3: 5000}), y)


def test_later_changes_of_the_callers_arrays_do_not_reach_the_model():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    model, before = Forgetful(Ridge()).fit(X, y), X.copy()
    X[:] = 0
    model.unlearn(rows=[0])
    expected = Ridge().fit(before[1:], y[1:])
    assert np.abs(model.coef_ - expected.coef_).max() < 0.02


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (SVC(), "SVC is not a head"),
        (LogisticRegression(l1_ratio=1.0, solver="saga"), "only the L2 penalty"),
        (LinearSVC(loss="hinge"), "has a kink"),
        (make_pipeline(PCA(2), Ridge()), "random_state"),
        (LogisticRegression(warm_start=True), "warm_start"),
        (
            make_pipeline(FrozenEstimator(StandardScaler()), Ridge()),
            "Put the unfitted .*keep_a_scaler",
        ),
        (
            make_pipeline(ColumnTransformer([("f", PCA(2), [0, 1])]), Ridge()),
            "step 'columntransformer', transformers 'f': random_state=None",
        ),
        (
            make_pipeline(FunctionTransformer(np.random.default_rng().normal), Ridge()),
            "bound|state",
        ),
        (make_pipeline(StandardScaler(), Ridge(), memory="here"), "memory"),
    ],
)
def test_what_cannot_be_certified_is_refused(estimator, reason):
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(WrongInput, match=reason):
        Forgetful(estimator).fit(X, y)


class Moody(StandardScaler):
    """A scaler that depends on how often it was fitted."""

    fits = 0

    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, y)
        Moody.fits += 1
        self.mean_ = self.mean_ + Moody.fits
        return self


def test_a_transformer_whose_fits_differ_is_refused():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(WrongInput, match="two different results"):
        Forgetful(make_pipeline(Moody(), Ridge())).fit(X, y)


def test_a_search_inside_is_run_again_on_the_rows_that_are_left():
    X, y, people = frame()
    grid = {"logisticregression__C": [0.001, 0.1, 10.0]}
    search = GridSearchCV(pipeline(), grid, cv=GroupKFold(4), scoring="neg_log_loss")
    model = Forgetful(search).fit(X, y, subjects=people)
    model.unlearn(subjects=["p1", "p2"])
    left = ~np.isin(people, ["p1", "p2"])
    groups = pd.factorize(np.array(people)[left])[0]
    theirs = clone(search).fit(X[left], y[left], groups=groups)
    assert theirs.best_params_["logisticregression__C"] == model.released_[-1].C
    with pytest.raises(WrongInput, match="subjects"):
        Forgetful(search).fit(X, y)


@pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")
def test_an_altered_certificate_is_noticed():
    model, *_ = fitted()
    certificate = model.unlearn(rows=[1])
    for name, value in (
        ("radius", 0.5),
        ("rows_sha256", "0" * 64),
        ("transformers_sha256", "1" * 64),
    ):
        changed = {
            **certificate.evidence,
            name: certificate.evidence[name] / 2 if name == "radius" else value,
        }
        with pytest.raises(CertificateMismatch):
            certificate.with_evidence(changed)


def test_an_adversarial_start_moves_the_release_by_less_than_the_radius():
    """The released parameters of two seeds differ by the noise; those of two starts do not."""
    X, y, _ = frame()
    cold = Forgetful(pipeline(), random_state=0).fit(X[1:], y[1:])
    warm = Forgetful(pipeline(), random_state=0).fit(X, y)
    warm.fitted_.released[-1].coef_[:] = 50.0  # as far as a start can be
    warm.unlearn(rows=[0])
    again = Forgetful(pipeline(), random_state=0).fit(X, y)
    certificate = again.unlearn(rows=[0])
    gap = np.abs(warm.decision_function(X) - again.decision_function(X)).max()
    assert gap <= 10 * certificate.mu * certificate.evidence["score_noise"]
    assert np.abs(cold.decision_function(X) - again.decision_function(X)).max() < 0.01


def test_texts_in_a_list_are_forgotten_with_their_words():
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(50)]
    texts = [" ".join(rng.choice(words, size=8)) for _ in range(120)]
    texts[7] += " zanzibar"
    y = rng.integers(2, size=120)
    pipe = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model = Forgetful(pipe).fit(texts, y)
    assert "zanzibar" in model.released_[0].vocabulary_
    model.unlearn(rows=[7])
    assert b"zanzibar" not in pickle.dumps(model)
    left = [t for i, t in enumerate(texts) if i != 7]
    strict = make_pipeline(TfidfVectorizer(), LogisticRegression(tol=1e-12, max_iter=10_000))
    assert_like(model, strict.fit(left, np.delete(y, 7)), texts)
    model.add(["word1 word2 novel"], [1])
    assert "novel" in model.released_[0].vocabulary_


def test_a_frame_in_place_of_texts_is_refused():
    texts = pd.DataFrame({"text": ["good bed", "bad bed", "good view", "bad view"]})
    model = Forgetful(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    with pytest.raises(WrongInput, match=r"one for each of the 4 rows, got 1\. .* one column"):
        model.fit(texts, [1, 0, 1, 0])
    assert model.fit(texts["text"], [1, 0, 1, 0]).score(texts["text"], [1, 0, 1, 0]) == 1


def test_a_pipeline_that_was_fitted_outside_leaves_no_parameters_in_a_pickle():
    X, y, _ = frame()
    outside = pipeline().fit(X, y)
    model = Forgetful(outside).fit(X, y)
    model.unlearn(rows=[0])
    coefficients = outside[-1].coef_.tobytes()
    assert coefficients in pickle.dumps(outside)
    assert coefficients not in pickle.dumps(model)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.0, np.inf] * 20, "infinity"),
        ([0.0, np.nan] * 20, "NaN"),
    ],
)
def test_targets_that_are_not_finite_are_refused(y, message):
    X = np.random.default_rng(0).normal(size=(40, 2))
    for head in (Ridge(), LogisticRegression(), PoissonRegressor()):
        with pytest.raises(ValueError, match=message):
            Forgetful(head).fit(X, y)


def test_a_class_without_weight_is_refused():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.arange(40) % 2
    with pytest.raises(WrongInput, match="class 0 without weight"):
        Forgetful(LogisticRegression()).fit(X, y, sample_weight=y)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (7, "^row 7 is 1 of the 3 rows of its person; the others stay. To forget the person, pass"),
        ([6, 7], "^rows 6, 7 are 2 of the 3 rows of their person"),
        ([7, 0, 1, 2, 3], "^2 people are forgotten in part. For instance, row 3 is 1 of the 3"),
    ],
)
@pytest.mark.filterwarnings("ignore::pilu.exceptions.TotalBudgetWarning")
@pytest.mark.parametrize("kind", [lambda: Forgetful(Ridge()), lambda: LangevinRidge(n_steps=9)])
def test_rows_that_are_a_part_of_a_person_are_warned_of(kind, rows, words):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    model = kind().fit(X, y, subjects=np.arange(30) // 3)
    with pytest.warns(PartOfPersonWarning, match=words) as caught:
        model.unlearn(rows)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():  # nothing is said of whole people
        warnings.simplefilter("error", PartOfPersonWarning)
        model.unlearn([9, 10, 11])
        model.unlearn(subject=2)


def test_a_warning_of_a_part_that_is_made_an_error_changes_nothing():
    model, *_ = fitted()
    before = pickle.dumps(model)
    with pytest.raises(PartOfPersonWarning):
        model.unlearn(rows=[0])
    assert pickle.dumps(model) == before
