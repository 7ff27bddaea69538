"""The main table: a pure function of the raw times, so that an interrupted run has one too."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import memory
from benchmarks.data import Size
from benchmarks.stopwatch import Times
from benchmarks.work import Plan, deletions_in_a_row


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
    size: Size, plan: Plan, times: Times, measured: Mapping[str, Any] | None, *, judged: bool
) -> list[dict[str, Any]]:
    """All rows for which there are times; the figures to reach are for the size that is judged."""
    found = [*_timed(size, plan, times), *_memory(size, measured)]
    return [asdict(row) | ({} if judged else {"at_most": None}) for row in found]


def _timed(size: Size, plan: Plan, times: Times) -> Iterable[Row]:
    one_run = (size.T + size.K) / plan.literal_steps
    around_exact = {"Algorithm 1 before exact": one_run / 2, "Algorithm 1 after exact": one_run / 2}
    around_deletions = {
        "Algorithm 1 after exact": one_run / 2,
        "Algorithm 1 after deletions": one_run / 2,
    }
    count, a1 = deletions_in_a_row(size), "Algorithm 1"
    quoted = min(plan.exact_rows or size.n, size.n)
    exact_remark = "" if plan.exact_rows is None else f"from {quoted} listed rows"
    in_a_row = f"{count} deletions in a row"
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
        (in_a_row, "deletions in a row", 1 / count, a1, around_deletions, 1 / 200, "mean of each"),
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


def ratio_text(ratio: float) -> str:
    """Small ratios as fractions, which is how the figures to reach are given."""
    return f"{ratio:.3g}" if ratio >= 0.1 else f"1/{1 / ratio:.0f}"


def text(found: list[dict[str, Any]]) -> str:
    """The table for reading."""
    head = ("work", "took", "reference", "took", "ratio", "at most", "", "of", "")
    body = [
        (
            r["work"],
            f"{r['value']:.4g} {r['unit']}",
            r["reference"],
            f"{r['reference_value']:.4g} {r['unit']}",
            ratio_text(r["ratio"]),
            "" if r["at_most"] is None else ratio_text(r["at_most"]),
            "" if r["at_most"] is None else ("yes" if r["ratio"] <= r["at_most"] else "NO"),
            str(r["repeats"]),
            r["remark"],
        )
        for r in found
    ]
    return aligned([head, *body])


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """Columns of the width of their widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def notes(size: Size, plan: Plan, measured: Mapping[str, Any] | None) -> list[str]:
    """What was scaled, or not measured."""
    whole = size.T + size.K
    found = []
    if plan.literal_steps < whole:
        found.append(
            f"Algorithm 1 is timed for {plan.literal_steps} of its {whole} steps and scaled up."
        )
    if plan.long_repeats == 1 < plan.repeats:
        found.append(
            "The exact quote and the deletions in a row are timed once, "
            "with Algorithm 1 before and after them."
        )
    if plan.exact_rows is not None and plan.exact_rows < size.n:
        found.append(f"The exact quote is timed on {plan.exact_rows} listed rows and scaled up.")
    if measured is None:
        found.append("Peak memory was not measured.")
    elif not measured["exact_finished"]:
        found.append("Peak memory covers the beginning of the exact quote only.")
    return found
