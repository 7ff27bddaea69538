"""One small task, in the settings that a test asks for."""

import pytest

from pilu import LangevinRidge
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
