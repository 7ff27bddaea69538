"""`LangevinRidge` and `LangevinRidgeClassifier`."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pilu._checks import check_choice, check_real, check_steps, complaint
from pilu.certify.accountant import Accountant
from pilu.certify.issue import set_terms
from pilu.chains.problem import Problem
from pilu.data.graphs import is_dask
from pilu.data.partitions import Partitions
from pilu.data.rows import RowSource
from pilu.data.targets import NumericTargets
from pilu.estimators.base import LangevinEstimator
from pilu.estimators.learning import check_batch_size, learn
from pilu.estimators.outputs import LangevinClassifier, LangevinRegressor, read_classes
from pilu.estimators.partitioned import attached_partitions, learned_partitions
from pilu.estimators.planning import Plan, make_plan, read_steps
from pilu.estimators.requests import check_only_one, index_as_ids
from pilu.estimators.utility import read_validation
from pilu.exceptions import WrongInput
from pilu.minibatch.problem import MinibatchProblem
from pilu.ridge.problem import RidgeProblem

__all__ = ["LangevinRidge", "LangevinRidgeClassifier", "RidgeEstimator"]

Array = NDArray[np.float64]

_SOLVERS = ("spectral", "gradient")


class RidgeEstimator(LangevinEstimator):
    """Base class of ridge estimators, with mini-batches, dask collections and plans."""

    learns_from_sums: ClassVar[bool] = True

    _ids_are_the_index = False

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        n_steps: int | None = 800,
        noise: float = 0.01,
        step_size: float | str = "auto",
        batch_size: int | None = None,
        fit_intercept: bool = True,
        solver: str = "spectral",
        random_state: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.n_steps = n_steps
        self.noise = noise
        self.step_size = step_size
        self.batch_size = batch_size
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.random_state = random_state

    def check_parameters(self) -> None:
        """Refuse parameters that are out of range."""
        super().check_parameters()
        check_choice("solver", self.solver, _SOLVERS)

    def check_n_steps(self) -> None:
        """Refuse numbers of learning steps that are out of range."""
        if self.n_steps is not None:
            remedy = "Use n_steps=None for the law that they converge to."
            check_steps("n_steps", self.n_steps, remedy if self.batch_size is None else "")
            return
        why = "n_steps=None draws from the law that infinitely many steps have"
        if self.batch_size is not None:
            raise WrongInput(
                f"batch_size must be None for n_steps=None, got batch_size={self.batch_size!r}: "
                f"{why}, which is known for all rows at every step."
            )
        if self.solver == "gradient":
            raise WrongInput(f"solver must be 'spectral' for n_steps=None: {why}.")
        if float(self.alpha) == 0.0:
            raise WrongInput(
                f"alpha must be > 0 for n_steps=None, got alpha=0.0: {why}, and without a penalty "
                "there may be none once rows are forgotten."
            )

    def make_problem(self, source: RowSource, n_outputs: int) -> Problem:
        """The problem of new rows."""
        alpha, n = float(self.alpha), source.n_rows
        if self.batch_size is None or self.batch_size == n:  # one batch is a full batch
            return RidgeProblem.fit(source, alpha, n_outputs, self.solver)
        check_batch_size(self.batch_size, n)
        return MinibatchProblem.fit(source, alpha, n_outputs, int(self.batch_size))

    def restore_problem(
        self, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], source: RowSource
    ) -> Problem:
        """The problem that a store saved."""
        return RidgeProblem.restored(record, arrays, source, self.solver)

    def plan(
        self,
        request: int | Sequence[int] | None = None,
        *,
        subject: Any = None,
        subjects: Any = None,
        validation: tuple[Any, Any],
        tolerated_loss: float,
        delta: float | None = None,
        accountant: str | Accountant = "auto",
        n_unlearn_steps: int | Iterable[int] | None = None,
    ) -> Plan:
        """The least epsilon whose predicted loss is tolerated; the model is not changed.

        For every K, the plan takes the largest noise for which the predicted metric gets worse by
        at most `tolerated_loss`, and the epsilon that it certifies. If this epsilon is below 0.001,
        the least noise for 0.001 is used instead. After an earlier request, metric and epsilon are
        conditional on it, as in `quote`.

        Parameters
        ----------
        request : int or sequence of int
            One request: a row, or rows forgotten together.
        subject, subjects : optional
            Instead of `request`: all rows of one person, or of a list of people together.
        validation : pair (X, y)
            Data for the predicted metric: RMSE, or accuracy for a classifier.
        tolerated_loss : float >= 0
            How much larger the RMSE, or smaller the accuracy, may become.
        delta, accountant
            As in `quote`.
        n_unlearn_steps : int or iterable of int, optional
            The values of K to try; by default from 1 to 320.

        Returns
        -------
        plan : Plan
        """
        check_is_fitted(self)
        loss = check_real("tolerated_loss", tolerated_loss, least=0.0)
        steps, fitted = read_steps(n_unlearn_steps), self.fitted_
        terms = set_terms(fitted.chain, accountant, 1.0, delta, steps[-1])
        if validation is None:
            raise complaint("validation", "a pair (X, y)", None, "A plan needs data to score.")
        held_out = read_validation(self, validation)
        check_only_one(request=request, subject=subject, subjects=subjects)
        live, book = fitted.source.live, fitted.book
        rows = book.find(live, rows=request, subject=subject, subjects=subjects)
        return make_plan(fitted, rows, held_out, loss, terms.target.delta, terms.accountant, steps)

    # Dask collections

    def _fit(
        self, X: Any, y: Any, sample_ids: Any, subjects: Any, coef_init: ArrayLike | None
    ) -> None:
        if not (is_dask(X) or is_dask(y)):
            index = index_as_ids(getattr(X, "index", None))
            self._ids_are_the_index = sample_ids is None and index is not None
            super()._fit(X, y, sample_ids, subjects, coef_init)
            return
        self.check_parameters()
        named = {"sample_ids": sample_ids, "subjects": subjects}
        lazy = {name: given for name, given in named.items() if is_dask(given)}
        problem, book, counts, self._ids_are_the_index = learned_partitions(
            self, Partitions(X, y, **lazy), self._read_targets, named
        )
        self.fitted_ = learn(self, problem, book, coef_init=coef_init, class_counts=counts)

    def _read_targets(self, partitions: Partitions) -> None:
        """Set `targets_` from the collection."""
        self.targets_ = NumericTargets(partitions.n_outputs)

    def _attached(self, X: Any, y: Any) -> RowSource:
        if not (is_dask(X) or is_dask(y)):
            return super()._attached(X, y)
        # Rows are checked against their digests when they are read.
        ids = self.fitted_.book.ids if self._ids_are_the_index else None
        return attached_partitions(self, Partitions(X, y), ids)


class LangevinRidge(RidgeEstimator, LangevinRegressor):
    """Ridge regression learned by noisy gradient steps, so that rows can be forgotten later.

    The objective is ``sum_j |x_j'theta - y_j|^2 / 2 + alpha/2 |theta|^2``. Learning takes `n_steps`
    Langevin steps from a fixed start, on all rows or on mini-batches.

    Parameters
    ----------
    alpha : float >= 0, default=1e-4
        Regularisation, as in scikit-learn's ``Ridge``; the intercept is regularised too.
    n_steps : int >= 1 or None, default=800
        Learning steps T. None learns at stationarity: one draw from the law that the steps
        converge to, with its mean at the minimiser. It needs ``alpha > 0`` and all rows at every
        step. Forgetting then compares with the same draw without the rows, and takes one
        eigenproblem per request (``docs/exact.md``).
    noise : float > 0, default=0.01
        Learning noise sigma_learn: each step adds ``sqrt(2 step_size) noise N(0, I)``.
    step_size : "auto" or float, default="auto"
        "auto" is 1/L, where L is the largest eigenvalue of ``X'X + alpha I``, for mini-batches the
        largest of any batch. Must be below 2/L.
    batch_size : int or None, default=None
        None uses all rows at every step. An integer b <= n uses b consecutive rows per step and
        cycles through the rows. `n_steps` and `n_unlearn_steps` then count batches, and `alpha`
        acts at each of them. Forgetting removes rows from their batch and does not move the others
        (``docs/minibatches.md``). b = n is the full batch.
    fit_intercept : bool, default=True
        Append a constant column of ones.
    solver : {"spectral", "gradient"}, default="spectral"
        For the full batch: "spectral" draws from the chain's law in the eigenbasis; "gradient"
        takes every step on the rows. Both have the same law. Mini-batches always take every step.
    random_state : int or None, default=None
        None draws the noise from the operating system. An integer makes runs reproducible; their
        certificates state ``private: false``.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)
    step_size_ : float
    schedule_ : tuple of (steps, noise)
    remaining_ : array of int
    total_ : tuple (epsilon, delta)

    Notes
    -----
    The parameters are Gaussian: fitting twice gives two different draws. ``docs/guarantee.md`` says
    what a certificate guarantees and what it does not.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pilu import LangevinRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LangevinRidge(alpha=1.0).fit(X, y)
    >>> certificate = model.unlearn([7, 8, 9], epsilon=1.0)
    >>> certificate.epsilon <= 1.0
    True
    >>> model.verify(certificate)["epsilon_recomputed"]
    True
    """

    def _read_targets(self, partitions: Partitions) -> None:
        self._y_is_vector = partitions.y_is_vector
        super()._read_targets(partitions)


class LangevinRidgeClassifier(RidgeEstimator, LangevinClassifier):
    """Classification by Langevin ridge regression on one-hot targets.

    The parameters are those of `LangevinRidge`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (n_classes, n_features)
    intercept_ : array of shape (n_classes,)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pilu import LangevinRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LangevinRidgeClassifier().fit(X / 16, y)
    >>> certificate = model.unlearn(42, epsilon=1.0)
    >>> certificate.rows
    (42,)
    """

    def _read_targets(self, partitions: Partitions) -> None:
        if not partitions.y_is_vector and partitions.n_outputs == 1:
            warnings.warn(
                "y must be a vector of classes, got a frame or matrix of one column. The column is "
                "used.",
                DataConversionWarning,
                stacklevel=2,
            )
        classes = partitions.classes()
        check_classification_targets(classes)
        self.targets_ = read_classes(classes, signed=False)
