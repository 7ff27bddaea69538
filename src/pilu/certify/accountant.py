"""What every accountant takes and gives, so that the next one is one file.

An accountant sees a law and the rows of a request, never the realised parameters, and answers with
a `Calibration`: the noise, the epsilon it certifies, and the evidence that recomputes it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.curves import Curve
from pilu.chains.request import Request
from pilu.losses.law import SmoothLaw
from pilu.minibatch.law import MinibatchLaw
from pilu.ridge.law import RidgeLaw

__all__ = ["Accountant", "Calibration", "Law", "Progress", "Target"]

Array = NDArray[np.float64]
Law = RidgeLaw | MinibatchLaw | SmoothLaw  # ridge in a full batch, in mini-batches; others
Progress = Callable[[int], object]  # told how many more rows are done


class Target(NamedTuple):
    """What is asked for: (epsilon, delta) after n_unlearn_steps."""

    epsilon: float
    delta: float
    n_unlearn_steps: int


@dataclass(frozen=True)
class Calibration:
    """An accountant's answer for one request."""

    noise: float
    epsilon: float
    delta: float
    mu: float | None  # of mu-GDP, where the accountant speaks of it
    both_directions: bool  # whether (epsilon, delta) holds with the two runs exchanged
    slack: float  # probability set aside for the event in which mu-GDP is not claimed
    curve: Curve  # in the direction of Definition 1, as the evidence recomputes it
    checks: Mapping[str, bool]
    evidence: Mapping[str, Any]
    numerical_error: Mapping[str, float]
    terms: Mapping[str, Any] = field(default_factory=dict)  # what else the promise rests on


class Accountant(Protocol):
    """A way to certify. Implementations are frozen records of their options."""

    # Whether a law will do whose basis has rows taken out of it; else it is handed an eigenbasis.
    takes_corrections: ClassVar[bool]

    def describe(self) -> dict[str, Any]:
        """Name and options, as they stand in a certificate."""
        ...

    def prepare(self, law: Law, rows: NDArray[np.intp]) -> None:
        """Told which rows requests will be about, in turn: what they share is done once."""
        ...

    def calibrate(self, law: Law, request: Request, target: Target) -> Calibration:
        """The least noise that certifies the target for one request."""
        ...

    def calibrate_each(
        self, law: Law, blocks: Iterable[Request], target: Target, progress: Progress
    ) -> tuple[Array, Array]:
        """Noise, none or no less than the floor, and epsilon of every row as a request."""
        ...

    def spend(self, law: Law, request: Request, noise: float, target: Target) -> Calibration:
        """What a given noise certifies, whether or not it meets the target's epsilon."""
        ...
