"""Exposure: how much a release tells about each person who was in the table.

The release with a person's rows is compared, in both directions, with the release without them.
docs/exposure.md says what the number means and what it takes as given.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Exposure:
    """What a release tells about people; the arrays are in the order of `requests`.

    Attributes
    ----------
    names : tuple
        The person, id or row number of each request.
    requests : tuple of tuple of int
        Row numbers of each request.
    epsilon : array
        For every set S of parameters, P(S) <= e^epsilon Q(S) + delta and the same with P and Q
        exchanged. P is the law of the release, Q its law without the rows.
    delta : float
    tightness : array
        Epsilon over the least that the true one can be: 1 is exact, 1.05 means that it is at most
        5 % too large. Infinite if nothing is known from below.
    covers_preprocessing : bool
        False if both releases are compared with the preprocessing as it was fitted with the rows.
    noise_scale : float or None
        The scale of shaped noise, which is taken as given; None for other noise.
    """

    names: tuple[Hashable, ...]
    requests: tuple[tuple[int, ...], ...]
    epsilon: Array
    delta: float
    covers_preprocessing: bool
    noise_scale: float | None = None
    least: Callable[[], Array] | None = field(default=None, repr=False)  # of the true epsilons

    def __post_init__(self) -> None:
        self.epsilon.setflags(write=False)

    @cached_property
    def tightness(self) -> Array:
        """Epsilon over the least that the true one can be; computed when it is asked for."""
        if self.least is None:
            return np.full(len(self), np.inf)
        least = self.least()
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.epsilon > least, self.epsilon / least, 1.0)

    @property
    def words(self) -> tuple[str, ...]:
        """What the numbers mean and what they take as given, in sentences."""
        given = "the penalties and class weights"
        if self.noise_scale is not None:
            given = f"the noise scale {self.noise_scale:.6g}, {given}"
        if not self.covers_preprocessing:
            given += ", and the preprocessing as it was fitted with the rows"
        return (
            "P is the law of the release, Q its law without the rows of a request. For every set S "
            f"of parameters, P(S) <= e^epsilon Q(S) + {self.delta:g} and Q(S) <= e^epsilon P(S) + "
            f"{self.delta:g}, given {given}.",
            "Nobody who is not in the table is covered: this is not differential privacy.",
            "The numbers depend on the rows. Show them to the person, not to the public.",
        )

    def __len__(self) -> int:
        return len(self.requests)

    def __repr__(self) -> str:
        n = len(self)
        if not n:
            return "Exposure(0 requests)"
        middle, most = float(np.median(self.epsilon)), float(np.max(self.epsilon))
        if n == 1:
            return f"Exposure(1 request, epsilon {most:.4g}, delta {self.delta:.3g})"
        span = f"epsilon {middle:.4g} (median) to {most:.4g} (largest)"
        return f"Exposure({n} requests, {span}, delta {self.delta:.3g})"

    def to_frame(self) -> "pd.DataFrame":
        """A pandas DataFrame with one line per request (needs the extra ``pilu[pandas]``)."""
        need("pandas", for_="Exposure.to_frame", extra="pandas")
        import pandas as pd

        columns = {
            "name": self.names,
            "rows": self.requests,
            "n_rows": [len(r) for r in self.requests],
            "epsilon": np.array(self.epsilon),
            "delta": np.full(len(self), self.delta),
            "tightness": np.array(self.tightness),
        }
        return pd.DataFrame(columns)
