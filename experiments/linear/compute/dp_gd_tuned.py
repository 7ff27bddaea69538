"""DP-GD with the threshold and the step size that suit it best, at every epsilon.

    python -m experiments.linear.compute.dp_gd_tuned --study depth --size full

The best of a grid is chosen by the test score itself, which favours DP-GD, and the choice is not
charged to its epsilon. Other runs than those that chose are reported.
"""

import itertools

import numpy as np
import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.compute.dp_gd import ACCOUNTINGS, QUANTILE, clipped_runs
from experiments.linear.config import TUNED_RUNS
from experiments.linear.engine import Engine, summary

THRESHOLDS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)  # times the paper's
STEPS = (1 / 4, 1.0, 4.0, 16.0)  # times the study's step size


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    rows = engine.rows()
    forgotten = rows[len(rows) // 2]
    tried = grid(engine, forgotten)
    curve = ["accounting", "epsilon"]
    best = tried.groupby(curve, sort=False)["score"].agg(best_of(engine))
    chosen = tried.loc[best, [*curve, "clipping", "step_factor", "noise"]]
    C, factor, noise = (
        np.repeat(chosen[name].to_numpy(), TUNED_RUNS)
        for name in ("clipping", "step_factor", "noise")
    )
    scores = clipped_runs(engine, C, noise, forgotten, factor, stream=11)
    summaries = pd.DataFrame([summary(runs) for runs in scores.reshape(len(chosen), TUNED_RUNS)])
    return {
        "dp_gd_tuned": pd.concat([chosen.reset_index(drop=True), summaries], axis=1),
        "dp_gd_grid": tried,
    }


def grid(engine: Engine, forgotten: int) -> pd.DataFrame:
    """One run of every threshold and step size, for each accounting and epsilon."""
    study, n_steps = engine.study, engine.study.n_steps + engine.study.n_unlearn_steps
    usual = float(np.quantile(engine.gradient_norms, QUANTILE))
    tried = pd.DataFrame(
        [
            {
                "accounting": name,
                "epsilon": epsilon,
                "clipping": usual * threshold,
                "step_factor": step,
                "noise": usual * threshold * noise_of(epsilon, engine.delta, n_steps),
            }
            for (name, noise_of), epsilon, threshold, step in itertools.product(
                ACCOUNTINGS.items(), study.epsilons, THRESHOLDS, STEPS
            )
        ]
    )
    C, factor, noise = (tried[name].to_numpy() for name in ("clipping", "step_factor", "noise"))
    return tried.assign(score=clipped_runs(engine, C, noise, forgotten, factor, stream=10))


def best_of(engine: Engine) -> str:
    return "idxmax" if engine.data.is_classification else "idxmin"


if __name__ == "__main__":
    compute_script(__doc__, "dp_gd_tuned", compute)
