"""What a fitted model holds, and what it does not: noise-free solutions, Hessians, forgotten rows.

Two searches: a walk over all that can be reached from the model, and over the bytes of its pickle.
"""

import gc
import pickle
import types
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pilu import Forgetful
from refit.standard import Noise, Standard

NUMBER, NAME, CITY = 4321.98765, "Ada Distinct", "Atlantis-on-Sea"
SHARED = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, types.CodeType)


def reachable(root):
    """All objects that can be reached from one, by the collector and by arrays' bases."""
    seen, waiting = {}, [root]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, SHARED):
            continue
        seen[id(value)] = value
        waiting.extend(gc.get_referents(value))
        if isinstance(value, dict):  # the collector does not look at keys that are text
            waiting.extend(value)
        if isinstance(value, pd.DataFrame):
            waiting.extend(value[c].to_numpy() for c in value)
        if isinstance(value, np.ndarray) and value.base is not None:
            waiting.append(value.base)
        if isinstance(value, np.ndarray) and value.dtype == object:
            waiting.extend(value.ravel().tolist())
    return list(seen.values())


def arrays(root):
    found = []
    for value in reachable(root):
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
            found.append(np.asarray(value, dtype=float))
        elif isinstance(value, float):
            found.append(np.array([value]))
    return found


def holds_all(root, numbers, tolerance):
    """Whether every one of some numbers, each non-zero, is somewhere among what is reachable."""
    held = np.concatenate([a.ravel() for a in arrays(root)])
    held = held[np.isfinite(held)]
    return all(np.abs(held - v).min() <= tolerance for v in np.ravel(numbers))


def texts(root):
    return [v for v in reachable(root) if isinstance(v, str | bytes)]


def table(n=120):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    X["city"] = pd.Categorical(rng.choice(["Bern", "Oslo"], size=n).astype(object))
    X["city"] = X["city"].cat.add_categories(CITY)
    X.loc[5, ["a", "city"]] = [NUMBER, CITY]
    y = np.where(X["b"] + rng.normal(size=n) > 0, "yes", "no").astype(object)
    names = [f"person {i}" for i in range(n)]
    names[5] = NAME
    return X, y, names


def pipeline():
    columns = make_column_transformer(
        (StandardScaler(), list("abcd")), (OneHotEncoder(sparse_output=False), ["city"])
    )
    return make_pipeline(columns, LogisticRegression())


@pytest.fixture
def forgotten(monkeypatch):
    """A model after a request, and its noise-free solution in standard coordinates."""
    noise = Noise(1).instead_of_pilus(monkeypatch)
    X, y, names = table()
    X.index = names
    model = Forgetful(pipeline()).fit(X, y, subjects=names)
    assert NAME in texts(model)
    assert holds_all(model, [NUMBER], 0.0)
    certificate = model.unlearn(subject=NAME)
    standard = Standard(model.released_, X.drop(NAME))
    theta = standard.theta() - certificate.noise * noise.last
    return model, certificate, standard, theta


def test_no_object_holds_the_noise_free_solution(forgotten):
    model, certificate, standard, theta = forgotten
    near = certificate.noise / 50
    assert holds_all(model, model.coef_, 0.0)  # the walk finds what is there
    released = standard.theta()
    assert not holds_all([model, certificate], theta[:4], near)
    own = theta[:4] / standard.scale[:4, None]
    assert not holds_all([model, certificate], own, near / standard.scale[:4].max())
    assert np.abs(released - theta).max() > near


def test_no_object_holds_a_hessian_or_a_square_of_parameters(forgotten):
    model, *_ = forgotten
    P = model.coef_.size + 1
    shapes = {a.shape for a in arrays(model)}
    assert not {(P, P), (P - 1, P - 1), (P * P,)} & shapes


def test_no_object_holds_the_forgotten_person(forgotten):
    model, certificate, _, _ = forgotten
    for root in (model, certificate):
        assert not holds_all(root, [NUMBER], 1e-6)
        for text in (NAME, CITY):
            assert not any(text in t for t in texts(root) if isinstance(t, str))
    assert len(reachable(model)) > 200


