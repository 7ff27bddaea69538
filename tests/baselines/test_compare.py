"""`compare`: what is in the table, what is refused, and the picture of it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

import pilu
from pilu.baselines import (
    DPGD,
    METHODS,
    Answer,
    DescentToDelete,
    Langevin,
    LeaveOneOut,
    NewtonStep,
    Redraw,
    UniformLangevin,
)
from pilu.plotting import plot_comparison

NEEDED = [
    "method",
    "request",
    "epsilon",
    "delta",
    "certified",
    "test_error",
    "seconds",
    "rows_touched",
]


@pytest.fixture(scope="module")
def tables(diabetes, digits):
    found = {}
    for name, (X, y), model in (
        ("diabetes", diabetes, pilu.LangevinRidge(alpha=0.1, n_steps=200, random_state=0)),
        ("digits", digits, pilu.LangevinRidgeClassifier(alpha=1.0, n_steps=200, random_state=0)),
    ):
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
        frame = pilu.compare(
            X, y, [3, [7, 8, 9]], epsilon=1.0, X_test=X_test, y_test=y_test, model=model
        )
        found[name] = frame, (X, y, X_test, y_test)
    return found


@pytest.mark.parametrize("name", ["diabetes", "digits"])
def test_one_line_a_method_and_request(tables, name):
    frame, _ = tables[name]
    assert list(frame.columns[: len(NEEDED)]) == NEEDED
    assert len(frame) == 2 * len(METHODS)
    pairs = set(zip(frame["method"], frame["request"], strict=True))
    assert pairs == {(m.name, rows) for m in METHODS.values() for rows in ((3,), (7, 8, 9))}
    assert frame["certified"].dtype == bool
    assert not frame["test_error"].isna().any()
    assert (frame["seconds"] > 0).all()
    assert (frame["rows_touched"] > 0).all()
    assert set(frame["metric"]) == {"rmse" if name == "diabetes" else "error rate"}


@pytest.mark.parametrize("name", ["diabetes", "digits"])
def test_claims(tables, name):
    frame, (X, *_) = tables[name]
    claims = frame.set_index(["method", "n_rows"])
    exactly = ["redraw", "retraining", "leave-one-out", "Newton step"]
    assert (claims.loc[exactly, "epsilon"] == 0).all()
    at_one = ["pilu (exact)", "pilu (theorem)", "uniform Langevin", "Descent-to-Delete"]
    assert (claims.loc[at_one, "epsilon"] <= 1).all()
    assert (claims.loc[at_one, "epsilon"] > 0.999).all()
    assert (claims.loc[at_one, "delta"] == 1 / len(X)).all()
    before = ["DP-GD", "DP-GD (Renyi)", "uniform Langevin (Renyi)"]  # calibrated for single rows
    assert (claims.loc[[(m, 1) for m in before], "epsilon"] <= 1).all()
    assert (claims.loc[[(m, 3) for m in before], "epsilon"] > 1).all()
    open_ = {"leave-one-out (T steps)", "Newton step (T steps, measured)", "projective residual"}
    assert set(frame["method"][~frame["certified"]]) == open_


@pytest.mark.parametrize("name", ["diabetes", "digits"])
def test_errors_are_those_of_the_parameters(tables, name):
    """Measured again from parameters that the same seed draws again, and from many seeds."""
    frame, (X, y, X_test, y_test) = tables[name]
    labels = name == "digits"
    estimator = pilu.LangevinRidgeClassifier if labels else pilu.LangevinRidge
    settings = {"alpha": 1.0 if labels else 0.1, "n_steps": 200}

    def error(model):
        guess = model.predict(X_test)
        return np.mean(guess != y_test) if labels else np.sqrt(np.mean((guess - y_test) ** 2))

    line = frame[frame["method"] == "pilu (exact)"].iloc[0]
    model = estimator(**settings, random_state=0).fit(X, y)
    assert line["learned_error"] == pytest.approx(error(model), abs=1e-12)
    model.unlearn(3, epsilon=1.0)
    assert line["test_error"] == pytest.approx(error(model), abs=1e-12)
    seen = []
    for seed in range(60):
        model = estimator(**settings, random_state=seed).fit(X, y)
        model.unlearn(3, epsilon=1.0)
        seen.append(error(model) if labels else error(model) ** 2)
    expected = line["expected_error"] if labels else line["expected_error"] ** 2
    assert abs(np.mean(seen) - expected) < 4 * np.std(seen) / np.sqrt(60)


def test_without_test_data_there_are_no_errors(diabetes):
    frame = pilu.compare(*diabetes, 5, epsilon=1.0, methods=["redraw"])
    assert frame["test_error"].isna().all()
    assert frame["expected_error"].isna().all()
    assert frame["request"].iloc[0] == (5,)
    assert frame["metric"].iloc[0] == "rmse"


def test_labels_are_distinguished_from_targets(digits):
    X, y = digits
    letters = np.array(list("abcdefghij"))[y]
    for labels in (y, letters):
        frame = pilu.compare(X, labels, 5, epsilon=1.0, methods="redraw", X_test=X, y_test=labels)
        assert frame["metric"].iloc[0] == "error rate"
        assert frame["test_error"].iloc[0] < 0.2
    frame = pilu.compare(X, y.astype(float), 5, epsilon=1.0, methods="redraw")
    assert frame["metric"].iloc[0] == "rmse"


def test_methods_as_objects(diabetes):
    frame = pilu.compare(
        *diabetes, [5], epsilon=1.0, methods=[DPGD(30.0), Langevin(pilu.Theorem(group="joint"))]
    )
    assert list(frame["method"]) == ["DP-GD (C = 30)", "pilu (theorem, group = joint)"]
    assert frame["clipping"].iloc[0] == 30.0


def test_options_are_in_the_names():
    methods = [
        DPGD(2.0, "renyi"),
        NewtonStep(0.5),
        NewtonStep(0.5, converged=False),
        DescentToDelete(3.0),
        UniformLangevin("renyi", radius=3.0),
        Langevin(pilu.Theorem()),
    ]
    assert [method.name for method in methods] == [
        "DP-GD (Renyi, C = 2)",
        "Newton step (perturbation 0.5)",
        "Newton step (T steps, bound, perturbation 0.5)",
        "Descent-to-Delete (radius 3)",
        "uniform Langevin (Renyi, radius 3)",
        "pilu (theorem)",
    ]


def test_what_users_hand_over(diabetes, digits):
    X, y = diabetes
    table, column = pd.DataFrame(X), pd.Series(y)
    rows = (row for row in ([3], (4, 5), np.array([6, 7]), np.int64(8)))
    frame = pilu.compare(table, column, rows, epsilon=1.0, methods="redraw")
    assert list(frame["request"]) == [(3,), (4, 5), (6, 7), (8,)]
    assert len(pilu.compare(X, y, np.array(3), epsilon=1.0, methods="redraw")) == 1
    outputs = np.column_stack([y, -y]).astype(np.float32)
    frame = pilu.compare(X, outputs, 3, epsilon=1.0, methods=["redraw", "pilu-exact"])
    assert frame["certified"].all()
    X, y = digits
    with pytest.warns(UserWarning, match="column-vector"):
        frame = pilu.compare(X, y[:, None], 3, epsilon=1.0, methods=["pilu-exact", "newton"])
    assert frame["certified"].all()


def test_the_last_rows_of_a_class_are_refused(digits):
    X, y = digits
    with pytest.raises(ValueError, match="at least one row of every class, got the last"):
        pilu.compare(X, y, [np.flatnonzero(y == 3)], epsilon=1.0)


@pytest.mark.parametrize(
    ("theta", "noise", "epsilon", "message"),
    [
        (np.nan, 1.0, 1.0, "left the range of doubles.*other units"),
        (1.0, np.inf, 1.0, "left the range of doubles"),
        (1.0, 1.0, np.inf, "an infinite epsilon certifies nothing"),
    ],
)
def test_what_no_answer_may_certify(theta, noise, epsilon, message):
    with pytest.raises(ArithmeticError, match=message):
        Answer(np.full((2, 1), theta), epsilon, 0.1, True, "", 1, noise=noise)


def test_a_refusal_is_a_line(diabetes):
    X, y = diabetes
    X = np.hstack([X, X])  # dependent features
    model = pilu.LangevinRidge(alpha=0.0)
    methods = ["leave-one-out", "descent-to-delete", "redraw"]
    frame = pilu.compare(X, y, [1, [2, 3]], epsilon=1.0, methods=methods, model=model)
    assert len(frame) == 6
    refused = frame[frame["method"] != "redraw"]
    assert refused["guarantee"].str.startswith("refused: alpha must be").all()
    assert refused[["epsilon", "test_error"]].isna().all(axis=None)
    assert not refused["certified"].any()
    assert frame[frame["method"] == "redraw"]["certified"].all()


def test_one_methods_work_does_not_shorten_anothers(diabetes):
    """Each method gets a new task: nothing that one has computed is there for the next."""
    tasks = []

    class Witness:
        name = "witness"

        def fit(self, task):
            tasks.append(task)
            assert "closed_forms" not in task.__dict__
            assert "law" not in task.__dict__
            return LeaveOneOut().fit(task)

    class Second(Witness):
        name = "second witness"

    pilu.compare(*diabetes, [5], epsilon=1.0, methods=[Witness(), Second()])
    assert tasks[0] is not tasks[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"requests": []}, "requests must be at least one"),
        ({"requests": [442]}, r"rows must be in \[0, 441\]"),
        ({"requests": [[3, 3]]}, "rows must be distinct"),
        ({"requests": ["3"]}, "rows must be integers"),
        ({"methods": ["sgd"]}, "methods must be among 'refit'"),
        ({"methods": []}, "methods must be at least one"),
        ({"methods": ["redraw", Redraw()]}, "with distinct names, got methods=.*redraw"),
        ({"methods": [NewtonStep]}, "methods must be among"),
        ({"methods": [DPGD(2.0), DPGD(2.0)]}, "with distinct names"),
        ({"X_test": np.zeros((2, 10))}, "must be given together, got only X_test"),
        ({"y_test": np.zeros(2)}, "must be given together, got only y_test"),
        ({"X_test": np.zeros((2, 9)), "y_test": np.zeros(2)}, "X_test, y_test.*9 features"),
        ({"X_test": np.zeros((2, 10)), "y_test": np.zeros(3)}, "the same number of rows"),
        ({"model": pilu.LangevinRidge(batch_size=5)}, "batch_size must be None in a comparison"),
        ({"model": pilu.LangevinRidge(alpha=-1.0)}, "alpha must be"),
        ({"model": Redraw()}, "model must be a LangevinRidge or"),
        ({"n_unlearn_steps": 0}, "n_unlearn_steps must be"),
    ],
)
def test_bad_input(diabetes, changes, message):
    arguments = {"requests": [3], "epsilon": 1.0} | changes
    with pytest.raises(ValueError, match=message):
        pilu.compare(*diabetes, **arguments)


def test_rows_with_gaps_are_refused(diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match="NaN"):
        pilu.compare(np.where(X > 0.1, np.nan, X), y, [3], epsilon=1.0)


def test_an_answer_to_a_row_that_is_not_there(make_task):
    learned = LeaveOneOut().fit(make_task())
    assert isinstance(learned.answer(29), Answer)
    with pytest.raises(ValueError, match=r"rows must be in \[0, 29\]"):
        learned.answer(30)


def test_the_picture_shows_every_method(tables, tmp_path):
    frame, _ = tables["digits"]
    figure = plot_comparison(frame, title="digits")
    errors, times = figure.axes
    assert [label.get_text() for label in errors.get_yticklabels()] == [
        method.name for method in METHODS.values()
    ]
    claims = [label.get_text() for label in times.get_yticklabels()]
    assert claims[list(METHODS).index("redraw")] == "epsilon 0"
    assert claims[-1] == "no certificate"
    assert claims[-2].endswith("not certified")
    points = np.concatenate([c.get_offsets() for c in errors.collections if len(c.get_offsets())])
    for error in frame["test_error"]:
        assert np.isclose(points[:, 0], error).any()
    figure.savefig(tmp_path / "compare.png")
    assert (tmp_path / "compare.png").stat().st_size > 10_000


def test_the_picture_of_refusals(diabetes):
    model = pilu.LangevinRidge(alpha=0.0)
    X, y = diabetes
    frame = pilu.compare(
        np.hstack([X, X]), y, 1, epsilon=1.0, methods=["redraw", "newton"], model=model
    )
    claims = [label.get_text() for label in plot_comparison(frame).axes[1].get_yticklabels()]
    assert claims == ["epsilon 0", "refused"]
    plot_comparison(frame[frame["method"] != "redraw"])


def test_the_table_survives_a_file(tables, tmp_path):
    frame, _ = tables["diabetes"]
    frame.to_csv(tmp_path / "frame.csv", index=False)
    again = pd.read_csv(tmp_path / "frame.csv")
    np.testing.assert_allclose(again["test_error"], frame["test_error"])
    legend = plot_comparison(again).axes[1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["row 3", "3 rows together"]
