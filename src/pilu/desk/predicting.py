"""Predictions for the rows of a table, as CSV, each with the name of its row."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pilu._progress import progress_bar
from pilu.data.sources import open_source
from pilu.data.tables import feature_batches
from pilu.exceptions import WrongInput
from pilu.store.disk import replaced_by
from pilu.tabular.frames import frame_of

if TYPE_CHECKING:  # the desk of one method does not import the other's
    from pilu.desk.langevin_snapshot import LangevinSnapshot
    from pilu.desk.refit_snapshot import RefitSnapshot

Lines = Iterator[list[list[Any]]]  # batches of lines


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
