"""A chain is a list of (steps, noise) segments: learning first, then one for each request.

Learning may be at stationarity: a draw from the law that its steps converge to. It takes no steps,
and a record of it has None in their place.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu.exceptions import WrongInput

__all__ = ["Schedule", "Segment"]


class Segment(NamedTuple):
    """A run of steps with one noise level sigma; one step adds sqrt(2 eta) sigma N(0, I)."""

    steps: int  # 0 is for learning at stationarity
    noise: float

    @property
    def is_stationary(self) -> bool:
        """Whether it stands for infinitely many steps."""
        return self.steps == 0

    @property
    def duration(self) -> float:
        """The number of steps, infinite at stationarity."""
        return math.inf if self.is_stationary else float(self.steps)


@dataclass(frozen=True)
class Schedule:
    """All steps since the start of learning, or since the last redraw."""

    segments: tuple[Segment, ...]
    n_steps: int = field(init=False)  # those that were taken: none for learning at stationarity

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_steps", sum(segment.steps for segment in self.segments))

    @classmethod
    def from_record(cls, record: Iterable[Sequence[Any]]) -> "Schedule":
        """The schedule that `record` gave, as certificates and stores hold it."""
        segments = []
        for place, (k, noise) in enumerate(record):
            if (k is None and place > 0) or (k is not None and int(k) < 1):
                raise WrongInput(f"a schedule must have steps >= 1 in each segment, got {k!r}.")
            segments.append(Segment(0 if k is None else int(k), float(noise)))
        return cls(tuple(segments))

    def record(self) -> tuple[tuple[int | None, float], ...]:
        """(steps, noise) of every segment, with None for learning at stationarity."""
        return tuple((None if s.is_stationary else s.steps, s.noise) for s in self.segments)

    @property
    def is_stationary(self) -> bool:
        """Whether learning was at stationarity."""
        return self.segments[0].is_stationary

    @property
    def duration(self) -> float:
        """The number of steps, infinite if learning was at stationarity."""
        return math.inf if self.is_stationary else float(self.n_steps)

    def variances(self, step_size: float) -> NDArray[np.float64]:
        """Noise variance 2 eta sigma_k^2 of every step."""
        return np.concatenate([np.full(s.steps, 2 * step_size * s.noise**2) for s in self.segments])

    def then(self, segment: Segment) -> "Schedule":
        """The schedule with one more segment."""
        return Schedule((*self.segments, segment))
