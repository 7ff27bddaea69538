"""Targets as they stand in a table, as numbers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["encoded_targets", "sorted_classes"]

_MOST_CLASSES = 1000


def encoded_targets(
    path: Path, y: NDArray[Any], classes: NDArray[Any] | None
) -> NDArray[np.float64]:
    """Numbers, n x d; a column for every class."""
    if classes is not None:
        return np.asarray(y[:, None] == classes, dtype=np.float64)
    if y.dtype.kind not in "iufb":
        raise ValueError(
            f"{path}: the target must be numeric, got {y[:1].tolist()[0]!r}. For classes pass "
            "--classify."
        )
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def sorted_classes(path: Path, columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """All labels: text or whole numbers, at least two of them."""
    found: set[Any] = set()
    for y in columns:
        if y.ndim > 1:
            raise ValueError(f"{path}: a class must be in one column, got several targets.")
        found |= set(y.tolist())
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
    return np.array(sorted(found))


def _is_whole(label: Any) -> bool:
    return isinstance(label, int) or (isinstance(label, float) and label.is_integer())
