"""What scores are compared with: the model before a request, and one that has learned nothing.

python -m experiments.linear.compute.references --study depth --size full
"""

import numpy as np
import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.engine import Engine


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    before = engine.law().forecast(engine.held_out.X, 1).before
    references = {"before": engine.held_out.score(before), "constant": constant(engine)}
    return {"references": pd.DataFrame(references.items(), columns=["name", "value"])}


def constant(engine: Engine) -> float:
    """The score of one prediction for all: the mean, or the most frequent label."""
    y, y_test = engine.data.y, engine.data.y_test
    if engine.data.is_classification:
        return float(np.mean(y_test == np.bincount(y).argmax()))
    return float(np.sqrt(np.mean(np.square(y_test - y.mean()))))


if __name__ == "__main__":
    compute_script(__doc__, "references", compute)
