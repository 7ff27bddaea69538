"""epsilon of pilu (K = 1, both noises 0.1) and of a Newton step, against T; the residual table.

python -m experiments.linear.compute.newton --study depth --size full
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.engine import ACCOUNTANTS, Engine
from pilu.baselines.interface import Task
from pilu.baselines.newton import certified_epsilon
from pilu.certify.issue import resolve_accountant, set_target
from pilu.ridge.spectral import decay


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    study, rows = engine.study, engine.rows()
    lines = []
    for T in study.newton_steps:
        law = engine.law(T, study.newton_noise)
        for row in rows:
            for name in ACCOUNTANTS:
                spent = resolve_accountant(name).spend(
                    law,
                    engine.request(row),
                    study.newton_noise,
                    set_target(law, 1.0, engine.delta, 1),
                )
                lines.append(
                    {"method": name, "row": row, "learning_steps": T, "epsilon": spent.epsilon}
                )
    task, residuals = task_of(engine), residual_table(engine)
    factor = math.sqrt(2 * math.log(1.5 / engine.delta)) / study.newton_noise
    for T, residual in zip(study.newton_steps, residuals["perturbed"], strict=True):
        proved = certified_epsilon(replace(task, n_steps=T), study.newton_noise)
        lines += [
            {"method": "newton", "learning_steps": T, "epsilon": residual * factor},
            {"method": "newton, proved", "learning_steps": T, "epsilon": proved},
        ]
    return {"newton": pd.DataFrame(lines), "residuals": residuals}


def residual_table(engine: Engine) -> pd.DataFrame:
    """|grad L_b(theta_T^-; D')| without and with a perturbation.

    On a quadratic the step leaves the gradient that learning has left, whatever the row [PILU, app.
    Newton]: M^T (B - b), read off the eigenbasis. Features that never change make the Hessian too
    ill-conditioned to take the step itself to five digits, as `pilu.baselines` would.
    """
    spectrum, study = engine.spectrum, engine.study
    rng = np.random.default_rng([study.seed, 9])
    b = study.newton_noise * rng.standard_normal((engine.data.X.shape[1], engine.n_outputs))
    lines = []
    for T in study.newton_steps:
        left = decay(spectrum.eigenvalues, engine.step_size, T)[:, None]
        line = {"learning_steps": T}
        for name, term in (("no_perturbation", np.zeros_like(b)), ("perturbed", b)):
            inside = spectrum.basis.T @ term
            outside = decay(np.array(spectrum.alpha), engine.step_size, T) * (
                term - spectrum.basis @ inside
            )
            line[name] = np.hypot(
                np.linalg.norm(left * (spectrum.cross - inside)), np.linalg.norm(outside)
            )
        lines.append(line)
    return pd.DataFrame(lines)


def task_of(engine: Engine) -> Task:
    study = engine.study
    return Task(
        model=engine.model,
        X=engine.data.X,
        Y=engine.targets,
        alpha=study.alpha,
        n_steps=study.n_steps,
        noise=study.noise,
        step_size=engine.step_size,
        epsilon=1.0,
        delta=engine.delta,
        n_unlearn_steps=1,
        random_state=study.seed,
    )


if __name__ == "__main__":
    compute_script(__doc__, "newton", compute)
