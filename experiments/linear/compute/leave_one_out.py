"""The leave-one-out formula of the paper on real rows: at the minimiser, and after T steps.

    python -m experiments.linear.compute.leave_one_out --study depth --size full

    y^_i^(-i) = y_i + (y^_i - y_i) / (1 - H_ii),

[PILU, sec. 3.3, where y^_i - (y^_i - y_i) / (1 - H_ii) is printed: that would return y_i for a row
without leverage]. At the minimiser it is compared with a solution without the row, after T steps
with T noiseless steps without it. Both come from dense matrices.
"""

import numpy as np
import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.engine import Engine


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    X, Y, alpha = engine.data.X, engine.targets, engine.study.alpha
    A, B = X.T @ X + alpha * np.eye(X.shape[1]), X.T @ Y
    values, basis = np.linalg.eigh(A)
    eta, T = engine.step_size, engine.study.n_steps
    one_over, steps = np.reciprocal, lambda a: (1 - (1 - eta * a) ** T) / a
    learned, minimiser = (basis @ (f(values)[:, None] * (basis.T @ B)) for f in (steps, one_over))
    lines = []
    for row in engine.rows():
        x, y = X[row], Y[row]
        leverage = float(np.sum(np.square(basis.T @ x) / values))
        others, turn = np.linalg.eigh(A - np.outer(x, x))
        cross = turn.T @ (B - np.outer(x, y))
        line = {"row": row, "leverage": leverage}
        for name, theta, f in (("minimiser", minimiser, one_over), ("steps", learned, steps)):
            true = x @ (turn @ (f(others)[:, None] * cross)) - y
            residual = x @ theta - y
            told = residual / (1 - leverage)
            line |= {
                f"{name}_residual": np.linalg.norm(residual),
                f"{name}_without": np.linalg.norm(true),
                f"{name}_formula": np.linalg.norm(told),
                f"{name}_error": np.linalg.norm(told - true),
            }
        lines.append(line)
    return {"leave_one_out": pd.DataFrame(lines)}


if __name__ == "__main__":
    compute_script(__doc__, "leave_one_out", compute)
