"""docs/deploy.md: saved models predict the same, and no file has rows."""

import io
import pickle
import re
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier
from sklearn.compose import make_column_transformer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import pilu.refit.program
from blocks import blocks_of
from pilu import Forgetful, HuberRidge
from pilu.refit import heads
from pilu.refit.evidence import hash_of_release

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
EXTRA = 'install it with: pip install "pilu[deploy]"'

# MLflow warns about the types of its own classes while it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")

N, GONE = 211, 17  # primes: no other count of a model is 211 or 210
NUMBERS = ["amount", "age"]


def needs(*modules):
    for module in modules:
        pytest.importorskip(module, reason=f"{module} is not installed; {EXTRA}")


# Every head, in every format


def numbers(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    return X, X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.normal(size=N)


SCORES = numbers()[1]
TARGETS = {
    "binary": (SCORES > 0).astype(int),
    "classes": np.array(["low", "middle", "high"])[np.digitize(SCORES, [-0.7, 0.7])],
    "number": SCORES,
    "numbers": np.column_stack([SCORES, SCORES**2]),
    "positive": np.exp(0.3 * SCORES),
}
CV = {"scoring": "neg_log_loss", "use_legacy_attributes": False, "l1_ratios": (0.0,)}
CASES = [
    (Ridge(), "number"),
    (Ridge(fit_intercept=False), "number"),
    (Ridge(), "numbers"),
    (Ridge(fit_intercept=False), "numbers"),
    (RidgeCV(), "number"),
    (RidgeClassifier(), "binary"),
    (RidgeClassifier(fit_intercept=False), "classes"),
    (RidgeClassifierCV(), "classes"),
    (LogisticRegression(), "binary"),
    (LogisticRegression(fit_intercept=False), "binary"),
    (LogisticRegression(), "classes"),
    (LogisticRegressionCV(Cs=3, **CV), "binary"),
    (LinearSVC(), "binary"),
    (LinearSVC(fit_intercept=False), "classes"),
    (PoissonRegressor(), "positive"),
    (PoissonRegressor(fit_intercept=False), "positive"),
    (GammaRegressor(), "positive"),
    (TweedieRegressor(power=1.5), "positive"),
    (HuberRidge(), "number"),
    (HuberRidge(fit_intercept=False), "number"),
]
every_head = pytest.mark.parametrize(
    ("head", "target"), CASES, ids=[f"{head}-{target}" for head, target in CASES]
)
# What skl2onnx has in 64 bits; the page says so.
DOUBLES = (Ridge, RidgeCV, LogisticRegression, PoissonRegressor, GammaRegressor, TweedieRegressor)


def forgotten(estimator, X, y):
    model = Forgetful(estimator, random_state=0).fit(X, y)
    return model, model.unlearn(rows=[GONE])


def test_no_head_is_left_out():
    assert {type(head) for head, _ in CASES} == set(heads.HEADS)


@every_head
def test_pickle_and_joblib(head, target, tmp_path):
    X, _ = numbers()
    model, certificate = forgotten(head, X, TARGETS[target])
    joblib.dump(model.released_, tmp_path / "model.joblib")
    for loaded in (
        pickle.loads(pickle.dumps(model.released_)),
        joblib.load(tmp_path / "model.joblib"),
    ):
        assert np.array_equal(loaded.predict(X), model.predict(X))
        assert hash_of_release(loaded) == certificate.parameters_sha256


@every_head
def test_skops(head, target):
    needs("skops")
    import skops.io

    X, _ = numbers()
    model, certificate = forgotten(head, X, TARGETS[target])
    saved = skops.io.dumps(model.released_)
    unknown = skops.io.get_untrusted_types(data=saved)
    assert unknown == _listed_to_trust(type(head).__name__)
    loaded = skops.io.loads(saved, trusted=unknown)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert hash_of_release(loaded) == certificate.parameters_sha256


def _listed_to_trust(name):
    """The types that the page's table names for a head."""
    return re.findall(rf"^\| `{name}` \| `([\w.]+)`", PAGE, re.M)


@pytest.mark.one_in(2)
@every_head
@pytest.mark.parametrize("bits", [32, 64])
def test_onnx(head, target, bits):
    needs("skl2onnx", "onnxruntime")
    if isinstance(head, HuberRidge):
        (block,) = (b for b in blocks_of("docs/deploy.md") if "import HuberRidge" in b.text)
        exec(block.text, {})
    X, _ = numbers()
    model, _ = forgotten(head, X, TARGETS[target])
    X = X.astype(f"f{bits // 8}")
    if bits == 64 and not isinstance(head, (*DOUBLES, HuberRidge)):
        with pytest.raises(NotImplementedError, match="not supported with double"):
            onnx_outputs(model.released_, {"X": X})
        return
    predicted, *others = onnx_outputs(model.released_, {"X": X})
    exactness = 1e-5 if bits == 32 else 1e-12
    expected = model.predict(X)
    if is_classifier(head):
        assert np.array_equal(predicted, expected)
    else:
        predicted = predicted.reshape(expected.shape)
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=exactness)
    if hasattr(head, "predict_proba"):
        np.testing.assert_allclose(others[0], model.predict_proba(X), rtol=0, atol=exactness)


