"""The rows that a refit uses: features of any kind, targets, weights, and who each row is about.

A table is a snapshot, so that later changes of the caller's arrays do not reach it. Rows keep the
numbers and the order in which they came.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pilu.exceptions import WrongInput

__all__ = ["Table", "row_digests"]

Array = NDArray[np.float64]
Positions = NDArray[np.intp]
Digests = NDArray[np.uint8]

_BYTES = 16
_MISSING = b"missing"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in their order. Digests are keyed hashes by which rows are recognised later."""

    X: Any  # an array, a CSR matrix or a pandas frame
    y: NDArray[Any]
    weights: Array | None
    groups: NDArray[Any] | None  # the subject of each row, for splits by subject
    numbers: Positions
    digests: Digests = field(repr=False)

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        weights: Any,
        groups: NDArray[Any] | None,
        *,
        first_number: int,
        key: bytes,
    ) -> "Table":
        """A snapshot of rows, numbered from `first_number`."""
        X, y = _snapshot(X), _plain_targets(y)
        n = X.shape[0]
        if len(y) != n:
            raise WrongInput(f"X and y must have equally many rows, got {n} and {len(y)}.")
        w = _weights(weights, n)
        numbers = np.arange(first_number, first_number + n)
        return cls(X, y, w, groups, numbers, row_digests(X, y, w, key)).normalised()

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, positions: Positions) -> "Table":
        """Some rows, in their order."""
        taken = replace(
            self,
            X=_rows(self.X, positions),
            y=self.y[positions],
            weights=None if self.weights is None else self.weights[positions],
            groups=None if self.groups is None else self.groups[positions],
            numbers=self.numbers[positions],
            digests=self.digests[positions],
        )
        return taken.normalised()

    def followed_by(self, other: "Table") -> "Table":
        """These rows, then those of another table."""
        if self.X.shape[1] != other.X.shape[1]:
            raise WrongInput(
                f"new rows must have {self.X.shape[1]} columns, got {other.X.shape[1]}."
            )
        weights = None
        if self.weights is not None or other.weights is not None:
            parts = [np.ones(len(t)) if t.weights is None else t.weights for t in (self, other)]
            weights = np.concatenate(parts)
        groups = None
        if self.groups is not None and other.groups is not None:
            groups = _joined(self.groups, other.groups)
        return Table(
            _stacked(self.X, other.X),
            _joined(self.y, other.y),
            weights,
            groups,
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.digests, other.digests]),
        ).normalised()

    def normalised(self) -> "Table":
        """Without traces of rows that are gone: unused categories, widths of text columns."""
        y = self.y
        if y.dtype.kind in "US":
            y = np.array(y.tolist())
        X = self.X
        if hasattr(X, "iloc"):
            categorical = [c for c in X.columns if str(X[c].dtype) == "category"]
            if categorical:
                X = X.assign(**{c: X[c].cat.remove_unused_categories() for c in categorical})
            X = X.reset_index(drop=True)
        elif isinstance(X, np.ndarray) and X.dtype.kind in "US":
            X = np.array(X.tolist())
        return replace(self, X=X, y=y)


def row_digests(X: Any, y: NDArray[Any], weights: Array | None, key: bytes) -> Digests:
    """A keyed hash of every row with its target and weight, by value: 1 and 1.0 are the same."""
    columns = [] if sp.issparse(X) else [_column_bytes(c, key) for c in _columns(X)]
    columns += [_column_bytes(c, key) for c in (y.T if y.ndim == 2 else [y])]
    if weights is not None:
        columns.append(_column_bytes(weights, key))
    joined = np.ascontiguousarray(np.hstack(columns))
    sparse = sp.csr_array(X) if sp.issparse(X) else None
    begun, raw = hashlib.blake2b(key=key, digest_size=_BYTES), bytearray()
    for i, row in enumerate(joined):
        digest = begun.copy()
        digest.update(row.tobytes())
        if sparse is not None:
            part = slice(sparse.indptr[i], sparse.indptr[i + 1])
            digest.update(sparse.indices[part].astype("<i8").tobytes())
            digest.update(sparse.data[part].astype("<f8").tobytes())
        raw += digest.digest()
    return np.frombuffer(bytes(raw), dtype=np.uint8).reshape(-1, _BYTES)


