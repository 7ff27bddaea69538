"""Fit a table of any size: one pass over the rows, and nothing of them is kept."""

import math
from typing import Any, NamedTuple

import numpy as np

from pilu.deletion.gathering import (
    Gathered,
    batch_bytes_within,
    gathered_by_cluster,
    gathered_here,
)
from pilu.deletion.names import Names
from pilu.deletion.snapshot import Model
from pilu.deletion.tables import Columns, Table
from pilu.deletion.targets import encoded_targets, sorted_classes
from pilu.dynamics.chain import Chain
from pilu.dynamics.schedule import Segment
from pilu.estimators.base import check_scale
from pilu.estimators.fitted import Fitted
from pilu.estimators.requests import RowBook
from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.rows import RowSource
from pilu.ridge.spectrum import check_room

__all__ = ["FittedTable", "ReadElsewhere", "fit_table"]


class FittedTable(NamedTuple):
    """What is made of a table."""

    model: Model
    names: Names
    class_counts: list[int] | None  # rows of every class


def fit_table(
    table: Table,
    columns: Columns,
    key: bytes,
    *,
    scheduler: str | None = None,
    memory: int | None = None,
    **parameters: Any,
) -> FittedTable:
    """Learn from a table in one pass, within so many bytes of memory, or by a dask cluster."""
    kind = LangevinRidgeClassifier if columns.classify else LangevinRidge
    model: Model = kind(**parameters)
    model._check_parameters()
    if model.batch_size is not None:
        raise ValueError("batch_size must be None for a table: it is read once, in one pass.")
    if table.n_rows < 2:
        raise ValueError(f"{table.path} must have at least 2 rows, got {table.n_rows}.")
    n, p = table.n_rows, len(table.features) + bool(model.fit_intercept)
    most_bytes = batch_bytes_within(memory, n, p)
    classes = None
    if columns.classify:
        classes = sorted_classes(table.path, (batch.y for batch in table.batches(most_bytes)))
    first = table.take(np.array([0], dtype=np.intp))
    d = encoded_targets(table.path, first.y, classes).shape[1]
    kinds = ("subject",) if columns.id is None else ("id", "subject")
    gathered = Gathered(n, d, kinds, key)
    source = RowSource(
        ReadElsewhere(n, len(table.features)),  # type: ignore[arg-type]
        None,
        bool(model.fit_intercept),
        np.ones(n, dtype=bool),
        gathered.digests,
        key,
    )
    alpha = float(model.alpha)
    if scheduler is not None and n >= p:
        check_room(p)
        statistics = gathered_by_cluster(
            table, gathered, classes, d, key, scheduler, fit_intercept=source.fit_intercept
        )
        problem = RidgeProblem.of_statistics(source, alpha, statistics)
    else:
        read = gathered_here(table, gathered, classes, most_bytes)
        problem = RidgeProblem.collected(source, alpha, d, read)
    for name, largest in zip(("features", "targets"), gathered.largest, strict=True):
        check_scale(f"{table.path}: {name}", largest)
    _check_unique(table, gathered.names)
    if isinstance(model, LangevinRidge):
        model._single_output = d == 1
    elif classes is not None:
        model.classes_ = classes
    model.n_features_in_ = len(table.features)
    chain = Chain.learn(
        problem,
        step_size=_step_size(model, problem.spectrum.largest),
        solver="spectral",
        start=np.zeros((p, d)),
        segment=Segment(int(model.n_steps), float(model.noise)),
        gaussian=model._gaussian(stream=0),
    )
    model._fitted = Fitted(chain, RowBook(None, None, key))
    counts = None if classes is None else gathered.target_sums.astype(int).tolist()
    return FittedTable(model, gathered.names, counts)


def _check_unique(table: Table, names: Names) -> None:
    place = names.twice("id") if "id" in names.hashes else None
    if place is not None:
        (name,) = table.take(np.array([place], dtype=np.intp)).ids or ("",)
        raise ValueError(
            f"{table.path}: ids must be unique, got {name!r} more than once. Name a person with "
            "several rows by a subject column."
        )


def _step_size(model: Model, largest: float) -> float:
    """The estimator's, and for "auto" at most nine hundredths less.

    1/L with all its digits would tell, beside the statistics that are left, who was taken out.
    """
    found = model._resolve_step_size(largest)
    if not isinstance(model.step_size, str):
        return found
    return float(2.0 ** (math.floor(8 * math.log2(found)) / 8))


class ReadElsewhere:
    """Stands for an array whose rows never come through a `RowSource`."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