def onnx_file(released, columns):
    from skl2onnx import to_onnx
    from skl2onnx.common import data_types

    kinds = {
        "float32": data_types.FloatTensorType,
        "float64": data_types.DoubleTensorType,
        "object": data_types.StringTensorType,
    }
    types = [(k, kinds[str(v.dtype)]([None, v.shape[1]])) for k, v in columns.items()]
    options = {"zipmap": False} if hasattr(released, "predict_proba") else None
    return to_onnx(released, initial_types=types, options=options).SerializeToString()


def onnx_outputs(released, columns):
    import onnxruntime

    # skl2onnx declares two columns of scores for a binary RidgeClassifier and writes one.
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        onnx_file(released, columns), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, columns)


@every_head
def test_released_parameters_are_numpy_values(head, target):
    X, _ = numbers()
    model, _ = forgotten(head, X, TARGETS[target])
    theirs = head.fit(X, TARGETS[target])
    for name in ("coef_", "intercept_"):
        ours = getattr(model.released_, name)
        assert np.shape(ours) == np.shape(getattr(theirs, name))
    assert model.released_.n_features_in_ == 4
    if not is_classifier(head):  # the converter calls intercept_.reshape
        assert isinstance(model.released_.intercept_, np.ndarray | np.float64)


# Pipelines with text, and what is in their files


def frame():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "amount": rng.gamma(2.0, 50.0, size=N),
            "age": rng.uniform(18, 80, size=N),
            "city": rng.choice(["Bern", "Oslo", "Rome"], size=N),
        }
    )
    score = X["amount"] / 50 - X["age"] / 40 + (X["city"] == "Rome") + rng.normal(size=N)
    X.loc[40, "age"] = np.nan
    X.loc[GONE, "city"] = "Atlantis"
    return X, score.to_numpy()


def columns():
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
        (OneHotEncoder(handle_unknown="ignore"), ["city"]),
    )


def softmax():
    X, score = frame()
    y = np.array(["leaves", "returns", "stays"])[np.digitize(score, [0.5, 1.8])].astype("U16")
    y[GONE] = "vanishes"
    return make_pipeline(columns(), LogisticRegression()), X, y


def ridge():
    return make_pipeline(columns(), Ridge()), *frame()


def search():
    pipeline, X, y = ridge()
    return GridSearchCV(pipeline, {"ridge__alpha": [0.1, 1.0]}, cv=3), X, y


def as_columns(X):
    return {c: X[[c]].to_numpy(object if c == "city" else np.float32) for c in X}


def as_joblib(released, folder):
    joblib.dump(released, folder / "model.joblib")
    return joblib.load(folder / "model.joblib").predict


def as_skops(released, folder):
    needs("skops")
    import skops.io

    skops.io.dump(released, folder / "model.skops")
    return skops.io.load(folder / "model.skops", trusted=["numpy.dtype"]).predict


def as_onnx(released, folder):
    needs("skl2onnx", "onnxruntime")
    (folder / "model.onnx").write_bytes(onnx_file(released, as_columns(frame()[0])))
    return lambda X: onnx_outputs(released, as_columns(X))[0].reshape(len(X))


def as_mlflow(released, folder):
    needs("mlflow", "skops")
    import mlflow.sklearn

    options = {"serialization_format": "skops", "skops_trusted_types": ["numpy.dtype"]}
    requirements = ["scikit-learn", "pandas", "skops"]
    target = folder / "model.mlflow"
    mlflow.sklearn.save_model(released, target, pip_requirements=requirements, **options)
    return mlflow.sklearn.load_model(str(target)).predict


every_format = pytest.mark.parametrize("save", [as_joblib, as_skops, as_onnx, as_mlflow])
every_pipeline = pytest.mark.parametrize("make", [softmax, ridge, search])


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


