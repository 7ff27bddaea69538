"""Quoting requests before anything is forgotten."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from pilu._checks import check_probability, check_real, check_steps, complaint
from pilu._progress import progress_bar
from pilu.certify.accountant import Accountant, Law, Target
from pilu.certify.registry import resolve_accountant, usual_accountant
from pilu.data.rows import Request
from pilu.estimators.fitted import Fitted
from pilu.estimators.quote import Quote
from pilu.estimators.requests import live_rows
from pilu.estimators.utility import Validation, predict_utility, timed

__all__ = [
    "Terms",
    "is_many",
    "quote_all",
    "quote_requests",
    "read_n_jobs",
    "set_terms",
]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_WORTH_PROCESSES = 256  # rows: for fewer, starting processes costs more than it saves
_LEAST_EPSILON, _LARGEST_EPSILON = 1e-9, 1e4
_LEAST_DELTA = 1e-300
_WIDTH = 16  # numbers per row and step, which limits the size of blocks of rows


def _read_delta(fitted: Fitted, delta: float | None) -> float:
    """Delta, checked; by default 1/n for n rows at fit."""
    if delta is None:
        return 1.0 / len(fitted.source.live)
    if check_probability("delta", delta) < _LEAST_DELTA:
        raise complaint("delta", f"at least {_LEAST_DELTA:g}", delta)
    return float(delta)


class Terms(NamedTuple):
    """The accountant, law and target of requests."""

    accountant: Accountant
    law: Law
    target: Target


def set_terms(
    fitted: Fitted,
    accountant: str | Accountant,
    epsilon: float,
    delta: float | None,
    n_unlearn_steps: int,
) -> Terms:
    """The accountant, the law in the form that it accepts, and the target, all checked.

    The accountant is a name or an object; "auto" is the usual one for the problem.
    """
    value = check_real("epsilon", epsilon, above=0.0, most=_LARGEST_EPSILON)
    K = check_steps("n_unlearn_steps", n_unlearn_steps)
    if value < _LEAST_EPSILON:
        raise complaint("epsilon", f"at least {_LEAST_EPSILON:g}", epsilon)
    delta = _read_delta(fitted, delta)
    law = fitted.chain.law(corrected=True)
    is_auto = isinstance(accountant, str) and accountant == "auto"
    chosen = usual_accountant(law) if is_auto else resolve_accountant(accountant)
    if not getattr(chosen, "takes_corrections", False):
        law = fitted.law
    return Terms(chosen, law, Target.of(law, value, delta, K))


def quote_requests(
    fitted: Fitted,
    terms: Terms,
    requests: Iterable[Any] | int,
    validation: Validation | None,
) -> Quote:
    """Quote some requests, each a row number or a group of row numbers."""
    live = fitted.source.live
    groups = [live_rows(live, r) for r in (requests if is_many(requests) else [requests])]
    noise, epsilon, seconds = _calibrate_separately(fitted, terms, groups)
    return _quote(fitted, terms, groups, noise, epsilon, validation, seconds)


def quote_all(fitted: Fitted, terms: Terms, n_jobs: int, validation: Validation | None) -> Quote:
    """Quote every remaining row as a separate request."""
    accountant, source, rows = terms.accountant, fitted.source, np.flatnonzero(fitted.source.live)
    # No correction: it holds forgotten rows, which must not reach other processes.
    whole = fitted.law
    accountant.prepare(whole, rows)
    blocks = source.numbered_blocks(width=_WIDTH * whole.schedule.n_steps)
    with (
        parallel_config(n_jobs=n_jobs if len(rows) >= _WORTH_PROCESSES else 1),
        progress_bar(len(rows), what="quoting", unit="row") as bar,
    ):
        each = (Request(x, y, numbers) for numbers, x, y in blocks)
        noise, epsilon = accountant.calibrate_each(whole, each, terms.target, bar.update)
    groups, seconds = [np.array([r]) for r in rows], np.zeros(len(rows))
    if validation is not None:  # one request is timed separately, because many share their work
        seconds += _calibrate_separately(fitted, terms, groups[:1])[2]
    return _quote(fitted, terms, groups, noise, epsilon, validation, seconds)


def is_many(requests: Any) -> TypeGuard[Iterable[Any]]:
    """Whether these are several requests rather than one row number."""
    if isinstance(requests, np.ndarray):
        return requests.ndim > 0
    return isinstance(requests, Iterable) and not isinstance(requests, str)


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
            answer, taken = timed(accountant.calibrate, law, request, target)
            answers.append((answer.noise, answer.epsilon, taken))
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
        law, chain = fitted.law, fitted.chain
        utility = predict_utility(validation, law, chain, groups, noise, seconds, K)
    requests = tuple(tuple(int(r) for r in rows) for rows in groups)
    deltas = np.full(len(requests), terms.target.delta)
    return Quote(requests, noise, epsilon, deltas, K, terms.accountant.describe(), utility)
