"""The step size of each study, chosen on images that were set aside.

It is the smallest of the grid that reaches the study's aim, so as near to the paper's 0.01 as the
network allows.
"""

from dataclasses import replace

import pandas as pd

from experiments.cifar10.compute import accuracies, learned
from experiments.cifar10.config import Study
from experiments.cifar10.data import Labelled, data_of

N_RUNS = 5


def try_step_sizes(study: Study) -> pd.DataFrame:
    """Accuracy of a few runs for every step size, on the images aside and on the learned ones."""
    data = data_of(study)
    own = Labelled(data.rows.views[:, 0], data.rows.labels)
    lines = []
    for step_size in study.step_sizes:
        tried = replace(study, learning=replace(study.learning, step_size=step_size))
        weights = learned(tried, None, -2, N_RUNS)
        lines.append(
            {
                "study": study.name,
                "step_size": step_size,
                "aside": accuracies(study, weights, data.choose).mean(),
                "learned": accuracies(study, weights, own).mean(),
                "runs": N_RUNS,
            }
        )
    return pd.DataFrame(lines)


def chosen(table: pd.DataFrame, aim: float) -> float:
    return float(table.loc[table["aside"] >= aim, "step_size"].min())
