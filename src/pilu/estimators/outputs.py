"""Targets and predictions of regressors and classifiers."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from pilu.data.targets import ClassTargets, NumericTargets
from pilu.estimators.base import LangevinEstimator
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]


class LangevinRegressor(MultiOutputMixin, RegressorMixin, LangevinEstimator):  # type: ignore[misc]
    """Base class for one or several numeric targets."""

    _y_is_vector = True  # then `coef_` is a vector, not a matrix

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X, y = validate_data(self, X, y, dtype="numeric", multi_output=True, y_numeric=True)
        Y = np.asarray(y, dtype=np.float64)
        self._y_is_vector, Y = Y.ndim == 1, Y.reshape(len(Y), -1)
        self.targets_ = NumericTargets(Y.shape[1])
        return X, Y

    def read_rows(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        """X and y of a fitted model as numbers; forgotten rows are not checked."""
        X = validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)
        Y = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite=False)
        return X, Y.reshape(len(Y), -1)

    @property
    def _single_output(self) -> bool:
        return self._y_is_vector and self._theta.shape[1] == 1

    @property
    def coef_(self) -> Array:
        """Coefficients without the intercept."""
        coef = self._theta[: self.n_features_in_].T.copy()
        return coef[0] if self._single_output else coef

    @property
    def intercept_(self) -> Array | float:
        """Coefficient of the constant column; 0 without an intercept."""
        intercepts = self._intercepts
        return float(intercepts[0]) if self._single_output else intercepts

    def predict(self, X: Any) -> Array:
        """Predicted targets."""
        scores = self._scores(X)
        return scores[:, 0] if self._single_output else scores


class LangevinClassifier(ClassifierMixin, LangevinEstimator):  # type: ignore[misc]
    """Base class for classes: one score per class, or one signed score for two classes."""

    signed: ClassVar[bool] = False  # whether two classes are encoded as one column of -1 and +1

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X, y = validate_data(self, X, y, dtype="numeric")
        try:
            check_classification_targets(y)
            y = column_or_1d(y, warn=True)
            classes = np.unique(y)
        except TypeError:  # labels that cannot be sorted
            kinds = sorted({type(label).__name__ for label in y})
            raise WrongInput(
                f"y must hold labels of one type, got {' and '.join(kinds)}. Convert all labels to "
                "strings or to integers."
            ) from None
        self.targets_ = read_classes(classes, signed=self.signed)
        return X, self.targets_.encode(y, strict=False)

    def read_rows(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        """X and y of a fitted model as numbers; forgotten rows are not checked."""
        X = validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)
        return X, self.targets_.encode(column_or_1d(y), strict=False)

    @property
    def classes_(self) -> NDArray[Any]:
        """All labels of the fit, sorted."""
        targets = self.__dict__.get("targets_")
        if not isinstance(targets, ClassTargets):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet. Call fit first.")
        return targets.classes

    @property
    def coef_(self) -> Array:
        """Coefficients of every score, without the intercept."""
        return np.array(self._theta[: self.n_features_in_].T)

    @property
    def intercept_(self) -> Array:
        """Coefficients of the constant column; zeros without an intercept."""
        return self._intercepts

    def decision_function(self, X: Any) -> Array:
        """Scores of all classes; for two classes, one score that is positive for the second."""
        scores = self._scores(X)
        if len(self.classes_) > 2:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest score."""
        scores = self._scores(X)
        best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels


def read_classes(classes: NDArray[Any], *, signed: bool) -> ClassTargets:
    """The encoder of at least two classes."""
    if len(classes) < 2:
        raise WrongInput(
            f"y must have at least 2 classes, got n_classes={len(classes)}. A classifier cannot "
            "learn from one class."
        )
    return ClassTargets(classes, signed)
