"""Numbers and labels of a partition as arrays, checked."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.exceptions import WrongInput

_NUMBERS = "iufb"  # kinds of numpy; the nullable types of pandas and pyarrow have them too
_KINDS = {
    "b": "truth values",
    "i": "whole numbers",
    "u": "whole numbers",
    "f": "floats",
    "U": "text",
    "T": "text",
    "S": "bytes",
    "M": "dates",
    "m": "durations",
}
_TYPES = ((bool, "b"), (int, "i"), (float, "f"), (str, "U"), (bytes, "S"))  # a bool is an int


def n_rows_of(name: str, part: Any) -> int:
    """Rows of a partition; a sparse one is refused."""
    if _has(part, "toarray"):
        raise WrongInput(
            f"{name} must be dense, got sparse partitions. Turn them into arrays by "
            f"{name}.map_blocks(lambda block: block.toarray()), or reduce their columns first."
        )
    return len(part)


def index_of(part: Any) -> Any:
    """The index of a dataframe's partition, else None."""
    return part.index if _has(part, "index") else None


def check_same_rows(x: Any, others: Sequence[tuple[str, Any]]) -> None:
    """Refuse partitions that do not belong together, row by row."""
    n, index = n_rows_of("X", x), index_of(x)
    for name, other in others:
        if n_rows_of(name, other) != n:
            raise WrongInput(
                f"X and {name} must have as many rows, got {n} and {len(other)} in a partition. "
                "Take both from one frame, or rechunk both alike."
            )
        theirs = index_of(other)
        if n and index is not None and theirs is not None and not index.equals(theirs):
            raise WrongInput(
                f"X and {name} must have the same index in every partition, got another one. Take "
                "both from one frame; if it comes in another order whenever it is read, sort it, "
                "or persist() it first."
            )


def aligned(name: str, part: Any, columns: tuple[Any, ...] | None) -> Any:
    """A dataframe's partition with the columns in the order that the frame declares."""
    if columns is None or not _has(part, "columns"):
        return part
    here = tuple(part.columns)
    if here == columns:
        return part
    if len(here) != len(columns) or set(here) != set(columns) or len(set(here)) != len(here):
        raise WrongInput(
            f"{name} must have the columns {_few(columns)} in every partition, got {_few(here)}. "
            "Give the frame the meta that its partitions have."
        )
    return part[list(columns)]


def picked(part: Any, where: Any) -> Any:
    """Some rows of a partition, by their places in it."""
    return part.iloc[where] if _has(part, "iloc") else part[where]


def numbers_of(name: str, part: Any) -> NDArray[Any]:
    """An array of finite numbers, in their own type if all columns share one."""
    is_frame, is_pandas = _has(part, "columns"), _has(part, "iloc")
    part = part if is_pandas else np.asarray(part)
    types = list(part.dtypes) if is_frame else [part.dtype]
    columns = part.columns if is_frame else ()
    for k, kind in enumerate(types):
        which, where = str(kind), name
        if is_frame:
            label = columns[k]
            which, where = f"column {label!r} of type {kind}", f"{name}'s column {label!r}"
        if getattr(kind, "kind", "O") not in _NUMBERS:
            raise WrongInput(
                f"{name} must be numeric, got {which}. Encode it as numbers, or leave it out."
            )
        if _may_be_large(kind):
            check_whole_numbers(where, part.iloc[:, k] if is_frame else part)
    if is_pandas and not (len(set(types)) == 1 and isinstance(types[0], np.dtype)):
        part = part.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.asarray(part)
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        where = ""
        if is_frame:
            where = f" in column {columns[np.flatnonzero(~finite.all(axis=0))[0]]!r}"
        raise WrongInput(
            f"{name} must be finite, got a missing value, NaN or infinity{where}. Drop or impute "
            "rows."
        )
    return values


def as_floats(where: str, values: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers as float64; whole numbers that it cannot hold are refused, not rounded."""
    check_whole_numbers(where, values)
    return np.asarray(values, dtype=np.float64)


def check_whole_numbers(where: str, values: Any) -> None:
    """Refuse whole numbers that a float64 cannot hold: rounded, two could become one."""
    if not _may_be_large(values.dtype):
        return
    if not isinstance(values.dtype, np.dtype):  # nullable: missing values are refused later
        values = values.dropna()
    if len(values) and (values.max() > 2**53 or values.min() < -(2**53)):  # abs would overflow
        raise WrongInput(
            f"{where} must be within 2^53, got a larger whole number. Numbers of that size are "
            "names rather than measurements: leave the column out."
        )


def labels_of(name: str, y: Any) -> NDArray[Any]:
    """Labels as a vector; one that is missing is refused."""
    n_rows_of(name, y)
    if np.ndim(y) == 2 and y.shape[1] == 1:
        y = y.iloc[:, 0] if _has(y, "iloc") else y[:, 0]
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise WrongInput(
            f"{name} must be one column of classes, got shape {labels.shape}. Fit a classifier for "
            "each."
        )
    if any(map(is_missing, labels.tolist())) if labels.dtype.kind == "O" else _any_nan(labels):
        raise WrongInput(
            f"{name} must have a class in every row, got a missing one. Drop such rows."
        )
    return labels


def distinct_labels(y: Any) -> NDArray[Any]:
    """Which labels a partition has."""
    return all_classes([labels_of("y", y)])


def all_classes(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """All labels of all partitions, sorted; mixed types are refused, so that no two become one."""
    parts = [labels for labels in parts if len(labels)]
    if not parts:
        return np.array([], dtype=object)
    kinds = frozenset[str]().union(*map(_kinds_of, parts))
    if len(kinds) > 1:
        raise _mixed(kinds)
    together = np.concatenate(parts)
    if "whole numbers" in kinds and together.dtype.kind == "f":  # what numpy makes of both
        raise _mixed({"int64", "uint64"})
    return np.unique(together)


def _may_be_large(kind: Any) -> bool:
    return kind.kind in "iu" and kind.itemsize >= 8


def _kinds_of(labels: NDArray[Any]) -> frozenset[str]:
    if labels.dtype.kind != "O":
        return frozenset([_KINDS.get(labels.dtype.kind, str(labels.dtype))])
    return frozenset(map(_kind_of, {type(label) for label in labels.tolist()}))


def _kind_of(kind: type) -> str:
    return next((_KINDS[k] for known, k in _TYPES if issubclass(kind, known)), kind.__name__)


def _mixed(kinds: Any) -> ValueError:
    return ValueError(
        f"y must have labels of one type in all partitions, got {' and '.join(sorted(kinds))}. "
        "Convert them by y.astype, so that no two classes are taken for one."
    )


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NaT or pandas' NA."""
    # pandas may not be installed, and its NA compares neither equal nor unequal to itself
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float) and math.isnan(label)


def _any_nan(labels: NDArray[Any]) -> bool:
    if labels.dtype.kind == "f":
        return bool(np.isnan(labels).any())
    return labels.dtype.kind in "mM" and bool(np.isnat(labels).any())


def _has(part: Any, name: str) -> bool:
    return hasattr(type(part), name)  # a frame's columns and a series' labels are attributes too


def _few(names: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, names[:6]))
    return f"{shown}, ... ({len(names)} of them)" if len(names) > 6 else shown or "none"
