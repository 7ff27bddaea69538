"""Accuracy after one row was forgotten against epsilon: its own noise, or one for all rows.

python -m experiments.smooth.compute.accuracy --study mnist38 --size full
"""

import numpy as np
import pandas as pd

from experiments.smooth.command import compute_script
from experiments.smooth.engine import Engine


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    study, rows = engine.study, engine.chosen()
    middle = int(np.argmin(np.abs(np.array(study.quantiles) - 0.5)))
    parts = [
        sweep(engine, row, [engine.noise_of(row, e) for e in study.epsilons], "own", quantile)
        for row, quantile in zip(rows, study.quantiles, strict=True)
    ]
    # The uniform noise is the same for every row; the row that is left out hardly matters.
    uniform = [engine.uniform_noise(epsilon) for epsilon in study.epsilons]
    parts.append(sweep(engine, rows[middle], uniform, "uniform", study.quantiles[middle]))
    return {"accuracy": pd.concat(parts)}


def sweep(
    engine: Engine, row: int, noises: list[float], kind: str, quantile: float
) -> pd.DataFrame:
    scores = engine.run(row, noises, stream=("own", "uniform").index(kind))
    return pd.DataFrame(
        {
            "kind": kind,
            "quantile": quantile,
            "row": row,
            "epsilon": engine.study.epsilons,
            "noise": noises,
            "mean": scores.mean(axis=1),
            "sd": scores.std(axis=1, ddof=1),
            "runs": scores.shape[1],
        }
    )


if __name__ == "__main__":
    compute_script(__doc__, "accuracy", compute)
