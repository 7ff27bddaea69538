"""Bad input: an error that names the argument, the range and the value, and an unchanged model."""

import pickle

import numpy as np
import pandas as pd
import pytest

from pilu import LangevinHuber, LangevinRidge, LangevinRidgeClassifier

# All rows of the model below are of one person.
pytestmark = pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(15, 3)), RNG.normal(size=15)


@pytest.fixture
def model():
    ids = [f"id{i}" for i in range(15)]
    return LangevinRidge(n_steps=20, noise=0.1).fit(X, Y, sample_ids=ids, subjects=[0] * 15)


def with_value(array, value):
    changed = array.copy()
    changed.flat[4] = value
    return changed


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((with_value(X, np.nan), Y), "NaN"),
        ((with_value(X, np.inf), Y), "infinity"),
        ((X, with_value(Y, np.nan)), "NaN"),
        ((X, with_value(Y, -np.inf)), "infinity"),
        ((X[:9], Y), "inconsistent numbers of samples"),
        ((X[0], Y), "Expected 2D array"),
        ((X[:1], Y[:1]), r"X must have at least 2 rows, got n_samples=1\."),
        ((X[:0], Y[:0]), "0 sample"),
        ((X[:, :0], Y), "0 feature"),
        ((X.astype(complex), Y), "Complex data"),
        ((X * 1e60, Y), r"X must have its largest magnitude in .* Choose other units"),
        ((X, Y * 1e-60), "y must have its largest magnitude"),
        ((np.full((15, 3), "a"), Y), "not compatible with arrays of bytes/strings"),
    ],
)
def test_bad_data(data, words, model):
    before = pickle.dumps(model)
    for estimator in (LangevinRidge(n_steps=5), model):
        with pytest.raises(ValueError, match=words):
            estimator.fit(*data)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": -1.0}, "alpha must be a finite number >= 0, got alpha=-1.0."),
        ({"alpha": np.nan}, "alpha must be"),
        ({"alpha": "small"}, "alpha must be"),
        ({"n_steps": 0}, "n_steps must be an integer >= 1, got n_steps=0."),
        ({"n_steps": 2.0}, "n_steps must be"),
        ({"n_steps": True}, "n_steps must be"),
        ({"n_steps": 10**9}, "n_steps must be at most 1000000, got n_steps=1000000000. Every"),
        ({"n_steps": 10**12, "batch_size": 5}, "n_steps must be at most 1000000"),
        ({"n_steps": 10**18}, "n_steps must be at most 1000000"),
        ({"n_steps": 10**400}, "n_steps must be at most 1000000"),
        ({"noise": 0}, "point masses"),
        ({"noise": 0.0}, "Without learning noise"),
        ({"noise": -0.1}, "noise must be a finite number > 0"),
        ({"noise": np.inf}, "noise must be"),
        ({"noise": np.ones(2)}, "noise must be"),
        ({"noise": 1e-60}, r"noise must have its largest magnitude in \[1e-50, 1e\+50\]"),
        ({"step_size": np.ones(2)}, "step_size must be"),
        ({"step_size": 10.0}, "step_size must be < 2/L = .* for the steps to contract"),
        ({"step_size": 0.0}, "step_size must be"),
        ({"step_size": "large"}, "step_size must be"),
        (
            {"batch_size": 0},
            "batch_size must be an integer >= 1, got batch_size=0. Use batch_size=None",
        ),
        ({"batch_size": -5}, "batch_size must be an integer >= 1"),
        ({"batch_size": 2.5}, "batch_size must be an integer >= 1"),
        ({"batch_size": True}, "batch_size must be an integer >= 1"),
        (
            {"batch_size": 10**6},
            r"batch_size must be at most the number of rows, \d+, got batch_size=1000000\. "
            "Use batch_size=None for all rows at every step",
        ),
        ({"fit_intercept": "yes"}, "fit_intercept must be True or False"),
        ({"solver": "newton"}, "solver must be one of 'spectral', 'gradient'"),
        ({"random_state": -1}, "random_state must be an integer >= 0"),
        ({"random_state": np.random.default_rng(0)}, "random_state must be"),
    ],
)
def test_bad_parameters(options, words, model):
    with pytest.raises(ValueError, match=words):
        LangevinRidge(**options).fit(X, Y)
    before, parameters = model.coef_, model.get_params()
    with pytest.raises(ValueError, match=words):
        model.set_params(**options).fit(X, Y)
    model.set_params(**parameters)
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.parametrize("steps", [10**9, 10**12, 10**18])
def test_too_many_steps(steps, model):
    with pytest.raises(ValueError, match="n_steps must be at most 1000000"):
        LangevinHuber(n_steps=steps).fit(X, Y)
    words = f"n_unlearn_steps must be at most 1000000, got n_unlearn_steps={steps}"
    for call in (
        lambda: model.unlearn(3, n_unlearn_steps=steps),
        lambda: model.quote(n_unlearn_steps=steps),
        lambda: model.certified_epsilon(3, noise=1.0, n_unlearn_steps=steps),
        lambda: model.plan(3, validation=(X, Y), tolerated_loss=1.0, n_unlearn_steps=[5, steps]),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_no_curvature():
    with pytest.raises(ValueError, match="alpha must be > 0 if X is all zero"):
        LangevinRidge(alpha=0.0, fit_intercept=False).fit(np.zeros((5, 2)), np.ones(5))
    LangevinRidge(alpha=0.1, fit_intercept=False).fit(np.zeros((5, 2)), np.ones(5))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([3, 4, 3], "rows must be distinct, got row 3 more than once"),
        (15, r"rows must be in \[0, 14\], fit-time positions, got rows=15"),
        (-1, r"rows must be in \[0, 14\]"),
        ([0, 99], "got rows=99"),
        (True, "rows must be integers, got rows=True. .*flatnonzero"),
        ([False, True], "flatnonzero"),
        (np.arange(15) > 3, "flatnonzero"),
        (1.0, r"rows must be integers, got rows=1.0\.$"),
        ([2.5], "rows must be integers"),
        ("3", "rows must be integers, got rows='3'. Pass names as subject=, subjects= or ids="),
        ([], "rows must be at least one row number"),
        (range(15), "rows must leave at least one row, got all 15"),
    ],
)
def test_bad_rows(rows, words, model):
    before = pickle.dumps(model)
    for call in (
        lambda: model.unlearn(rows),
        lambda: model.unlearn(rows, method="redraw"),
        lambda: model.quote([rows]),
        lambda: model.certified_epsilon(rows, noise=1.0),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0.0}, "epsilon must be a finite number > 0, got epsilon=0.0."),
        ({"epsilon": -1}, "epsilon must be"),
        ({"epsilon": np.inf}, "epsilon must be"),
        ({"epsilon": np.nan}, "epsilon must be"),
        ({"epsilon": "1"}, "epsilon must be"),
        ({"delta": 0.0}, r"delta must be in the open interval \(0, 1\), got delta=0.0."),
        ({"delta": 1.0}, "delta must be"),
        ({"delta": -0.5}, "delta must be"),
        ({"delta": np.nan}, "delta must be"),
        ({"delta": 5e-324}, "delta must be at least 1e-300"),
        ({"n_unlearn_steps": 0}, "n_unlearn_steps must be an integer >= 1"),
        ({"n_unlearn_steps": 1.5}, "n_unlearn_steps must be"),
        ({"accountant": None}, "accountant must be"),
    ],
)
def test_bad_targets(options, words, model):
    before = pickle.dumps(model)
    for call in (model.unlearn, model.quote):
        with pytest.raises(ValueError, match=words):
            call([3], **options)
    assert pickle.dumps(model) == before


