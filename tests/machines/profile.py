"""A few examples of a state machine in `make test`, many in `make test-slow`: always the same."""

import struct

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

few_and_many = pytest.mark.parametrize(
    "examples", [4, pytest.param(100, marks=pytest.mark.slow)], ids=["few", "many"]
)


def run(machine, examples, steps=12):
    """Run a machine."""
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=how)


def numbers_within(content, numbers):
    """Which of some numbers are among the bytes of a pickle, as little or big endian doubles."""
    return [v for v in numbers if any(struct.pack(f"{o}d", v) in content for o in "<>")]
