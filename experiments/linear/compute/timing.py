"""One literal run of Algorithm 1, the measure of what the sweeps may take.

python -m experiments.linear.compute.timing --study depth --size full
"""

import time

import numpy as np
import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.engine import Engine
from pilu.chains.chain import Chain, SeededGaussian
from pilu.chains.schedule import Segment


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    """T + K passes over all rows, with noise; the calibration is not even counted."""
    study, problem = engine.study, engine.model.fitted_.chain.problem
    row = engine.rows()[0]
    gaussian = SeededGaussian(study.seed, 8)
    left = problem.without(np.array([row]), *engine.request(row)[:2])
    started = time.perf_counter()
    learned = Chain.learn(
        problem.with_solver("gradient"),
        step_size=engine.step_size,
        start=np.zeros((engine.data.X.shape[1], engine.n_outputs)),
        segment=Segment(study.n_steps, study.noise),
        gaussian=gaussian,
    )
    learned.forgetting(left.with_solver("gradient"), Segment(study.n_unlearn_steps, 0.1), gaussian)
    seconds = time.perf_counter() - started
    return {"timing": pd.DataFrame([{"what": "one literal run", "seconds": seconds}])}


if __name__ == "__main__":
    compute_script(__doc__, "timing", compute)
