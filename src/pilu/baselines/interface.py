"""What every method takes and gives, so that a comparison is a loop.

A method is a frozen record of its options. `fit(task)` learns and returns a `Learned`: parameters,
and a function that answers one request with an `Answer`. Requests are answered one by one from the
same learned state; none changes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.baselines.task import Model, Rows, Task
from pilu.chains.predictions import Predictions
from pilu.exceptions import BeyondPrecision

__all__ = [
    "Answer",
    "Learned",
    "Method",
    "Model",
    "Rows",
    "Task",
    "point_mass",
    "row_norms",
    "titled",
    "without",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answer:
    """A method's answer to one request.

    Attributes
    ----------
    theta : array (p x d)
        What would be released.
    epsilon, delta : float
        What the method claims for it; epsilon is inf where it claims nothing.
    certified : bool
        Whether the claim is proved, given the constants that `guarantee` names. Step size,
        thresholds and radii count as constants also where they were read off the data, as
        everywhere in pilu.
    guarantee : str
        The claim in words, or why there is none.
    rows_touched : int
        Training rows read to answer, each as often as it was read.
    noise : float
        Deviation of the method's noise, in its own units; 0 for none.
    predictions : function or None
        From points (m x p) to the Gaussian law of their predictions, where it has a closed form.
    details : function
        Gives further numbers by name; apart, so that no clock of the answer sees them.
    """

    theta: Array
    epsilon: float
    delta: float
    certified: bool
    guarantee: str
    rows_touched: int
    noise: float = 0.0
    predictions: Callable[[Array], Predictions] | None = None
    details: Callable[[], Mapping[str, float]] = dict

    def __post_init__(self) -> None:
        if not (np.isfinite(self.theta).all() and np.isfinite(self.noise)):
            raise BeyondPrecision(
                "the noise or the parameters have left the range of doubles. Ask for a larger "
                "epsilon or delta, or choose other units."
            )
        if self.certified and not np.isfinite(self.epsilon):
            raise ArithmeticError("an infinite epsilon certifies nothing; please report this.")


@dataclass(frozen=True, eq=False)
class Learned:
    """What a method has learned (p x d), and how it responds to the request for some rows."""

    task: Task
    theta: Array
    respond: Callable[[Rows], Answer]

    def answer(self, rows: int | Sequence[int]) -> Answer:
        """The answer to one request: a row number, or a group of them."""
        return self.respond(self.task.rows(rows))


class Method(Protocol):
    """A way to forget. Implementations are frozen records of their options."""

    @property
    def name(self) -> str:
        """What tables and plots call it."""
        ...

    def fit(self, task: Task) -> Learned:
        """Learn from all rows."""
        ...


def without(task: Task, rows: Rows) -> tuple[Array, Array]:
    """X and Y without some rows."""
    return np.delete(task.X, rows, axis=0), np.delete(task.Y, rows, axis=0)


def titled(name: str, *options: str) -> str:
    """A method's name with what sets it apart."""
    given = ", ".join(option for option in options if option)
    return f"{name} ({given})" if given else name


def row_norms(values: Array) -> Array:
    """Norms of the rows, also where squares would underflow."""
    scale = np.max(np.abs(values), axis=1, initial=0.0)
    unit = values / np.where(scale > 0, scale, 1.0)[:, None]
    return np.asarray(scale * np.linalg.norm(unit, axis=1))


def point_mass(theta: Array) -> Callable[[Array], Predictions]:
    """Predictions of parameters without randomness."""
    return lambda points: Predictions(points @ theta, np.zeros(len(points)))
