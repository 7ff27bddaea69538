"""Fit a table of any size in one pass over its rows, none of which are kept."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_choice, check_scale
from pilu.chains.chain import Problem
from pilu.data.rows import RowSource
from pilu.deletion.gathering import (
    Gathered,
    batch_bytes_within,
    changed,
    gathered_by_cluster,
    gathered_here,
)
from pilu.deletion.lazy_rows import encoder
from pilu.deletion.model_records import KINDS, Model
from pilu.deletion.names import Names
from pilu.deletion.tables import Columns, Table
from pilu.deletion.targets import sorted_classes
from pilu.estimators.outputs import LangevinClassification, LangevinRegression
from pilu.estimators.requests import RowBook
from pilu.estimators.smooth import LangevinHuber, LangevinLogistic
from pilu.exceptions import WrongInput
from pilu.losses.problem import SmoothProblem
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.spectrum import check_room

__all__ = ["FittedTable", "ReadElsewhere", "fit_table"]

Encode = Callable[[NDArray[Any]], NDArray[np.float64]]  # of targets


class FittedTable(NamedTuple):
    """A model fitted on a table, the hashed names of its rows, and the size of each class."""

    model: Model
    names: Names
    class_counts: list[int] | None  # rows of each class


def fit_table(
    table: Table,
    columns: Columns,
    key: bytes,
    *,
    loss: str = "squared",
    scheduler: str | None = None,
    memory: int | None = None,
    **parameters: Any,
) -> FittedTable:
    """Learn from a table in one pass, within `memory` bytes, or on a dask cluster.

    For other losses than ridge, the rows stay in memory during learning.
    """
    model = _model(loss, columns.classify, parameters)
    if table.n_rows < 2:
        raise WrongInput(f"{table.path} must have at least 2 rows, got {table.n_rows}.")
    n, width = table.n_rows, len(table.features)
    smooth = isinstance(model, LangevinLogistic | LangevinHuber)
    if smooth and scheduler is not None:
        raise WrongInput(
            f"scheduler must be left out for the {loss} loss: every step reads the rows again, in "
            "one process."
        )
    held = table.held_bytes + (8 * n * width if smooth else 0)
    most_bytes = batch_bytes_within(memory, n, width + bool(model.fit_intercept), held)
    model.n_features_in_ = width
    if isinstance(model, LangevinClassification):
        model.classes_ = sorted_classes(table.path, table.targets())
        if len(model.classes_) == n:
            raise WrongInput(
                f"{table.path}: the target must have fewer classes than there are rows, got {n:,}, "
                "one for each. For numbers, leave out --classify; --loss huber takes them too."
            )
    encode = encoder(model, table.path)
    d = encode(table.take(np.array([0], dtype=np.intp)).y).shape[1]
    if isinstance(model, LangevinRegression):
        model._single_output = d == 1
    kinds = ("subject",) if columns.id is None else ("id", "subject")
    gathered = Gathered(n, d, kinds, key)
    problem: Problem
    if smooth:
        problem = _in_memory(table, gathered, model, encode, most_bytes, key)
        largest = problem.largest
    else:
        problem = _in_one_pass(table, gathered, model, most_bytes, key, scheduler)
        largest = problem.spectrum.largest
    _check_gathered(table, gathered)
    _check_unique(table, gathered.names)
    start = np.zeros((problem.source.n_columns, d))
    model._learn(problem, _step_size(model, largest), start, RowBook(None, None, key))
    return FittedTable(model, gathered.names, _class_counts(model, gathered))


def _class_counts(model: Model, gathered: Gathered) -> list[int] | None:
    if not isinstance(model, LangevinClassification):
        return None
    Y = model.fitted_.source.Y
    counts = gathered.target_sums if Y is None else model._members(Y).sum(axis=0)
    return [int(count) for count in counts]


def _model(loss: str, classify: bool, parameters: Mapping[str, Any]) -> Model:
    kinds = {"squared": "classification" if classify else "regression"}
    kinds |= {"logistic": "logistic", "huber": "huber"}
    check_choice("loss", loss, tuple(kinds))
    if loss != "squared" and classify != (loss == "logistic"):
        expected = "a class (--classify)" if loss == "logistic" else "a number, not a class,"
        raise WrongInput(
            f"the target must be {expected} for the {loss} loss. Classes take --loss logistic."
        )
    model = KINDS[kinds[loss]](**parameters)
    model._check_parameters()
    if model.batch_size is not None:
        raise WrongInput("batch_size must be None for a table.")
    return model


def _in_one_pass(
    table: Table,
    gathered: Gathered,
    model: Model,
    most_bytes: int,
    key: bytes,
    scheduler: str | None,
) -> RidgeProblem:
    n, p = table.n_rows, len(table.features) + bool(model.fit_intercept)
    source = RowSource(
        ReadElsewhere(n, len(table.features)),  # type: ignore[arg-type]
        None,
        bool(model.fit_intercept),
        np.ones(n, dtype=bool),
        gathered.digests,
        key,
    )
    alpha, d = float(model.alpha), gathered.n_outputs
    classes = model.classes_ if isinstance(model, LangevinClassification) else None
    if scheduler is not None:
        if n < p:
            raise WrongInput(
                f"scheduler must be left out for fewer rows than columns, got {n:,} rows of {p:,}: "
                "such a table is fitted from its rows, in one process."
            )
        check_room(p)
        statistics = gathered_by_cluster(
            table, gathered, classes, key, scheduler, fit_intercept=source.fit_intercept
        )
        return RidgeProblem.of_statistics(source, alpha, statistics)
    with gathered_here(table, gathered, classes, most_bytes) as read:
        return RidgeProblem.collected(source, alpha, d, read)


def _in_memory(
    table: Table,
    gathered: Gathered,
    model: LangevinLogistic | LangevinHuber,
    encode: Encode,
    most_bytes: int,
    key: bytes,
) -> SmoothProblem:
    n = table.n_rows
    X, Y = np.empty((n, len(table.features))), np.empty((n, gathered.n_outputs))
    for batch in table.batches(most_bytes):
        targets = encode(batch.y)
        gathered.note(table.path, batch, targets)
        X[batch.places], Y[batch.places] = batch.X, targets
    _check_gathered(table, gathered)
    source = RowSource(
        X, Y, bool(model.fit_intercept), np.ones(n, dtype=bool), gathered.digests, key
    )
    problem, _ = model._problem(source, gathered.n_outputs)
    assert isinstance(problem, SmoothProblem)
    return problem


def _check_gathered(table: Table, gathered: Gathered) -> None:
    if gathered.n_noted != table.n_rows:
        raise changed(table.path)
    for name, most in zip(("features", "targets"), gathered.largest, strict=True):
        check_scale(f"{table.path}: {name}", most)


def _check_unique(table: Table, names: Names) -> None:
    place = names.twice("id") if "id" in names.hashes else None
    if place is not None:
        (name,) = table.take(np.array([place], dtype=np.intp)).ids or ("",)
        raise WrongInput(
            f"{table.path}: ids must be unique, got {name!r} more than once. For a person "
            "with several rows, give a subject column."
        )


def _step_size(model: Model, largest: float) -> float:
    """The estimator's step size; for "auto", rounded down to an eighth of an octave (9 % at most).

    All digits of 1/L, together with the statistics that are left, would reveal the removed rows.
    """
    step_size = model._resolve_step_size(largest)
    if not isinstance(model.step_size, str):
        return step_size
    return float(2.0 ** (math.floor(8 * math.log2(step_size)) / 8))


class ReadElsewhere:
    """Stands in for an array whose rows are never read through a `RowSource`."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
