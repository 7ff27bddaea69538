"""Figures from raw times: a pure function of them, so that an interrupted run has figures too."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import memory
from benchmarks.data import Size
from benchmarks.work import Outcome, Plan


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


def rows(
    size: Size, plan: Plan, outcome: Outcome, measured: Mapping[str, Any] | None, *, judged: bool
) -> list[dict[str, Any]]:
    """All rows for which there are times; the figures to reach are for the size that is judged."""
    found = [*_timed(size, plan, outcome), *_memory(size, measured)]
    return [asdict(row) | ({} if judged else {"at_most": None}) for row in found]


def _timed(size: Size, plan: Plan, outcome: Outcome) -> Iterable[Row]:
    one_run = (size.T + size.K) / plan.literal_steps
    around_exact = {"Algorithm 1 before exact": one_run / 2, "Algorithm 1 after exact": one_run / 2}
    around_deletions = {
        "Algorithm 1 after exact": one_run / 2,
        "Algorithm 1 after deletions": one_run / 2,
    }
    times, a1 = outcome.times, "Algorithm 1"
    quoted = outcome.counts.get("exact_rows", size.n)
    exact_remark = "" if quoted == size.n else f"from {quoted} listed rows"
    in_a_row = f"{outcome.counts.get('deletions', 0)} deletions in a row"
    # work, its time, factor, reference, names and weights, at most, remark
    lines: list[tuple[str, str, float, str, dict[str, float], float | None, str]] = [
        ("fit", "fit", 1, "X'X + eigh", {"X'X": 1, "eigh": 1}, 1.3, ""),
        (
            "quote all rows, theorem",
            "theorem",
            1,
            f"X V + {size.d + 1} n x p x T",
            {"X V": 1, "products": 1},
            2.5,
            "",
        ),
        ("quote all rows, exact", "exact", size.n / quoted, a1, around_exact, 5, exact_remark),
        ("one deletion, exact", "one deletion", 1, a1, {a1: one_run}, 1 / 1000, ""),
        ("  the first after a fit", "first deletion", 1, a1, {a1: one_run}, None, ""),
        (in_a_row, "mean deletion in a row", 1, a1, around_deletions, 1 / 200, "mean of each"),
        ("  the worst", "worst deletion in a row", 1, a1, around_deletions, None, ""),
    ]
    for work, name, factor, reference, weights, at_most, remark in lines:
        # zip stops at the last repeat in which both sides were timed
        took = [factor * t for t in times.get(name, [])]
        against = [
            sum(w * t for w, t in zip(weights.values(), parts, strict=True))
            for parts in zip(*(times.get(part, []) for part in weights), strict=False)
        ]
        pairs = list(zip(took, against, strict=False))
        if pairs:
            value, reference_value = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = statistics.median(t / a for t, a in pairs)
            yield Row(
                work, value, "s", reference, reference_value, ratio, at_most, len(pairs), remark
            )


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
