"""One module a method. `ADAPTERS` are all of them, in the order of the table."""

from experiments.truth.adapters.certified_removal import (
    Budget,
    ExactMinimiser,
    ExactStepsBound,
    FixedResidual,
    MeasuredResidual,
    ResidualBound,
    StoppedSolver,
    WorstCaseBound,
)
from experiments.truth.adapters.controls import DoesNothing, WrongSign, WrongSignOnLine
from experiments.truth.adapters.descent import (
    DescentToDelete,
    PublishedState,
    StoppedEarly,
)
from experiments.truth.adapters.langevin import (
    LangevinUnlearning,
    NotConverged,
    NotProjected,
)
from experiments.truth.adapters.pilu_langevin import (
    PiluExact,
    PiluRedraw,
    PiluSmooth,
    PiluStationary,
    PiluTheorem,
    PiluTheoremReverse,
)
from experiments.truth.adapters.pilu_others import (
    PiluDescent,
    PiluNewton,
    PiluNewtonBound,
    PiluRefit,
    PiluRefitWorst,
)
from experiments.truth.claim import Adapter

ADAPTERS: tuple[Adapter, ...] = (
    PiluExact(),
    PiluStationary(),
    PiluTheorem(),
    PiluTheoremReverse(),
    PiluSmooth(),
    PiluRedraw(),
    PiluRefit(),
    PiluRefitWorst(),
    PiluNewton(),
    PiluNewtonBound(),
    PiluDescent(),
    ExactMinimiser(),
    FixedResidual(),
    ResidualBound(),
    ExactStepsBound(),
    MeasuredResidual(),
    WorstCaseBound(),
    Budget(),
    Budget("certified removal, budget, retrained anew", anew=True),
    LangevinUnlearning(),
    NotConverged(),
    NotProjected(),
    DescentToDelete(),
    StoppedEarly(),
    PublishedState(),
    StoppedSolver(),
    WrongSign(),
    WrongSignOnLine(),
    DoesNothing(),
)
