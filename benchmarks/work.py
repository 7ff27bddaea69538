"""One size: references and work, timed in turn."""

import copy
import os
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import pilu
from benchmarks import references
from benchmarks.data import Array, Size, make_data, with_intercept
from benchmarks.stopwatch import Stopwatch, Times

IN_A_ROW = 100
SAMPLE_ROWS = 64  # quoted where all rows would take too long

Counts = dict[str, float]


@dataclass(frozen=True)
class Plan:
    """How much of the long things is timed."""

    repeats: int
    long_repeats: int  # of the exact quote of all rows, of the deletions in a row, and their like
    literal_steps: int  # of the T + K steps of Algorithm 1, each time it is timed
    exact_rows: int | None  # None: all rows, if that takes no longer than `patience`
    patience: float | None  # seconds for each of the long works; None: as long as it takes

    @classmethod
    def of(
        cls,
        size: Size,
        *,
        repeats: int,
        literal_steps: int | None,
        exact_rows: int | None,
        patience: float,
        full: bool,
    ) -> "Plan":
        whole = size.T + size.K
        if full:
            return cls(repeats, repeats, whole, None, None)
        steps = min(literal_steps or max(1, whole // 10), whole)
        return cls(repeats, 1, steps, exact_rows, patience)


@dataclass
class Outcome:
    """What was timed, for how many rows, and every single deletion of those in a row."""

    times: Times = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    single_deletions: list[list[float]] = field(default_factory=list)


def measure(size: Size, plan: Plan, watch: Stopwatch, outcome: Outcome) -> None:
    """Time everything at one size; `watch` keeps its times in `outcome`."""
    X, Y = make_data(size)
    rows = with_intercept(X)
    profiles = references.make_profiles(size.p, size.T, size.d + 1)
    references.wake()
    for _ in range(plan.repeats):
        model = _repeat(size, plan, watch, X, Y, rows, profiles)
    for _ in range(plan.long_repeats):
        _literal("Algorithm 1 before exact", plan, watch, model, rows, Y)
        _quote_exactly(size, plan, watch, model, outcome)
        _literal("Algorithm 1 after exact", plan, watch, model, rows, Y)
        _forget_in_a_row(size, plan, watch, used_copy(model, size), outcome)
        _literal("Algorithm 1 after deletions", plan, watch, model, rows, Y)


def fitted(size: Size, X: Array, Y: Array) -> Any:
    return pilu.LangevinRidge(n_steps=size.T, batch_size=size.b).fit(X, Y)


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


def _quote_exactly(size: Size, plan: Plan, watch: Stopwatch, model: Any, outcome: Outcome) -> None:
    """All rows by one call, or as many listed rows as the plan has patience for."""
    count = plan.exact_rows
    if count is None and plan.patience is not None:
        few = size.spread_rows(min(8, size.n))
        watch.time("exact, a few rows", model.quote, few, n_unlearn_steps=size.K)
        expected = watch.times["exact, a few rows"][-1] * size.n / len(few)
        # Rows may be shared out among the cores, listed ones are not.
        if expected / (os.cpu_count() or 1) > plan.patience:
            count = SAMPLE_ROWS
    listed = None if count is None or count >= size.n else size.spread_rows(count)
    outcome.counts["exact_rows"] = size.n if listed is None else len(listed)
    watch.time("exact", model.quote, listed, n_unlearn_steps=size.K)


def _forget_in_a_row(
    size: Size, plan: Plan, watch: Stopwatch, model: Any, outcome: Outcome
) -> None:
    single: list[float] = []
    outcome.single_deletions.append(single)

    def one_after_the_other() -> None:
        for row in size.spread_rows(deletions_wanted(size)):
            start = time.perf_counter()
            forget(model, size, row)
            single.append(time.perf_counter() - start)
            if plan.patience is not None and sum(single) > plan.patience:
                break

    watch.time("deletions in a row", one_after_the_other)
    outcome.counts["deletions"] = len(single)
    watch.keep("mean deletion in a row", statistics.fmean(single))
    watch.keep("worst deletion in a row", max(single))


def deletions_wanted(size: Size) -> int:
    """A hundred; fewer where that would be more than a tenth of the rows."""
    return min(IN_A_ROW, size.n // 10)


def _literal(name: str, plan: Plan, watch: Stopwatch, model: Any, rows: Array, Y: Array) -> None:
    watch.time(name, references.algorithm_1, rows, Y, model.step_size_, plan.literal_steps)
