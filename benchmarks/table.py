"""Figures as tables for reading."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.cyclic import quoted_together
from benchmarks.data import Size
from benchmarks.work import Counts, Plan, deletions_wanted


def ratio_text(ratio: float) -> str:
    """Small ratios as fractions, which is how the figures to reach are given."""
    return f"{ratio:.3g}" if ratio >= 0.1 or ratio == 0 else f"1/{1 / ratio:.0f}"


def spread_text(spread: Sequence[float] | None) -> str:
    """The least and the largest ratio, as fractions or not."""
    return "" if spread is None else " to ".join(map(ratio_text, spread))


def text(found: list[dict[str, Any]]) -> str:
    """The table for reading."""
    head = (
        *("work", "took", "reference", "took", "ratio", "spread"),
        *("at most", "", "of", "since the last", ""),
    )
    body = [
        (
            r["work"],
            _amount(r["value"], r["unit"]),
            r["reference"],
            _amount(r["reference_value"], r["unit"]),
            ratio_text(r["ratio"]),
            spread_text(r["spread"]),
            "" if r["at_most"] is None else ratio_text(r["at_most"]),
            "" if r["at_most"] is None else ("yes" if r["ratio"] <= r["at_most"] else "NO"),
            str(r["repeats"]),
            r.get("change", ""),
            r["remark"],
        )
        for r in found
    ]
    return aligned([head, *body])


def _amount(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if unit == "rows" else f"{value:.4g} {unit}"


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """Columns of the width of their widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


_ABOUT_LIVING = (
    "People are forgotten by calls within one process, receipts on the disk included. Commands on "
    "a log are whole processes."
)


_ABOUT_SERVE = (
    "Calls come from another process over loopback, 8 connections (32 to predict), for 8 seconds. "
    "{deletions} people were forgotten one after the other while the status was read."
)


def notes(size: Size, plan: Plan, counts: Counts, measured: Mapping[str, Any] | None) -> list[str]:
    """What was scaled, or not measured."""
    whole = size.T + size.K
    found = []
    if plan.literal_steps < whole:
        found.append(
            f"Algorithm 1 is timed for {plan.literal_steps} of its {whole} steps and scaled up."
        )
    if size.living:
        return [_ABOUT_LIVING]
    if size.serve:
        return [_ABOUT_SERVE.format(deletions=counts.get("deletions", 0))]
    if size.cluster or size.smooth:
        return []
    if size.desk:
        return [*found, "unlearn is the desk's call within one process; start-up comes on top."]
    if size.b is not None:
        return found + _notes_on_mini_batches(size, plan)
    if plan.long_repeats == 1 < plan.repeats:
        found.append(
            "The exact quote and the deletions in a row are timed once, "
            "with Algorithm 1 before and after them."
        )
    quoted, forgotten = counts.get("exact_rows", size.n), counts.get("deletions")
    if quoted < size.n:
        found.append(
            f"The exact quote is timed on {quoted} of {size.n} rows, listed, and scaled up."
        )
    if forgotten is not None and forgotten < deletions_wanted(size):
        found.append(f"Patience ended after {forgotten} of {deletions_wanted(size)} deletions.")
    if measured is None:
        found.append("Peak memory was not measured.")
    elif not measured["exact_finished"]:
        found.append("Peak memory covers the beginning of the exact quote only.")
    return found


def _notes_on_mini_batches(size: Size, plan: Plan) -> list[str]:
    found, count = [], quoted_together(size)
    if plan.literal_steps < size.T:
        found.append(
            f"So are the products and the pass back of {count} vectors: {plan.literal_steps} of "
            f"{size.T} steps."
        )
    if plan.long_repeats == 1 < plan.repeats:
        found.append(f"The quote of {count} rows and the exact deletion are timed once.")
    found.append(
        "Rows are counted each time that they are read. Before the first step the rows of all "
        "batches that it will meet are compared with their digests; the steps' own reads are "
        "counted with that check left out."
    )
    return found
