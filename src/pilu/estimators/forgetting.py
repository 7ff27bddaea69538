"""Quoting, forgetting and verifying: what every estimator with a chain can do."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_choice, check_integer, check_probability, check_real, complaint
from pilu.accounting.composition import Spent
from pilu.certify.accountant import Accountant, Request, Target
from pilu.certify.certificate import Certificate, sha256_of_parameters
from pilu.certify.floor import calibrate_with_floor, noise_floor
from pilu.certify.issue import certify_langevin, certify_redraw
from pilu.certify.registry import resolve_accountant
from pilu.certify.verify import verify
from pilu.dynamics.chain import Chain
from pilu.dynamics.entropy import GaussianSource
from pilu.dynamics.schedule import Segment
from pilu.estimators.quote import Quote
from pilu.estimators.requests import RowBook, live_rows
from pilu.estimators.utility import (
    Validation,
    langevin_record,
    predict_utility,
    redraw_record,
    timed,
)
from pilu.exceptions import CertificateMismatch
from pilu.laws.iterates import IterateLaw
from pilu.ridge.rows import RowSource

__all__ = ["Fitted", "ForgettingMixin"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that fitting and forgetting produce; replaced as a whole, so no call leaves a half."""

    chain: Chain
    book: RowBook
    spent: Spent = field(default_factory=Spent)
    certificates: tuple[str, ...] = ()  # hashes of those issued since the last redraw
    n_requests: int = 0

    @property
    def source(self) -> RowSource:
        """The rows."""
        return self.chain.problem.source

    @property
    def law(self) -> IterateLaw:
        """The law of the run without any forgotten row."""
        chain = self.chain
        return IterateLaw(chain.problem.spectrum, chain.step_size, chain.schedule, chain.start)


