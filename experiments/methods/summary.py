"""What the pictures and the page read off the tables of the six methods."""

from typing import NamedTuple

import pandas as pd

from experiments.methods.config import TITLES
from experiments.store import Store


class Cell(NamedTuple):
    """A method's answers to requests of one share: means over repeats, and ranges."""

    loss: float
    loss_low: float
    loss_high: float
    seconds: float
    seconds_low: float
    seconds_high: float
    epsilon: float
    before: float
    loss_before: float
    after: float
    delta: float
    n_rows: float
    certified: bool
    against: str
    why: str

    @property
    def answered(self) -> bool:
        return not self.why


def tables(store: Store) -> dict[str, pd.DataFrame]:
    """The table of every data set that was computed, in the order of the titles."""
    there = {name: f"methods_{name}" for name in TITLES if store.holds(f"methods_{name}")}
    if not there:
        store.read("methods_digits")  # says how to make it
    return {name: with_losses(store.read(table)) for name, table in there.items()}


def with_losses(table: pd.DataFrame) -> pd.DataFrame:
    """The table, and what is lost against retraining for the same request.

    In points of accuracy or AUC; for RMSE in per cent of retraining's.
    """
    words = {name: table[name].astype(object).fillna("") for name in ("why", "against")}
    table = table.assign(**words)
    reference = table[table["method"] == "retraining"].set_index(["share", "repeat"])["after"]
    keys = pd.MultiIndex.from_frame(table[["share", "repeat"]])
    own = reference.reindex(keys).to_numpy()
    measure = table["measure"].iloc[0]
    return table.assign(
        reference=own,
        loss=lost(table["after"], own, measure),
        loss_before=lost(table["before"], own, measure),
    )


def lost(score, reference, measure: str):
    """Points, or per cent of the reference's RMSE; positive is worse."""
    return 100 * (score / reference - 1) if measure == "RMSE" else 100 * (reference - score)


def unit(measure: str) -> str:
    return "% of RMSE" if measure == "RMSE" else f"points of {measure}"


def cell(table: pd.DataFrame, method: str, share: str) -> Cell:
    some = table[(table["method"] == method) & (table["share"] == share)]
    refused = some[some["why"] != ""]
    first = (refused if len(refused) else some).iloc[0]
    loss, seconds = some["loss"], some["seconds"]
    return Cell(
        loss.mean(),
        loss.min(),
        loss.max(),
        seconds.mean(),
        seconds.min(),
        seconds.max(),
        some["epsilon"].mean(),
        some["before"].mean(),
        some["loss_before"].mean(),
        some["after"].mean(),
        some["delta"].mean(),
        some["n_rows"].mean(),
        bool(some["certified"].all()),
        first["against"],
        first["why"],
    )


def constant_loss(table: pd.DataFrame) -> float:
    """What the constant predictor loses against retraining."""
    first = table.iloc[0]
    return float(lost(first["constant"], table["reference"].mean(), first["measure"]))
