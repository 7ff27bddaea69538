"""What a claim is found to be, what the words of a verdict mean, and how tables are read for it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from experiments.store import Store

ACCOUNTANTS = ("theorem", "exact")
SUBSTANTIAL = 2.0
COMPARABLE = 1.1  # an error at most this many times as large
PLATEAU = 0.9  # share of the whole gain that is reached
SATURATED = 1.05  # an error at most this many times the least
NOTHING = 1e-6  # noise below this is the rounding floor: none is needed
ORDERED = 0.9  # rank correlation
EPSILON = 1.0
IN_PART, OPEN = "in part", "not decided"

THRESHOLDS = (
    f"substantially: a factor of {SUBSTANTIAL:g}",
    f"comparable: an error at most {COMPARABLE:g} times as large",
    f"saturated: for every row {PLATEAU:.0%} of the gain up to the largest K is reached, or the "
    f"error is within {SATURATED - 1:.0%} of the least",
    f"in order: a rank correlation of {ORDERED:g}",
    "monotone: by the closed form, up to 0.0001",
    "better curves of mini-batches: by two standard errors of the runs",
    "rows: those of the figure, at epsilon = 1 where none is named",
)


@dataclass(frozen=True)
class Finding:
    """One claim and what became of it. Verdicts are None where no accountant matters."""

    figure: str
    claim: str
    measured: str
    theorem: bool | str | None
    exact: bool | str | None = None
    reason: str = ""  # why not, where it does not hold


Claim = Callable[[Store, str], Finding]


def span(values: Iterable[float]) -> str:
    values = list(values)
    low, high = min(values), max(values)
    return number(low) if number(low) == number(high) else f"{number(low)} to {number(high)}"


def number(value: float) -> str:
    if np.isinf(value):
        return "without limit"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def by_accountant(frame: pd.DataFrame, column: str = "accountant") -> dict[str, pd.DataFrame]:
    return {name: frame[frame[column] == name] for name in ACCOUNTANTS}


def main_set(store: Store, study: str) -> dict[str, pd.DataFrame]:
    """The privacy-utility table of the rows that most figures show."""
    table = store.read(f"{study}_privacy_utility")
    return by_accountant(table[table["set"] == table["set"].iloc[0]])


def grid(frame: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """y by x (down) and row (across, the smallest gradient first)."""
    order = list(dict.fromkeys(frame["row"]))
    return frame.pivot_table(index=x, columns="row", values=y)[order]


def settings(store: Store, study: str) -> dict:
    return store.provenance(f"{study}_rows")["config"]


def loss(study: str, scores: pd.DataFrame) -> pd.DataFrame:
    """Scores turned so that smaller is better."""
    return 1 - scores if study == "mnist" else scores


def both(found: dict[str, str]) -> str:
    return f"Theorem 1: {found['theorem']}; exact: {found['exact']}"


def spread_of(frame: pd.DataFrame) -> pd.Series:
    """Largest over smallest value in every line; without limit where the smallest is nothing."""
    least = frame.min(axis=1)
    return (frame.max(axis=1) / least.where(least > NOTHING)).fillna(np.inf)