@pytest.fixture
def minimisers(monkeypatch):
    """Parameters before noise, in standard coordinates and in the head's own."""
    seen, solve, release = [], pilu.refit.program.solve, pilu.refit.program.release

    def keep(objective, start, radius):
        seen.append(solve(objective, start, radius))
        return seen[-1]

    def keep_out(prepared, start, source):
        done = release(prepared, start, source)
        seen.extend(prepared.coordinates.out(seen[-1]))
        return done

    monkeypatch.setattr(pilu.refit.program, "solve", keep)
    monkeypatch.setattr("pilu.estimators.refitted.release", keep_out)
    return seen


def saved_bytes(folder):
    """All bytes of all files, archives unpacked."""
    parts = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        raw = path.read_bytes()
        parts.append(raw)
        if zipfile.is_zipfile(io.BytesIO(raw)):
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                parts += [archive.read(name) for name in archive.namelist()]
    return b"\0".join(parts)


def found(values, raw):
    """Those of the values that occur among the bytes, as a number of 64 or 32 bits or as text."""
    values = np.unique(np.ravel(values))
    values = values[np.isfinite(values) & (values != 0)]
    forms = (lambda v: v.tobytes(), lambda v: np.float32(v).tobytes(), lambda v: str(v).encode())
    return [v for v in values if any(form(v) in raw for form in forms)]


def found_text(text, raw):
    return any(text.encode(kind) in raw for kind in ("utf-8", "utf-16-le", "utf-32-le"))


@every_format
@every_pipeline
def test_files_predict_the_same_and_hold_no_rows(make, save, tmp_path, minimisers):
    estimator, X, y = make()
    model, _ = forgotten(estimator, X, y)
    predict = save(model.released_, tmp_path)
    left = X.drop(index=GONE)
    expected = model.predict(left)
    if expected.dtype.kind == "f":
        atol = 1e-5 if save is as_onnx else 0
        np.testing.assert_allclose(predict(left), expected, rtol=0, atol=atol)
    else:
        assert np.array_equal(predict(left), expected)
    raw = saved_bytes(tmp_path)
    coef = model.coef_
    assert len(found(coef, raw)) == coef.size  # the search finds what is there
    assert len(minimisers) == 6
    for values in minimisers:
        assert not found(values, raw)
    transformed = model.released_[0].transform(X)
    assert not found(X[NUMBERS].to_numpy(), raw)
    assert not found(transformed[:, :2], raw)
    if make is not softmax:
        assert not found(y, raw)
    assert found_text("Rome", raw)
    assert not found_text("Atlantis", raw)
    assert not found_text("vanishes", raw)


@every_format
def test_a_file_from_before_the_deletion_has_the_persons_text(save, tmp_path):
    estimator, X, y = softmax()
    save(Forgetful(estimator).fit(X, y).released_, tmp_path)
    raw = saved_bytes(tmp_path)
    assert found_text("Atlantis", raw)
    assert found_text("vanishes", raw)


def reachable(value, seen):
    """Every object that an estimator is made of."""
    if id(value) in seen or isinstance(value, type):
        return
    seen[id(value)] = value
    yield value
    parts = list(getattr(value, "__dict__", {}).values())
    if isinstance(value, dict):
        parts += [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts += list(value)
    for part in parts:
        yield from reachable(part, seen)


def sizes(released):
    """All lengths and dimensions of what an estimator is made of."""
    found = set()
    for part in reachable(released, {}):
        found |= set(np.shape(part)) if hasattr(part, "shape") else set()
        found |= {len(part)} if isinstance(part, list | tuple | dict | set | str | bytes) else set()
    return found


@every_head
def test_no_attribute_of_a_head_has_rows(head, target):
    X, _ = numbers()
    model, _ = forgotten(make_pipeline(StandardScaler(), head), X, TARGETS[target])
    assert not sizes(model.released_) & {N, N - 1}
    assert N in sizes(model.fitted_)  # the search finds what is there


@every_pipeline
def test_no_attribute_of_a_pipeline_has_rows(make):
    model, _ = forgotten(*make())
    assert not sizes(model.released_) & {N, N - 1}


def test_a_transformer_that_keeps_rows_keeps_none_that_was_forgotten(tmp_path):
    X, y = numbers()
    model, _ = forgotten(make_pipeline(KNNImputer(), Ridge()), X, y)
    as_joblib(model.released_, tmp_path)
    raw = saved_bytes(tmp_path)
    assert len(found(X[GONE + 1], raw)) == 4
    assert not found(X[GONE], raw)
