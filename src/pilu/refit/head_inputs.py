"""Targets, class weights and penalties of a head, checked as scikit-learn checks them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from pilu._checks import LARGEST_NUMBER
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]


def finite_targets(y: Any) -> Array:
    """Finite targets, n x K."""
    values: Array = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    largest = float(np.abs(values).max())
    if not largest <= LARGEST_NUMBER:
        raise WrongInput(
            f"y must be at most {LARGEST_NUMBER:g} in size, got {largest:g}. Use other units."
        )
    return values[:, None] if values.ndim == 1 else values


def class_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Class labels, one for each row."""
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def check_every_class_has_weight(classes: NDArray[Any], y: NDArray[Any], weights: Array) -> None:
    """Without weight, a class has no best intercept: it would go to minus infinity."""
    for name in classes.tolist():
        if not weights[y == name].any():
            raise WrongInput(
                f"sample_weight must not be zero for all rows of a class, got class {name!r} "
                "without weight. Leave its rows out."
            )


def penalties(name: str, alpha: Any, n_targets: int) -> Array:
    """Penalties as an array of one, or of one for each target."""
    values = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    if len(values) not in (1, n_targets) or not ((values >= 0) & (values < np.inf)).all():
        raise WrongInput(
            f"{name} must be a non-negative number, or one for each of the {n_targets} targets, "
            f"got {name}={alpha!r}."
        )
    return values


def spread_of(Y: Array, weights: Array) -> float:
    """The least weighted standard deviation of a target; 1 where all are constant."""
    mean = (weights * Y).sum(axis=0) / weights.sum()
    spread = np.sqrt((weights * (Y - mean) ** 2).sum(axis=0) / weights.sum())
    positive = spread[spread > 1e-9 * np.abs(mean)]
    return float(positive.min()) if len(positive) else max(float(np.abs(mean).max()), 1.0)


def check_classes(head: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """The classes, if there are at least two."""
    if len(classes) < 2:
        raise WrongInput(
            f"{type(head).__name__} needs rows of at least two classes, got 1 class: "
            f"{classes.tolist()!r}. Nothing was changed."
        )
    return classes


def class_weights(head: Any, classes: NDArray[Any], y: NDArray[Any], weights: Array) -> Array:
    """The weight that a head gives to each class."""
    each: Array = compute_class_weight(
        head.class_weight, classes=classes, y=y, sample_weight=weights[:, 0]
    )
    return each
