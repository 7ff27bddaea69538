"""The projective residual update: the leave-one-out update, projected to the span of the rows.

The rows' own predictions without them follow from the hat matrix alone,

    X_f theta*' = Y_f + (I - H)^{-1} (X_f theta* - Y_f),

and the update is the least change of theta* with these predictions:

    theta* + X_f^+ (X_f theta*' - X_f theta*)                  [Izzo et al. 2021, Algorithm 1].

It is the orthogonal projection of the exact update onto the span of the rows.
"""

import math
from dataclasses import dataclass

import numpy as np

from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, point_mass

__all__ = ["ProjectiveResidual"]


@dataclass(frozen=True)
class ProjectiveResidual(Method):
    """Cheap, but without a certificate; `distance` in the details is that from retraining."""

    @property
    def name(self) -> str:
        """Projective residual update."""
        return "projective residual"

    def fit(self, task: Task) -> Learned:
        """The exact minimiser."""
        forms = task.need_closed_forms(self.name)
        theta = forms.minimiser()

        def respond(rows: Rows) -> Answer:
            X, Y = task.X[rows], task.Y[rows]
            change = Y + forms.left_out_residuals(theta, rows) - X @ theta
            moved = theta + np.linalg.lstsq(X, change, rcond=None)[0]

            def details() -> dict[str, float]:
                return {"distance": float(np.linalg.norm(moved - forms.leave_out(theta, rows)))}

            return Answer(
                moved,
                epsilon=math.inf,
                delta=0.0,
                certified=False,
                guarantee="none: directions that the rows do not span are unchanged",
                rows_touched=len(rows),
                predictions=point_mass(moved),
                details=details,
            )

        return Learned(task, theta, respond)
