"""Ridge regression on mini-batches, as a `chains.problem.Problem`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.chains.chain import walk
from pilu.chains.problem import GaussianSource, Run
from pilu.chains.schedule import Segment
from pilu.minibatch.law import MinibatchLaw
from pilu.minibatch.objective import RidgeBatches

__all__ = ["MinibatchProblem"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MinibatchProblem(RidgeBatches):
    """Ridge regression on mini-batches, with a penalty that acts at every step."""

    def walk(
        self,
        theta: Array,
        step_size: float,
        segment: Segment,
        first_step: int,
        gaussian: GaussianSource,
    ) -> Array:
        """Theta after a segment of steps, each on one batch."""
        batches = self.batches_at(range(first_step, first_step + segment.steps))

        def gradient(theta: Array, k: int) -> Array:
            _, batch = next(batches)
            return batch.back(batch.times(theta) - batch.targets) + self.alpha * theta

        return walk(theta, gradient, step_size, segment, gaussian, first_step)

    def law(self, run: Run, *, corrected: bool = False) -> MinibatchLaw:
        """The law of a run."""
        return MinibatchLaw(self, *run)
