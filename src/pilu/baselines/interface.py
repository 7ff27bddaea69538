"""What every method takes and returns, so that a comparison is a loop.

A method is a frozen record of its options. `fit(task)` learns and returns a `Learned`: parameters,
and a function that answers one request with an `Answer`. Every request is answered from the same
learned state, and none changes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.baselines.task import Rows, Task
from pilu.chains.predictions import Predictions
from pilu.exceptions import BeyondPrecision

__all__ = ["Answer", "Learned", "Method", "Rows", "Task", "point_mass", "row_norms", "titled"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answer:
    """A method's answer to one request.

    Attributes
    ----------
    theta : array (p x d)
        The parameters to release.
    epsilon, delta : float
        The method's claim for them; epsilon is inf if it claims nothing.
    certified : bool
        Whether the claim is proved, given the constants that `guarantee` names. Step sizes,
        thresholds and radii count as constants even if they were read off the data, as everywhere
        in pilu.
    guarantee : str
        The claim in words, or why there is none.
    rows_touched : int
        Training rows read to answer, each as often as it was read.
    noise : float
        Deviation of the method's noise, in its own units; 0 for none.
    predictions : function or None
        From points (m x p) to the Gaussian law of the predictions there, if it has a closed form.
    details : function
        Returns further numbers by name. It is called after the answer was timed.
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
                "the noise or the parameters have left the range of doubles. Choose a larger "
                "epsilon or delta, or other units."
            )
        if self.certified and not np.isfinite(self.epsilon):
            raise ArithmeticError("an infinite epsilon certifies nothing; please report this.")


@dataclass(frozen=True, eq=False)
class Learned:
    """What a method has learned (p x d), and how it responds to a request for some rows."""

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
        """The name in tables and plots."""
        ...

    def fit(self, task: Task) -> Learned:
        """Learn from all rows."""
        ...


def titled(name: str, *options: str) -> str:
    """A method's name with the options that differ from the usual ones."""
    given = ", ".join(option for option in options if option)
    return f"{name} ({given})" if given else name


def row_norms(values: Array) -> Array:
    """Norms of the rows, even if their squares underflow."""
    scale = np.max(np.abs(values), axis=1, initial=0.0)
    unit = values / np.where(scale > 0, scale, 1.0)[:, None]
    return np.asarray(scale * np.linalg.norm(unit, axis=1))


def point_mass(theta: Array) -> Callable[[Array], Predictions]:
    """Predictions of parameters without randomness."""
    return lambda points: Predictions(points @ theta, np.zeros(len(points)))
