"""What every row would cost to forget at epsilon = 1, and what the ends of that order look like.

python -m experiments.smooth.compute.noise --study mnist38 --size full
"""

import numpy as np
import pandas as pd

from experiments.smooth.command import compute_script
from experiments.smooth.config import EPSILON
from experiments.smooth.engine import Engine


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    every = rows(engine)
    return {"noise": every, "rows": ends(engine, every), "summary": summary(engine)}


def rows(engine: Engine) -> pd.DataFrame:
    """Label, predicted class and margin after one learning run, and the noise."""
    names, classes = engine.data.names, engine.model.classes_
    return pd.DataFrame(
        {
            "row": np.arange(len(engine.data.X)),
            "label": [names[label] for label in engine.data.y],
            "predicted": [names[label] for label in classes[engine.scores.argmax(axis=1)]],
            "margin": engine.margins().round(3),
            "noise": [float(f"{noise:.4g}") for noise in engine.noises],
        }
    )


def ends(engine: Engine, every: pd.DataFrame) -> pd.DataFrame:
    """The most expensive rows and the cheapest, with their pixels or their text."""
    order, count = np.argsort(-engine.noises, kind="stable"), engine.study.n_shown
    shown = np.concatenate([order[:count], order[::-1][:count]])
    table = every.iloc[shown].reset_index(drop=True)
    table.insert(0, "end", np.repeat(["dear", "cheap"], count))
    things = engine.data.shown[shown]
    if things.dtype == object:
        return table.assign(text=things)
    pixels = things.reshape(len(things), -1)
    columns = [f"p{k}" for k in range(pixels.shape[1])]
    return pd.concat([table, pd.DataFrame(pixels, columns=columns)], axis=1)


def summary(engine: Engine) -> pd.DataFrame:
    before, noises = engine.accuracies(engine.learned), engine.noises
    line = {
        "n": len(engine.data.X),
        "features": engine.data.X.shape[1],
        "tested": len(engine.data.X_test),
        "step_size": engine.model.step_size_,
        "least": noises.min(),
        "median": np.median(noises),
        "most": noises.max(),
        "uniform": engine.uniform_noise(EPSILON),
        "above_uniform": np.mean(noises > engine.uniform_noise(EPSILON)),
        "accuracy": before.mean(),
        "accuracy_sd": before.std(ddof=1),
    }
    return pd.DataFrame([line])


if __name__ == "__main__":
    compute_script(__doc__, "noise", compute)
