"""One size: references and work, timed in turn."""

import copy
import time
from dataclasses import dataclass
from typing import Any

import pilu
from benchmarks import references
from benchmarks.data import Array, Size, make_data, with_intercept
from benchmarks.stopwatch import Stopwatch

IN_A_ROW = 100


@dataclass(frozen=True)
class Plan:
    """How much of the long things is timed."""

    repeats: int
    long_repeats: int  # of the exact quote of all rows and of the deletions in a row
    literal_steps: int  # of the T + K steps of Algorithm 1, each time it is timed
    exact_rows: int | None  # None quotes all rows by one call

    @classmethod
    def of(
        cls, size: Size, repeats: int, literal_steps: int | None, exact_rows: int | None, full: bool
    ) -> "Plan":
        whole = size.T + size.K
        if full:
            return cls(repeats, repeats, whole, None)
        steps = min(literal_steps or max(1, whole // 10), whole)
        return cls(repeats, 1, steps, exact_rows)


def measure(size: Size, plan: Plan, watch: Stopwatch, in_a_row: list[list[float]]) -> None:
    """Time everything at one size; `in_a_row` receives the single deletions of each long run."""
    X, Y = make_data(size)
    rows = with_intercept(X)
    profiles = references.make_profiles(size.p, size.T, size.d + 1)
    references.wake()
    for _ in range(plan.repeats):
        model = _repeat(size, plan, watch, X, Y, rows, profiles)
    for _ in range(plan.long_repeats):
        _long_work(size, plan, watch, model, rows, Y, in_a_row)


def fitted(size: Size, X: Array, Y: Array) -> Any:
    return pilu.LangevinRidge(n_steps=size.T).fit(X, Y)


def forget(model: Any, size: Size, request: int | list[int]) -> None:
    model.unlearn(request, n_unlearn_steps=size.K)


def used_copy(model: Any, size: Size) -> Any:
    """A copy that has answered once, so that nothing lazy is left for the timed call."""
    fresh = copy.deepcopy(model)
    fresh.quote([size.n // 2 + 1], n_unlearn_steps=size.K)
    return fresh


def _repeat(
    size: Size, plan: Plan, watch: Stopwatch, X: Array, Y: Array, rows: Array, profiles: list[Array]
) -> Any:
    """References beside the work that they are the references of, once each."""
    row = size.n // 3
    G = watch.time("X'X", references.gram, rows)
    V = references.time_eigh(watch, G)
    model = watch.time("fit", fitted, size, X, Y)
    unused = copy.deepcopy(model)
    Z = watch.time("X V", references.rotate, rows, V)
    watch.time("products", references.products, Z, profiles)
    del Z
    watch.time("theorem", model.quote, n_unlearn_steps=size.K, accountant="theorem")
    _literal("Algorithm 1", plan, watch, model, rows, Y)
    watch.time("first deletion", forget, unused, size, row)
    warm = used_copy(model, size)
    watch.time("one deletion", forget, warm, size, row)
    return model


def _long_work(
    size: Size,
    plan: Plan,
    watch: Stopwatch,
    model: Any,
    rows: Array,
    Y: Array,
    in_a_row: list[list[float]],
) -> None:
    """What takes minutes, with Algorithm 1 before and after it."""
    listed = None if plan.exact_rows is None else size.spread_rows(min(plan.exact_rows, size.n))
    _literal("Algorithm 1 before exact", plan, watch, model, rows, Y)
    watch.time("exact", model.quote, listed, n_unlearn_steps=size.K)
    _literal("Algorithm 1 after exact", plan, watch, model, rows, Y)
    served = used_copy(model, size)
    single: list[float] = []
    in_a_row.append(single)

    def one_after_the_other() -> None:
        for row in size.spread_rows(deletions_in_a_row(size)):
            start = time.perf_counter()
            forget(served, size, row)
            single.append(time.perf_counter() - start)

    watch.time("deletions in a row", one_after_the_other)
    watch.keep("worst deletion in a row", max(single))
    _literal("Algorithm 1 after deletions", plan, watch, model, rows, Y)


def deletions_in_a_row(size: Size) -> int:
    """A hundred; fewer where that would be more than a tenth of the rows."""
    return min(IN_A_ROW, size.n // 10)


def _literal(name: str, plan: Plan, watch: Stopwatch, model: Any, rows: Array, Y: Array) -> None:
    watch.time(name, references.algorithm_1, rows, Y, model.step_size_, plan.literal_steps)
