"""Work is shared out in order; what fails or is interrupted leaves nothing running."""

import os
import time
from functools import partial

import pytest

from pilu._processes import map_in_order


def square(value):
    time.sleep(0.01)
    if value < 0:
        raise ArithmeticError(f"no root of {value}")
    return value * value, os.getpid()


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_results_come_in_order_from_as_many_processes(n_jobs):
    found = list(map_in_order(square, ((i,) for i in range(60)), n_jobs))
    assert [value for value, _ in found] == [i * i for i in range(60)]
    workers = {worker for _, worker in found}
    assert os.getpid() in workers
    assert 1 <= len(workers) <= n_jobs
    assert (len(workers) > 1) == (n_jobs > 1)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("bad", [0, 7, 29])  # the first goes to a helper, the last too
def test_a_failure_is_raised_and_the_next_run_works(n_jobs, bad):
    values = [(-1 if i == bad else i,) for i in range(30)]
    with pytest.raises(ArithmeticError, match="no root of -1"):
        list(map_in_order(square, values, n_jobs))
    assert len(list(map_in_order(square, [(1,)] * 5, n_jobs))) == 5


class SlowToPack:
    """It remembers what it was asked, as a law does its profiles; pickling it takes a while."""

    def __init__(self):
        self.parts = [LongWay() for _ in range(3)]

    def times_six(self, value):
        time.sleep(0.01)
        setattr(self, f"asked_{value}", True)
        return 6 * value, os.getpid()


class LongWay:
    def __reduce__(self):
        time.sleep(0.02)
        return LongWay, ()


def test_work_that_remembers_is_not_sent_while_it_is_done_here():
    # Failed once in a blue moon: the pool's thread met a dictionary that had just grown.
    found = list(map_in_order(SlowToPack().times_six, ((i,) for i in range(40)), 2))
    assert [value for value, _ in found] == [6 * i for i in range(40)]
    assert len({worker for _, worker in found}) == 2


def counted(seen, value):
    seen.append(value)
    time.sleep(0.01)
    return len(seen), os.getpid()


def test_a_helper_opens_the_work_once_and_keeps_it():
    found = list(map_in_order(partial(counted, []), ((i,) for i in range(40)), 2))
    for worker in {worker for _, worker in found}:
        counts = [count for count, by in found if by == worker]
        assert counts == list(range(1, len(counts) + 1))


def test_a_failing_source_is_not_swallowed():
    def pieces():
        yield (1,)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk"):
        list(map_in_order(square, pieces(), 2))
