"""`LangevinRidge` and `LangevinRidgeClassifier`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from pilu._checks import check_choice, check_flag
from pilu.certify.accountant import Accountant
from pilu.certify.certificate import Certificate
from pilu.estimators.base import LangevinRidgeBase
from pilu.estimators.partitioned import NumericTargets, OneHotTargets
from pilu.ridge.partitions import Partitions

__all__ = ["LangevinRidge", "LangevinRidgeClassifier"]

Array = NDArray[np.float64]


class LangevinRidge(RegressorMixin, LangevinRidgeBase):  # type: ignore[misc]
    """Ridge regression learned by noisy gradient steps, so that rows can be forgotten later.

    The objective is ``sum_j |x_j'theta - y_j|^2 / 2 + alpha/2 |theta|^2``; learning takes
    `n_steps` Langevin steps from a fixed start, on all rows or on a mini-batch at a time.

    Parameters
    ----------
    alpha : float >= 0, default=1e-4
        Regularisation, as in scikit-learn's ``Ridge``; the intercept is regularised too.
    n_steps : int >= 1, default=800
        Learning steps T.
    noise : float > 0, default=0.01
        Learning noise sigma_learn: each step adds ``sqrt(2 step_size) noise N(0, I)``.
    step_size : "auto" or float, default="auto"
        "auto" is 1/L, L the largest eigenvalue of ``X'X + alpha I``, for mini-batches the largest
        of any batch. Must be below 2/L.
    batch_size : int or None, default=None
        None takes all rows at every step. An integer b <= n takes b consecutive rows at a time, in
        their order and over again; `n_steps` and `n_unlearn_steps` then count batches, and `alpha`
        acts at each of them. Forgotten rows leave their batch, the others stay where they are
        (``docs/minibatches.md``). b = n is the full batch.
    fit_intercept : bool, default=True
        Append a constant column of ones.
    solver : {"spectral", "gradient"}, default="spectral"
        For a full batch: "spectral" draws from the chain's law in the eigenbasis; "gradient" takes
        every step on the rows. Equal in law. Mini-batches are always walked through.
    random_state : int or None, default=None
        None draws the noise from the operating system. An integer makes runs reproducible and
        certificates say ``private: false``.

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
    The parameters are Gaussian: training twice gives two draws. What a certificate promises and
    what not is in ``docs/guarantee.md``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pilu import LangevinRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LangevinRidge(alpha=1.0, n_steps=200).fit(X, y)
    >>> certificate = model.unlearn([7, 8, 9], epsilon=1.0)
    >>> certificate.epsilon <= 1.0
    True
    >>> model.verify(certificate)["epsilon_recomputed"]
    True
    """

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X, y = validate_data(self, X, y, dtype="numeric", multi_output=True, y_numeric=True)
        Y = np.asarray(y, dtype=np.float64)
        self._single_output = Y.ndim == 1
        return X, Y.reshape(len(Y), -1)

    def _attachable(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X = validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)
        Y = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite=False)
        return X, Y.reshape(len(Y), -1)

    def _partitioned_targets(self, partitions: Partitions) -> tuple[Any, int]:
        n_outputs, self._single_output = partitions.n_outputs()
        return self._encoder(), n_outputs

    def _encoder(self) -> Any:
        return NumericTargets()

    @property
    def coef_(self) -> Array:
        """Coefficients without the intercept."""
        coef = self._theta[: self.n_features_in_].T.copy()
        return coef[0] if self._single_output else coef

    @property
    def intercept_(self) -> Array | float:
        """The constant column's coefficient, 0 without one."""
        return float(self._intercepts[0]) if self._single_output else self._intercepts

    def predict(self, X: Any) -> Array:
        """Predicted targets."""
        scores = self._scores(X)
        return scores[:, 0] if self._single_output else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class LangevinRidgeClassifier(ClassifierMixin, LangevinRidgeBase):  # type: ignore[misc]
    """Classification by Langevin ridge regression on one-hot targets.

    Parameters are those of `LangevinRidge`.

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
    >>> model = LangevinRidgeClassifier(n_steps=300).fit(X / 16, y)
    >>> certificate = model.unlearn(42, epsilon=1.0)
    >>> certificate.rows
    (42,)
    """

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X, y = validate_data(self, X, y, dtype="numeric")
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        self.classes_ = np.unique(y)
        self._check_classes()
        return X, self._one_hot(y)

    def _attachable(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X = validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)
        return X, self._one_hot(column_or_1d(y))

    def _partitioned_targets(self, partitions: Partitions) -> tuple[Any, int]:
        self.classes_ = partitions.classes()
        check_classification_targets(self.classes_)
        self._check_classes()
        return self._encoder(), len(self.classes_)

    def _encoder(self) -> Any:
        return OneHotTargets(tuple(self.classes_.tolist()))

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least 2 classes, got n_classes={len(self.classes_)}: one class "
                "leaves nothing to tell apart."
            )

    def _one_hot(self, y: NDArray[Any]) -> Array:
        return np.asarray(np.asarray(y)[:, None] == self.classes_, dtype=np.float64)

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
        keep_empty_classes: bool = False,
    ) -> Certificate:
        """Forget rows, as `LangevinRidge.unlearn` does.

        Parameters
        ----------
        rows, ids, subject, epsilon, delta, n_unlearn_steps, accountant, method, validation
            As in `LangevinRidge.unlearn`.
        keep_empty_classes : bool, default=False
            Whether a class may lose its last row. Its name then stays in `classes_`, with a
            column of coefficients that tends to zero; the name itself is not covered by the
            certificate.
        """
        check_is_fitted(self)
        check_choice("method", method, ("langevin", "redraw"))
        if not check_flag("keep_empty_classes", keep_empty_classes):
            found = self._find(rows, ids, subject, nobody=method == "redraw")
            self._check_classes_survive(found)
        return super().unlearn(
            rows,
            ids=ids,
            subject=subject,
            epsilon=epsilon,
            delta=delta,
            n_unlearn_steps=n_unlearn_steps,
            accountant=accountant,
            method=method,
            validation=validation,
        )

    def _check_classes_survive(self, rows: NDArray[np.intp]) -> None:
        source = self._fitted.source
        requested = source.take(rows)[1].sum(axis=0)
        assert source.Y is not None
        left = np.asarray(source.Y[np.flatnonzero(source.live)]).sum(axis=0) - requested
        emptied = self.classes_[(left == 0) & (requested > 0)]
        if len(emptied):
            raise ValueError(
                f"rows must leave at least one row of every class, got the last row(s) of class "
                f"{emptied[0]!r}. Its name would stay in classes_, where the certificate does not "
                "cover it: refit without the class, or pass keep_empty_classes=True."
            )

    @property
    def coef_(self) -> Array:
        """Coefficients of every class, without the intercept."""
        return np.array(self._theta[: self.n_features_in_].T)

    @property
    def intercept_(self) -> Array:
        """The constant column's coefficients, zeros without one."""
        return self._intercepts

    def decision_function(self, X: Any) -> Array:
        """Fitted one-hot targets; for two classes, the second's minus the first's."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest fitted target."""
        best = np.argmax(self._scores(X), axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels
