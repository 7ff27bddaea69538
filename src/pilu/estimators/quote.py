"""Quotes: the noise and epsilon of each request."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need
from pilu.estimators.utility import Utility

__all__ = ["Quote"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quote:
    """Noise and epsilon of deletion requests; the arrays are in the order of `requests`.

    Attributes
    ----------
    requests : tuple of tuple of int
        Fit-time positions of each request's rows.
    noise : array
        sigma_unlearn that the request needs.
    epsilon, delta : array
        What that noise certifies.
    n_unlearn_steps : int
    accountant : dict
        Name and options of the accountant.
    utility : Utility or None
        With validation data: predicted scores before and after each request and after a redraw,
        and the seconds that these take.
    """

    requests: tuple[tuple[int, ...], ...]
    noise: Array
    epsilon: Array
    delta: Array
    n_unlearn_steps: int
    accountant: dict[str, Any]
    utility: Utility | None = None

    def __post_init__(self) -> None:
        for array in (self.noise, self.epsilon, self.delta):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.requests)

    def __repr__(self) -> str:
        n = len(self)
        if not n:
            return "Quote(0 requests)"
        least, most = float(np.min(self.noise)), float(np.max(self.noise))
        noise = f"{most:.4g}" if n == 1 else f"{least:.4g} to {most:.4g}"
        return (
            f"Quote({n} request{'s' * (n > 1)}, noise {noise}, epsilon {np.max(self.epsilon):.4g}, "
            f"delta {np.max(self.delta):.3g}, n_unlearn_steps={self.n_unlearn_steps}, "
            f"{self.accountant['name']})"
        )

    def to_frame(self) -> Any:
        """A pandas DataFrame with one line per request (needs the extra ``pilu[pandas]``)."""
        pd = need("pandas", for_="Quote.to_frame", extra="pandas")
        columns = {
            "rows": self.requests,
            "n_rows": [len(r) for r in self.requests],
            "noise": np.array(self.noise),
            "epsilon": np.array(self.epsilon),
            "delta": np.array(self.delta),
        }
        if self.utility is not None:
            u = self.utility
            columns |= {
                f"{u.metric}_before": np.full(len(self), u.before),
                f"{u.metric}_after": np.array(u.after),
                f"{u.metric}_redraw": np.array(u.redraw),
                "seconds": np.array(u.seconds),
                "redraw_seconds": np.full(len(self), u.redraw_seconds),
            }
        return pd.DataFrame(columns)
