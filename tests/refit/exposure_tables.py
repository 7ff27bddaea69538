"""Tables, people and models for the tests of exposure."""

import pickle

import numpy as np
from sklearn.linear_model import Ridge

from pilu import Forgetful

N = 40
NAMES = ["eva", "ben", "ada", "ian"]  # not in the order of the alphabet


def table(n=N, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X @ np.arange(1.0, p + 1) + rng.normal(size=n)


def labels(y):
    return np.where(y > 0, "yes", "no")


def people(n=N):
    """Four people whose rows are scattered."""
    return [NAMES[(i * i) % 4 if i % 3 else (i // 3) % 4] for i in range(n)]


def pairs(n=N):
    """People with two rows each."""
    return [f"p{i // 2}" for i in range(n)]


def rows_of(name, listed):
    return tuple(i for i, one in enumerate(listed) if one == name)


def ridge(X=None, y=None, **options):
    given = {k: options.pop(k) for k in ("subjects", "sample_ids", "sample_weight") if k in options}
    model = Forgetful(Ridge(), **{"noise_scale": 1.0, "random_state": 0, **options})
    A, b = table()
    return model.fit(A if X is None else X, b if y is None else y, **given)


def content_of(model):
    """All that the model is made of but its rows, as bytes."""
    return pickle.dumps(model), pickle.dumps(model.released_), pickle.dumps(model.fitted_.past)