def _columns(X: Any) -> list[Any]:
    if hasattr(X, "iloc"):
        return [X[c].to_numpy() for c in X.columns]
    if X.dtype.kind in "biuf":
        return [np.asarray(X, dtype=np.float64)]
    return list(X.T)


def _column_bytes(column: Any, key: bytes) -> NDArray[np.uint8]:
    """The values of a column, or of several numeric ones, as bytes of equal length."""
    column = np.asarray(column)
    if column.dtype.kind in "biuf":
        numbers = np.ascontiguousarray(column, dtype="<f8") + 0.0  # -0.0 is 0.0
        numbers = np.where(np.isnan(numbers), np.nan, numbers)
        return numbers.reshape(len(column), -1).view(np.uint8).reshape(len(column), -1)
    if column.dtype.kind in "mM":
        return np.ascontiguousarray(column).view("<i8").view(np.uint8).reshape(len(column), -1)
    codes: dict[Any, int] = {}
    places = np.array([codes.setdefault(v, len(codes)) for v in column.tolist()], dtype=np.intp)
    hashed = [hashlib.blake2b(_value_bytes(v), key=key, digest_size=_BYTES).digest() for v in codes]
    return np.frombuffer(b"".join(hashed), dtype=np.uint8).reshape(-1, _BYTES)[places]


def _value_bytes(value: Any) -> bytes:
    if value is None or value is getattr(value, "NA", ...) or value != value:
        return _MISSING
    if isinstance(value, bool | int | float):
        return b"number:" + np.float64(value).tobytes()
    return f"{type(value).__name__}:{value}".encode("utf-8", "surrogatepass")


def _snapshot(X: Any) -> Any:
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return X.copy()
    if sp.issparse(X):
        return sp.csr_array(X, copy=True)
    array = np.array(X)
    if array.ndim != 2:
        raise WrongInput(
            f"X must have two dimensions, rows and columns, got shape {array.shape}. "
            "Reshape your data: X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a row."
        )
    return array


def _plain_targets(y: Any) -> NDArray[Any]:
    if y is None:
        raise WrongInput("requires y to be passed, but the target y is None.")
    values = np.array(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.ndim == 2 and values.shape[1] == 1 and not hasattr(y, "to_numpy"):
        return values
    if values.ndim not in (1, 2):
        raise WrongInput(f"y must have one or two dimensions, got shape {values.shape}.")
    return values


def _weights(weights: Any, n: int) -> Array | None:
    if weights is None:
        return None
    values = np.array(weights, dtype=np.float64)
    if values.shape != (n,):
        raise WrongInput(f"sample_weight must have shape ({n},), got {values.shape}.")
    if not ((values >= 0) & (values < np.inf)).all():
        raise WrongInput("sample_weight must be non-negative and finite.")
    if not values.any():
        raise WrongInput("sample_weight must not be zero for all rows.")
    return values


def _rows(X: Any, positions: Positions) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[positions]
    return X[positions] if sp.issparse(X) else np.take(X, positions, axis=0)


def _stacked(first: Any, second: Any) -> Any:
    if hasattr(first, "iloc"):
        if not hasattr(second, "iloc") or list(first.columns) != list(second.columns):
            raise WrongInput("new rows must be a frame with the same columns as at fit.")
        import pandas as pd

        return pd.concat([first, second], ignore_index=True)
    if sp.issparse(first):
        return sp.csr_array(sp.vstack([first, sp.csr_array(second)]))
    return np.concatenate([first, np.asarray(second)])


def _joined(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([first, second])
