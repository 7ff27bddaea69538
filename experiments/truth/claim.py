"""What a method says of itself, and the interface through which it says it."""

import math
from dataclasses import dataclass
from typing import Protocol

from experiments.truth.laws import Law
from experiments.truth.problems import Problem

DIRECTIONS = ("both", "forward", "backward")


class NotCovered(Exception):
    """The method does not apply to this problem."""


@dataclass(frozen=True)
class Claim:
    """An epsilon at a delta, and the two laws it is about.

    Parameters
    ----------
    epsilon, delta : float
        For every set S of parameters, P(S) <= e^epsilon Q(S) + delta.
    unlearned : Law
        P, the law of what the method releases after it forgot the row.
    retrained : Law
        Q, the law that the method names as its reference.
    direction : {"both", "forward", "backward"}
        "both" also claims Q(S) <= e^epsilon P(S) + delta, "backward" only that.
    unmet : tuple of str
        Assumptions of the method's own theorem that this problem does not meet.
    """

    epsilon: float
    delta: float
    unlearned: Law
    retrained: Law
    direction: str = "both"
    unmet: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise ValueError(f"epsilon must be in [0, inf], got epsilon={self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be in [0, 1), got delta={self.delta}.")
        if self.direction not in DIRECTIONS:
            raise ValueError(
                f"direction must be one of {DIRECTIONS}, got direction={self.direction!r}."
            )


class Adapter(Protocol):
    """A method. `run` may choose its noise so that it claims `epsilon`, or ignore the wish.

    It may also have `ignores`, a tuple of what its answer does not depend on (see `score`).
    """

    name: str
    cite: str

    def run(self, problem: Problem, epsilon: float) -> Claim:
        """Forget `problem.row`. Raises NotCovered where the method does not apply."""
        ...
