"""Random additions, corrections and deletions end where a fit from scratch ends."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import pilu
from pilu import Forgetful, HuberRidge

START = 60


def frame(rng, n):
    X = pd.DataFrame(rng.normal(size=(n, 3)) * [1.0, 50.0, 0.01], columns=list("abc"))
    X["b"] = X["b"].where(rng.random(n) > 0.1)
    X["city"] = rng.choice(["Bern", "Oslo", "Rome", "Wien"], p=[0.4, 0.4, 0.18, 0.02], size=n)
    score = X["a"] + X["b"].fillna(0) / 50 + (X["city"] == "Rome") + rng.normal(size=n)
    return X, score.to_numpy()


def numbers(rng, n):
    X = rng.normal(size=(n, 6)) @ np.diag([3.0, 2.0, 1.0, 0.5, 0.2, 0.1])
    return X, X[:, 0] - X[:, 2] + rng.normal(size=n)


def sparse(rng, n):
    X = np.where(rng.random((n, 8)) < 0.3, rng.gamma(2.0, size=(n, 8)), 0.0)
    return sp.csr_array(X), X[:, 0] - X[:, 1] + rng.normal(size=n)


def columns():
    both = make_pipeline(SimpleImputer(), StandardScaler())
    encoder = OneHotEncoder(handle_unknown="ignore")
    return make_column_transformer((both, list("abc")), (encoder, ["city"]))


def two(score):
    return np.where(score > 0, "yes", "no")


def three(score):
    return np.digitize(score, [-1.0, 1.0])


def counts(score):
    return np.floor(np.exp(np.clip(score, -2, 2)))


def values(score):
    return score


EXACT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
PROGRAMS = {
    "ridge, columns": (frame, lambda: make_pipeline(columns(), Ridge()), values, {}),
    "ridge by leave-one-out": (
        numbers,
        lambda: make_pipeline(
            StandardScaler(), PCA(4, random_state=0), RidgeCV(np.logspace(-2, 2, 5))
        ),
        values,
        {},
    ),
    "logistic, columns": (
        frame,
        lambda: make_pipeline(columns(), LogisticRegression()),
        two,
        EXACT,
    ),
    "softmax, PCA": (
        numbers,
        lambda: make_pipeline(PCA(3, random_state=0), LogisticRegression(C=0.5)),
        three,
        EXACT,
    ),
    "squared hinge, sparse": (
        sparse,
        lambda: make_pipeline(MaxAbsScaler(), LinearSVC(C=0.1)),
        two,
        {"dual": False, "tol": 1e-12, "max_iter": 100_000},
    ),
    "poisson, sparse": (
        sparse,
        lambda: make_pipeline(MaxAbsScaler(), PoissonRegressor(alpha=0.1)),
        counts,
        EXACT,
    ),
    "huber": (numbers, lambda: make_pipeline(StandardScaler(), HuberRidge()), values, {}),
}


def picked(X, rows):
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def named(X, name):
    return X.set_axis([name]) if hasattr(X, "iloc") else X


def states(step):
    """Fitted arrays of a transformer and its parts, by path."""
    found = {}
    for name, value in vars(step).items():
        if isinstance(value, np.ndarray):
            found[name] = value
        elif name in ("transformers_", "steps", "categories_"):
            for i, item in enumerate(value):
                part = item[1] if isinstance(item, tuple) else item
                if isinstance(part, np.ndarray):
                    found[f"{name}{i}"] = part
                elif hasattr(part, "get_params"):
                    found |= {f"{name}{i}.{k}": v for k, v in states(part).items()}
    return found


def scores(model, X):
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    predicted = model.predict(X)
    return np.log(predicted) if isinstance(model[-1], PoissonRegressor) else predicted


def lived_through(name, steps, seed=0):
    make, program, target, exact = PROGRAMS[name]
    rng = np.random.default_rng(seed)
    X, score = make(rng, START + 2 * steps)
    y = target(score)
    weights = rng.integers(0, 4, size=len(y)).astype(float)
    weights[START:] += 1.0  # a row without weight cannot be added alone, see test_faults.py
    first = np.arange(START)
    model = Forgetful(program()).fit(picked(X, first), y[first], sample_weight=weights[first])
    held = {int(i): int(i) for i in first}  # row number: place in the source
    fresh = START
    for _ in range(steps):
        what = rng.integers(4)
        if what == 0:
            new = named(picked(X, [fresh]), f"row {fresh}")
            certificate = model.add(new, y[[fresh]], sample_weight=weights[[fresh]])
            held[int(model.remaining_[-1])] = fresh
            assert certificate.rows == ()
        elif what == 1:
            number = int(rng.choice(list(held)))
            certificate = model.correct(
                picked(X, [fresh]), y[[fresh]], rows=[number], sample_weight=weights[[fresh]]
            )
            held[number] = fresh
        elif what == 2 and len(held) > START // 2:
            gone = rng.choice(list(held), size=int(rng.integers(1, 4)), replace=False).tolist()
            certificate = model.unlearn(rows=gone)
            assert certificate.rows == tuple(sorted(gone))
            for number in gone:
                del held[number]
        else:  # to disk and back, the table in another order
            loaded = pickle.loads(pickle.dumps(model))
            places = [held[k] for k in sorted(held)]
            if model.fitted_.book.ids is None:
                mixed = rng.permutation(places)
                model = loaded.attach(picked(X, mixed), y[mixed], sample_weight=weights[mixed])
            continue
        fresh += 1
        assert model.remaining_.tolist() == sorted(held)
        assert certificate.evidence["n_rows"] == len(held)
    assert pilu.verify(certificate)["epsilon_recomputed"]
    rows = np.array([held[k] for k in sorted(held)])
    return model, program(), exact, picked(X, rows), y[rows], weights[rows]


def check(name, steps):
    model, program, exact, X, y, weights = lived_through(name, steps)
    expected = clone(program)
    expected[-1].set_params(**exact)
    expected.fit(X, y, **{f"{expected.steps[-1][0]}__sample_weight": weights})
    for step, theirs in zip(model.released_[:-1], expected[:-1], strict=True):
        ours = states(step)
        for path, value in states(theirs).items():
            assert np.array_equal(ours[path], value), path
        assert ours.keys() == states(theirs).keys()
    if hasattr(expected[-1], "alpha_"):
        assert model.released_[-1].alpha_ == expected[-1].alpha_
    if hasattr(expected, "classes_"):
        assert np.array_equal(model.classes_, expected.classes_)
    difference = scores(model.released_, X) - scores(expected, X)
    unit = np.std(y) if y.dtype.kind == "f" and not name.startswith("poisson") else 1.0
    assert 0 < np.abs(difference).max() < 0.02 * unit  # the noise of a score is 0.001


@pytest.mark.parametrize("steps", [20, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_changes_end_where_a_fit_from_scratch_ends(name, steps):
    check(name, steps)
