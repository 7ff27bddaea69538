"""Problems that several tests look at."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits


def pytest_configure(config):
    # Most tests are about laws and certificates, which hold after any number of steps and requests.
    # They take few steps to be fast. Tests of the two warnings catch them themselves.
    for ignored in (
        "ignore:learning has not converged:sklearn.exceptions.ConvergenceWarning",
        "ignore:total_delta is:UserWarning",
    ):
        config.addinivalue_line("filterwarnings", ignored)


@pytest.hookimpl(tryfirst=True)  # before slow tests are deselected
def pytest_collection_modifyitems(items):
    # @pytest.mark.one_in(k) keeps one case in k of a large grid quick: those whose places on the
    # axes add up to a multiple of k. So every value is in a quick case if some other axis has at
    # least k of them, and with a third such axis any two values meet.
    for item in items:
        for mark in item.iter_markers("one_in"):
            axes = item.iter_markers("parametrize")
            if sum(place(axis, item.callspec.params) for axis in axes) % mark.args[0]:
                item.add_marker(pytest.mark.slow)


def place(axis, params):
    """Where on an axis of `parametrize` a test stands."""
    names, cases = axis.args
    names = [names] if (alone := isinstance(names, str)) else names
    for k, case in enumerate(cases):
        is_param = isinstance(case, type(pytest.param()))
        values = case.values if is_param else (case,) if alone else case
        if all(params[name] is value for name, value in zip(names, values, strict=True)):
            return k
    raise LookupError(f"{params} is not on the axis of {names}")


@pytest.fixture(scope="session")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X, y


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


@pytest.fixture
def rng():
    return np.random.default_rng(20261115)


@pytest.fixture
def small(rng):
    """Thirty rows, four features, two outputs."""
    X = rng.normal(size=(30, 4))
    return X, X @ rng.normal(size=(4, 2)) + 0.3 * rng.normal(size=(30, 2))


def with_ones(X):
    return np.hstack([X, np.ones((len(X), 1))])
