"""docs/baselines.md says what `compare` gives: its numbers are recomputed."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import pilu
from oracles.competitors import newton_delta
from oracles.high_precision import delta_from_mu_mp
from pilu.accounting import GaussianPair
from pilu.baselines import Task
from pilu.baselines.newton import residual_bound

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "baselines.md").read_text()
PROSE = " ".join(PAGE.split())  # lines may break anywhere


@pytest.fixture(scope="module")
def settings():
    sys.path.insert(0, str(ROOT / "examples"))
    import compare

    yield {"digits": compare.digits(), "diabetes": compare.diabetes()}
    sys.path.remove(str(ROOT / "examples"))


@pytest.fixture(scope="module")
def frames(settings):
    return {
        name: pilu.compare(
            X, y, [3, [7, 8, 9]], epsilon=1.0, X_test=X_test, y_test=y_test, model=model
        ).set_index(["method", "n_rows"])
        for name, ((X, X_test, y, y_test), model) in settings.items()
    }


def measured():
    """The lines of the page's table, by method."""
    table = PAGE.split("## Measured")[1]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines[2:]}


def test_claims_and_expected_errors(frames):
    found = measured()
    assert set(found) == set(frames["digits"].index.get_level_values(0))
    for method, (epsilon, certified, *errors, _large, _seconds, _read) in found.items():
        for name, cell, scale in zip(("digits", "diabetes"), errors, (100, 1), strict=True):
            answers = frames[name].loc[method]
            assert (certified == "yes") == answers["certified"].all()
            for value, text in zip(answers["expected_error"], cell.split(" / "), strict=True):
                assert text.endswith("*") == np.isnan(value)
                if not text.endswith("*"):
                    written = float(text.replace(",", ""))
                    assert written == pytest.approx(scale * value, rel=5e-3, abs=0.051)
        if epsilon == "none":
            assert np.isinf(frames["digits"].loc[method, "epsilon"]).all()
        else:
            parts = [float(part.replace(",", "")) for part in epsilon.split(" / ")]
            epsilons = frames["digits"].loc[method, "epsilon"].to_numpy()
            np.testing.assert_allclose(np.array(parts) * np.ones(2), epsilons, rtol=5e-3)


@pytest.mark.slow
def test_ratios_of_noise(frames, settings):
    ratios = {
        name: (frame.loc["pilu (theorem)", "noise"] / frame.loc["pilu (exact)", "noise"]).to_list()
        for name, frame in frames.items()
    }
    assert "One row 6 times less noise on digits, 22 on diabetes; three rows 12 and 32." in PROSE
    assert [round(r) for r in ratios["digits"]] == [6, 12]
    assert [round(r) for r in ratios["diabetes"]] == [22, 32]
    assert "1.9 on digits, 3.0 on diabetes. By the exact accountant 2.7 and 4.8." in PROSE
    gains = []
    for accountant in ("theorem", "exact"):
        for (X, _, y, _), model in settings.values():
            noise = model.fit(X, y).quote(accountant=accountant).noise
            gains.append(round(noise.max() / np.median(noise), 1))
    assert gains == [1.9, 3.0, 2.7, 4.8]


def test_newton_after_few_steps(frames, settings):
    (X, _, y, _), model = settings["digits"]
    task = Task.of(model, X, y, epsilon=1.0)
    spectrum = task.closed_forms.spectrum
    q = np.maximum(1 - task.step_size * spectrum.eigenvalues, 0.0) ** 300
    shifts = np.sum(np.square(q[:, None] * spectrum.cross), axis=1) / 0.1**2
    pair = GaussianPair((1 - q) ** 2 - 1, shifts, 10)
    assert pair.delta(45_959) > task.delta >= pair.delta(45_960)
    paper = residual_bound(task, 0.1, task.delta / 2) / 0.1
    paper *= math.sqrt(2 * math.log(3 / task.delta))
    assert round(math.log10(paper)) == 9
    assert "46,069 is 0.2 % above the exact divergence, 45,959" in PROSE
    claims = frames["digits"]["epsilon"]
    assert claims["Newton step (T steps, bound)", 1] == pytest.approx(46_069, abs=1)
    assert claims["Newton step (T steps, measured)", 1] == pytest.approx(1168, rel=1e-3)


@pytest.mark.parametrize(
    ("pd", "claimed", "low", "high"), [(60, 31.9, 1.2e-5, 1.3e-5), (10**4, 264, 1, 1.01)]
)
def test_the_conversion_fails_where_the_residual_depends_on_the_perturbation(
    pd, claimed, low, high
):
    """B = 0 and M^T = 1/2: one row x = 1, no regulariser, one step of size 1/2."""
    bound = 0.5 * (math.sqrt(pd) + math.sqrt(2 * math.log(2 / 1e-5)))
    epsilon = bound * math.sqrt(2 * math.log(3 / 1e-5))
    assert epsilon == pytest.approx(claimed, rel=2e-3)
    X, Y = np.ones((1, 1)), np.zeros((1, pd))
    assert low <= newton_delta(X, Y, 0.0, 0.5, 1, 1.0, epsilon) * (1 + 1e-9) <= high


def test_the_conversion_fails_at_large_epsilon():
    epsilon = 10 * math.sqrt(2 * math.log(1.5 / 1e-5))
    assert epsilon == pytest.approx(48.8, abs=0.05)
    assert float(delta_from_mu_mp(10, epsilon)) == pytest.approx(0.5, abs=0.01)
