"""The certificate is true: a store's releases are distributed as those of cold fits."""

import numpy as np
import pytest
from scipy.stats import chi2, ks_2samp, kstest

from desk.refit.conftest import COLUMNS
from desk.refit.tables import frame, make_rows, write
from pilu.data.names import hash_of
from pilu.desk.checking import check_receipt
from pilu.desk.desk import Desk
from pilu.desk.refit_plans import plan_to_forget
from pilu.desk.refitting import _run
from pilu.exceptions import CertificateMismatch, PiluError

SIZES = [150, pytest.param(4_000, marks=pytest.mark.slow)]
RARE = 1e-4  # of a test to fail by chance


@pytest.fixture
def small(tmp_path):
    """A store of twelve rows, two numbers and no other columns."""
    rows = make_rows(12, 3)
    table = write(rows, tmp_path / "few.csv", {"said", "city", "weight", "income"})
    with Desk.fit(tmp_path / "few", table, **COLUMNS | {"ignore": []}) as desk:
        yield desk


def scores_of(done):
    """Log-odds at three places, where the noise of all parameters is seen."""
    at = frame(make_rows(3, 77))[["age", "since"]]
    return done.release.estimator.decision_function(at)


@pytest.mark.parametrize("n", SIZES)
def test_refits_are_distributed_as_cold_fits(small, n):
    held = small.read()
    plan = plan_to_forget(held, [hash_of("person 1", held.key)])
    before = held.refitted()
    warm = np.array(
        [scores_of(_run(held.program, plan.rows, held.options, before)) for _ in range(n)]
    )
    cold = np.array([scores_of(_run(held.program, plan.rows, held.options)) for _ in range(n)])
    rng = np.random.default_rng(0)
    sides = [*np.eye(3), *rng.normal(size=(3, 3))]
    for side in sides:
        assert ks_2samp(warm @ side, cold @ side).pvalue > RARE / len(sides)
    # The test has power: the model with the person, and a shift by the noise are noticed.
    mean, spread = cold.mean(axis=0), cold.std(axis=0)
    shifted = warm + spread
    assert all(ks_2samp(shifted[:, k], cold[:, k]).pvalue < RARE for k in range(3))
    told = held.released.decision_function(frame(make_rows(3, 77))[["age", "since"]])
    assert np.abs((told - mean) / spread).max() > 10


@pytest.mark.parametrize("n", SIZES)
def test_the_noise_is_that_of_the_certificate(small, n):
    """Standardised by the stated noise, the distance to scikit-learn's minimiser is chi-squared."""
    held = small.read()
    plan = plan_to_forget(held, [hash_of("person 1", held.key)])
    lengths = []
    for _ in range(n):
        done = _run(held.program, plan.rows, held.options, held.refitted())
        head, numbers = done.release.estimator[-1], done.release.estimator[0]
        Z = numbers.transform(plan.rows.table.X)
        centre = Z.mean(axis=0)
        scale = 2.0 ** (np.floor(np.log2(np.abs(Z - centre).max(axis=0))) + 1)
        theta = np.append(head.coef_[0] * scale, head.intercept_[0] + centre @ head.coef_[0])
        lengths.append(theta)
    lengths = (
        np.array(lengths) - minimiser(Z, plan.rows.table.y, centre, scale)
    ) / done.release.noise
    assert kstest((lengths**2).sum(axis=1), chi2(lengths.shape[1]).cdf).pvalue > RARE


def minimiser(Z, y, centre, scale):
    """Of the penalised log-likelihood, by Newton's method in plain NumPy."""
    A = np.column_stack([Z, np.ones(len(Z))])
    t, penalty = np.where(y == "yes", 1.0, 0.0), np.diag([1.0, 1.0, 0.0])
    w = np.zeros(3)
    for _ in range(50):
        p = 1 / (1 + np.exp(-A @ w))
        hessian = A.T @ (A * (p * (1 - p))[:, None]) + penalty
        w = w - np.linalg.solve(hessian, A.T @ (p - t) + penalty @ w)
    return np.append(w[:2] * scale, w[2] + centre @ w[:2])


def trained_on(monkeypatch, change):
    """Let the next refit learn from other rows than it says."""
    import pilu.desk.refitting as module

    honest = module._run

    def cheating(program, rows, options, before=None):
        return honest(program, change(rows), options, before)

    monkeypatch.setattr(module, "_run", cheating)


@pytest.mark.parametrize("what", ["the row that was to be forgotten", "a row less"])
def test_a_model_of_other_rows_is_noticed(small, tmp_path, monkeypatch, what):
    """Though store, log and receipt agree with each other."""
    table = tmp_path / "few.csv"
    held = small.read()
    every, _ = held.read_rows(table)
    less = {"a row less": lambda rows: rows.take(np.arange(len(rows) - 1))}
    trained_on(monkeypatch, less.get(what, lambda rows: every.take(np.arange(len(every)))))
    (receipt,) = small.unlearn("person 1").receipts
    monkeypatch.undo()
    assert receipt.verify()
    assert check_receipt(receipt, small)
    with pytest.raises(CertificateMismatch):
        check_receipt(receipt, small, table)


def test_an_honest_model_is_not_refused(small, tmp_path):
    for k in range(4):
        (receipt,) = small.unlearn(f"person {k}").receipts
        try:
            checks = check_receipt(receipt, small, tmp_path / "few.csv")
        except PiluError as error:
            pytest.fail(str(error))
        assert checks["inputs_checked_against_data"]
