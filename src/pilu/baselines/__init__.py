"""Other ways to forget, behind one interface: `fit(task)`, then `answer(rows)` for each request.

>>> from sklearn.datasets import load_diabetes
>>> from pilu import LangevinRidge
>>> from pilu.baselines import NewtonStep, Task
>>> task = Task.of(LangevinRidge(alpha=0.1), *load_diabetes(return_X_y=True), epsilon=1.0)
>>> answer = NewtonStep().fit(task).answer(42)
>>> answer.certified, answer.epsilon
(True, 0.0)
"""

from pilu.baselines.compare import METHODS, compare
from pilu.baselines.descent import DescentToDelete
from pilu.baselines.dp_gd import DPGD
from pilu.baselines.interface import Answer, Learned, Method, Task
from pilu.baselines.langevin import Langevin, Redraw, Retraining
from pilu.baselines.leave_one_out import LeaveOneOut, ProjectiveResidual
from pilu.baselines.newton import NewtonStep, residual_table
from pilu.baselines.refit import Refit
from pilu.baselines.uniform import UniformLangevin

__all__ = [
    "DPGD",
    "METHODS",
    "Answer",
    "DescentToDelete",
    "Langevin",
    "Learned",
    "LeaveOneOut",
    "Method",
    "NewtonStep",
    "ProjectiveResidual",
    "Redraw",
    "Refit",
    "Retraining",
    "Task",
    "UniformLangevin",
    "compare",
    "residual_table",
]
