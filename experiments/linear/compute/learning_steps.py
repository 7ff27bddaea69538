"""The score after unlearning against T, at epsilon = 1.

python -m experiments.linear.compute.learning_steps --study depth --size full
"""

import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.compute.horizons import horizon_lines
from experiments.linear.engine import Engine


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    K = engine.study.n_unlearn_steps
    parts = [horizon_lines(engine, engine.law(T), [K], stream=4) for T in engine.study.learn_steps]
    return {"learning_steps": pd.concat(parts)}


if __name__ == "__main__":
    compute_script(__doc__, "learning_steps", compute)