def test_bad_noise_and_method(model):
    with pytest.raises(ValueError, match="noise must be a finite number >= 0"):
        model.certified_epsilon(3, noise=-1.0)
    with pytest.raises(ValueError, match="method must be one of 'langevin', 'redraw'"):
        model.unlearn(3, method="retrain")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ids": "nobody"}, "ids must be among those given to fit, got unknown 'nobody'"),
        ({"ids": ["id3", "id3"]}, "more than once"),
        ({"ids": [["id3"]]}, "ids must be hashable"),
        ({"ids": []}, "at least one"),
        ({"subject": 9}, "subject must be among those given to fit, got unknown 9. Check the sp"),
        ({"subject": "0"}, "unknown '0'. It is of type str, those of the fit are of type int"),
        ({"subject": 0}, "leave at least one row, got all 15"),
        (
            {"subjects": [0, 9]},
            "^subjects must be among those given to fit, got unknown 9. Check the",
        ),
        ({"subjects": [0]}, "leave at least one row, got all 15"),
        ({"subjects": [0, np.int64(0)]}, "subjects must be distinct"),
        ({"subjects": []}, "subjects must be at least one name"),
        ({"subjects": "anna"}, "subjects must be a list of names, .* Use subject=... for one"),
        ({"subjects": 0}, "subjects must be a list of names"),
        ({"subjects": [[0]]}, "subjects must be hashable"),
        ({"subject": [0, 1]}, r"hashable, got .* Use subjects=\[...\] for several people"),
        ({"subject": np.nan}, "subject must be among those given to fit, got unknown nan"),
        ({}, "exactly one of rows, ids, subject and subjects must be given, got none of them"),
        ({"subject": 0, "subjects": [0]}, "got subject and subjects"),
        ({"rows": 1, "ids": "id1"}, "got rows and ids"),
    ],
)
def test_bad_names(options, words, model):
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=words):
        model.unlearn(**options)
    assert pickle.dumps(model) == before


