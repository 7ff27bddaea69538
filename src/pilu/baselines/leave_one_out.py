"""The exact leave-one-out correction of ridge regression, for rows and groups.

At the minimiser theta* = A^{-1} B, by Sherman, Morrison and Woodbury,

    theta*' = theta* + A^{-1} X_f' (I - H)^{-1} (X_f theta* - Y_f),   H = X_f A^{-1} X_f',

is the minimiser without the rows. After T steps only, the same correction does not change the
error of theta_T, and that error depends on the rows.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_flag
from pilu.baselines.closed_forms import ClosedForms
from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, point_mass
from pilu.baselines.objective import descended

__all__ = ["LeaveOneOut"]

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
                details=lambda: {} if self.converged else _errors(task, forms.without(rows), left),
            )

        return Learned(task, theta, respond)


def _descended(task: Task, forms: ClosedForms) -> Array:
    return descended(forms.spectrum, forms.spectrum.cross, task.step_size, task.n_steps)


def _errors(task: Task, retained: ClosedForms, theta: Array) -> dict[str, float]:
    spectrum = retained.spectrum
    gradient = spectrum.times(spectrum.basis.T @ theta) - spectrum.cross
    return {
        "residual": float(np.linalg.norm(gradient)),
        "distance": float(np.linalg.norm(theta - _descended(task, retained))),
    }
