"""Leave-one-out updates of ridge regression, for rows and groups: exact, and projected.

At the minimiser theta* = A^{-1} B, by Sherman, Morrison and Woodbury,

    theta*' = theta* + A^{-1} X_f' (I - H)^{-1} (X_f theta* - Y_f),   H = X_f A^{-1} X_f',

is the minimiser without the rows. After T steps only, the same correction does not change the
error of theta_T, and that error depends on the rows.

The rows' own predictions without them follow from the hat matrix alone,

    X_f theta*' = Y_f + (I - H)^{-1} (X_f theta* - Y_f),

and the projective residual update is the least change of theta* with these predictions:

    theta* + X_f^+ (X_f theta*' - X_f theta*)                  [Izzo et al. 2021, Algorithm 1].

It is the orthogonal projection of the exact update onto the span of the rows.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_flag
from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, point_mass
from pilu.baselines.objective import ClosedForms, descended

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LeaveOneOut(Method):
    """The closed-form update, at the exact minimiser or after T steps.

    Parameters
    ----------
    converged : bool, default=True
        True learns the exact minimiser: the update is retraining itself. False learns T noiseless
        steps: parameters without randomness that differ from retrained ones cannot be certified.
        `details` then has the error of the update: `residual`, the gradient of the retained
        objective, and `distance` from T noiseless steps on the rows that are left.
    """

    converged: bool = True

    def __post_init__(self) -> None:
        check_flag("converged", self.converged)

    @property
    def name(self) -> str:
        """Leave-one-out."""
        return "leave-one-out" if self.converged else "leave-one-out (T steps)"

    def fit(self, task: Task) -> Learned:
        """The minimiser, or T steps towards it."""
        forms = task.need_closed_forms("leave-one-out")
        theta = forms.minimiser() if self.converged else _descended(task, forms)

        def respond(rows: Rows) -> Answer:
            left = forms.leave_out(theta, rows)
            return Answer(
                left,
                epsilon=0.0 if self.converged else math.inf,
                delta=0.0,
                certified=self.converged,
                guarantee="the minimiser without the rows itself, up to rounding"
                if self.converged
                else "none: learning stopped early, and two point masses differ",
                rows_touched=len(rows),
                predictions=point_mass(left),
                details=lambda: {} if self.converged else _errors(task, rows, left),
            )

        return Learned(task, theta, respond)


def _descended(task: Task, forms: ClosedForms) -> Array:
    return descended(forms.spectrum, forms.spectrum.cross, task.step_size, task.n_steps)


def _errors(task: Task, rows: Rows, theta: Array) -> dict[str, float]:
    retained = ClosedForms(*task.without(rows), task.alpha)
    spectrum = retained.spectrum
    gradient = spectrum.times(spectrum.basis.T @ theta) - spectrum.cross
    return {
        "residual": float(np.linalg.norm(gradient)),
        "distance": float(np.linalg.norm(theta - _descended(task, retained))),
    }


@dataclass(frozen=True)
class ProjectiveResidual(Method):
    """Cheap, but without a certificate; `distance` in the details is that from retraining."""

    name = "projective residual"

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
