"""The noise floor holds for what is released, also where the rows cancelled all others."""

import copy

import numpy as np
import pytest

from pilu import LangevinHuber, LangevinRidge

UNITS = 4096


def cancelling(rng, n=40, p=3):
    """One row whose pull is that of all others with the other sign: with it, nothing is learned."""
    X = np.abs(rng.normal(size=(n, p))) + 0.5
    y = 1e3 * np.ones(n)
    push = X[1:].T @ y[1:]
    X[0] = push / np.linalg.norm(push)
    y[0] = -np.linalg.norm(push)
    return X, y


def steps_in_rounding_units(model, noise):
    """One step's noise, in rounding units of the parameters that the model holds."""
    size = float(np.linalg.norm(np.append(model.coef_.ravel(), model.intercept_)))
    return float(np.sqrt(2 * model.step_size_)) * noise / (2.0**-52 * size)


MODELS = {
    "full batch": LangevinRidge(alpha=1.0, n_steps=60, noise=1e-3, fit_intercept=False),
    "mini-batches": LangevinRidge(
        alpha=1.0, n_steps=60, noise=1e-3, fit_intercept=False, batch_size=8
    ),
    "huber": LangevinHuber(
        alpha=1.0, n_steps=40, noise=1e-3, fit_intercept=False, threshold=1e6, n_auxiliary_runs=4
    ),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("accountant", ["auto", "theorem"])
def test_noise_spans_the_rounding_of_what_is_released(kind, accountant, rng):
    X, y = cancelling(rng)
    fitted = copy.deepcopy(MODELS[kind]).fit(X, y)
    before = float(np.linalg.norm(fitted.coef_))
    seen = []
    for K in (1, 20, 200):
        for epsilon in (1.0, 1e3):
            model = copy.deepcopy(fitted).attach(X, y)
            certificate = model.unlearn(
                0, epsilon=epsilon, delta=0.1, n_unlearn_steps=K, accountant=accountant
            )
            if certificate.noise == 0.0:
                continue
            seen.append(float(np.linalg.norm(model.coef_)) / before)
            assert steps_in_rounding_units(model, certificate.noise) >= UNITS
    assert seen
    if kind == "full batch":
        assert max(seen) > 100  # the row did cancel the others


def test_the_floor_is_the_same_for_every_row(rng):
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    model = LangevinRidge(alpha=20.0, n_steps=40, noise=0.2).fit(X, y)
    # So many steps that next to no noise is needed
    noise = model.quote(epsilon=1.0, n_unlearn_steps=400).noise
    assert len(set(noise[noise > 0])) == 1
    assert 0 < noise.max() < 1e-9
