"""Predictions for the rows of a table, as CSV, each with the name of its row."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from pilu._progress import progress_bar
from pilu.data.sources import open_source
from pilu.data.tables import feature_batches
from pilu.exceptions import WrongInput
from pilu.store.disk import replaced_by
from pilu.tabular.frames import frame_of
from pilu.tabular.json_rows import table_of_rows

if TYPE_CHECKING:  # the desk of one method does not import the other's
    from pilu.desk.langevin_snapshot import LangevinSnapshot
    from pilu.desk.refit_snapshot import RefitSnapshot

Lines = Iterator[list[list[Any]]]  # batches of lines
Rows = Sequence[Mapping[str, Any]]
# Of rows, and whether probabilities are wanted: predictions, and the probability of each class.
Predictor = Callable[[Rows, bool], tuple[list[Any], list[dict[str, float]] | None]]


def write_predictions(names: Sequence[str], lines: Lines, out: Path) -> int:
    """Write a line of predictions for every row, and return how many there are.

    The file gets its name once it is complete.
    """
    n = 0
    with (
        replaced_by(out) as part,
        part.open("w", newline="", encoding="utf-8") as file,
        progress_bar(0, what="predicting", unit="row") as bar,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for batch in lines:
            writer.writerows(batch)
            n += len(batch)
            bar.update(len(batch))
    return n


def by_refit(
    held: "RefitSnapshot", rows: str | Path, *, probabilities: bool
) -> tuple[list[str], Lines]:
    """Names of columns, and lines with the id and the subject of a row where the table has them."""
    layout, model, source = held.layout, held.released, open_source(rows)
    there = source.schema().names
    missing = [name for name in layout.kinds if name not in there]
    if missing:
        raise WrongInput(f"{source.name} must have the columns of the fit: {missing} are missing.")
    named = [name for name in layout.names if name in there]
    texts = [name for name in layout.texts if name in there]  # the target may be missing
    content = source.read([*named, *layout.kinds], as_text=texts)
    frame = frame_of(content, layout, targets=False)
    values = [listed for listed in (frame.ids, frame.subjects) if listed is not None]
    columns = [*values, np.asarray(model.predict(frame.X)).tolist()]
    header = [*named, layout.target]
    if probabilities:
        likely, labels = _likely(model, frame.X)
        header += labels
        columns += list(zip(*likely, strict=True))
    return header, iter([list(map(list, zip(*columns, strict=True)))])


def refit_predictor(held: "RefitSnapshot") -> Predictor:
    """Predictions of a refit store's model."""
    layout, model = held.layout, held.released

    def predict(rows: Rows, likely: bool) -> tuple[list[Any], list[dict[str, float]] | None]:
        frame = frame_of(table_of_rows(rows, layout.kinds), layout, targets=False)
        return _predicted(model, frame.X, likely)

    return predict


def chain_predictor(held: "LangevinSnapshot") -> Predictor:
    """Predictions of a Langevin store's model."""
    features, model = held.state["features"], held.model

    def predict(rows: Rows, likely: bool) -> tuple[list[Any], list[dict[str, float]] | None]:
        values = [[row.get(name) for name in features] for row in rows]
        numbers = all(type(one) in (int, float) for line in values for one in line)
        X = np.array(values, dtype=np.float64) if numbers else np.array(np.nan)
        if not np.isfinite(X).all():
            raise WrongInput(
                "a row must have a finite number in every column of the fit: "
                f"{', '.join(features)}."
            )
        return _predicted(model, X, likely)

    return predict


def _predicted(model: Any, X: Any, likely: bool) -> tuple[list[Any], list[dict[str, float]] | None]:
    head = model
    if isinstance(model, Pipeline) and len(model) > 1:  # rows are transformed once for both
        X, head = model[:-1].transform(X), model[-1]
    values = np.asarray(head.predict(X)).tolist()
    if not likely:
        return values, None
    labels = [str(label) for label in _with_probabilities(head).classes_.tolist()]
    shares = head.predict_proba(X).tolist()
    return values, [dict(zip(labels, row, strict=True)) for row in shares]


def by_chain(
    held: "LangevinSnapshot", rows: str | Path, *, probabilities: bool
) -> tuple[list[str], Lines]:
    """Names of columns, and lines in batches."""
    model, names = held.model, list(held.columns.target)
    if probabilities:
        names += _labels(_with_probabilities(model))

    def batches() -> Lines:
        for X in feature_batches(rows, held.state["features"]):
            lines = np.asarray(model.predict(X)).reshape(len(X), -1).tolist()
            if probabilities:
                likely, _ = _likely(model, X)
                lines = [[*label, *row] for label, row in zip(lines, likely, strict=True)]
            yield lines

    return names, batches()


def _likely(model: Any, X: Any) -> tuple[list[list[float]], list[str]]:
    """Probabilities of the classes, a line for every row, and the names of their columns."""
    likely: list[list[float]] = _with_probabilities(model).predict_proba(X).tolist()
    return likely, _labels(model)


def _with_probabilities(model: Any) -> Any:
    if not hasattr(model, "predict_proba"):
        raise WrongInput("probabilities must be left out: the model of this store has none.")
    return model


def _labels(model: Any) -> list[str]:
    return [f"probability of {label}" for label in model.classes_.tolist()]
