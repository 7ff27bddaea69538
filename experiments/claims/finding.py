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
ORDERED, TENDENCY = 0.9, 0.7  # rank correlations
VISIBLE = 0.1  # share of what a model knows more than a constant
EPSILON = 1.0
IN_PART, OPEN = "in part", "not decided"

THRESHOLDS = (
    f"substantially: a factor of {SUBSTANTIAL:g}",
    f"comparable: an error at most {COMPARABLE:g} times as large",
    f"saturated: for every row {PLATEAU:.0%} of the gain up to the largest K is reached, or the "
    f"error is within {SATURATED - 1:.0%} of the least",
    f"in order: a rank correlation of {ORDERED:g}; from {TENDENCY:g} it is a tendency (in part)",
    "monotone: for every row, by the closed form, up to 0.0001; in part: for some rows",
    "rises with T: for every row from the first T to the last, substantially; in part: it falls "
    "first, and rises substantially after its least",
    f"much more utility: substantially more of the skill, and {VISIBLE:.0%} of it at least. The "
    "share of skill that is lost is (error - before) / (constant - before)",
    "a factor of four: the largest gradient's noise over the smallest gradient's is 3 to 5 at its "
    "largest, and substantial at every epsilon; in part: it is larger than 5",
    "DP-GD: at each epsilon the better of the paper's setting and the tuned one, never worse than "
    "a constant",
    "easy and hard rows: those that need the least and the most noise at epsilon = 1",
    "easy rows keep substantially more: at one epsilon or more, and behind by more than 10% at "
    "none. At large epsilon no method can be a factor of 2 ahead. In part: a hard row is behind",
    "better than DP-GD: at every row and epsilon, most at the row with the largest gradient; in "
    "part: at most rows at epsilon = 1",
    f"formula off after T steps: by {VISIBLE:.0%} of the residual for every row; in part: less "
    "for some",
    "not vacuous: the paper says it of the guarantee. Judging it by the error is our reading",
    "better curves of mini-batches: by two standard errors of the runs",
    "in part: also where some rows, or one of two studies, meet the rule",
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


def by_noise(table: pd.DataFrame) -> list[int]:
    """The rows of one accountant, from the least noise at epsilon = 1 to the most."""
    noise = grid(table, "epsilon", "noise").loc[EPSILON]
    return [int(row) for row in noise.sort_values(kind="stable").index]


def references(store: Store, study: str) -> pd.Series:
    """The error before a request, and that of a constant."""
    table = store.read(f"{study}_references").set_index("name")
    return loss(study, table[["value"]])["value"]


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
