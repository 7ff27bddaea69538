"""Forget by a refit: any scikit-learn pipeline with a convex head, certified against retraining."""

import secrets
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_integer
from pilu.certify.certificate import Certificate
from pilu.chains.chain import gaussian_source
from pilu.estimators.exposure import Exposure
from pilu.estimators.refit_exposure import ExposurePlan, expose, people_of, plan_caps
from pilu.estimators.refitted import (
    Refitted,
    groups_of,
    new_ids,
    own_index,
    recognise,
    run_program,
)
from pilu.estimators.released import ReleasedModel
from pilu.estimators.requests import RowBook, index_as_ids
from pilu.exceptions import WrongInput
from pilu.refit.held_rows import Table
from pilu.refit.refusals import check_program
from pilu.refit.schema import Schema
from pilu.refit.settings import Options

Array = NDArray[np.float64]


class Forgetful(ReleasedModel):
    """A scikit-learn estimator that forgets rows, with a certificate against retraining.

    To forget, the whole pipeline is fitted again on the rows that are left. The head starts from
    the last released parameters. The minimiser is found to a proved radius and released with noise
    that hides where in the radius the solver stopped. So the release could, up to epsilon and
    delta, have come from the same pipeline fitted on the remaining rows alone.

    Put the whole pipeline inside. What is fitted around `Forgetful`, such as a scaler before it in
    a `Pipeline`, still holds the forgotten rows, and no certificate covers it.

    Parameters
    ----------
    estimator : estimator
        An unfitted scikit-learn estimator: `Ridge`, `RidgeCV`, `RidgeClassifier`,
        `RidgeClassifierCV`, `LogisticRegression`, `LogisticRegressionCV`, `LinearSVC`,
        `PoissonRegressor`, `GammaRegressor`, `TweedieRegressor` or pilu's `HuberRidge`; or a
        `Pipeline` that ends in one; or a search such as `GridSearchCV` over either.
    epsilon : float > 0, default=0.1
    delta : float in (0, 1), default=1e-9
        The guarantee of every certificate. `set_params(epsilon=...)` changes it for the next one;
        `unlearn` takes neither.
    score_noise : float > 0, default=1e-3
        Noise of a typical score (log-odds, or the standard deviation of y for Ridge).
    max_exposure : float > 0, optional
        Cap on `exposure`, what the release tells about anybody who is in the table. The noise is
        shaped by the rows, and its scale is chosen so that nobody is above. It costs accuracy:
        see `plan_exposure` first (docs/exposure.md).
    exposure_delta : float in (0, 1), default=1e-6
        The delta of exposure.
    exposure_quantile : float in (0, 1], default=1.0
        Share of the people for whom the cap has to hold.
    noise_scale : float > 0, optional
        Instead of `max_exposure`: the scale of shaped noise, fixed beforehand.
    fold_scaler : bool, default=False
        Release the coefficients of the raw columns in place of a `StandardScaler` and a head, so
        that exposure covers the scaler, too.
    random_state : int, optional
        A seed makes the noise reproducible, and certificates say that it is not private.

    Attributes
    ----------
    released_ : estimator
        A plain fitted copy of `estimator` with the released parameters. It holds no rows, unless
        a transformer keeps some itself, as `KNNImputer` does.
    noise_scale_, noise_penalty_ : float or None
        The scale s of shaped noise, and the factor f of the penalties in its shape: 1, or more
        where a cap on exposure needs it (docs/exposure.md).
    classes_, coef_, intercept_, n_features_in_, feature_names_in_
        Those of `released_` and its head.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = Forgetful(make_pipeline(StandardScaler(), LogisticRegression()))
    >>> certificate = model.fit(X, y).unlearn(rows=[3, 14])
    >>> certificate.epsilon, certificate.reference
    (0.1, 'the same pipeline fitted on the rows that are left')
    """

    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: float = 0.1,
        delta: float = 1e-9,
        score_noise: float = 1e-3,
        max_exposure: float | None = None,
        exposure_delta: float = 1e-6,
        exposure_quantile: float = 1.0,
        noise_scale: float | None = None,
        fold_scaler: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.delta = delta
        self.score_noise = score_noise
        self.max_exposure = max_exposure
        self.exposure_delta = exposure_delta
        self.exposure_quantile = exposure_quantile
        self.noise_scale = noise_scale
        self.fold_scaler = fold_scaler
        self.random_state = random_state

    # Fitting and forgetting

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        sample_ids: Any = None,
        subjects: Any = None,
    ) -> Self:
        """Fit the pipeline.

        Parameters
        ----------
        X : array-like, sparse matrix or pandas frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            For the head, and for transformers that request it by metadata routing.
        sample_ids : sequence of unique hashables, optional
            Row names for `unlearn(ids=...)`. Default: the pandas index, if it is unique.
        subjects : sequence of hashables, optional
            The person to whom each row belongs, for `unlearn(subject=...)`.
        """
        options = self._options()
        check_program(self.estimator)
        key = secrets.token_bytes(32)
        if sample_ids is None:
            sample_ids = index_as_ids(getattr(X, "index", None))
        schema = Schema.of(X, y, labels=is_classifier(self.estimator))
        table = Table.of(X, y, sample_weight, key=key, schema=schema)
        n = len(table)
        book = RowBook.open(n, key, sample_ids, subjects)
        table = table.split_by(groups_of(book, n))
        live = np.ones(n, dtype=bool)
        source = gaussian_source(self.random_state, 0)
        done = run_program(self.estimator, table, options, people_of(book, live, table), source)
        self.fitted_ = Refitted(
            table, schema, book, live, table.digests, key, n_releases=1, **done.state()
        )
        return self

    def unlearn(
        self, rows: Any = None, *, ids: Any = None, subject: Any = None, subjects: Any = None
    ) -> Certificate:
        """Forget rows, in place, and return a certificate; an error changes nothing.

        Parameters
        ----------
        rows : int or sequence of int, optional
            Row numbers: 0 is the first row of `fit`, and rows of `add` are numbered on.
        ids, subject, subjects : optional
            The same by the names given to `fit` and `add`; `subjects` is a list of people who are
            forgotten together. Pass exactly one of the four.

        Warns
        -----
        pilu.exceptions.PartOfPersonWarning
            If rows are only a part of those of a person in `subjects`. The others stay.
        """
        check_is_fitted(self)
        fitted = self.fitted_
        gone = fitted.book.find(fitted.live, rows=rows, ids=ids, subject=subject, subjects=subjects)
        table = fitted.attached(forgotten=gone)
        fitted.book.warn_of_parts(gone)  # before the change: a filter may turn it into an error
        live = fitted.live.copy()
        live[gone] = False
        left = table.take(np.flatnonzero(live[table.numbers]))
        digests = fitted.digests.copy()
        digests[gone] = 0
        return self._release(
            left,
            gone,
            book=fitted.book.without(gone),
            live=live,
            digests=digests,
            absent=frozenset(),
        )

    def add(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        sample_ids: Any = None,
        subjects: Any = None,
    ) -> Certificate:
        """Add rows, in place, and fit again; parameters as in `fit`.

        Returns
        -------
        certificate : Certificate
            It names no forgotten rows. As every certificate it compares the release with the
            pipeline fitted on the rows that are there now.
        """
        check_is_fitted(self)
        fitted, table = self.fitted_, self.fitted_.attached()
        n = len(fitted.live)
        new = Table.of(X, y, sample_weight, key=fitted.key, first_number=n, schema=fitted.schema)
        if sample_ids is None and fitted.book.ids is not None:
            sample_ids = new_ids(X, fitted.book, n, len(new))
        book = fitted.book.extended(n, len(new), sample_ids, subjects)
        live = np.concatenate([fitted.live, np.ones(len(new), dtype=bool)])
        return self._release(
            table.followed_by(new),
            np.array([], dtype=np.intp),
            book=book,
            live=live,
            digests=np.concatenate([fitted.digests, new.digests]),
        )

    def correct(
        self, X: Any, y: Any, *, rows: Any = None, ids: Any = None, sample_weight: Any = None
    ) -> Certificate:
        """Replace rows by corrected ones, in place, and fit again.

        Parameters
        ----------
        X, y : array-like
            The corrected rows, in the order of `rows` or `ids`.
        rows, ids : sequence
            Which rows they replace. Pass exactly one of the two.
        sample_weight : array-like, optional
            Their new weights; by default the old ones.
        """
        check_is_fitted(self)
        fitted, table = self.fitted_, self.fitted_.attached()
        where = fitted.book.find_in_order(fitted.live, rows=rows, ids=ids)
        positions = np.searchsorted(table.numbers, where)  # all are there: none is absent
        if sample_weight is None and table.weights is not None:
            sample_weight = table.weights[positions]
        new = Table.of(X, y, sample_weight, key=fitted.key, schema=fitted.schema)
        if len(new) != len(where):
            raise WrongInput(
                f"X must have one row for each of the {len(where)} rows to correct, got {len(new)}."
            )
        new = replace(new, numbers=where)
        keep = np.delete(np.arange(len(table)), positions)
        joined = table.take(keep).followed_by(new)
        joined = joined.take(np.argsort(joined.numbers))
        digests = fitted.digests.copy()
        digests[where] = new.digests
        return self._release(joined, where, book=fitted.book, live=fitted.live, digests=digests)

    def _release(self, table: Table, gone: NDArray[np.intp], **changes: Any) -> Certificate:
        """Fit on a table from the last release, and make it the state of the model."""
        fitted, options = self.fitted_, self._options()
        table = table.split_by(groups_of(changes["book"], len(changes["live"]), table.numbers))
        check_program(self.estimator)
        people = people_of(changes["book"], changes["live"], table)
        source = gaussian_source(self.random_state, fitted.n_releases)
        done = run_program(self.estimator, table, options, people, source, fitted)
        certificate = done.certificate(self.estimator, table, gone, fitted, options)
        self.fitted_ = replace(  # a single assignment: an interrupt before it changes nothing
            fitted,
            table=table,
            n_releases=fitted.n_releases + 1,
            latest=certificate.sha256,
            **done.state(),
            **changes,
        )
        return certificate

    # Exposure

    def exposure(
        self,
        requests: Any = None,
        *,
        subject: Any = None,
        subjects: Any = None,
        delta: float | None = None,
        exact: bool = False,
    ) -> Exposure:
        """How much the present release tells about people; the model is not changed.

        The release is compared with the one that the same pipeline gives without a person, both
        with the same noise scale, penalties and class weights. Not to be published: it depends on
        the rows.

        Parameters
        ----------
        requests : iterable of requests, optional
            A request is a row number or a sequence of row numbers (a group). Without `requests`,
            `subject` and `subjects`: every subject, or every row of a model without subjects.
        subject, subjects : optional
            Instead of `requests`: one person, or a list of people.
        delta : float in (0, 1), optional
            Default: `exposure_delta`.
        exact : bool, default=False
            Refit without each of the people in turn, in place of a proved bound. For squares both
            are exact.
        """
        check_is_fitted(self)
        fitted, table = self.fitted_, self.fitted_.attached()
        people = people_of(
            fitted.book, fitted.live, table, requests=requests, subject=subject, subjects=subjects
        )
        delta = self.exposure_delta if delta is None else delta
        return expose(fitted, table, people, delta, exact)

    def plan_exposure(
        self,
        validation: tuple[Any, Any],
        *,
        max_exposure: Any = (0.1, 0.3, 1.0, 3.0, 10.0),
        n_draws: int = 32,
    ) -> ExposurePlan:
        """What caps on exposure would cost in score; the model is not changed.

        Parameters
        ----------
        validation : pair (X, y)
            Rows that were not learned.
        max_exposure : sequence of float
            Caps to compare, at `exposure_delta` and `exposure_quantile`.
        n_draws : int
            Draws of the noise over which scores are averaged.
        """
        check_is_fitted(self)
        fitted, table, options = self.fitted_, self.fitted_.attached(), self._options()
        people = people_of(fitted.book, fitted.live, table)
        return plan_caps(fitted, table, options, people, validation, max_exposure, n_draws)

    def attach(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        sample_ids: Any = None,
    ) -> Self:
        """Attach training rows to a loaded model.

        Rows that are to be forgotten may already be gone from the table: the next `unlearn` then
        has to name them, and needs nothing of them.

        Parameters
        ----------
        X, y, sample_weight
            The rows that are left, in any order that keeps equal rows apart by `sample_ids`.
        sample_ids : sequence, optional
            Their names, as given to `fit`. Default: the pandas index, unless it only counts from 0;
            rows are then recognised by their content.
        """
        check_is_fitted(self)
        fitted = self.fitted_
        table = Table.of(X, y, sample_weight, key=fitted.key, schema=fitted.schema)
        if sample_ids is None and fitted.book.ids is not None:
            sample_ids = own_index(X)
        numbers = recognise(fitted, table.digests, sample_ids)
        absent = set(np.flatnonzero(fitted.live).tolist()) - set(numbers.tolist())
        table = replace(table, numbers=numbers).take(np.argsort(numbers))
        self.fitted_ = replace(fitted, table=table, absent=frozenset(absent), kept=None)
        return self

    def consolidate(self) -> Self:
        """Drop what depends on forgotten rows; it is in memory only and never pickled.

        Ridge heads keep sums that save time at the next deletion. With shaped noise, losses of
        everybody's earlier releases are kept; their numbers and caps stay.
        """
        check_is_fitted(self)
        past = self.fitted_.past
        past = None if past is None else past.without_values()
        self.fitted_ = replace(self.fitted_, kept=None, past=past)
        return self

    def _options(self) -> Options:
        if self.random_state is not None:
            check_integer("random_state", self.random_state, least=0)
        names = [f.name for f in fields(Options)]
        return Options.checked(**{name: getattr(self, name) for name in names})
