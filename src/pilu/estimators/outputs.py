"""Targets and predictions: numbers for regression, classes for classification."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from pilu._checks import check_choice, check_flag
from pilu.certify.accountant import Accountant
from pilu.certify.certificate import Certificate
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.estimators.base import LangevinBase
from pilu.estimators.partitioned import partitioned_rows

__all__ = ["LangevinClassification", "LangevinRegression"]

Array = NDArray[np.float64]


class LangevinRegression(RegressorMixin, LangevinBase):  # type: ignore[misc]
    """One or several numeric targets."""

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X, y = validate_data(self, X, y, dtype="numeric", multi_output=True, y_numeric=True)
        Y = np.asarray(y, dtype=np.float64)
        self._single_output = Y.ndim == 1
        return X, Y.reshape(len(Y), -1)

    def _attachable(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X = validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)
        Y = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite=False)
        return X, Y.reshape(len(Y), -1)

    def _encoder(self) -> NumericTargets:
        return NumericTargets(self._theta.shape[1])

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


class LangevinClassification(ClassifierMixin, LangevinBase):  # type: ignore[misc]
    """Classes, by default one-hot."""

    _class_counts: Array | None = None  # of rows in partitions

    def _validated(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X, y = validate_data(self, X, y, dtype="numeric")
        try:
            check_classification_targets(y)
            y = column_or_1d(y, warn=True)
            self.classes_ = np.unique(y)
        except TypeError:  # labels that cannot be sorted
            kinds = sorted({type(label).__name__ for label in y})
            raise ValueError(
                f"y must hold labels of one type, got {' and '.join(kinds)}. Write all of them as "
                "text, or as whole numbers."
            ) from None
        self._check_classes()
        return X, self._coded(y)

    def _attachable(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        X = validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)
        return X, self._coded(column_or_1d(y))

    def _encoder(self) -> ClassTargets:
        return ClassTargets(self.classes_)

    @property
    def coef_(self) -> Array:
        """Coefficients of every score, without the intercept."""
        return np.array(self._theta[: self.n_features_in_].T)

    @property
    def intercept_(self) -> Array:
        """The constant column's coefficients, zeros without one."""
        return self._intercepts

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least 2 classes, got n_classes={len(self.classes_)}: one class "
                "leaves nothing to tell apart."
            )

    def _coded(self, y: NDArray[Any]) -> Array:
        """Labels as targets; a label that is no class's is all zeros."""
        return self._encoder().encode(y, strict=False)

    def _members(self, targets: Array) -> Array:
        """Targets as one-hot columns of the classes."""
        return self._encoder().members(targets)

    def unlearn(
        self,
        rows: int | Sequence[int] | None = None,
        *,
        ids: Any = None,
        subject: Any = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        n_unlearn_steps: int = 80,
        accountant: str | Accountant = "auto",
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
        if isinstance(rows, Iterator):  # it is looked at twice
            rows = list(rows)
        keep, left = check_flag("keep_empty_classes", keep_empty_classes), None
        partitioned = partitioned_rows(self.fitted_.source) is not None
        if not keep or (partitioned and self._class_counts is not None):
            found = self._find(rows, ids, subject, nobody=method == "redraw")
            if len(found):
                left = self._classes_left(found, may_empty=keep)
        certificate = super().unlearn(
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
        if partitioned and left is not None:
            self._class_counts = left
        return certificate

    def _classes_left(self, rows: NDArray[np.intp], *, may_empty: bool) -> Array:
        """Rows of every class once `rows` are gone."""
        requested = self._encoder().members(self.fitted_.source.take(rows)[1]).sum(axis=0)
        left: Array = self._counted() - requested
        if not may_empty:
            remedy = "refit without the class, or pass keep_empty_classes=True"
            self._encoder().check_left(left, requested, remedy)
        return left

    def _counted(self) -> Array:
        """Rows of every class; those of partitions are counted once, and taken off since."""
        source, known = self.fitted_.source, self._class_counts
        partitions = partitioned_rows(source)
        if partitions is None:
            targets = source.targets()
            return self._encoder().counts(targets.sum(axis=0), len(targets))
        # Every row has one class, so that counts of another moment have another sum.
        if known is None or known.sum() != source.live.sum():
            known = self._class_counts = partitions.target_sums(source.live)
        return known
