"""Predictions for the rows of a file, batch after batch, into a CSV."""

import csv
import os
from pathlib import Path

import numpy as np

from pilu._progress import progress_bar
from pilu.deletion.store import Moment
from pilu.deletion.tables import feature_batches

__all__ = ["predict_table"]


def predict_table(moment: Moment, rows: str | Path, out: Path) -> int:
    """Write predictions, a line for every row, under the name when they are whole; how many."""
    part, n = out.with_name(f".{out.name}.part"), 0
    try:
        with (
            part.open("w", newline="", encoding="utf-8") as file,
            progress_bar(0, what="predicting", unit="row") as bar,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(moment.columns.target)
            for X in feature_batches(rows, moment.state["features"]):
                found = np.asarray(moment.model.predict(X)).reshape(len(X), -1)
                writer.writerows(found.tolist())
                n += len(X)
                bar.update(len(X))
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)
    return n
