"""Figures from raw times: a pure function of them, so that an interrupted run has figures too."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from benchmarks import memory
from benchmarks.cluster import rows_quoted
from benchmarks.cyclic import quoted_together
from benchmarks.data import Size
from benchmarks.desk import people_quoted
from benchmarks.living import COMMANDS, lengths, many_people
from benchmarks.stopwatch import Times
from benchmarks.work import Counts, Outcome, Plan


@dataclass(frozen=True)
class Row:
    """One work, its reference and their ratio; medians where there are several repeats."""

    work: str
    value: float
    unit: str
    reference: str
    reference_value: float
    ratio: float
    at_most: float | None  # None: reported, not judged
    repeats: int
    remark: str = ""
    spread: tuple[float, float] | None = None  # the least and the largest ratio of the repeats


def rows(
    size: Size, plan: Plan, outcome: Outcome, measured: Mapping[str, Any] | None, *, judged: bool
) -> list[dict[str, Any]]:
    """All rows for which there are times; the figures to reach are for the size that is judged."""
    describe = _lines_of_full_batch if size.b is None else _lines_of_mini_batches
    describe = _lines_of_the_desk if size.desk else describe
    describe = _lines_of_the_cluster if size.cluster else describe
    describe = _lines_of_softmax if size.smooth else describe
    describe = _lines_of_refits if size.refit else describe
    describe = _lines_of_living if size.living else describe
    describe = _lines_of_the_service if size.serve else describe
    found = [
        *_timed(describe(size, plan, outcome), outcome.times),
        *_counted(size, outcome.counts),
        *_workers(outcome.counts),
        *_service(outcome),
        *_beyond_steps(outcome.times),
        *_blocks(outcome.counts),
        *_memory(size, measured),
    ]
    return [asdict(row) | ({} if judged else {"at_most": None}) for row in found]


class Line(NamedTuple):
    """What a row is made of: names of times, with factors."""

    work: str
    time: str
    reference: str
    weights: Mapping[str, float]  # of the times whose sum is the reference
    at_most: float | None = None
    factor: float = 1.0  # from what was timed to all of the work
    remark: str = ""


def _lines_of_full_batch(size: Size, plan: Plan, outcome: Outcome) -> list[Line]:
    one_run = (size.T + size.K) / plan.literal_steps
    around_deletions = {
        "Algorithm 1 after exact": one_run / 2,
        "Algorithm 1 after deletions": one_run / 2,
    }
    a1, run = "Algorithm 1", {"Algorithm 1": one_run}
    products, weights = f"X V + {size.d + 1} n x p x T", {"X V": 1.0, "products": 1.0}
    quoted = outcome.counts.get("exact_rows", size.n)
    scaled = size.n / quoted, "" if quoted == size.n else f"from {quoted} listed rows"
    in_a_row = f"{outcome.counts.get('deletions', 0)} deletions in a row"
    mean, worst = "mean deletion in a row", "worst deletion in a row"
    return [
        Line("fit", "fit", "X'X + eigh", {"X'X": 1.0, "eigh": 1.0}, 1.3),
        Line("quote all rows, theorem", "theorem", products, weights, 2.5),
        Line("quote all rows, exact", "exact", a1, _around_exact(one_run), 5, *scaled),
        Line("one deletion, exact", "one deletion", a1, run, 1 / 1000),
        Line("  the first after a fit", "first deletion", a1, run),
        Line(in_a_row, mean, a1, around_deletions, 1 / 200, remark="mean of each"),
        Line("  the worst", worst, a1, around_deletions),
    ]


def _lines_of_mini_batches(size: Size, plan: Plan, outcome: Outcome) -> list[Line]:
    scale, count = size.T / plan.literal_steps, quoted_together(size)
    two_passes = {"Algorithm 1": 2 * scale, "smoothness": 1.0}
    one_run = (size.T + size.K) / plan.literal_steps
    products = {"products before": scale / 2, "products after": scale / 2}
    passes = {"pass back before": scale / 2, "pass back after": scale / 2}
    a1, exact, theorem = "Algorithm 1", "one deletion, exact", "one deletion, theorem"
    back, together = f"pass back, {count} vectors", "theorem, together"
    return [
        Line("fit", "fit", "2 passes + eigvalsh", two_passes),
        Line("quote one row, theorem", "theorem", "pass back, one vector", {"pass back": 1.0}, 1.3),
        Line(f"quote {count} rows, theorem", together, "products of that pass", products, 1.3),
        Line("  against the pass", together, back, passes),
        Line(theorem, theorem, a1, {a1: one_run}),
        Line(exact, exact, a1, _around_exact(one_run)),
    ]


def _lines_of_the_desk(size: Size, plan: Plan, outcome: Outcome) -> list[Line]:
    one_run = (size.T + size.K) / plan.literal_steps
    around = {"Algorithm 1 before": one_run / 2, "Algorithm 1 after": one_run / 2}
    bare, quotes = {"import numpy": 1.0}, f"quotes of {people_quoted(size):,} people"
    eigh = {"eigh": 1.0, "same bytes": 1.0}
    return [
        Line("fit of a table", "fit", "eigh + same bytes", eigh),
        Line("unlearn", "unlearn", "eigh + same bytes", eigh, 1.5),
        Line(quotes, "quotes", "Algorithm 1", around, 3),
        Line("  after the deletions", "quotes after deletions", "Algorithm 1", around),
        Line("pilu --help", "pilu --help", "import numpy", bare, 3),
        Line("pilu ledger", "pilu ledger", "import numpy", bare, 1.5),
    ]


def _lines_of_the_cluster(size: Size, plan: Plan, outcome: Outcome) -> list[Line]:
    alone = "one process, streaming"
    read = {"reading": 1.0, "products": 1.0}
    quoted = f"quotes of {rows_quoted(size):,} rows, two workers"
    return [
        Line(f"fit, {alone}", "streaming", "reading + X'X", read, 2),
        Line("fit, cluster of two processes", "cluster", alone, {"streaming": 1.0}, 1.5),
        Line(quoted, "quotes by dask", "in memory", {"quotes in memory": 1.0}, 1.5),
    ]


def _lines_of_softmax(size: Size, plan: Plan, outcome: Outcome) -> list[Line]:
    scale = size.T / outcome.counts.get("reference_steps", size.T)
    runs = {"runs before": scale / 2, "runs after": scale / 2}
    steps = f"{size.K} retained-gradient steps"
    return [
        Line("quote all rows, runs included", "quote", "auxiliary runs", runs, 1.3),
        Line("one deletion", "deletion", steps, {"steps": 1.0}),
    ]


def _lines_of_refits(size: Size, plan: Plan, outcome: Outcome) -> list[Line]:
    head, pipeline = "scikit-learn, head", "scikit-learn, pipeline"
    softmax, squares = "scikit-learn, softmax", {"X'X": 1.0, "eigh": 1.0}
    people, cold = "exposure, people", "cold fit, pipeline"
    leverages, one = "X V and a product", {"X V and a product": 1.0}
    return [
        Line("logistic, cold fit", "cold fit", head, {head: 1.0}, 1),
        Line("  whole pipeline", "cold fit, pipeline", pipeline, {pipeline: 1.0}),
        Line("  one person forgotten", "one person", pipeline, {pipeline: 1.0}, 1 / 3),
        Line("  one per cent of the people", "one per cent", pipeline, {pipeline: 1.0}, 1 / 3),
        Line("softmax, cold fit", "cold fit, softmax", softmax, {softmax: 1.0}),
        Line("  one row forgotten", "one row, softmax", softmax, {softmax: 1.0}, 1 / 3),
        Line("  one per cent of the rows", "one per cent, softmax", softmax, {softmax: 1.0}),
        Line("ridge, scaler and alpha: one row", "one row, ridge", "X'X + eigh", squares, 1.5),
        Line("  alphas too close to tell", "one row, close alphas", "X'X + eigh", squares),
        Line("  cold fit", "cold fit, ridge", "X'X + eigh", squares),
        Line("exposure of all people, logistic", people, cold, {cold: 1.0}, 3),
        Line("  against scikit-learn", people, pipeline, {pipeline: 1.0}),
        Line("exposure of all rows, squares", "exposure, squares", leverages, one, 1.5),
        Line("  default noise", "exposure, default noise", leverages, one),
    ]


def _lines_of_living(size: Size, plan: Plan, outcome: Outcome) -> list[Line]:
    work, one = {"reading": 1.0, "refit": 1.0}, {"one person": 1.0}
    many = f"{many_people(size):,} people in one run"
    longest = lengths(size)[-1]
    growth = [
        Line(
            f"{name}, {length:,} entries in the log",
            f"{name}, {length} entries",
            "10 entries",
            {f"{name}, 10 entries": 1.0},
            2 if length == longest else None,
        )
        for name in COMMANDS
        for length in lengths(size)[1:]
    ]
    return [
        Line("one person forgotten", "one person", "reading + refit", work, 2),
        Line(many, "many people", "one person", one, 3),
        Line("pilu --help", "pilu --help", "import numpy", {"import numpy": 1.0}, 3),
        *growth,
    ]


def _lines_of_the_service(size: Size, plan: Plan, outcome: Outcome) -> list[Line]:
    health = {"health, each": 1.0}
    return [
        Line("status, against the least answer", "status, each", "/health", health),
        Line("prediction, against the same", "prediction, each", "/health", health),
        Line("a request made, against the same", "made, each", "/health", health),
    ]


# Figures of the service with a limit of their own: the time, its unit, the limit, what it is of.
_OF_THE_SERVICE = (
    ("status while people are forgotten", "status, each", "ms", 1.0, "1,000 a second"),
    ("  p99", "status, p99", "ms", 20.0, "20 ms"),
    ("prediction of one row", "prediction, each", "ms", 2.0, "500 a second"),
    ("  p99", "prediction, p99", "ms", None, "20 ms"),
    ("start-up", "start-up", "s", 3.0, "3 s"),
    ("memory, idle", "memory, idle", "MB", 250.0, "250 MB"),
    ("  while it predicts", "memory, predicting", "MB", None, "250 MB"),
    ("1,000 requests at once, carried out", "carried out", "s", None, "10 s"),
)
_REFERENCES = {"1,000 a second": 1.0, "20 ms": 20.0, "500 a second": 2.0, "3 s": 3.0,
               "250 MB": 250.0, "10 s": 10.0}  # fmt: skip


def _service(outcome: Outcome) -> Iterable[Row]:
    for work, name, unit, limit, reference in _OF_THE_SERVICE:
        if name in outcome.times:
            values = [(1000.0 if unit == "ms" else 1.0) * t for t in outcome.times[name]]
            value, against = statistics.median(values), _REFERENCES[reference]
            spread = f"{min(values):.3g} to {max(values):.3g}"
            yield Row(
                work, value, unit, reference, against, value / against,
                None if limit is None else 1, len(values), spread,
            )  # fmt: skip
    for name in ("lost", "doubled", "not_verified"):
        if name in outcome.counts:
            found = outcome.counts[name]
            called = f"requests {name.replace('_', ' ')}"
            yield Row(called, found, "rows", "none", 1, found, 0, 1, "counted")


def _beyond_steps(times: Times) -> Iterable[Row]:
    """What a deletion takes beside its steps, against 50 ms."""
    if "steps" in times and "deletion" in times:
        more = [t - s for t, s in zip(times["deletion"], times["steps"], strict=False)]
        value = max(statistics.median(more), 0.0)
        yield Row("  beyond its steps", value, "s", "50 ms", 0.05, value / 0.05, 1, len(more))


def _blocks(counts: Counts) -> Iterable[Row]:
    if "blocks" in counts:
        peak = counts["blocks"]
        yield Row("peak memory above X", peak, "blocks", "4 blocks of 32 MB", 4, peak / 4, 1, 1)


def _around_exact(one_run: float) -> dict[str, float]:
    return {"Algorithm 1 before exact": one_run / 2, "Algorithm 1 after exact": one_run / 2}


def _timed(lines: Iterable[Line], times: Times) -> Iterable[Row]:
    for work, name, reference, weights, at_most, factor, remark in lines:
        # zip stops at the last repeat in which both sides were timed
        took = [factor * t for t in times.get(name, [])]
        against = [
            sum(w * t for w, t in zip(weights.values(), parts, strict=True))
            for parts in zip(*(times.get(part, []) for part in weights), strict=False)
        ]
        pairs = list(zip(took, against, strict=False))
        if pairs:
            value, reference_value = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratios = [t / a for t, a in pairs]
            ratio = statistics.median(ratios)
            spread = (min(ratios), max(ratios)) if len(ratios) > 1 else None
            yield Row(
                *(work, value, "s", reference, reference_value, ratio, at_most, len(pairs)),
                *(remark, spread),
            )


def _counted(size: Size, counts: Counts) -> Iterable[Row]:
    if size.b is None or "rows_of_steps" not in counts:
        return
    allowed = size.K * size.b
    for work, name, at_most in (
        ("rows read by the unlearning steps", "rows_of_steps", 1.0),
        ("  with the check of digests", "rows_with_check", None),
    ):
        read = counts[name]
        yield Row(work, read, "rows", "K b", allowed, read / allowed, at_most, 1, "counted")


def _workers(counts: Counts) -> Iterable[Row]:
    if "worker_megabytes" in counts:
        peak = counts["worker_megabytes"]
        remark = "the larger of two, its libraries included"
        yield Row("peak memory of a worker", peak, "MB", "2 GB", 2000, peak / 2000, 1, 1, remark)


def _memory(size: Size, measured: Mapping[str, Any] | None) -> Iterable[Row]:
    if measured is None:
        return
    above = measured["peak_above"]
    phase = max((p for p in ("fit", "theorem", "exact") if p in above), key=above.__getitem__)
    peak, allowed = above[phase] / 1e6, memory.limit(size) / 1e6
    remark = f"in {phase}"
    yield Row(
        "peak memory", peak, "MB", "X + 6 p^2 + 200 MB", allowed, peak / allowed, 1, 1, remark
    )
