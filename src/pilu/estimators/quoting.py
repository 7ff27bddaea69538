"""Quoting: what forgetting would cost, before anything is forgotten."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from pilu._checks import LARGEST_NUMBER, check_integer, check_probability, check_real, complaint
from pilu._progress import progress_bar
from pilu.certify.accountant import Accountant, Target
from pilu.certify.floor import calibrate_with_floor
from pilu.certify.registry import resolve_accountant
from pilu.chains.request import Request
from pilu.estimators.fitted import FittedMixin
from pilu.estimators.partitioned import lazy_quote, partitioned_rows
from pilu.estimators.quote import Quote
from pilu.estimators.requests import live_rows
from pilu.estimators.utility import Validation, predict_utility, timed

__all__ = ["QuotingMixin", "is_many"]

Array = NDArray[np.float64]

_WORTH_PROCESSES = 256  # rows: for fewer, starting processes costs more than it saves
_LEAST_EPSILON, _LARGEST_EPSILON = 1e-9, 1e4
_WIDTH = 16  # numbers for each row and step, by which blocks of rows are kept small


class QuotingMixin(FittedMixin):
    """Adds `quote` and `certified_epsilon`."""

    _usual_accountant = "exact"

    def _judge(self, accountant: str | Accountant) -> Accountant:
        by_itself = isinstance(accountant, str) and accountant == "auto"
        return resolve_accountant(self._usual_accountant if by_itself else accountant)

    def quote(
        self,
        requests: Iterable[int | Sequence[int]] | int | None = None,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        n_unlearn_steps: int = 80,
        accountant: str | Accountant = "auto",
        validation: tuple[Any, Any] | None = None,
        n_jobs: int = -1,
    ) -> Quote:
        """What forgetting would cost; nothing is changed.

        After an earlier request the epsilon is conditional on it, as in its certificate.

        Parameters
        ----------
        requests : iterable of requests, optional
            A request is a row number or a sequence of row numbers (a group). None quotes every
            remaining row by itself.
        epsilon : float in [1e-9, 1e4]
        delta : float in (0, 1), optional
            None is 1/n, n the number of rows at fit.
        n_unlearn_steps : int >= 1
        accountant : str or accountant object
            "exact" or "theorem"; "auto" is "exact" for ridge and "theorem" for other losses.
        validation : pair (X, y), optional
            Data to predict the score on, before and after each request and by a redraw, into
            `Quote.utility`; a millisecond a request on small problems, about 20 at 1,500 features
            and 500 validation rows, and one deletion that is thrown away to time it. After an
            earlier request the prediction is that of a run which never saw the rows forgotten.
        n_jobs : int
            Processes for many rows under the exact accountant, -1 for one on each core.

        Returns
        -------
        quote : Quote
            For all rows of a model that was fitted on dask collections, a dask dataframe with the
            index of the fit and the columns noise, epsilon and delta, not computed yet.
        """
        check_is_fitted(self)
        target, judge = (
            self._target(epsilon, delta, n_unlearn_steps),
            self._judge(accountant),
        )
        n_jobs, held_out = _check_n_jobs(n_jobs), self._checked_validation(validation)
        live = self.fitted_.source.live
        partitioned = partitioned_rows(self.fitted_.source)
        if requests is None and partitioned is not None:
            if held_out is not None:
                raise ValueError("validation must be None for a quote of all rows of dask.")
            law = self.fitted_.law
            lazy: Quote = lazy_quote(partitioned, self.fitted_.source, law, judge, target)
            return lazy  # a frame with its columns
        if requests is None:
            found = [np.array([r]) for r in np.flatnonzero(live)]
            noise, reached = self._quote_all(target, judge, n_jobs)
        else:
            listed = list(requests) if is_many(requests) else [requests]
            found = [live_rows(live, request) for request in listed]
            noise, reached, seconds = self._quote_each(found, target, judge)
        utility = None
        if held_out is not None:
            if requests is None:  # timed by itself: many rows at once share what a request has not
                seconds = np.repeat(self._quote_each(found[:1], target, judge)[2], len(found))
            law, chain, K = self.fitted_.law, self.fitted_.chain, target.n_unlearn_steps
            utility = predict_utility(held_out, law, chain, found, noise, seconds, K)
        groups = tuple(tuple(int(r) for r in rows) for rows in found)
        deltas = np.full(len(groups), target.delta)
        steps = target.n_unlearn_steps
        return Quote(groups, noise, reached, deltas, steps, judge.describe(), utility)

    def _quote_each(
        self, found: Sequence[NDArray[np.intp]], target: Target, judge: Accountant
    ) -> tuple[Array, Array, Array]:
        """Noise, epsilon and the seconds that each request took."""
        fitted = self.fitted_
        law = fitted.law_for(judge)
        answers = []
        judge.prepare(law, np.unique(np.concatenate([*found, np.array([], dtype=np.intp)])))
        with progress_bar(len(found), what="quoting", unit="request") as bar:
            for rows in found:
                request = Request.read(fitted.source, rows)
                answer, taken = timed(calibrate_with_floor, judge, law, request, target)
                answers.append((answer.noise, answer.epsilon, taken))
                bar.update()
        noise, reached, seconds = np.array(answers).reshape(-1, 3).T
        return noise, reached, seconds

    def _quote_all(self, target: Target, judge: Accountant, n_jobs: int) -> tuple[Array, Array]:
        # In an eigenbasis: a correction holds forgotten rows, and must not go to other processes.
        source, law = self.fitted_.source, self.fitted_.law
        n = int(source.live.sum())
        judge.prepare(law, np.flatnonzero(source.live))
        blocks = source.numbered_blocks(width=_WIDTH * law.schedule.n_steps)
        with (
            parallel_config(n_jobs=n_jobs if n >= _WORTH_PROCESSES else 1),
            progress_bar(n, what="quoting", unit="row") as bar,
        ):
            requests = (Request(x, y, rows) for rows, x, y in blocks)
            return judge.calibrate_each(law, requests, target, bar.update)

    def certified_epsilon(
        self,
        rows: int | Sequence[int],
        *,
        noise: float,
        n_unlearn_steps: int = 80,
        delta: float | None = None,
        accountant: str | Accountant = "auto",
    ) -> float:
        """The epsilon that forgetting `rows` with a given noise would certify.

        After an earlier request it is conditional on it, as in its certificate.

        Parameters
        ----------
        rows : int or sequence of int
            One request.
        noise : float >= 0
            sigma_unlearn.
        n_unlearn_steps, delta, accountant
            As in `quote`.
        """
        check_is_fitted(self)
        noise = check_real("noise", noise, least=0.0, most=LARGEST_NUMBER)
        target = self._target(1.0, delta, n_unlearn_steps)  # its epsilon need not be met
        source = self.fitted_.source
        request = Request.read(source, live_rows(source.live, rows))
        judge = self._judge(accountant)
        return judge.spend(self.fitted_.law_for(judge), request, noise, target).epsilon

    def _target(self, epsilon: float, delta: float | None, n_unlearn_steps: int) -> Target:
        if delta is None:
            delta = 1.0 / self.fitted_.source.n_rows
        return Target(
            _check_epsilon(epsilon),
            _check_delta(delta),
            check_integer("n_unlearn_steps", n_unlearn_steps, least=1),
        )

    def _checked_validation(self, pair: Any, name: str = "validation") -> Validation | None:
        if pair is None:
            return None
        return Validation.of(
            pair,
            self._attachable,
            n_targets=self._theta.shape[1],
            fit_intercept=self.fitted_.source.fit_intercept,
            is_classifier=is_classifier(self),
            name=name,
        )


def is_many(requests: Any) -> TypeGuard[Iterable[Any]]:
    """Whether these are several requests rather than one row number."""
    if isinstance(requests, np.ndarray):
        return requests.ndim > 0
    return isinstance(requests, Iterable) and not isinstance(requests, str)


def _check_n_jobs(n_jobs: Any) -> int:
    if n_jobs == 0 or isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer):
        raise complaint("n_jobs", "an integer other than 0", n_jobs, "-1 takes every core.")
    return int(n_jobs)


def _check_epsilon(epsilon: Any) -> float:
    value = check_real("epsilon", epsilon, above=0.0, most=_LARGEST_EPSILON)
    if value < _LEAST_EPSILON:
        raise complaint("epsilon", f"at least {_LEAST_EPSILON:g}", epsilon)
    return value


def _check_delta(delta: Any) -> float:
    if check_probability("delta", delta) < 1e-300:
        raise complaint("delta", "at least 1e-300", delta)
    return float(delta)
