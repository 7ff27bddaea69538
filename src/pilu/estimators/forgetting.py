"""Quoting, forgetting and verifying: what every estimator with a chain can do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_choice, check_integer, check_probability, check_real, complaint
from pilu._progress import progress_bar
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
from pilu.exceptions import CertificateMismatch
from pilu.laws.iterates import IterateLaw
from pilu.ridge.rows import RowSource
from pilu.ridge.spectrum import Spectrum

__all__ = ["Fitted", "ForgettingMixin"]

Array = NDArray[np.float64]

_FEW = 8  # requests that are quoted without a new eigenbasis and the mean of every coordinate


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
        """The law of the run without any forgotten row, in an eigenbasis."""
        return self._law_in(self.chain.problem.spectrum)

    def law_for(self, accountant: Accountant) -> IterateLaw:
        """The same, in the cheapest form that the accountant takes."""
        if getattr(accountant, "takes_corrections", False):
            return self._law_in(self.chain.problem.corrected_spectrum)
        return self.law

    def _law_in(self, spectrum: Spectrum) -> IterateLaw:
        chain = self.chain
        return IterateLaw(spectrum, chain.step_size, chain.schedule, chain.start)


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
        n_jobs: int = -1,
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
        n_jobs : int
            Processes for many rows under the exact accountant, -1 for one on each core.

        Returns
        -------
        quote : Quote
        """
        check_is_fitted(self)
        target, judge = (
            self._target(epsilon, delta, n_unlearn_steps),
            resolve_accountant(accountant),
        )
        source = self._fitted.source
        if requests is None:
            found = [np.array([r]) for r in np.flatnonzero(source.live)]
            noise, reached = self._quote_all(target, judge, n_jobs)
        else:
            listed = list(requests) if _is_many(requests) else [requests]
            found = [live_rows(source.live, request) for request in listed]
            law = self._fitted.law_for(judge) if len(found) <= _FEW else self._fitted.law.prepared()
            answers = [
                calibrate_with_floor(judge, law, Request(*source.take(r)), target) for r in found
            ]
            noise = np.array([a.noise for a in answers])
            reached = np.array([a.epsilon for a in answers])
        groups = tuple(tuple(int(r) for r in rows) for rows in found)
        deltas = np.full(len(groups), target.delta)
        return Quote(groups, noise, reached, deltas, target.n_unlearn_steps, judge.describe())

    def _quote_all(self, target: Target, judge: Accountant, n_jobs: int) -> tuple[Array, Array]:
        source, law = self._fitted.source, self._fitted.law
        parts = []
        with (
            parallel_config(n_jobs=_check_n_jobs(n_jobs)),
            progress_bar(int(source.live.sum()), what="quoting", unit="row") as bar,
        ):
            for _, x, y in source.numbered_blocks(width=4 * law.schedule.n_steps):
                parts.append(judge.calibrate_each(law, Request(x, y), target, bar.update))
        noise, reached = (np.concatenate(part) for part in zip(*parts, strict=True))
        floor = noise_floor(law)
        return np.where((noise > 0) & (noise < floor), floor, noise), reached

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
        return judge.spend(self._fitted.law_for(judge), request, noise, target).epsilon

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

        Returns
        -------
        certificate : Certificate
        """
        check_is_fitted(self)
        check_choice("method", method, ("langevin", "redraw"))
        if method == "redraw":
            return self._redraw(self._find(rows, ids, subject, nobody=True))
        return self._forget(
            self._find(rows, ids, subject),
            self._target(epsilon, delta, n_unlearn_steps),
            resolve_accountant(accountant),
        )

    def _forget(
        self, rows: NDArray[np.intp], target: Target, accountant: Accountant
    ) -> Certificate:
        before = self._fitted
        request = Request(*before.source.take(rows))
        law = before.law_for(accountant)
        calibration = calibrate_with_floor(accountant, law, request, target)
        gaussian = self._gaussian(stream=before.n_requests + 1)
        chain = before.chain.forgetting(
            before.chain.problem.without(rows, *request),
            Segment(target.n_unlearn_steps, calibration.noise),
            gaussian,
        )
        certificate, spent = certify_langevin(
            chain,
            rows,
            accountant,
            calibration,
            target,
            before.spent,
            before.certificates,
            before.chain.problem.statistics_error,
        )
        issued = (*before.certificates, certificate.sha256)
        book = before.book.without(rows)
        # The one assignment: an interrupt before it leaves the model as it was.
        self._fitted = Fitted(chain, book, spent, issued, before.n_requests + 1)
        return certificate

    def _redraw(self, rows: NDArray[np.intp]) -> Certificate:
        before = self._fitted
        problem = before.chain.problem
        if len(rows):
            problem = problem.without(rows, *before.source.take(rows))
        gaussian = self._gaussian(stream=before.n_requests + 1)
        chain = before.chain.redrawn(problem, gaussian)
        certificate = certify_redraw(chain, rows)
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

    def consolidate(self) -> Any:
        """Bring statistics and eigenbasis up to date, so that nothing of forgotten rows is held.

        The last few forgotten rows stay in memory as a correction, because a new eigenbasis for
        every request would be slow. Pickling, copying and a redraw do this by themselves.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._fitted.chain.problem.consolidate()
        return self

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


def _check_n_jobs(n_jobs: Any) -> int:
    if n_jobs == 0 or isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer):
        raise complaint("n_jobs", "an integer other than 0", n_jobs, "-1 takes every core.")
    return int(n_jobs)


def _check_delta(delta: Any) -> float:
    if check_probability("delta", delta) < 1e-300:
        raise complaint("delta", "at least 1e-300", delta)
    return float(delta)