def test_no_pickle_holds_them_either(forgotten):
    model, certificate, standard, theta = forgotten
    for protocol in range(2, 6):
        raw = pickle.dumps((model, certificate), protocol=protocol)
        for text in (NAME, CITY):
            assert text.encode() not in raw
        numbers = [NUMBER, *theta.ravel(), *(theta[:-1] / standard.scale[:, None]).ravel()]
        for number in numbers:
            for order in "<>":
                assert np.array(number, dtype=f"{order}f8").tobytes() not in raw
                # Rounding of this test's own arithmetic: the first five bytes suffice.
                if order == "<":
                    assert np.array(number, dtype="<f8").tobytes()[3:] not in raw


def in_this_process(wanted, tolerance):
    """Arrays, referred to by any object of the collector, that begin with the wanted numbers."""
    found = []
    for value in gc.get_objects():
        for part in gc.get_referents(value):
            if isinstance(part, np.ndarray) and part.dtype == float and part.size < 1000:
                flat = part.ravel()[: len(wanted)]
                if len(flat) == len(wanted) and np.abs(flat - wanted).max() <= tolerance:
                    found.append(part)
    return found


KEPT = []


@pytest.mark.filterwarnings("ignore")  # libraries warn when their deprecated names are looked at
def test_no_process_wide_object_holds_the_noise_free_solution(forgotten):
    """Caches and module variables, too, in standard coordinates and in the head's own."""
    _, certificate, standard, theta = forgotten
    scale = standard.scale[:4]
    negative = -theta[:4, 0]  # this test's own arrays are not to be found
    theta[:], near = 0.0, certificate.noise / 50
    gc.collect()
    assert not in_this_process(-negative, near)
    assert not in_this_process(-negative / scale, near / scale.max())
    KEPT.append(-negative)
    assert in_this_process(-negative, near)  # the search finds what is there
    KEPT.clear()


def test_a_search_keeps_nothing_of_the_person():
    X, y, names = table()
    search = GridSearchCV(pipeline(), {"logisticregression__C": [0.1, 1.0]}, cv=3)
    search.estimator[0].transformers[1][1].set_params(handle_unknown="ignore")
    model = Forgetful(search).fit(X, y, subjects=names)
    model.unlearn(subject=NAME)
    assert not holds_all(model, [NUMBER], 1e-6)
    assert not any(t in (NAME, CITY) for t in texts(model))


def test_after_a_correction_the_wrong_row_is_gone():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    X[4, 1] = NUMBER
    model = Forgetful(Ridge()).fit(X, y)
    assert holds_all(model, [NUMBER], 0.0)
    model.correct([[0.5, 0.25]], [1.0], rows=[4])
    assert not holds_all(model, [NUMBER], 1e-6)


def test_the_start_is_the_last_release(monkeypatch):
    """Given the same state and other noise before, nothing but the last release is looked at."""
    noise = Noise(0).instead_of_pilus(monkeypatch)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    loose = {"epsilon": 20.0, "score_noise": 0.5}
    model = Forgetful(LogisticRegression(), **loose).fit(X, y)
    for row in range(5):
        model.unlearn(rows=[row])
    noise.silent = True
    last = model.fitted_.released
    model.unlearn(rows=[5])
    other = Forgetful(LogisticRegression(), **loose).fit(X[5:], y[5:])
    head = clone(last)
    head.__dict__.update(last.__dict__)
    other.fitted_ = replace(other.fitted_, released=head)
    other.unlearn(rows=[0])
    assert np.array_equal(model.coef_, other.coef_)
    assert np.array_equal(model.intercept_, other.intercept_)


@pytest.mark.parametrize("n", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_releases_in_a_row_do_not_add_up(n, monkeypatch):
    """The noise-free answer after n releases is where that of a cold run is."""
    noise = Noise(0).instead_of_pilus(monkeypatch)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n + 30, 3)), rng.integers(2, size=n + 30)
    loose = {"epsilon": 20.0, "score_noise": 0.1}
    model = Forgetful(LogisticRegression(), **loose).fit(X, y)
    worst = 0.0
    for row in range(n):
        noise.silent = row % 10 == 9
        state = model.fitted_
        certificate = model.unlearn(rows=[row])
        if noise.silent:
            cold = Forgetful(LogisticRegression(), **loose).fit(X[row + 1 :], y[row + 1 :])
            standard = Standard(cold.released_, X[row + 1 :])
            gap = np.linalg.norm(standard.theta(model.released_) - standard.theta())
            worst = max(worst, gap / (2 * certificate.evidence["radius"]))
            noise.silent = False  # the history goes on from a release, not from an answer
            model.fitted_ = state
            model.unlearn(rows=[row])
    assert worst <= 1
