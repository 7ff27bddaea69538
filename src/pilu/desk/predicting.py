"""Predictions for the rows of a file, batch by batch, as CSV."""

import csv
from pathlib import Path

import numpy as np

from pilu._progress import progress_bar
from pilu.data.tables import feature_batches
from pilu.desk.langevin_snapshot import LangevinSnapshot
from pilu.estimators.smooth import LangevinLogistic
from pilu.exceptions import WrongInput
from pilu.store.disk import replaced_by


def predict_table(
    snapshot: LangevinSnapshot, rows: str | Path, out: Path, *, probabilities: bool = False
) -> int:
    """Write a line of predictions for every row, and return how many there are.

    The file gets its name once it is complete. With probabilities, a column for every class
    follows the predicted class.
    """
    model, names = snapshot.model, list(snapshot.columns.target)
    if probabilities:
        if not isinstance(model, LangevinLogistic):
            raise WrongInput(
                "probabilities must be left out: only a store of the logistic loss has them."
            )
        names += [f"probability of {label}" for label in model.classes_.tolist()]
    n = 0
    with (
        replaced_by(out) as part,
        part.open("w", newline="", encoding="utf-8") as file,
        progress_bar(0, what="predicting", unit="row") as bar,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for X in feature_batches(rows, snapshot.state["features"]):
            lines = np.asarray(model.predict(X)).reshape(len(X), -1).tolist()
            if probabilities:
                likely = model.predict_proba(X).tolist()
                lines = [[*label, *row] for label, row in zip(lines, likely, strict=True)]
            writer.writerows(lines)
            n += len(X)
            bar.update(len(X))
    return n
