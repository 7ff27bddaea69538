"""Small tasks, in the settings that a test asks for."""

import pytest

from baselines.rows_by_hand import THRESHOLD, problem
from pilu import LangevinHuber, LangevinLogistic, LangevinRidge
from pilu.baselines import Task


@pytest.fixture
def make_task(small):
    def make(*, epsilon=1.0, delta=1e-2, n_unlearn_steps=7, data=small, **settings):
        settings = {"alpha": 0.5, "n_steps": 40, "noise": 0.1, "random_state": 3} | settings
        return Task.of(
            LangevinRidge(**settings),
            *data,
            epsilon=epsilon,
            delta=delta,
            n_unlearn_steps=n_unlearn_steps,
        )

    return make


@pytest.fixture
def make_smooth():
    def make(kind, *, epsilon=1.0, delta=1e-2, n_unlearn_steps=7, seed=0, **settings):
        settings = {"alpha": 0.5, "n_steps": 40, "noise": 0.1, "random_state": 3} | settings
        if kind == "huber":
            settings = {"threshold": THRESHOLD} | settings
        model = (LangevinHuber if kind == "huber" else LangevinLogistic)(**settings)
        target = {"epsilon": epsilon, "delta": delta, "n_unlearn_steps": n_unlearn_steps}
        return Task.of(model, *problem(kind, seed), **target)

    return make
