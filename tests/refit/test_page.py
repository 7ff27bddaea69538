"""docs/refit.md: its table is that of the study."""

from pathlib import Path

import pandas as pd
from experiments.store import HERE

from experiments import refit

PAGE = (Path(__file__).parents[2] / "docs" / "refit.md").read_text()


def test_the_table_is_that_of_the_study():
    frame = pd.read_csv(HERE / "results" / "refit_accuracy.csv")
    assert refit.table(frame) in PAGE
    assert set(frame["epsilon"]) == {0.1}
    gaps = 100 * (frame["refit"] - frame["retraining"]).abs()
    assert gaps.max() <= 0.1, frame[gaps > 0.1]


def test_the_study_on_little_data():
    frame = refit.compute(list(refit.bundled())[1:2], lambda _: None)
    assert len(frame) == 3 * refit.REPEATS
    assert (100 * (frame["refit"] - frame["retraining"]).abs()).max() <= 0.1
