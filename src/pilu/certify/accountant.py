"""The interface of an accountant, and the checks of numbers that all of them make.

An accountant sees a law and the rows of a request, never the realised parameters. It returns a
`Calibration`: the noise, the epsilon that it certifies, and the evidence to recompute it.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.curves import Curve
from pilu.certify.certificate import Certificate
from pilu.chains.problem import Law
from pilu.data.rows import Request
from pilu.exceptions import CertificateMismatch

Array = NDArray[np.float64]
Progress = Callable[[int], object]  # called with the number of requests done since the last call

VISIBLE_ULPS = 2.0**12  # rounding units of the parameters that one step's noise must span
TOLERANCE = 1e-9  # relative, of recomputed numbers: rounding differs between machines


class Target(NamedTuple):
    """The target of a request: (epsilon, delta) after n_unlearn_steps.

    `floor` is the least noise that the rounding of the parameters does not hide. More noise is
    never less private, so a smaller calibrated noise is raised to the floor.
    """

    epsilon: float
    delta: float
    n_unlearn_steps: int
    floor: float

    def raised(self, noise: float) -> float:
        """Zero noise stays zero; any other noise is at least the floor."""
        return max(noise, self.floor) if noise > 0 else 0.0


@dataclass(frozen=True)
class Calibration:
    """An accountant's answer for one request."""

    noise: float
    epsilon: float
    delta: float
    mu: float | None  # of mu-GDP, if the accountant uses it
    both_directions: bool  # whether (epsilon, delta) also holds with the two runs exchanged
    slack: float  # probability of the event on which mu-GDP is not claimed
    curve: Curve  # in the direction of Definition 1, recomputable from the evidence
    checks: Mapping[str, bool]
    evidence: Mapping[str, Any]
    numerical_error: Mapping[str, float]
    terms: Mapping[str, Any] = field(default_factory=dict)  # further assumptions of the guarantee


class Accountant(Protocol):
    """A method of certification. Implementations are frozen records of their options.

    Every noise that they return is zero or at least `target.floor`.
    """

    # Whether it accepts a law with a low-rank correction; otherwise it gets an eigenbasis.
    takes_corrections: ClassVar[bool]

    def describe(self) -> dict[str, Any]:
        """Name and options, as a certificate records them."""
        ...

    def prepare(self, law: Law, rows: NDArray[np.intp]) -> None:
        """Compute once what requests about these rows share."""
        ...

    def calibrate(self, law: Law, request: Request, target: Target) -> Calibration:
        """The least noise that certifies the target for one request."""
        ...

    def calibrate_each(
        self, law: Law, blocks: Iterable[Request], target: Target, progress: Progress
    ) -> tuple[Array, Array]:
        """Noise and epsilon of every row as a separate request."""
        ...

    def calibrate_groups(
        self,
        law: Law,
        blocks: Iterable[tuple[Request, NDArray[np.intp]]],
        target: Target,
        progress: Progress,
    ) -> tuple[Array, Array]:
        """Noise and epsilon of groups of rows; a block comes with the sizes of its groups."""
        ...

    def spend(self, law: Law, request: Request, noise: float, target: Target) -> Calibration:
        """What a given noise certifies, whether or not it meets the target's epsilon."""
        ...

    @staticmethod
    def check(certificate: Certificate) -> None:
        """Raise `CertificateMismatch` unless options and numbers are consistent."""
        ...

    @staticmethod
    def recompute(certificate: Certificate) -> tuple[float, Curve]:
        """Epsilon and the privacy curve of a certificate, from its evidence alone."""
        ...


def require(condition: bool, failure: str) -> None:
    """Raise unless the condition holds; `failure` says what is wrong."""
    if not condition:
        raise CertificateMismatch(f"{failure}. The certificate was altered or is damaged.")


def require_close(name: str, stated: float, recomputed: float, absolute: float = 0.0) -> None:
    """Raise if two numbers differ by more than rounding, in either direction."""
    require(
        math.isfinite(recomputed)
        and math.isclose(stated, recomputed, rel_tol=TOLERANCE, abs_tol=absolute),
        f"{name} is stated as {stated!r} and recomputed as {recomputed!r}",
    )
