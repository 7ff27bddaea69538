"""Fit a table of any size in one pass over its rows, none of which are kept."""

import math
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from pilu._checks import check_choice
from pilu.chains.problem import Problem
from pilu.data.names import Names
from pilu.data.rows import ArrayRows, RowSource
from pilu.data.table import Columns, Scan, Table
from pilu.data.table_rows import TablePass, batch_bytes_within
from pilu.data.targets import ClassTargets, NumericTargets, encoded_targets, sorted_classes
from pilu.desk.model_records import KINDS, Model
from pilu.estimators.fitted import warn_unless_converged
from pilu.estimators.learning import learn, resolve_step_size
from pilu.estimators.outputs import LangevinClassifier
from pilu.estimators.requests import RowBook
from pilu.exceptions import WrongInput
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.spectral import check_room


def fit_table(
    table: Table,
    columns: Columns,
    *,
    loss: str,
    scheduler: str | None,
    memory: int | None,
    **parameters: Any,
) -> tuple[Model, Names]:
    """Learn from a table in one pass, within `memory` bytes, or on a dask cluster.

    Returns the model and the hashed names of its rows. For other losses than ridge, the rows stay
    in memory during learning.
    """
    model = _model(loss, columns.classify, parameters)
    if table.n_rows < 2:
        raise WrongInput(f"{table.path} must have at least 2 rows, got {table.n_rows}.")
    n, width = table.n_rows, len(table.features)
    if scheduler is not None and not model.learns_from_sums:
        raise WrongInput(
            f"scheduler must be left out for the {loss} loss: every step reads the rows again, in "
            "one process."
        )
    held = table.held_bytes + (0 if model.learns_from_sums else 8 * n * width)
    most_bytes = batch_bytes_within(memory, n, width + bool(model.fit_intercept), held)
    targets, key = _targets(table, model), secrets.token_bytes(32)
    kinds = ("subject",) if columns.id is None else ("id", "subject")
    one = TablePass(table.path, n, targets, key, kinds)
    source = RowSource(
        None, width, bool(model.fit_intercept), np.ones(n, dtype=bool), one.notes.digests, key
    )
    problem = _problem(table, one, model, source, most_bytes, scheduler)
    one.check()
    _check_unique(table, one.notes.names)
    step_size = _step_size(model.step_size, problem.largest)
    counts = None
    if isinstance(targets, ClassTargets):
        counts = targets.counts(one.notes.target_sums, n)
    book = RowBook(None, None, key)
    fitted = learn(model, problem, book, class_counts=counts, step_size=step_size)
    warn_unless_converged(fitted)
    return model.adopt(fitted, targets, width), one.notes.names


def _targets(table: Table, model: Model) -> NumericTargets | ClassTargets:
    if not isinstance(model, LangevinClassifier):
        first = table.take(np.array([0], dtype=np.intp)).y
        return NumericTargets(encoded_targets(table.path, first, NumericTargets()).shape[1])
    classes = sorted_classes(table.path, table.targets())
    if len(classes) == table.n_rows:
        raise WrongInput(
            f"{table.path}: the target must have fewer classes than there are rows, got "
            f"{table.n_rows:,}, one for each. For numbers, leave out --classify; --loss huber "
            "takes them too."
        )
    return ClassTargets(classes, model.signed)


def _model(loss: str, classify: bool, parameters: Mapping[str, Any]) -> Model:
    squared = "classification" if classify else "regression"
    kinds = {"squared": squared, "logistic": "logistic", "huber": "huber"}
    check_choice("loss", loss, tuple(kinds))
    if loss != "squared" and classify != (loss == "logistic"):
        expected = "a class (--classify)" if loss == "logistic" else "a number, not a class,"
        raise WrongInput(
            f"the target must be {expected} for the {loss} loss. Classes take --loss logistic."
        )
    model = KINDS[kinds[loss]](**parameters)
    model.check_parameters()
    if model.batch_size is not None:
        raise WrongInput("batch_size must be None for a table.")
    return model


def _problem(
    table: Table,
    one: TablePass,
    model: Model,
    source: RowSource,
    most_bytes: int,
    scheduler: str | None,
) -> Problem:
    n, p, alpha, d = source.n_rows, source.n_columns, float(model.alpha), one.targets.n_outputs
    if not model.learns_from_sums:
        X, Y = np.empty((n, source.n_features)), np.empty((n, d))
        for batch in table.batches(Scan(most_bytes=most_bytes)):
            X[batch.places], Y[batch.places] = one.rows(batch)
        one.check()  # otherwise some rows may be undefined
        return model.make_problem(source.reading(ArrayRows(X, Y)), d)
    if scheduler is None:
        with one.here(table, most_bytes) as read:
            return RidgeProblem.collected(source, alpha, d, read)
    if n < p:
        raise WrongInput(
            f"scheduler must be left out for fewer rows than columns, got {n:,} rows of {p:,}: "
            "such a table is fitted from its rows, in one process."
        )
    check_room(p)
    statistics = one.by_cluster(table, scheduler, fit_intercept=source.fit_intercept)
    return RidgeProblem.of_statistics(source, alpha, statistics)


def _check_unique(table: Table, names: Names) -> None:
    place = names.first_duplicate("id") if "id" in names.hashes else None
    if place is not None:
        (name,) = table.take(np.array([place], dtype=np.intp)).ids or ("",)
        raise WrongInput(
            f"{table.path}: ids must be unique, got {name!r} more than once. For a person "
            "with several rows, give a subject column."
        )


def _step_size(given: float | str, largest: float) -> float:
    """The estimator's step size; for "auto", rounded down to an eighth of an octave (9 % at most).

    All digits of 1/L, together with the statistics that are left, would reveal the removed rows.
    """
    step_size = resolve_step_size(given, largest)
    if not isinstance(given, str):
        return step_size
    return float(2.0 ** (math.floor(8 * math.log2(step_size)) / 8))
