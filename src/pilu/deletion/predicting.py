"""Predictions for the rows of a file, batch after batch, into a CSV."""

import csv
import os
from pathlib import Path

import numpy as np

from pilu._progress import progress_bar
from pilu.data.tables import feature_batches
from pilu.deletion.store import Moment
from pilu.estimators.smooth import LangevinLogistic

__all__ = ["predict_table"]


def predict_table(
    moment: Moment, rows: str | Path, out: Path, *, probabilities: bool = False
) -> int:
    """Write predictions, a line for every row, under the name when they are whole; how many.

    With probabilities, a column for every class follows the predicted one.
    """
    model, names = moment.model, list(moment.columns.target)
    if probabilities:
        if not isinstance(model, LangevinLogistic):
            raise ValueError(
                "probabilities must be left out: only a store of the logistic loss has them."
            )
        names += [f"probability of {label}" for label in model.classes_.tolist()]
    part, n = out.with_name(f".{out.name}.part"), 0
    try:
        with (
            part.open("w", newline="", encoding="utf-8") as file,
            progress_bar(0, what="predicting", unit="row") as bar,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            for X in feature_batches(rows, moment.state["features"]):
                found = np.asarray(model.predict(X)).reshape(len(X), -1).tolist()
                if probabilities:
                    likely = model.predict_proba(X).tolist()
                    found = [[*label, *row] for label, row in zip(found, likely, strict=True)]
                writer.writerows(found)
                n += len(X)
                bar.update(len(X))
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)
    return n
