"""The projective residual update: the part of the leave-one-out update that the rows span.

The rows' own predictions without them follow from the hat matrix alone,

    X_f theta*' = Y_f + (I - H)^{-1} (X_f theta* - Y_f),

and the update is the least change of theta* that predicts just that:

    theta* + X_f^+ (X_f theta*' - X_f theta*)                  [Izzo et al. 2021, Algorithm 1].

Of the exact update it is the orthogonal projection onto the span of the rows; the rest stays.
"""

import math
from dataclasses import dataclass

import numpy as np

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, point_mass
from pilu.baselines.quadratic import leave_out, left_out_residuals, minimiser

__all__ = ["ProjectiveResidual"]


@dataclass(frozen=True)
class ProjectiveResidual(Method):
    """Cheap, and without a certificate; `distance` in the details is how far retraining is."""

    @property
    def name(self) -> str:
        """Projective residual update."""
        return "projective residual"

    def fit(self, task: Task) -> Learned:
        """The exact minimiser."""
        task.check_ridge(self.name)
        theta = minimiser(task.spectrum, task.spectrum.cross)

        def respond(rows: Rows) -> Answer:
            X, Y = task.X[rows], task.Y[rows]
            change = Y + left_out_residuals(task, theta, rows) - X @ theta
            moved = theta + np.linalg.lstsq(X, change, rcond=None)[0]

            def details() -> dict[str, float]:
                return {"distance": float(np.linalg.norm(moved - leave_out(task, theta, rows)))}

            return Answer(
                moved,
                epsilon=math.inf,
                delta=0.0,
                certified=False,
                guarantee="none: what the rows do not span is left as it was",
                rows_touched=len(rows),
                predictions=point_mass(moved),
                details=details,
            )

        return Learned(task, theta, respond)
