"""Targets as numbers, n x d: as they are for regression, by membership for classes."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.data.values import labels_of, numbers_of
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]

_MOST_CLASSES = 1000  # of a table


@dataclass(frozen=True)
class NumericTargets:
    """Targets of regression, one or several columns of numbers."""

    n_outputs: int = 1

    def encode(self, y: Any, *, strict: bool = True, where: str = "y") -> Array:
        """Targets as float64, n x d.

        Parameters
        ----------
        y : array, or a partition of a dask collection
        strict : bool
            Refuse what a fit refuses: text, missing values, numbers that float64 cannot hold.
            Otherwise the values are converted as they are.
        where : str
            What an error calls the targets.
        """
        values = np.asarray(numbers_of(where, y) if strict else y, dtype=np.float64)
        return values[:, None] if values.ndim == 1 else values


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Targets of classification, a column of 0 and 1 for each class.

    Attributes
    ----------
    classes : array
        All labels, sorted. They keep their type: a list would turn dates into integers.
    signed : bool
        Encode two classes as one column, -1 for the first and +1 for the second. More than two
        classes are encoded as without it.
    """

    classes: NDArray[Any]
    signed: bool = False

    @property
    def n_outputs(self) -> int:
        """Columns of the encoded targets, d."""
        return 1 if self._one_column else len(self.classes)

    def encode(self, y: Any, *, strict: bool = True, where: str = "y") -> Array:
        """Targets of labels, n x d.

        Parameters
        ----------
        y : array, or a partition of a dask collection
        strict : bool
            Refuse a missing label and one that is no class. Otherwise such a row is all zeros.
        where : str
            What an error calls the labels.
        """
        labels = labels_of(where, y) if strict else np.asarray(y)
        # Labels of another type than the classes compare as a single False.
        equal = np.broadcast_to(labels[:, None] == self.classes, (len(labels), len(self.classes)))
        members = np.array(equal, dtype=np.float64)
        if strict and (unknown := members.sum(axis=1) != 1).any():
            label = labels[unknown][0]
            label = str(label) if isinstance(label, str) else label  # not numpy's
            raise WrongInput(
                f"{where} must be one of the {len(self.classes)} classes of the fit in every row, "
                f"got {label!r}. Labels must be the same, and of one type, whenever they are read: "
                "restore them, or persist() a dask collection whose labels change."
            )
        return members[:, 1:] - members[:, :1] if self._one_column else members

    def members(self, targets: Array) -> Array:
        """Which class each row belongs to, n x n_classes, from encoded targets."""
        if not self._one_column:
            return targets
        return np.hstack([targets < 0, targets > 0]).astype(np.float64)

    def counts(self, target_sums: Array, n_rows: int) -> Array:
        """Rows of each class, from the column sums of n encoded targets."""
        if not self._one_column:
            return target_sums
        return np.array([n_rows - target_sums[0], n_rows + target_sums[0]]) / 2

    def check_left(self, left: Array, requested: Array, remedy: str) -> None:
        """Refuse to forget the last rows of a class; both arguments count rows of each class."""
        emptied = self.classes[(left == 0) & (requested > 0)]
        if len(emptied):
            raise WrongInput(
                f"rows must leave at least one row of every class, got the last row(s) of class "
                f"{emptied.tolist()[0]!r}. Its name would stay in the model, where the certificate "
                f"does not cover it: {remedy}."
            )

    @property
    def _one_column(self) -> bool:
        return self.signed and len(self.classes) == 2


def encoded_targets(path: Path, y: NDArray[Any], targets: NumericTargets | ClassTargets) -> Array:
    """Targets as they are in a table, as numbers, n x d."""
    if isinstance(targets, NumericTargets) and y.dtype.kind not in "iufb":
        raise WrongInput(
            f"{path}: the target must be numeric, got {y[:1].tolist()[0]!r}. For classes pass "
            "--classify or --loss logistic."
        )
    return targets.encode(y, where=f"{path}: the target")


def sorted_classes(path: Path, columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """All labels of a table: text or whole numbers, at least two of them."""
    labels: set[Any] = set()
    for y in columns:
        if y.ndim > 1:
            raise WrongInput(f"{path}: a class must be in one column, got several targets.")
        if y.dtype.kind in "mM":
            raise WrongInput(
                f"{path}: classes must be text or whole numbers, got {y.dtype}. Write dates as "
                "text."
            )
        labels |= set(y.tolist())
        if "" in labels:
            raise WrongInput(
                f"{path}: every row must have a class, got an empty one. Drop such rows, or name "
                "what is missing."
            )
        if len(labels) > _MOST_CLASSES:
            raise WrongInput(
                f"{path}: the target must have at most {_MOST_CLASSES} classes, got more. For "
                "numbers leave out --classify."
            )
    texts = [label for label in labels if isinstance(label, str)]
    others = [label for label in labels if not (isinstance(label, str) or _is_whole(label))]
    if others or 0 < len(texts) < len(labels):
        raise WrongInput(
            f"{path}: classes must be text or whole numbers, all of one kind, got "
            f"{(others or texts)[0]!r}."
        )
    if len(labels) < 2:
        raise WrongInput(f"{path}: the target must have at least 2 classes, got {labels}.")
    classes = np.array(sorted(labels))
    if len(np.unique(classes)) < len(labels):  # as numbers, or as text that ends in NUL
        raise WrongInput(
            f"{path}: classes must differ as numbers or text of one kind, got two of "
            f"{len(labels)} that do not. Write them as text."
        )
    return classes


def _is_whole(label: Any) -> bool:
    return isinstance(label, int) or (isinstance(label, float) and label.is_integer())
