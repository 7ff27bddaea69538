"""Ridge as one smooth loss among others: dearer than its exact laws, at every row, and true."""

import numpy as np
import pytest

from conftest import with_ones
from losses.plain import chains, gradients_along, model_for, problem_for, squared_gradient
from pilu import LangevinRidge
from pilu.data.rows import Request
from pilu.losses.law import SmoothSensitivities
from pilu.minibatch.sensitivities import MinibatchSensitivities
from pilu.ridge.sensitivities import RidgeSensitivities

OPTIONS = {"alpha": 0.5, "n_steps": 60, "noise": 0.1, "random_state": 2}


@pytest.mark.parametrize("name", ["squared", "squared of two"])
@pytest.mark.parametrize("b", [None, 5])
def test_never_below_the_chi_square_bounds(name, b):
    X, y, Y = problem_for(name)
    smooth = model_for(name, batch_size=b, **OPTIONS).fit(X, y)
    eta = smooth.step_size_
    solver = {"solver": "gradient"} if b is None else {"batch_size": b}
    ridge = LangevinRidge(step_size=eta, **solver, **OPTIONS).fit(X, y)
    np.testing.assert_allclose(ridge.coef_, smooth.coef_, rtol=1e-9)  # the same draws

    request = Request(with_ones(X), Y, np.arange(24))
    exact_bounds = RidgeSensitivities if b is None else MinibatchSensitivities
    for slack in (0.2, 1e-3, 1e-9):
        exact = exact_bounds(ridge.fitted_.law).of_each(request, slack)
        found = SmoothSensitivities(smooth.fitted_.law).of_each(request, slack)
        assert (found >= exact * (1 - 1e-12)).all()
        assert (found[:, -5:][exact[:, -5:] > 0] > exact[:, -5:][exact[:, -5:] > 0]).all()
    gradients = gradients_along(
        chains(name, 100, [(60, 0.1)], eta, alpha=0.5, batch_size=b)[2],
        with_ones(X), Y, squared_gradient, eta,
    )  # fmt: skip
    bounds = SmoothSensitivities(smooth.fitted_.law).of_each(request, 0.2)
    exceeded = (gradients > bounds) & (bounds > 0)
    assert exceeded.any(axis=-1).sum(axis=0).max() <= 20

    target = {"epsilon": 1.0, "delta": 1e-3, "n_unlearn_steps": 10, "accountant": "theorem"}
    assert (smooth.quote(**target).noise > ridge.quote(**target).noise).all()
