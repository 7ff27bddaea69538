"""`LangevinRidge` and `LangevinRidgeClassifier`."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from pilu.data.partitions import LearnedPartitions, Partitions
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.estimators.outputs import LangevinClassification, LangevinRegression
from pilu.estimators.ridge_base import LangevinRidgeBase

__all__ = ["LangevinRidge", "LangevinRidgeClassifier"]

Array = NDArray[np.float64]


class LangevinRidge(LangevinRegression, LangevinRidgeBase):
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

    def _partitioned_targets(self, partitions: Partitions) -> NumericTargets:
        self._single_output = partitions.y_is_vector
        return NumericTargets(partitions.n_outputs)


class LangevinRidgeClassifier(LangevinClassification, LangevinRidgeBase):
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

    def _partitioned_targets(self, partitions: Partitions) -> ClassTargets:
        if not partitions.y_is_vector and partitions.n_outputs == 1:
            warnings.warn(
                "y must be a vector of classes, got a frame or matrix of one column, which is "
                "taken for it.",
                DataConversionWarning,
                stacklevel=2,
            )
        self.classes_ = partitions.classes()
        check_classification_targets(self.classes_)
        self._check_classes()
        return self._encoder()

    def _fit(self, *given: Any) -> None:
        self._class_counts = None
        super()._fit(*given)

    def _fit_partitions(self, *given: Any) -> LearnedPartitions:
        learned = super()._fit_partitions(*given)
        self._class_counts = learned.notes.target_sums
        return learned

    def decision_function(self, X: Any) -> Array:
        """Fitted one-hot targets; for two classes, the second's minus the first's."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest fitted target."""
        best = np.argmax(self._scores(X), axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels
