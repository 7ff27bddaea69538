"""Targets as they stand in a table, as numbers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.deletion.table import as_numbers

__all__ = ["encoded_targets", "sorted_classes"]

_MOST_CLASSES = 1000


def encoded_targets(
    path: Path, y: NDArray[Any], classes: NDArray[Any] | None
) -> NDArray[np.float64]:
    """Numbers, n x d; a column for every class."""
    if classes is not None:
        hot = np.asarray(y[:, None] == classes, dtype=np.float64)
        nobody = np.flatnonzero(hot.sum(axis=1) != 1)
        if len(nobody):
            raise ValueError(
                f"{path}: every row must have one of the classes, got {y[nobody[0]]!r}. The table "
                "was changed, or its labels are of several kinds."
            )
        return hot
    if y.dtype.kind not in "iufb":
        raise ValueError(
            f"{path}: the target must be numeric, got {y[:1].tolist()[0]!r}. For classes pass "
            "--classify or --loss logistic."
        )
    numbers = as_numbers(f"{path}: the target", y)
    return numbers if numbers.ndim == 2 else numbers[:, None]


def sorted_classes(path: Path, columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """All labels: text or whole numbers, at least two of them."""
    found: set[Any] = set()
    for y in columns:
        if y.ndim > 1:
            raise ValueError(f"{path}: a class must be in one column, got several targets.")
        if y.dtype.kind in "mM":
            raise ValueError(
                f"{path}: classes must be text or whole numbers, got {y.dtype}. Write dates as "
                "text."
            )
        found |= set(y.tolist())
        if "" in found:
            raise ValueError(
                f"{path}: every row must have a class, got an empty one. Drop such rows, or name "
                "what is missing."
            )
        if len(found) > _MOST_CLASSES:
            raise ValueError(
                f"{path}: the target must have at most {_MOST_CLASSES} classes, got more. For "
                "numbers leave out --classify."
            )
    texts = [label for label in found if isinstance(label, str)]
    others = [label for label in found if not (isinstance(label, str) or _is_whole(label))]
    if others or 0 < len(texts) < len(found):
        raise ValueError(
            f"{path}: classes must be text or whole numbers, all of one kind, got "
            f"{(others or texts)[0]!r}."
        )
    if len(found) < 2:
        raise ValueError(f"{path}: the target must have at least 2 classes, got {found}.")
    classes = np.array(sorted(found))
    if len(np.unique(classes)) < len(found):  # as numbers, or as text that ends in NUL
        raise ValueError(
            f"{path}: classes must differ as numbers or text of one kind, got two of "
            f"{len(found)} that do not. Write them as text."
        )
    return classes


def _is_whole(label: Any) -> bool:
    return isinstance(label, int) or (isinstance(label, float) and label.is_integer())
