"""Forget by a refit: any scikit-learn pipeline with a convex head, certified against retraining."""

import secrets
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_integer
from pilu.certify.certificate import Certificate
from pilu.chains.chain import gaussian_source
from pilu.estimators.refitted import (
    Refitted,
    certificate_of,
    groups_of,
    new_ids,
    own_index,
    recognise,
    released_has,
    verify_latest,
)
from pilu.estimators.requests import RowBook, index_as_ids
from pilu.exceptions import RowsNotAttached, WrongInput
from pilu.refit.held_rows import Table
from pilu.refit.program import Options, check_repeatable, head_of, prepare, release
from pilu.refit.refusals import check_program
from pilu.refit.schema import Schema

Array = NDArray[np.float64]


class Forgetful(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator that forgets rows, with a certificate against retraining.

    To forget, the whole pipeline is fitted again on the rows that are left. The head starts from
    the last released parameters. The minimiser is found to a proved radius and released with noise
    that hides where in the radius the solver stopped. So the release could, up to epsilon and
    delta, have come from the same pipeline fitted on the remaining rows alone.

    Parameters
    ----------
    estimator : estimator
        An unfitted scikit-learn estimator: `Ridge`, `RidgeCV`, `RidgeClassifier`,
        `RidgeClassifierCV`, `LogisticRegression`, `LogisticRegressionCV`, `LinearSVC`,
        `PoissonRegressor`, `GammaRegressor`, `TweedieRegressor` or pilu's `HuberRidge`; or a
        `Pipeline` that ends in one; or a search such as `GridSearchCV` over either.
    epsilon : float > 0, default=0.1
    delta : float in (0, 1), default=1e-9
        The guarantee of every certificate.
    score_noise : float > 0, default=1e-3
        Noise of a typical score (log-odds, or the standard deviation of y for Ridge).
    random_state : int, optional
        A seed makes the noise reproducible, and certificates say that it is not private.

    Attributes
    ----------
    released_ : estimator
        A plain fitted copy of `estimator` with the released parameters. It holds no rows, unless
        a transformer keeps some itself, as `KNNImputer` does.
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
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.delta = delta
        self.score_noise = score_noise
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
        prepared = prepare(self.estimator, table, options)
        check_repeatable(self.estimator, prepared, table)
        done = release(prepared, None, gaussian_source(self.random_state, 0))
        self.fitted_ = Refitted(
            table,
            schema,
            book,
            np.ones(n, dtype=bool),
            table.digests,
            key,
            done.estimator,
            1,
            kept=prepared.kept,
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
        """
        check_is_fitted(self)
        fitted = self.fitted_
        gone = fitted.book.find(fitted.live, rows=rows, ids=ids, subject=subject, subjects=subjects)
        table = self._table(forgotten=gone)
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
        fitted, table = self.fitted_, self._table()
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
        fitted, table = self.fitted_, self._table()
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
        prepared = prepare(self.estimator, table, options, fitted.kept)
        source = gaussian_source(self.random_state, fitted.n_releases)
        done = release(prepared, head_of(fitted.released), source)
        certificate = certificate_of(self.estimator, done, table, gone, fitted.key, options)
        self.fitted_ = replace(  # a single assignment: an interrupt before it changes nothing
            fitted,
            table=table,
            released=done.estimator,
            n_releases=fitted.n_releases + 1,
            latest=certificate.sha256,
            kept=prepared.kept,
            **changes,
        )
        return certificate

    def verify(self, certificate: Certificate) -> dict[str, bool]:
        """Check a certificate, and that it is the one of this release; see also `pilu.verify`.

        Raises
        ------
        CertificateMismatch
            If a number is wrong, or the certificate belongs to another release.
        """
        check_is_fitted(self)
        return verify_latest(self.fitted_, certificate)

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
        """Drop sums that save time at the next deletion; they depend on forgotten rows.

        Only ridge heads keep such sums. They stay in memory and are never pickled.
        """
        check_is_fitted(self)
        self.fitted_ = replace(self.fitted_, kept=None)
        return self

    def _table(self, forgotten: Any = ()) -> Table:
        """The rows that are there; those that an attached table lacks must be forgotten now."""
        table = self.fitted_.table
        if table is None:
            raise RowsNotAttached(
                "this model was loaded without its rows. Pass the rows that are left to attach."
            )
        lacking = sorted(self.fitted_.absent - {int(r) for r in forgotten})
        if lacking:
            raise WrongInput(
                f"row(s) {', '.join(map(str, lacking))} are missing from the attached table, but "
                "are not forgotten. Forget them first, or attach a table that has them."
            )
        return table

    def _options(self) -> Options:
        if self.random_state is not None:
            check_integer("random_state", self.random_state, least=0)
        return Options.checked(self.epsilon, self.delta, self.score_noise)

    # The released model

    def __getstate__(self) -> dict[str, Any]:
        # An estimator that was fitted outside would carry its parameters into the pickle.
        return {**super().__getstate__(), "estimator": clone(self.estimator, safe=False)}

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in self.__dict__

    @property
    def released_(self) -> Any:
        """The released estimator."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} is not fitted yet. Call fit first.")
        return self.fitted_.released

    @property
    def remaining_(self) -> NDArray[np.intp]:
        """Numbers of the rows that are not forgotten."""
        check_is_fitted(self)
        return np.flatnonzero(self.fitted_.live)

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes of the released estimator, or of its head."""
        public = name == "named_steps" or (name.endswith("_") and not name.startswith("_"))
        if not public or "fitted_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        released = self.fitted_.released
        return getattr(released if hasattr(released, name) else head_of(released), name)

    @available_if(released_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Predict with the released estimator."""
        check_is_fitted(self)
        return self.released_.predict(X)

    @available_if(released_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of the released estimator."""
        check_is_fitted(self)
        return self.released_.predict_proba(X)

    @available_if(released_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the class probabilities."""
        check_is_fitted(self)
        return self.released_.predict_log_proba(X)

    @available_if(released_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Scores of the released estimator."""
        check_is_fitted(self)
        return self.released_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of the released estimator."""
        check_is_fitted(self)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.released_.score(X, y, **weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        return tags
