"""The scikit-learn interface of all Langevin estimators."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from pilu._checks import LARGEST_NUMBER, check_choice, check_flag, check_real, complaint
from pilu.certify.accountant import Accountant
from pilu.certify.certificate import Certificate
from pilu.certify.issue import set_terms
from pilu.chains.problem import Problem
from pilu.data.partitions import PartitionedRows
from pilu.data.rows import Request, RowSource
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.estimators.exposure import Exposure
from pilu.estimators.fitted import (
    Fitted,
    FittedAttributes,
    forget,
    redraw,
    redraw_is_cheap,
    verify_issued,
    warn_of_total,
    warn_unless_converged,
)
from pilu.estimators.langevin_exposure import expose_parameters
from pilu.estimators.learning import (
    Parameters,
    check_rows,
    learn,
    unchanged_on_error,
)
from pilu.estimators.partitioned import lazy_quote, refuse_dask
from pilu.estimators.quote import Quote, quote_all, quote_requests, read_n_jobs
from pilu.estimators.requests import RowBook, check_only_one, index_as_ids, live_rows
from pilu.estimators.utility import read_validation

Array = NDArray[np.float64]


class LangevinEstimator(Parameters, FittedAttributes, BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of estimators that learn by Langevin dynamics.

    `LangevinRidge` documents the parameters. A subclass supplies the problem and the encoding of
    targets. The result of fitting and forgetting is one frozen object, `fitted_`, which each call
    replaces as a whole.
    """

    learns_from_sums: ClassVar[bool] = False  # whether one pass over the rows suffices

    targets_: NumericTargets | ClassTargets  # the encoding of y
    n_features_in_: int

    # What a subclass supplies

    @abstractmethod
    def make_problem(self, source: RowSource, n_outputs: int) -> Problem:
        """The problem of new rows."""

    @abstractmethod
    def restore_problem(
        self, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], source: RowSource
    ) -> Problem:
        """The problem that a store saved as `Problem.record` and `Problem.arrays`."""

    @abstractmethod
    def read_rows(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        """X and y of a fitted model as numbers; forgotten rows are not checked."""

    @abstractmethod
    def _validated(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        """X in its own dtype and y as float64, n x d; sets `targets_`."""

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_ids: Any = None,
        subjects: Any = None,
        coef_init: ArrayLike | None = None,
    ) -> Self:
        """Learn from the rows of X and y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Not copied: do not change it while the model is in use. For ridge, X and y may be dask
            arrays or dataframes (``pilu[dask]``, docs/sizes.md).
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets, or labels for a classifier.
        sample_ids : sequence of unique hashables, optional
            Row names for `unlearn(ids=...)`. Default: the pandas index, if it is unique.
        subjects : sequence of hashables, optional
            The person to whom each row belongs, for `unlearn(subject=...)`. None and NaN are
            refused, here and in `sample_ids`.
        coef_init : array, optional
            Start of the chain, in the shape of `coef_`, optionally with the intercept last. It must
            not depend on the data. Default: zeros.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If learning stopped so far from the minimiser that its error is larger by a noticeable
            amount (docs/utility.md, "Convergence").
        """
        if not self.learns_from_sums:
            refuse_dask(X, y)
        with unchanged_on_error(self):
            self._fit(X, y, sample_ids, subjects, coef_init)
            warn_unless_converged(self.fitted_)
        return self

    def _fit(
        self, X: Any, y: Any, sample_ids: Any, subjects: Any, coef_init: ArrayLike | None
    ) -> None:
        self.check_parameters()
        if sample_ids is None:
            sample_ids = index_as_ids(getattr(X, "index", None))
        X, Y = self._validated(X, y)
        check_rows(X, Y)
        source = RowSource.of(X, Y, fit_intercept=bool(self.fit_intercept))
        problem = self.make_problem(source, Y.shape[1])
        book = RowBook.open(len(X), source.key, sample_ids, subjects)
        counts = None
        if isinstance(self.targets_, ClassTargets):
            counts = self.targets_.members(Y).sum(axis=0)
        self.fitted_ = learn(self, problem, book, coef_init=coef_init, class_counts=counts)

    def adopt(
        self, fitted: Fitted, targets: NumericTargets | ClassTargets, n_features: int
    ) -> Self:
        """Use a state that was learned elsewhere, e.g. one from a store."""
        self.n_features_in_, self.targets_, self.fitted_ = n_features, targets, fitted
        return self

    def attach(self, X: Any, y: Any) -> Self:
        """Attach training rows to a loaded model.

        Parameters
        ----------
        X, y : array-like
            All rows of the fit in their order, or only those that are not forgotten. Values of
            forgotten rows are ignored. Dask collections must have the index of the fit if it names
            the rows.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if not self.learns_from_sums:
            refuse_dask(X, y)
        source = self._attached(X, y)
        self.fitted_ = self.fitted_.reading(self.fitted_.chain.problem.reading(source))
        return self

    def _attached(self, X: Any, y: Any) -> RowSource:
        return self.fitted_.source.attach(*self.read_rows(X, y))

    # Quoting and forgetting

    def quote(
        self,
        requests: Iterable[int | Sequence[int]] | int | None = None,
        *,
        subject: Any = None,
        subjects: Any = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        n_unlearn_steps: int = 80,
        accountant: str | Accountant = "auto",
        validation: tuple[Any, Any] | None = None,
        n_jobs: int = -1,
    ) -> Quote:
        """The noise and epsilon of requests; the model is not changed.

        After an earlier request the epsilon is conditional on it, as in its certificate.

        Parameters
        ----------
        requests : iterable of requests, optional
            A request is a row number or a sequence of row numbers (a group). Without `requests`,
            `subject` and `subjects`, every remaining row is quoted separately.
        subject, subjects : optional
            Instead of `requests`: all rows of one person as one request, or a list of people, each
            a request.
        epsilon : float in [1e-9, 1e4]
        delta : float in (0, 1), optional
            Default: 1/n for n rows at fit.
        n_unlearn_steps : int >= 1
        accountant : str or accountant object
            "exact" or "theorem"; "auto" is "exact" for ridge and "theorem" for other losses.
        validation : pair (X, y), optional
            Data for `Quote.utility`: the predicted score before and after each request and after a
            redraw. It takes 1 to 20 ms per request, plus one discarded deletion to measure its
            time. After an earlier request the prediction is for a run that never saw the forgotten
            rows.
        n_jobs : int
            Processes for many rows with the exact accountant; -1 uses every core.

        Returns
        -------
        quote : Quote
            For all rows of a model fitted on dask collections: a lazy dask dataframe with the index
            of the fit and the columns noise, epsilon and delta.
        """
        check_is_fitted(self)
        fitted, n_jobs = self.fitted_, read_n_jobs(n_jobs)
        held_out = None if validation is None else read_validation(self, validation)
        terms = set_terms(fitted.chain, accountant, epsilon, delta, n_unlearn_steps)
        if subject is not None or subjects is not None:
            check_only_one(requests=requests, subject=subject, subjects=subjects)
            requests = fitted.book.find_each(fitted.source.live, subject=subject, subjects=subjects)
        if requests is not None:
            return quote_requests(fitted, terms, requests, held_out)
        if isinstance(fitted.source.rows, PartitionedRows):
            whole = terms._replace(law=fitted.law)
            frame: Quote = lazy_quote(fitted.source.rows, fitted.source, whole, held_out)
            return frame  # a dask dataframe with the columns of a quote
        return quote_all(fitted, terms, n_jobs, held_out)

    def exposure(
        self,
        requests: Iterable[int | Sequence[int]] | int | None = None,
        *,
        subject: Any = None,
        subjects: Any = None,
        delta: float | None = None,
    ) -> Exposure:
        """What the parameters as they are now tell about rows that are still in the model.

        The law of the chain, learning and all requests answered since, is compared in both
        directions with the law of the same chain without the rows (docs/exposure.md). It is exact
        for ridge and a bound for other losses. Rows forgotten earlier are treated as in `quote`:
        as if the chain had never seen them.

        Parameters
        ----------
        requests, subject, subjects : optional
            As in `quote`. By default every person, if the model was fitted with `subjects`, else
            every remaining row.
        delta : float in (0, 1), optional
            Default: 1/n for n rows at fit.

        Returns
        -------
        exposure : Exposure
            An epsilon is infinite where none below 1e4 (about 600 for losses other than ridge) is
            proved. The numbers depend on the rows: they are not for publication.
        """
        check_is_fitted(self)
        return expose_parameters(self.fitted_, requests, subject, subjects, delta)

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
        fitted, noise = self.fitted_, check_real("noise", noise, least=0.0, most=LARGEST_NUMBER)
        # The target's epsilon, 1.0, is not used as a limit.
        terms = set_terms(fitted.chain, accountant, 1.0, delta, n_unlearn_steps)
        request = Request.read(fitted.source, live_rows(fitted.source.live, rows))
        return terms.accountant.spend(terms.law, request, noise, terms.target).epsilon

    def unlearn(
        self,
        rows: int | Sequence[int] | None = None,
        *,
        ids: Any = None,
        subject: Any = None,
        subjects: Any = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        n_unlearn_steps: int = 80,
        accountant: str | Accountant = "auto",
        method: str = "langevin",
        validation: tuple[Any, Any] | None = None,
        keep_empty_classes: bool = False,
    ) -> Certificate:
        """Forget rows, in place, and return a certificate.

        The call either succeeds as a whole or leaves the model as it was.

        Parameters
        ----------
        rows : int or sequence of int, optional
            Fit-time positions; a sequence is one group, forgotten together.
        ids, subject, subjects : optional
            The same by the `sample_ids` or `subjects` given to `fit`; `subjects` is a list of
            people, forgotten together. Pass exactly one of `rows`, `ids`, `subject` and
            `subjects`. A redraw may omit all four, and then forgets no further rows.
        epsilon, delta, n_unlearn_steps, accountant
            As in `quote`; a redraw ignores them.
        method : {"langevin", "redraw", "auto"}
            "langevin" takes noisy steps on the remaining rows. "redraw" draws the parameters anew
            from the law of learning without the rows: epsilon is 0, no noise is added, and the
            total is reset. "auto" redraws if that takes a few seconds at most, by the sizes of the
            fit alone (docs/utility.md): the same choice for every request.
        validation : pair (X, y), optional
            As in `quote`. The prediction is recorded in `Certificate.utility`, with the seconds
            that the request took.
        keep_empty_classes : bool, default=False
            For classifiers: whether a class may lose its last row. Its name then stays in
            `classes_`, with coefficients that tend to zero. The certificate does not cover the
            name.

        Returns
        -------
        certificate : Certificate

        Warns
        -----
        pilu.exceptions.PartOfPersonWarning
            If rows are only a part of those of a person in `subjects`. The others stay.
        pilu.exceptions.TotalBudgetWarning
            If `total_delta` passes 0.1. Redraw then, or use `Forgetful`, which has no total.
        """
        check_is_fitted(self)
        check_choice("method", method, ("langevin", "redraw", "auto"))
        keep, fitted = check_flag("keep_empty_classes", keep_empty_classes), self.fitted_
        if keep and not is_classifier(self):
            raise complaint("keep_empty_classes", "False for a regressor", keep)
        positions = fitted.book.find(
            fitted.source.live,
            rows=rows,
            ids=ids,
            subject=subject,
            subjects=subjects,
            may_be_none=method == "redraw",
        )
        fitted.book.warn_of_parts(positions)
        if method == "auto":
            method = "redraw" if redraw_is_cheap(fitted) else "langevin"
        terms = None  # a redraw has none
        if method == "langevin":
            terms = set_terms(fitted.chain, accountant, epsilon, delta, n_unlearn_steps)
        held_out = None if validation is None else read_validation(self, validation)
        given = self.random_state, self.targets_, keep, held_out
        if terms is None:
            after, certificate = redraw(fitted, positions, *given)
        else:
            after, certificate = forget(fitted, positions, terms, *given)
            warn_of_total(certificate)  # before the change: a filter may turn it into an error
        self.fitted_ = after  # a single assignment: an interrupt before it changes nothing
        return certificate

    def verify(self, certificate: Certificate) -> dict[str, bool]:
        """Check a certificate on its own and against the model's current parameters."""
        check_is_fitted(self)
        return verify_issued(self.fitted_, certificate)

    def consolidate(self) -> Self:
        """Update statistics and eigenbasis, so that no values of forgotten rows stay in memory.

        The last few forgotten rows are kept as a correction, because a new eigenbasis for every
        request would be slow. Pickling, deep copies, a redraw and a quote of all rows consolidate
        automatically. Worker processes of a quote keep its law, without rows, for up to a minute.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.fitted_.chain.problem.consolidate()
        return self