def test_requests_in_two_ways(model):
    with pytest.raises(ValueError, match="exactly one of requests, subject and subjects"):
        model.quote([3], subject=0)
    with pytest.raises(ValueError, match="got subject and subjects"):
        model.quote(subject=0, subjects=[0])
    for options in ({}, {"subject": 0, "subjects": [0]}):
        with pytest.raises(ValueError, match="exactly one of request, subject and subjects"):
            model.plan(**options, validation=(X, Y), tolerated_loss=1.0)


@pytest.mark.parametrize("missing", [None, np.nan, float("nan"), pd.NaT, pd.NA])
@pytest.mark.parametrize("kind", ["subjects", "sample_ids"])
def test_nobody_among_the_names(kind, missing):
    names = [f"id{i}" for i in range(15)]
    names[4] = missing
    words = rf"{kind} must name every row, got .* for row 4\. .* names of their own"
    for given in (names, pd.Series(names, dtype=object)):
        with pytest.raises(ValueError, match=words):
            LangevinRidge(n_steps=5).fit(X, Y, **{kind: given})


def test_an_index_with_a_missing_name_names_no_rows():
    frame = pd.DataFrame(X, index=[np.nan, *range(14)], columns=["a", "b", "c"])
    fitted = LangevinRidge(n_steps=5).fit(frame, Y)
    with pytest.raises(ValueError, match="Pass sample_ids"):
        fitted.unlearn(ids=3)


def test_names_that_were_never_given():
    plain = LangevinRidge(n_steps=5).fit(X, Y)
    with pytest.raises(ValueError, match=r"Pass sample_ids=\.\.\. to fit, or use row numbers"):
        plain.unlearn(ids="id3")
    with pytest.raises(ValueError, match=r"Pass subjects=\.\.\. to fit"):
        plain.unlearn(subject=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sample_ids": ["a"] * 15}, "sample_ids must be unique, got 'a' more than once"),
        ({"sample_ids": range(14)}, "sample_ids must be one for each of the 15 rows"),
        ({"subjects": [[1]] * 15}, "subjects must be hashable"),
        ({"subjects": range(10)}, "subjects must be one for each of the 15 rows, got 10 names"),
        ({"subjects": pd.DataFrame({"name": range(15)})}, r"one column, got shape \(15, 1\)"),
        ({"sample_ids": 5}, "sample_ids must be a sequence"),
        ({"coef_init": "a"}, "coef_init must be a real number"),
        ({"coef_init": np.zeros(2)}, r"coef_init must be finite, of shape \(1, 3\)"),
        ({"coef_init": np.full(3, np.nan)}, "coef_init must be finite"),
    ],
)
def test_bad_fit_options(options, words, model):
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y, **options)
    assert pickle.dumps(model) == before


def test_more_of_the_classifiers_own():
    model = LangevinRidgeClassifier(n_steps=5, noise=0.1).fit(X, [0, 1, 2] * 5)
    with pytest.raises(ValueError, match="method must be one of"):
        model.unlearn(method="retrain")
    with pytest.raises(ValueError, match="keep_empty_classes must be True or False"):
        model.unlearn(3, keep_empty_classes="no")


def test_attach_with_missing_targets(model):
    with pytest.raises(ValueError, match="X and y must have as many rows, got 15 and 14"):
        model.attach(X, Y[:-1])


def test_quote_of_a_zero_dimensional_array(model):
    assert model.quote(np.array(3)).requests == ((3,),)


def test_one_class():
    with pytest.raises(ValueError, match="y must have at least 2 classes, got n_classes=1"):
        LangevinRidgeClassifier().fit(X, np.ones(15, dtype=int))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("accountant", ["exact", "theorem"])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 30.0, 200.0, 5000.0, 1e4])
@pytest.mark.parametrize("delta", [1e-300, 1e-50, 1e-30, 1e-5, 0.1, 0.5, 0.999])
def test_at_the_edges_of_its_range_a_certificate_verifies_or_is_not_issued(
    accountant, epsilon, delta, model
):
    usual = 1e-3 <= epsilon <= 30 and 1e-30 <= delta <= 0.1
    for request in (3, [5, 7]):
        before = pickle.dumps(model)
        asked = {"epsilon": epsilon, "delta": delta, "n_unlearn_steps": 5}
        try:
            certificate = model.unlearn(request, accountant=accountant, **asked)
        except ArithmeticError:  # double precision does not do
            assert not usual
            assert pickle.dumps(model) == before
        else:
            assert model.verify(certificate)["epsilon_recomputed"]
            assert certificate.epsilon <= epsilon
