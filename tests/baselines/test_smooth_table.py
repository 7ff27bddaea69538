"""`compare` with losses that are not squares."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import normalize

import pilu
from pilu.baselines import METHODS, UniformLangevin
from pilu.plotting import plot_comparison

# The table.


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = normalize((X - X.mean(axis=0)) / X.std(axis=0))
    names = np.array(["malignant", "benign"])[y]
    return X[:300], names[:300], X[300:], names[300:]


def test_the_table(cancer):
    X, y, X_test, y_test = cancer
    model = pilu.LangevinLogistic(n_steps=100, random_state=0)
    test = {"X_test": X_test, "y_test": y_test}
    frame = pilu.compare(X, y, [3, [7, 8, 9]], epsilon=1.0, model=model, **test)
    assert len(frame) == 2 * len(METHODS)
    assert frame["expected_error"].isna().all()
    assert set(frame["metric"]) == {"error rate"}
    refused = frame["guarantee"].str.startswith("refused")
    assert set(frame["method"][refused]) == {
        "pilu (exact)",
        "leave-one-out",
        "leave-one-out (T steps)",
        "projective residual",
    }
    open_ = frame["method"][~refused & ~frame["certified"]]
    assert set(open_) == {"Newton step (T steps, measured)"}
    answered = frame[~refused]
    assert not answered["test_error"].isna().any()
    claims = answered.set_index(["method", "n_rows"])["epsilon"]
    assert (claims[["redraw", "retraining"]] == 0).all()
    at_one = ["refit", "pilu (theorem)", "uniform Langevin", "Descent-to-Delete", "Newton step"]
    assert ((claims[at_one] > 0.999) & (claims[at_one] <= 1)).all()
    fitted = pilu.LangevinLogistic(n_steps=100, random_state=0).fit(X, y)
    line = answered[answered["method"] == "pilu (theorem)"].iloc[0]
    assert line["learned_error"] == pytest.approx(np.mean(fitted.predict(X_test) != y_test))
    fitted.unlearn(3, epsilon=1.0)
    claims = plot_comparison(frame).axes[1].get_yticklabels()
    assert claims[list(METHODS).index("pilu-exact")].get_text() == "refused"
    assert line["test_error"] == pytest.approx(np.mean(fitted.predict(X_test) != y_test))


def test_errors_of_many_classes_and_of_targets(digits, diabetes):
    X, y = digits
    model = pilu.LangevinLogistic(n_steps=30, random_state=0)
    test = {"X_test": X[300:500], "y_test": y[300:500]}
    frame = pilu.compare(
        X[:300], y[:300], 3, epsilon=1.0, model=model, methods=["retraining"], **test
    )
    fitted = pilu.LangevinLogistic(n_steps=30, random_state=0).fit(X[:300], y[:300])
    wrong = np.mean(fitted.predict(X[300:500]) != y[300:500])
    assert frame["learned_error"].iloc[0] == pytest.approx(wrong)
    X, y = diabetes[0], diabetes[1] / 77
    model = pilu.LangevinHuber(n_steps=30, random_state=0)
    test = {"X_test": X[300:], "y_test": y[300:]}
    methods = ["retraining", "newton", "descent-to-delete"]
    frame = pilu.compare(X[:300], y[:300], 3, epsilon=1.0, model=model, methods=methods, **test)
    fitted = pilu.LangevinHuber(n_steps=30, random_state=0).fit(X[:300], y[:300])
    rmse = np.sqrt(np.mean((fitted.predict(X[300:]) - y[300:]) ** 2))
    assert frame["learned_error"].iloc[0] == pytest.approx(rmse)
    assert frame["metric"].iloc[0] == "rmse"
    assert list(frame["certified"]) == [True, False, True]


def test_unknown_labels_are_wrong(cancer):
    X, y, X_test, y_test = cancer
    strange = y_test.astype(object)
    strange[:] = "neither"
    model = pilu.LangevinLogistic(n_steps=20, random_state=0)
    frame = pilu.compare(
        X, y, 3, epsilon=1.0, model=model, methods="redraw", X_test=X_test, y_test=strange
    )
    assert frame["test_error"].iloc[0] == 1.0


def test_one_methods_auxiliary_runs_are_not_anothers(cancer):
    X, y, *_ = cancer
    laws = []

    class Witness:
        name = "witness"

        def fit(self, task):
            assert "law" not in task.__dict__
            laws.append(task.law)
            assert "simulated" not in task.law.__dict__
            learned = UniformLangevin().fit(task)
            assert "simulated" in task.law.__dict__
            return learned

    class Second(Witness):
        name = "second witness"

    model = pilu.LangevinLogistic(n_steps=20, random_state=0)
    pilu.compare(X, y, 3, epsilon=1.0, model=model, methods=[Witness(), Second()])
    assert laws[0] is not laws[1]
