"""One size in mini-batches: references and work, timed in turn, and rows counted."""

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import references
from benchmarks.data import Array, Size, make_data, with_intercept
from benchmarks.stopwatch import Stopwatch
from benchmarks.work import Outcome, Plan, fitted
from pilu.chains.chain import SystemGaussian
from pilu.chains.schedule import Segment
from pilu.data.rows import ArrayRows, RowSource

TOGETHER = 200


def measure(size: Size, plan: Plan, watch: Stopwatch, outcome: Outcome) -> None:
    """Time everything at one size; `watch` keeps its times in `outcome`."""
    X, Y = make_data(size)
    rows, unseen = with_intercept(X), _each_row_once(size)
    references.wake()
    for _ in range(plan.repeats):
        model = _repeat(size, plan, watch, X, Y, rows, unseen)
    outcome.counts.update(_rows_read(size, model, X, next(unseen)))
    for _ in range(plan.long_repeats):
        _quote_together(size, plan, watch, model, rows, unseen)
        _literal("Algorithm 1 before exact", size, plan, watch, model, rows, Y)
        _forget("one deletion, exact", "exact", size, watch, model, next(unseen))
        _literal("Algorithm 1 after exact", size, plan, watch, model, rows, Y)


def quoted_together(size: Size) -> int:
    """200; fewer where that would be more than a tenth of the rows."""
    return min(TOGETHER, size.n // 10)


def _each_row_once(size: Size) -> Iterator[int]:
    """Rows in random order: the law keeps what it computed of a row, so none is asked for twice."""
    return iter(np.random.default_rng(4).permutation(size.n).tolist())


def _repeat(
    size: Size,
    plan: Plan,
    watch: Stopwatch,
    X: Array,
    Y: Array,
    rows: Array,
    unseen: Iterator[int],
) -> Any:
    """References beside the work that they are the references of, once each."""
    assert size.b is not None
    watch.time("smoothness", references.smoothness, rows, size.b)
    model = watch.time("fit", fitted, size, X, Y)
    _literal("Algorithm 1", size, plan, watch, model, rows, Y)
    _quote(model, size, [next(unseen)])  # nothing lazy is left for the timed call
    row, eta = next(unseen), model.step_size_
    points = np.ascontiguousarray(rows[[row]].T)
    watch.time("pass back", references.walk_back, rows, points, size.b, eta, size.T)
    watch.time("theorem", _quote, model, size, [row])
    _forget("one deletion, theorem", "theorem", size, watch, model, next(unseen))
    return model


def _quote_together(
    size: Size, plan: Plan, watch: Stopwatch, model: Any, rows: Array, unseen: Iterator[int]
) -> None:
    """Many rows by one call, with the references before and after it."""
    asked, b = list(islice(unseen, quoted_together(size))), size.b
    assert b is not None
    points, eta, steps = np.ascontiguousarray(rows[asked].T), model.step_size_, plan.literal_steps

    def compare(when: str) -> None:
        watch.time(f"products {when}", references.products_back, rows, points, b, steps)
        watch.time(f"pass back {when}", references.walk_back, rows, points, b, eta, steps)

    compare("before")
    watch.time("theorem, together", _quote, model, size, asked)
    compare("after")


def _quote(model: Any, size: Size, asked: list[int]) -> None:
    model.quote(asked, n_unlearn_steps=size.K, accountant="theorem")


def _forget(name: str, accountant: str, size: Size, watch: Stopwatch, model: Any, row: int) -> None:
    # A shallow copy: a deep one would have to take the pass of the means again.
    watch.time(name, copy.copy(model).unlearn, row, n_unlearn_steps=size.K, accountant=accountant)


def _literal(
    name: str, size: Size, plan: Plan, watch: Stopwatch, model: Any, rows: Array, Y: Array
) -> None:
    assert size.b is not None
    steps, eta = plan.literal_steps, model.step_size_
    watch.time(name, references.algorithm_1_on_batches, rows, Y, size.b, eta, steps)


class _Counted:
    """Rows that say how many were read, each as often as it was."""

    def __init__(self, array: Array) -> None:
        self.array, self.shape = array, array.shape
        self.reads: list[int] = []  # appended to: the check reads in several threads

    def __getitem__(self, key: Any) -> Array:
        picked: Array = self.array[key]
        self.reads.append(len(picked))
        return picked


def _rows_read(size: Size, model: Any, X: Array, row: int) -> dict[str, int]:
    """Rows that the K steps of a deletion read; and with the check of digests before them."""
    chain = model.fitted_.chain

    def count() -> int:
        counted, source = _Counted(X), chain.problem.source
        problem = chain.problem.reading(source.reading(ArrayRows(counted, source.rows.Y)))
        left = problem.without(np.array([row]), X[[row]], np.empty((1, size.d)))
        chain.forgetting(left, Segment(size.K, references.NOISE), SystemGaussian())
        return sum(counted.reads)

    checked = count()
    with patch.object(RowSource, "check", lambda source, runs: None):
        return {"rows_of_steps": count(), "rows_with_check": checked}
