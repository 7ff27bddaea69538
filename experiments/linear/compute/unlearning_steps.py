"""The score after unlearning against K, at epsilon = 1.

python -m experiments.linear.compute.unlearning_steps --study depth --size full
"""

import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.compute.horizons import horizon_lines
from experiments.linear.engine import Engine


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    law = engine.law()
    return {"unlearning_steps": horizon_lines(engine, law, engine.study.unlearn_steps, stream=3)}


if __name__ == "__main__":
    compute_script(__doc__, "unlearning_steps", compute)
