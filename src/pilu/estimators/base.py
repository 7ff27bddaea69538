"""Learning by Langevin dynamics: parameters, their checks, and fitting."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from pilu._checks import (
    LARGEST_SQUARE,
    as_numbers,
    check_flag,
    check_integer,
    check_real,
    check_scale,
    complaint,
)
from pilu.chains.chain import Chain, Problem
from pilu.chains.entropy import GaussianSource, SeededGaussian, SystemGaussian
from pilu.chains.schedule import Segment
from pilu.data.rows import RowSource
from pilu.estimators.fitted import Fitted
from pilu.estimators.forgetting import ForgettingMixin
from pilu.estimators.requests import RowBook
from pilu.losses.law import AuxiliaryRuns
from pilu.losses.problem import SmoothProblem
from pilu.minibatch.law import MinibatchLaw

__all__ = ["LangevinBase", "check_batch_size"]

Array = NDArray[np.float64]


class LangevinBase(ForgettingMixin, BaseEstimator):  # type: ignore[misc]
    """Learning by Langevin dynamics; `LangevinRidge` says what the parameters mean."""

    alpha: float
    n_steps: int
    noise: float
    step_size: float | str
    batch_size: int | None
    fit_intercept: bool
    random_state: int | None
    _solver = "gradient"  # every step is taken

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
            Referred to, not copied; leave it unchanged while the model is in use. For ridge, X
            and y may be dask arrays or dataframes (``pilu[dask]``, docs/sizes.md).
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets, or labels for a classifier.
        sample_ids : sequence of unique hashables, optional
            Names for `unlearn(ids=...)`; a unique pandas index serves by default.
        subjects : sequence of hashables, optional
            Whom each row belongs to, for `unlearn(subject=...)`.
        coef_init : array, optional
            Start of the chain, in the shape of `coef_`, the intercept last if it is included.
            It must not depend on the data. Default: zeros.
        """
        with _unchanged_on_error(self):
            self._fit(X, y, sample_ids, subjects, coef_init)
        return self

    def _fit(
        self, X: Any, y: Any, sample_ids: Any, subjects: Any, coef_init: ArrayLike | None
    ) -> None:
        self._check_parameters()
        if sample_ids is None:
            index = getattr(X, "index", None)  # a pandas index serves as ids where it can
            if getattr(index, "is_unique", False):
                sample_ids = index
        X, Y = self._validated(X, y)
        if len(X) < 2:
            raise ValueError(
                f"X must have at least 2 rows, got n_samples={len(X)}. With one row there is "
                "nothing left once it is forgotten."
            )
        for name, values in (("X", X), ("y", Y)):
            check_scale(name, values)
        source = RowSource.of(X, Y, fit_intercept=bool(self.fit_intercept))
        problem, largest = self._problem(source, Y.shape[1])
        book = RowBook.open(len(X), source.key, sample_ids, subjects)
        start = self._start(coef_init, X.shape[1], Y.shape[1])
        self._learn(problem, self._resolve_step_size(largest), start, book)

    def _learn(self, problem: Problem, step_size: float, start: Array, book: RowBook) -> None:
        if isinstance(problem, SmoothProblem):
            problem = problem.rounded_for(step_size)
        chain = Chain.learn(
            problem,
            step_size=step_size,
            solver=self._solver,
            start=start,
            segment=Segment(int(self.n_steps), float(self.noise)),
            gaussian=self._gaussian(stream=0),
        )
        fitted = Fitted(chain, book, auxiliary=self._auxiliary())
        if isinstance(fitted.law, MinibatchLaw):
            fitted.law.prepare()
        self.fitted_ = fitted

    def _auxiliary(self) -> AuxiliaryRuns | None:
        """The runs that estimate means, where a loss needs them."""
        return None

    def _problem(self, source: RowSource, n_outputs: int) -> tuple[Problem, float]:
        """The problem, and the largest curvature that a step meets."""
        raise NotImplementedError

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        """X as a numeric array, left in its dtype, and targets as an n x d float64 array."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        check_real("alpha", self.alpha, least=0.0, most=LARGEST_SQUARE)
        check_integer("n_steps", self.n_steps, least=1)
        check_real(
            "noise",
            self.noise,
            above=0.0,
            remedy="Without learning noise the laws with and without a row are point masses, and "
            "no later noise can hide which of them the model came from.",
        )
        check_scale("noise", self.noise)
        if not (isinstance(self.step_size, str) and self.step_size == "auto"):
            check_real(
                "step_size",
                self.step_size,
                least=1 / LARGEST_SQUARE,
                remedy="step_size='auto' takes 1/L.",
            )
        if self.batch_size is not None:
            check_integer(
                "batch_size",
                self.batch_size,
                least=1,
                remedy="batch_size=None takes all rows at every step.",
            )
        check_flag("fit_intercept", self.fit_intercept)
        if self.random_state is not None:
            check_integer(
                "random_state",
                self.random_state,
                least=0,
                remedy="None draws private noise from the operating system.",
            )

    def _resolve_step_size(self, largest: float) -> float:
        if largest <= 0.0:
            raise ValueError(
                "alpha must be > 0 where X is all zero, got alpha=0.0: there is no curvature to "
                "take a step size from."
            )
        if isinstance(self.step_size, str):
            return 1.0 / largest
        step = float(self.step_size)
        if step * largest * (1 + 1e-12) >= 2.0:
            raise complaint(
                "step_size",
                f"< 2/L = {2.0 / largest:.6g} for the steps to contract",
                step,
                "step_size='auto' takes 1/L.",
            )
        return step

    def _start(self, coef_init: ArrayLike | None, n_features: int, d: int) -> Array:
        p = n_features + bool(self.fit_intercept)
        start = np.zeros((p, d))
        if coef_init is None:
            return start
        given = np.atleast_2d(as_numbers("coef_init", coef_init))
        if given.shape not in ((d, n_features), (d, p)) or not np.isfinite(given).all():
            raise complaint(
                "coef_init",
                f"finite, of shape {(d, n_features)} or, with the intercept last, {(d, p)}",
                given.shape,
            )
        start[: given.shape[1]] = given.T
        return start

    def _gaussian(self, stream: int) -> GaussianSource:
        if self.random_state is None:
            return SystemGaussian()
        return SeededGaussian(int(self.random_state), stream)

    @property
    def _has_intercept(self) -> bool:
        return self.fitted_.source.fit_intercept

    @property
    def _intercepts(self) -> Array:
        theta = self._theta
        return theta[-1].copy() if self._has_intercept else np.zeros(theta.shape[1])

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, reset=False), dtype=np.float64)
        scores: Array = X @ self._theta[: X.shape[1]]
        if self._has_intercept:
            scores = scores + self._theta[-1]
        return scores


def check_batch_size(batch_size: int, n_rows: int) -> None:
    """Refuse batches of more rows than there are."""
    if batch_size > n_rows:
        raise complaint(
            "batch_size",
            f"at most the number of rows, {n_rows}",
            batch_size,
            "batch_size=None takes all rows at every step.",
        )


@contextmanager
def _unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Give an estimator its attributes back if the block raises, interrupts included."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
