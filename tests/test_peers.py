"""What `make bench-peers` compares does what it says; how fast is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import peer_methods, peers
from scipy.optimize import minimize

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def rows():
    """Two rows a person."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=600) > 0, 1.0, -1.0)
    return peer_methods.Rows(X, y, np.arange(600) // 2, X[:100], y[:100])


def minimiser(X, y, penalty, b):
    """By a generic solver, the loss written out anew."""

    def loss(theta):
        return np.log1p(np.exp(-y * (X @ theta))).sum() + penalty / 2 * theta @ theta + b @ theta

    options = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 20_000}
    return minimize(loss, np.zeros(X.shape[1]), method="Nelder-Mead", options=options).x


@pytest.mark.parametrize("method", [peer_methods.ScikitLearn, peer_methods.Torch])
def test_retraining_finds_the_minimiser_of_the_rows_left(rows, method):
    leaving = rows.of(30)
    answer = method(rows, 0).forget(leaving)
    penalty = peer_methods.PENALTY * len(rows.X)
    expected = minimiser(rows.X[~leaving], rows.y[~leaving], penalty, np.zeros(5))
    assert answer.theta == pytest.approx(expected, abs=1e-5)
    assert answer.epsilon == 0.0


@pytest.mark.parametrize("count", [1, 30])
def test_newton_removal_comes_close_and_its_bound_holds(rows, count):
    model, leaving = peer_methods.Newton(rows, 3), rows.of(count)
    answer = model.forget(leaving)
    X, y = rows.X[~leaving], rows.y[~leaving]
    penalty = peer_methods.PENALTY * len(X)
    expected = minimiser(X, y, penalty, model.b)
    before = np.linalg.norm(model.theta - expected)
    assert np.linalg.norm(answer.theta - expected) < 0.1 * before
    slopes = y / (1 + np.exp(y * (X @ answer.theta)))
    left = np.linalg.norm(-X.T @ slopes + penalty * answer.theta + model.b)
    conversion = np.sqrt(2 * np.log(1.5 / answer.delta)) / peer_methods.SIGMA
    learning = 1e-8 * len(rows.X) * np.sqrt(5)  # gradient that learning may leave
    assert left <= answer.epsilon / conversion + learning
    assert answer.rests_on == "claimed, not proved"


def test_pilu_answers_with_its_certificate(rows):
    answer = peer_methods.Pilu(rows, 0).forget(rows.of(30))
    assert (answer.epsilon, answer.delta, answer.rests_on) == (0.1, 1e-9, "proved")
    exact = peer_methods.ScikitLearn(rows, 0).forget(rows.of(30)).theta
    assert answer.theta == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("name", peer_methods.METHODS)
def test_a_request_leaves_what_was_learned(rows, name):
    """The next request starts where the first did."""
    if name.startswith("river"):
        pytest.importorskip("river", reason='river is not installed; pip install ".[peers]"')
    model = peer_methods.METHODS[name](rows, 0)
    first = model.forget(rows.of(10)).theta
    model.forget(rows.of(40))
    again = model.forget(rows.of(10)).theta
    close = 0.05 if name.startswith("pilu") else 1e-12  # its noise is drawn anew
    assert again == pytest.approx(first, abs=close)


def test_river_learns_nothing_of_who_left(rows):
    """Their labels turned round change nothing."""
    pytest.importorskip("river", reason='river is not installed; pip install ".[peers]"')
    leaving = rows.of(40)
    other = rows._replace(y=np.where(leaving, -rows.y, rows.y))
    found = [peer_methods.River(one, 0).forget(leaving).theta for one in (rows, other)]
    assert np.array_equal(*found)


def test_more_people_than_there_are(rows):
    with pytest.raises(ValueError, match="count must be below 300 people, got count=300"):
        rows.of(300)


def test_a_claim_is_not_shown_as_an_epsilon():
    entry = {"people": 1, "seconds": [1.0, 2.0], "accuracies": [0.5], "learning": []}
    found = [
        {**entry, "method": "scikit-learn, cold refit", "epsilons": [0.0], "delta": 0.0}
        | {"rests_on": "retraining itself"},
        {**entry, "method": "Newton", "seconds": [2.0, 2.0], "epsilons": [0.3], "delta": 1e-9}
        | {"rests_on": "claimed, not proved"},
    ]
    _, retrained, newton = peers.text(found).splitlines()
    assert "  0  " in retrained
    assert "none (claim: 0.3 at 1e-09)" in newton
    assert "1.5" in newton.split("2 to 2")[1]  # the median of 2/1 and 2/2


@pytest.mark.slow
def test_the_quick_size_runs(tmp_path):
    pytest.importorskip("river", reason='river is not installed; pip install ".[peers]"')
    command = [sys.executable, "-m", "benchmarks.peers", "--size", "quick", "--repeats", "1"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "peers-quick.json").read_text())
    for name in ("customers", "digits"):
        found = record["data"][name]["found"]
        assert {(e["people"], e["method"]) for e in found} == {
            (count, method) for count in (1, 10, 100) for method in peer_methods.METHODS
        }
