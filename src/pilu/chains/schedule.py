"""A chain is a list of (steps, noise) segments: learning first, then one for each request."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Schedule", "Segment"]


class Segment(NamedTuple):
    """A run of steps with one noise level sigma; one step adds sqrt(2 eta) sigma N(0, I)."""

    steps: int
    noise: float


@dataclass(frozen=True)
class Schedule:
    """All steps since the start of learning, or since the last redraw."""

    segments: tuple[Segment, ...]
    n_steps: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_steps", sum(segment.steps for segment in self.segments))

    def variances(self, step_size: float) -> NDArray[np.float64]:
        """Noise variance 2 eta sigma_k^2 of every step."""
        return np.concatenate([np.full(s.steps, 2 * step_size * s.noise**2) for s in self.segments])

    def then(self, segment: Segment) -> "Schedule":
        """The schedule with one more segment."""
        return Schedule((*self.segments, segment))
