"""Fit a table of any size: one pass, batch after batch, and nothing of the rows is kept."""

import math
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.deletion.snapshot import Model
from pilu.deletion.tables import Batch, Table
from pilu.dynamics.chain import Chain
from pilu.dynamics.schedule import Segment
from pilu.estimators.base import check_scale
from pilu.estimators.fitted import Fitted
from pilu.estimators.requests import RowBook
from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.rows import RowSource

__all__ = ["FittedTable", "ReadElsewhere", "encoded_targets", "fit_table"]

Array = NDArray[np.float64]

_MOST_CLASSES = 1000


class FittedTable(NamedTuple):
    """What is made of a table."""

    model: Model
    names: dict[str, list[Any]]  # of the rows, by kind: "id", "subject"
    class_counts: list[int] | None  # rows of every class


def fit_table(table: Table, key: bytes, *, classify: bool, **parameters: Any) -> FittedTable:
    """Learn from a table in one pass."""
    kind = LangevinRidgeClassifier if classify else LangevinRidge
    model: Model = kind(**parameters)
    model._check_parameters()
    if model.batch_size is not None:
        raise ValueError("batch_size must be None for a table: it is read once, in one pass.")
    if table.n_rows < 2:
        raise ValueError(f"{table.path} must have at least 2 rows, got {table.n_rows}.")
    n, p = table.n_rows, len(table.features)
    classes = _classes(table) if classify else None
    reader = _Reader(table, classes)
    source = RowSource(
        ReadElsewhere(n, p),  # type: ignore[arg-type]
        None,
        bool(model.fit_intercept),
        np.ones(n, dtype=bool),
        np.zeros((n, 16), dtype=np.uint8),
        key,
    )

    def read(share: int, shares: int) -> Iterator[tuple[Array, Array]]:
        for places, X, Y in reader.shared():
            source.digests[places] = source.digest(X, Y)
            yield X, Y

    with progress_bar(n, what="learning", unit="row") as reader.bar:
        problem = RidgeProblem.collected(source, float(model.alpha), reader.n_outputs, read)
    for name, largest in reader.largest.items():
        check_scale(f"{table.path}: {name}", largest)
    if isinstance(model, LangevinRidge):
        model._single_output = reader.n_outputs == 1
    else:
        assert classes is not None
        model.classes_ = classes
    model.n_features_in_ = p
    chain = Chain.learn(
        problem,
        step_size=_step_size(model, problem.spectrum.largest),
        solver="spectral",
        start=np.zeros((source.n_columns, reader.n_outputs)),
        segment=Segment(int(model.n_steps), float(model.noise)),
        gaussian=model._gaussian(stream=0),
    )
    model._fitted = Fitted(chain, RowBook(None, None, key))
    counts = reader.target_sums.astype(int).tolist() if classify else None
    return FittedTable(model, reader.names, counts)


def _step_size(model: Model, largest: float) -> float:
    """The estimator's, and for "auto" at most nine hundredths less.

    1/L with all its digits would tell, beside the statistics that are left, who was taken out.
    """
    found = model._resolve_step_size(largest)
    if not isinstance(model.step_size, str):
        return found
    return float(2.0 ** (math.floor(8 * math.log2(found)) / 8))


class _Reader:
    """Batches of a table, handed to whoever asks next; each once."""

    def __init__(self, table: Table, classes: NDArray[Any] | None) -> None:
        self._table, self._classes = table, classes
        self._lock = threading.Lock()
        first = table.take(np.array([0], dtype=np.intp))
        self.n_outputs = encoded_targets(table.path, first.y, classes).shape[1]
        self._ids: list[Any] | None = None if first.ids is None else [None] * table.n_rows
        self._subjects: list[Any] | None = None if first.subjects is None else [None] * table.n_rows
        self._batches: Iterator[Batch] = iter(())
        self._started = False
        self.largest = {"features": 0.0, "targets": 0.0}  # magnitudes seen
        self.target_sums = np.zeros(self.n_outputs)
        self.bar: Any = None

    @property
    def names(self) -> dict[str, list[Any]]:
        """Names of all rows, once they have been read; ids must be unique."""
        found = {"id": self._ids, "subject": self._subjects}
        counts = Counter(map(str, self._ids or ()))
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is not None:
            raise ValueError(
                f"{self._table.path}: ids must be unique, got {twice!r} more than once. Name a "
                "person with several rows by a subject column."
            )
        return {kind: names for kind, names in found.items() if names is not None}

    def shared(self) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
        """Several threads may take from it at the same time."""
        with self._lock:
            if not self._started:
                self._started, self._batches = True, self._table.batches()
        while True:
            with self._lock:
                batch = next(self._batches, None)
            if batch is None:
                return
            self._note(batch)
            Y = encoded_targets(self._table.path, batch.y, self._classes)
            with self._lock:
                for name, values in (("features", batch.X), ("targets", Y)):
                    seen = float(np.max(np.abs(values), initial=0.0))
                    self.largest[name] = max(self.largest[name], seen)
                self.target_sums += Y.sum(axis=0)
                self.bar.update(len(batch.places))
            yield batch.places, batch.X, Y

    def _note(self, batch: Batch) -> None:
        first, last = int(batch.places[0]), int(batch.places[-1]) + 1
        if self._ids is not None and batch.ids is not None:
            self._ids[first:last] = batch.ids
        if self._subjects is not None and batch.subjects is not None:
            self._subjects[first:last] = batch.subjects


def encoded_targets(path: Path, y: NDArray[Any], classes: NDArray[Any] | None) -> Array:
    """Targets as they stand in a table, as numbers: n x d, a column for every class."""
    if classes is not None:
        return np.asarray(y[:, None] == classes, dtype=np.float64)
    if y.dtype.kind not in "iufb":
        raise ValueError(
            f"{path}: the target must be numeric, got {y[:1].tolist()[0]!r}. For classes pass "
            "--classify."
        )
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def _classes(table: Table) -> NDArray[Any]:
    found: set[Any] = set()
    for batch in table.batches():
        if batch.y.ndim > 1:
            raise ValueError(f"{table.path}: a class must be in one column, got several targets.")
        found |= set(batch.y.tolist())
        if len(found) > _MOST_CLASSES:
            raise ValueError(
                f"{table.path}: the target must have at most {_MOST_CLASSES} classes, got more. "
                "For numbers leave out --classify."
            )
    texts = [label for label in found if isinstance(label, str)]
    others = [label for label in found if not (isinstance(label, str) or _is_whole(label))]
    if others or 0 < len(texts) < len(found):
        raise ValueError(
            f"{table.path}: classes must be text or whole numbers, all of one kind, got "
            f"{(others or texts)[0]!r}."
        )
    if len(found) < 2:
        raise ValueError(f"{table.path}: the target must have at least 2 classes, got {found}.")
    return np.array(sorted(found))


def _is_whole(label: Any) -> bool:
    return isinstance(label, int) or (isinstance(label, float) and label.is_integer())


class ReadElsewhere:
    """Stands for an array whose rows never come through a `RowSource`."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
