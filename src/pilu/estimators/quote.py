"""Quotes: the noise and epsilon of requests, before anything is forgotten."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu._extras import need
from pilu._progress import progress_bar
from pilu.certify.issue import Terms
from pilu.data.rows import Request
from pilu.estimators.fitted import Fitted
from pilu.estimators.requests import live_rows, separate
from pilu.estimators.utility import Utility, Validation, predict_utility

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

WORTH_PROCESSES = 256  # rows: for fewer, starting processes costs more than it saves
_WIDTH = 16  # numbers per row and step, which limits the size of blocks of rows


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

    def to_frame(self) -> "pd.DataFrame":
        """A pandas DataFrame with one line per request (needs the extra ``pilu[pandas]``)."""
        need("pandas", for_="Quote.to_frame", extra="pandas")
        import pandas as pd

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


def quote_requests(
    fitted: Fitted,
    terms: Terms,
    requests: Iterable[Any] | int,
    validation: Validation | None,
) -> Quote:
    """Quote some requests, each a row number or a group of row numbers."""
    groups = [live_rows(fitted.source.live, r) for r in separate(requests)]
    noise, epsilon, seconds = _calibrate_separately(fitted, terms, groups)
    return _quote(fitted, terms, groups, noise, epsilon, validation, seconds)


def quote_all(fitted: Fitted, terms: Terms, n_jobs: int, validation: Validation | None) -> Quote:
    """Quote every remaining row as a separate request."""
    accountant, source, rows = terms.accountant, fitted.source, np.flatnonzero(fitted.source.live)
    # No correction: it holds forgotten rows, which must not reach other processes.
    whole = fitted.law
    accountant.prepare(whole, rows)
    blocks = source.numbered_blocks(width=_WIDTH * max(whole.schedule.n_steps, 1))
    with (
        parallel_config(n_jobs=n_jobs if len(rows) >= WORTH_PROCESSES else 1),
        progress_bar(len(rows), what="quoting", unit="row") as bar,
    ):
        each = (Request(x, y, numbers) for numbers, x, y in blocks)
        noise, epsilon = accountant.calibrate_each(whole, each, terms.target, bar.update)
    groups, seconds = [np.array([r]) for r in rows], np.zeros(len(rows))
    if validation is not None:  # one request is timed separately, because many share their work
        seconds += _calibrate_separately(fitted, terms, groups[:1])[2]
    return _quote(fitted, terms, groups, noise, epsilon, validation, seconds)


def read_n_jobs(n_jobs: Any) -> int:
    """Number of processes, checked."""
    if n_jobs == 0 or isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer):
        raise complaint("n_jobs", "an integer other than 0", n_jobs, "Use -1 for every core.")
    return int(n_jobs)


def _calibrate_separately(
    fitted: Fitted, terms: Terms, groups: Sequence[Rows]
) -> tuple[Array, Array, Array]:
    """Noise, epsilon and seconds of each request."""
    (accountant, law, target), answers = terms, []
    accountant.prepare(law, np.unique(np.concatenate([*groups, np.array([], dtype=np.intp)])))
    with progress_bar(len(groups), what="quoting", unit="request") as bar:
        for rows in groups:
            request = Request.read(fitted.source, rows)
            started = time.perf_counter()
            answer = accountant.calibrate(law, request, target)
            answers.append((answer.noise, answer.epsilon, time.perf_counter() - started))
            bar.update()
    noise, epsilon, seconds = np.array(answers).reshape(-1, 3).T
    return noise, epsilon, seconds


def _quote(
    fitted: Fitted,
    terms: Terms,
    groups: Sequence[Rows],
    noise: Array,
    epsilon: Array,
    validation: Validation | None,
    seconds: Array,
) -> Quote:
    utility, K = None, terms.target.n_unlearn_steps
    if validation is not None:
        utility = predict_utility(validation, fitted.chain, groups, noise, seconds, K)
    requests = tuple(tuple(int(r) for r in rows) for rows in groups)
    deltas = np.full(len(requests), terms.target.delta)
    return Quote(requests, noise, epsilon, deltas, K, terms.accountant.describe(), utility)