class ForgettingMixin:
    """Needs `_gaussian` and `_attachable` from the estimator, and `_fitted` once it is fitted."""

    _fitted: Fitted

    def _gaussian(self, stream: int) -> GaussianSource:
        raise NotImplementedError

    def _attachable(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in self.__dict__

    @property
    def _theta(self) -> Array:
        # AttributeError, not NotFittedError: hasattr(model, "coef_") must answer False.
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} is not fitted yet. Call fit first.")
        return self._fitted.chain.theta

    @property
    def step_size_(self) -> float:
        """The step size in use, 1/L of the fit by default."""
        check_is_fitted(self)
        return self._fitted.chain.step_size

    @property
    def schedule_(self) -> tuple[tuple[int, float], ...]:
        """All (steps, noise) segments since learning or the last redraw."""
        check_is_fitted(self)
        return tuple((s.steps, s.noise) for s in self._fitted.chain.schedule.segments)

    @property
    def remaining_(self) -> NDArray[np.intp]:
        """Fit-time positions of the rows that are not forgotten."""
        check_is_fitted(self)
        return np.flatnonzero(self._fitted.source.live)

    @property
    def total_(self) -> tuple[float, float]:
        """Running total (epsilon, delta) over all requests since the last redraw."""
        check_is_fitted(self)
        return self._fitted.spent.epsilon, self._fitted.spent.delta

    # -- quoting and forgetting

    def quote(
        self,
        requests: Iterable[int | Sequence[int]] | int | None = None,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        n_unlearn_steps: int = 80,
        accountant: str | Accountant = "exact",
        validation: tuple[Any, Any] | None = None,
    ) -> Quote:
        """What forgetting would cost; nothing is changed.

        After an earlier request the epsilon is conditional on it, as in its certificate.

        Parameters
        ----------
        requests : iterable of requests, optional
            A request is a row number or a sequence of row numbers (a group). None quotes every
            remaining row by itself.
        epsilon : float > 0
        delta : float in (0, 1), optional
            None is 1/n, n the number of rows at fit.
        n_unlearn_steps : int >= 1
        accountant : str or accountant object
        validation : pair (X, y), optional
            Data to predict the score on, before and after each request and by a redraw, into
            `Quote.utility`; a millisecond a request on small problems, about 20 at 1,500 features
            and 500 validation rows, and one deletion that is thrown away to time it. After an
            earlier request the prediction is that of a run which never saw the rows forgotten.

        Returns
        -------
        quote : Quote
        """
        check_is_fitted(self)
        target, judge = (
            self._target(epsilon, delta, n_unlearn_steps),
            resolve_accountant(accountant),
        )
        held_out = self._checked_validation(validation)
        source, law = self._fitted.source, self._fitted.law
        if requests is None:
            found = [np.array([r]) for r in np.flatnonzero(source.live)]
            parts = []
            for _, x, y in source.numbered_blocks(width=4 * law.schedule.n_steps):
                part, taken = timed(judge.calibrate_each, law, Request(x, y), target)
                parts.append((*part, np.full(len(x), taken / len(x))))
            noise, reached, seconds = (np.concatenate(part) for part in zip(*parts, strict=True))
            floor = noise_floor(law)
            noise = np.where((noise > 0) & (noise < floor), floor, noise)
        else:
            listed = list(requests) if _is_many(requests) else [requests]
            found = [live_rows(source.live, request) for request in listed]
            answers = [
                timed(calibrate_with_floor, judge, law, Request(*source.take(r)), target)
                for r in found
            ]
            noise = np.array([a.noise for a, _ in answers])
            reached = np.array([a.epsilon for a, _ in answers])
            seconds = np.array([taken for _, taken in answers])
        chain, K = self._fitted.chain, target.n_unlearn_steps
        utility = predict_utility(held_out, law, chain, found, noise, seconds, K)
        groups = tuple(tuple(int(r) for r in rows) for rows in found)
        deltas = np.full(len(groups), target.delta)
        return Quote(groups, noise, reached, deltas, K, judge.describe(), utility)

    def certified_epsilon(
        self,
        rows: int | Sequence[int],
        *,
        noise: float,
        n_unlearn_steps: int = 80,
        delta: float | None = None,
        accountant: str | Accountant = "exact",
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
        noise = check_real("noise", noise, least=0.0)
        target = self._target(1.0, delta, n_unlearn_steps)  # its epsilon is not looked at
        source = self._fitted.source
        request = Request(*source.take(live_rows(source.live, rows)))
        judge = resolve_accountant(accountant)
        return judge.spend(self._fitted.law, request, noise, target).epsilon

    def unlearn(
        self,
        rows: int | Sequence[int] | None = None,
        *,
        ids: Any = None,
        subject: Any = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        n_unlearn_steps: int = 80,
        accountant: str | Accountant = "exact",
        method: str = "langevin",
        validation: tuple[Any, Any] | None = None,
    ) -> Certificate:
        """Forget rows, in place, and hand over a certificate.

        The call either succeeds as a whole or leaves the model as it was.

        Parameters
        ----------
        rows : int or sequence of int, optional
            Fit-time positions; a sequence is one group, forgotten together.
        ids, subject : optional
            The same by the `sample_ids` or `subjects` given to `fit`. Exactly one of the three is
            given; a redraw may do without, and then forgets nobody new.
        epsilon, delta, n_unlearn_steps, accountant
            As in `quote`; a redraw has no use for them.
        method : {"langevin", "redraw"}
            "langevin" takes noisy steps on the remaining rows. "redraw" draws the parameters
            from the law of learning without the rows: epsilon = 0, and the total is reset.
        validation : pair (X, y), optional
            As in `quote`; the prediction goes into `Certificate.utility`, with the seconds that
            the request really took.

        Returns
        -------
        certificate : Certificate
        """
        check_is_fitted(self)
        check_choice("method", method, ("langevin", "redraw"))
        held_out = self._checked_validation(validation)
        if method == "redraw":
            return self._redraw(self._find(rows, ids, subject, nobody=True), held_out)
        return self._forget(
            self._find(rows, ids, subject),
            self._target(epsilon, delta, n_unlearn_steps),
            resolve_accountant(accountant),
            held_out,
        )

    def _forget(
        self,
        rows: NDArray[np.intp],
        target: Target,
        accountant: Accountant,
        validation: Validation | None,
    ) -> Certificate:
        before, started = self._fitted, time.perf_counter()
        law, request = before.law, Request(*before.source.take(rows))
        calibration = calibrate_with_floor(accountant, law, request, target)
        gaussian = self._gaussian(stream=before.n_requests + 1)
        segment = Segment(target.n_unlearn_steps, calibration.noise)
        problem = before.chain.problem.without(rows, *request)
        chain = before.chain.forgetting(problem, segment, gaussian)
        seconds = time.perf_counter() - started
        utility = langevin_record(validation, law, before.chain, request, segment, seconds)
        certificate, spent = certify_langevin(
            chain,
            rows,
            accountant,
            calibration,
            target,
            before.spent,
            before.certificates,
            before.chain.problem.statistics_error,
            utility,
        )
        issued = (*before.certificates, certificate.sha256)
        book = before.book.without(rows)
        # The one assignment: an interrupt before it leaves the model as it was.
        self._fitted = Fitted(chain, book, spent, issued, before.n_requests + 1)
        return certificate

    def _redraw(self, rows: NDArray[np.intp], validation: Validation | None) -> Certificate:
        before, started = self._fitted, time.perf_counter()
        problem, request = before.chain.problem, Request(*before.source.take(rows))
        if len(rows):
            problem = problem.without(rows, *request)
        gaussian = self._gaussian(stream=before.n_requests + 1)
        chain = before.chain.redrawn(problem, gaussian)
        seconds = time.perf_counter() - started
        utility = redraw_record(validation, before.law, request, seconds)
        certificate = certify_redraw(chain, rows, utility)
        book = before.book.without(rows)
        self._fitted = Fitted(chain, book, n_requests=before.n_requests + 1)
        return certificate

    def _find(self, rows: Any, ids: Any, subject: Any, *, nobody: bool = False) -> NDArray[np.intp]:
        if nobody and rows is None and ids is None and subject is None:
            return np.array([], dtype=np.intp)
        fitted = self._fitted
        return fitted.book.find(fitted.source.live, rows=rows, ids=ids, subject=subject)

    def _target(self, epsilon: float, delta: float | None, n_unlearn_steps: int) -> Target:
        if delta is None:
            delta = 1.0 / self._fitted.source.n_rows
        return Target(
            check_real("epsilon", epsilon, above=0.0),
            _check_delta(delta),
            check_integer("n_unlearn_steps", n_unlearn_steps, least=1),
        )

    def _checked_validation(self, pair: Any) -> Validation | None:
        if pair is None:
            return None
        return Validation.of(
            pair,
            self._attachable,
            n_targets=self._theta.shape[1],
            fit_intercept=self._fitted.source.fit_intercept,
            is_classifier=is_classifier(self),
        )

    # -- keeping and checking

    def verify(self, certificate: Certificate) -> dict[str, bool]:
        """Check a certificate by itself and against the parameters that the model holds now."""
        check_is_fitted(self)
        checks = verify(certificate)
        if sha256_of_parameters(self._theta) != certificate.parameters_sha256:
            raise CertificateMismatch(
                "the model's parameters are not those of the certificate. It was issued for "
                "another model, or the model has changed since."
            )
        return {**checks, "parameters_checked": True}

    def attach(self, X: Any, y: Any) -> Any:
        """Give a loaded model its training rows back.

        Parameters
        ----------
        X, y : array-like
            All rows of the fit in their order (forgotten ones may hold anything), or just those
            that are not forgotten.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        X, Y = self._attachable(X, y)
        source = self._fitted.source.attach(X, Y)
        chain = self._fitted.chain
        chain = replace(chain, problem=chain.problem.reading(source))
        self._fitted = replace(self._fitted, chain=chain)
        return self


def _is_many(requests: Any) -> TypeGuard[Iterable[Any]]:
    if isinstance(requests, np.ndarray):
        return requests.ndim > 0
    return isinstance(requests, Iterable) and not isinstance(requests, str)


def _check_delta(delta: Any) -> float:
    if check_probability("delta", delta) < 1e-300:
        raise complaint("delta", "at least 1e-300", delta)
    return float(delta)
