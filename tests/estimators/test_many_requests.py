"""Requests in a row, many rows at once, and what a user sees meanwhile."""

import copy
import fcntl
import os
import pickle
import pty
import struct
import subprocess
import sys
import termios

import numpy as np
import pytest

from conftest import with_ones
from oracles.dense import dense_laws
from oracles.pairs import output_laws, whitened
from pilu import LangevinRidge
from pilu.accounting import GaussianPair

ALPHA, NOISE = 1e-4, 0.05
REQUEST = {"epsilon": 1.0, "delta": 1e-3, "n_unlearn_steps": 8}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(400, 99)) * np.arange(1, 100) ** -0.5
    return X, X @ rng.normal(size=99) + rng.normal(size=400)


def test_a_corrected_eigenbasis_certifies_what_a_new_one_does(data):
    X, y = data
    corrected = LangevinRidge(n_steps=60, noise=NOISE).fit(X, y)
    renewed = LangevinRidge(n_steps=60, noise=NOISE).fit(X, y)
    for row in range(9):
        one = corrected.unlearn(row, **REQUEST)
        two = renewed.consolidate().unlearn(row, **REQUEST)
        # Each charges what rounding may have done to it, a correction a little more.
        assert one.noise == pytest.approx(two.noise, rel=2e-7)
        assert one.total_delta == pytest.approx(two.total_delta, rel=1e-6)
        corrected.verify(one)


def test_later_requests_on_a_correction_meet_their_target_by_dense_laws(data):
    X, y = data
    # Half of 1/L: the oracle's Cholesky factor must exist where a request needs no noise.
    step_size = 0.5 / (np.linalg.norm(with_ones(X), 2) ** 2 + ALPHA)
    model = LangevinRidge(n_steps=60, noise=NOISE, step_size=step_size).fit(X, y)
    rows, segments = [3, 50, 120], [(60, NOISE)]
    for i, row in enumerate(rows):
        left = np.delete(np.arange(400), rows[:i])
        place = [int(np.flatnonzero(left == row)[0])]
        problem = (with_ones(X[left]), y[left, None], place, ALPHA, model.step_size_, segments)
        noise = model.unlearn(row, **REQUEST).noise
        for share, enough in ((1.0, True), (1 - 1e-4, False)):
            if noise == 0.0 and not enough:
                continue  # none is needed, and there is no less
            P, Q = output_laws(*problem, noise * share, 8)
            pair = GaussianPair(*whitened(P, Q), 1).without_dust()
            reached = max(pair.log_delta(1.0), pair.reversed().log_delta(1.0))
            assert (reached <= np.log(1e-3) + 1e-7) == enough
        segments.append((8, noise))


def test_parameters_after_a_corrected_deletion_have_the_right_law(data):
    X, y = data
    model = LangevinRidge(n_steps=60, noise=NOISE).fit(X, y)
    model.unlearn(3, **REQUEST)  # from here on the basis is corrected
    start = np.append(model.coef_, model.intercept_)[:, None]
    draws = []
    for _ in range(400):
        again = copy.copy(model)  # shares the immutable state
        noise = again.unlearn(9, **REQUEST).noise
        draws.append(np.append(again.coef_, again.intercept_))
    left = np.delete(np.arange(400), [3, 9])
    means, covariances = dense_laws(
        with_ones(X[left]), y[left, None], ALPHA, model.step_size_, [(8, noise)], start
    )
    deviations = np.sqrt(np.diag(covariances[-1]))
    standard = (np.array(draws) - means[-1][:, 0]) / deviations
    assert np.abs(standard.mean(axis=0)).max() < 5 / np.sqrt(400)
    assert np.abs(standard.std(axis=0) - 1).max() < 5 / np.sqrt(800)


def test_a_pickled_model_holds_nothing_of_the_last_deletion(data):
    X, y = data
    model = LangevinRidge(n_steps=60, noise=NOISE).fit(X, y)
    model.unlearn(7, **REQUEST)
    row = with_ones(X)[7]
    turned = model.fitted_.chain.problem.corrected_spectrum.removed
    blob = pickle.dumps(model)
    for held in (X[7], row, turned, turned[0]):
        assert held.tobytes() not in blob
    assert model.fitted_.chain.problem.corrected_spectrum.is_diagonal
    loaded = pickle.loads(blob).attach(X, y)
    assert loaded.quote([9], **REQUEST).noise[0] == pytest.approx(
        model.quote([9], **REQUEST).noise[0], rel=1e-9
    )


def test_forgotten_rows_are_not_sent_to_the_processes_that_quote(data):
    X, y = data
    model = LangevinRidge(n_steps=60, noise=NOISE).fit(X, y)
    model.unlearn(7, **REQUEST)
    assert not model.fitted_.chain.problem.corrected_spectrum.is_diagonal
    assert len(model.quote(n_jobs=1, **REQUEST)) == 399
    assert model.fitted_.chain.problem.corrected_spectrum.is_diagonal


def test_processes_quote_what_one_does(rng):
    X, y = rng.normal(size=(300, 4)), rng.normal(size=300)
    model = LangevinRidge(n_steps=20, noise=0.1).fit(X, y)
    alone, together = (model.quote(n_jobs=n, **REQUEST) for n in (1, 2))
    np.testing.assert_array_equal(alone.noise, together.noise)
    np.testing.assert_array_equal(alone.epsilon, together.epsilon)
    with pytest.raises(ValueError, match=r"n_jobs must be an integer other than 0, got n_jobs=0\."):
        model.quote([3], n_jobs=0)


LONG_WORK = """
import numpy as np
from pilu import LangevinRidge
rng = np.random.default_rng(0)
model = LangevinRidge(n_steps=50).fit(rng.normal(size=(1500, 20)), rng.normal(size=1500))
model.quote(n_jobs=1, n_unlearn_steps=5)
"""


@pytest.mark.slow
def test_long_work_shows_progress_on_a_terminal_and_none_in_a_pipe():
    piped = subprocess.run([sys.executable, "-c", LONG_WORK], capture_output=True, check=True)
    assert piped.stderr == b"" == piped.stdout
    shown = on_a_terminal([sys.executable, "-c", LONG_WORK])
    for part in ("quoting", "/1500", "row/s"):
        assert part in shown


def on_a_terminal(command):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(command, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the other side has hung up
            pass
        os.close(ours)
    assert process.returncode == 0
    return shown.decode()
