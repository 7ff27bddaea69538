"""Learning with a smooth loss, as a `chains.problem.Problem`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pilu.chains.chain import walk
from pilu.chains.problem import GaussianSource, Run
from pilu.chains.schedule import Segment
from pilu.data.rows import RowSource
from pilu.losses.iterates import AuxiliaryRuns
from pilu.losses.law import SmoothLaw
from pilu.losses.loss import Loss
from pilu.losses.objective import SmoothObjective

__all__ = ["SmoothProblem"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SmoothProblem(SmoothObjective):
    """Rows, a loss, a penalty, and the auxiliary runs that estimate means.

    The runs are fixed until rows are forgotten, which replaces them. Redrawing them until they suit
    would void the certificate.
    """

    runs: AuxiliaryRuns

    @classmethod
    def fit(
        cls,
        source: RowSource,
        alpha: float,
        n_outputs: int,
        batch_size: int,
        loss: Loss,
        runs: AuxiliaryRuns,
    ) -> Self:
        """The problem of new rows."""
        return cls.first_seen(source, alpha, n_outputs, batch_size, loss, runs=runs)

    @classmethod
    def restored(
        cls, record: Mapping[str, Any], source: RowSource, n_outputs: int, loss: Loss, n_runs: int
    ) -> Self:
        """The problem that a store kept as `record`."""
        return cls(
            source,
            float(record["alpha"]),
            source.n_rows,
            n_outputs,
            float(record["largest_curvature"]),
            loss,
            AuxiliaryRuns(
                n_runs,
                tuple(int(part) for part in record["auxiliary_seed"]),
                private=bool(record["private"]),
            ),
        )

    def walk(
        self,
        theta: Array,
        step_size: float,
        segment: Segment,
        first_step: int,
        gaussian: GaussianSource,
    ) -> Array:
        """Theta after a segment of steps."""
        self.check_rows(range(first_step, first_step + segment.steps))
        return walk(theta, self.gradient, step_size, segment, gaussian, first_step)

    def law(self, run: Run, *, corrected: bool = False) -> SmoothLaw:
        """The law of a run."""
        return SmoothLaw(self, *run, self.runs)

    def without(self, rows: NDArray[np.intp], x: Array, y: Array) -> Self:
        """The problem without `rows`, with new auxiliary runs."""
        return replace(super().without(rows, x, y), runs=self.runs.renewed())

    def drawing_privately(self) -> Self:
        """The same problem with auxiliary runs that no chosen seed determines.

        Otherwise seeds could be tried until their means suit.
        """
        return self if self.runs.private else replace(self, runs=self.runs.made_private())

    def describe_loss(self) -> dict[str, Any]:
        """Name and options of the loss."""
        return self.loss.describe()

    def record(self) -> dict[str, Any]:
        """What a store keeps. The auxiliary runs stay the same until rows are forgotten."""
        return {
            **super().record(),
            "largest_curvature": self.largest,
            "auxiliary_seed": [str(part) for part in self.runs.seed],
        }
