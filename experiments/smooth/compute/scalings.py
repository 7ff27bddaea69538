"""The same digits by other readings of "lam = 0.01, features of unit norm".

A mean of losses with lam and sigma is, step for step, a sum of losses with alpha = n lam and
sigma sqrt(n); noises are given here in the units of the reading, so divided by sqrt(n) there.

python -m experiments.smooth.compute.scalings --study mnist38 --size full
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.smooth.command import compute_script
from experiments.smooth.config import EPSILON
from experiments.smooth.data import mapped, read
from experiments.smooth.engine import Engine

READINGS = ("sum", "mean")
MAPS = {"set aside, then norm one": True, "norm one only": False}


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    rows, lines = read(engine.study), []
    for title, in_units_of_aside in MAPS.items():
        data = mapped(rows, in_units_of_aside)
        n = len(data.X)
        largest = float(np.linalg.norm(data.X, 2) ** 2) / n
        for reading in READINGS:
            unit = 1.0 if reading == "sum" else math.sqrt(n)
            study = replace(
                engine.study,
                alpha=engine.study.alpha * unit**2,
                noise=engine.study.noise * unit,
            )
            lines.append(
                {"map": title, "loss": reading, "largest_eigenvalue_over_n": largest}
                | line(Engine(study, data), unit)
            )
    return {"scalings": pd.DataFrame(lines)}


def line(engine: Engine, unit: float) -> dict[str, float]:
    noises, uniform = engine.noises, engine.uniform_noise(EPSILON)
    row = int(np.argsort(noises, kind="stable")[len(noises) // 2])
    own, common = engine.run(row, [noises[row], uniform], stream=2)
    return {
        "least": noises.min() / unit,
        "median": np.median(noises) / unit,
        "most": noises.max() / unit,
        "uniform": uniform / unit,
        "uniform_half_delta": engine.uniform_noise(EPSILON, 0.5) / unit,
        "accuracy": engine.accuracies(engine.learned).mean(),
        "accuracy_median_row": own.mean(),
        "accuracy_uniform": common.mean(),
    }


if __name__ == "__main__":
    compute_script(__doc__, "scalings", compute)
