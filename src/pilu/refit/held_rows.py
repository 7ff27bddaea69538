"""The rows that a refit uses: features of any kind, targets, weights, and who each row is about.

A table is a snapshot, so that later changes of the caller's arrays do not reach it. Rows keep the
numbers and the order in which they came. Their types are those of the schema.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pilu.exceptions import WrongInput
from pilu.refit.schema import Categories, Schema

Array = NDArray[np.float64]
Positions = NDArray[np.intp]
Digests = NDArray[np.uint8]

_BYTES = 16
_LEAST_WEIGHT, _LARGEST_WEIGHT = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in their order. Digests are keyed hashes by which rows are recognised later."""

    X: Any  # an array, texts, a CSR matrix or a pandas frame
    y: NDArray[Any]
    weights: Array | None
    groups: NDArray[Any] | None  # the subject of each row, for splits by subject
    numbers: Positions
    schema: Schema
    digests: Digests = field(repr=False)

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        weights: Any = None,
        *,
        key: bytes,
        first_number: int = 0,
        schema: Schema | None = None,
    ) -> "Table":
        """A snapshot of rows, numbered from `first_number`; the schema is their own by default."""
        schema = schema or Schema.of(X, y)
        X, y = schema.rows(X), schema.targets(y)
        n = X.shape[0]
        if len(y) != n:
            raise WrongInput(f"X and y must have equally many rows, got {n} and {len(y)}.")
        w = _weights(weights, n)
        numbers = np.arange(first_number, first_number + n)
        digests = row_digests(X, y, w, key)
        return cls(X, y, w, None, numbers, schema, digests).normalised()

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

    def split_by(self, groups: NDArray[Any] | None) -> "Table":
        """The same rows, with the subject of each row for splits by subject."""
        return replace(self, groups=groups)

    def followed_by(self, other: "Table") -> "Table":
        """These rows, then those of another table of the same schema, without subjects."""
        weights = None
        if self.weights is not None or other.weights is not None:
            parts = [np.ones(len(t)) if t.weights is None else t.weights for t in (self, other)]
            weights = np.concatenate(parts)
        return Table(
            _stacked(self.X, other.X, self.schema),
            np.concatenate([self.y, other.y]),
            weights,
            None,
            np.concatenate([self.numbers, other.numbers]),
            self.schema,
            np.concatenate([self.digests, other.digests]),
        ).normalised()

    def normalised(self) -> "Table":
        """Without traces of rows that are gone: unused categories, widths of text columns."""
        X, y = self.X, self.y
        if y.dtype.kind in "US":
            y = np.array(y.tolist())
        if hasattr(X, "iloc"):
            X = _with_own_categories(X.reset_index(drop=True))
        elif isinstance(X, np.ndarray) and X.dtype.kind in "US":
            X = np.array(X.tolist())
        parts = [getattr(X, name, None) for name in ("data", "indices", "indptr")]
        for values in (X, y, self.weights, *parts):
            if isinstance(values, np.ndarray):
                values.flags.writeable = False  # no transformer can change the rows in place
        return replace(self, X=X, y=y)

    def for_transformers(self) -> Any:
        """The rows; a frame as a copy, because it cannot be made read-only."""
        return self.X.copy() if hasattr(self.X, "iloc") else self.X

    def check_weights(self) -> None:
        """Refuse a table in which no row has any weight."""
        if self.weights is not None and not self.weights.any():
            raise WrongInput(
                "sample_weight must not be zero for all rows that are left, got only zeros. Keep "
                "a row with weight, or fit again."
            )


def row_digests(X: Any, y: NDArray[Any], weights: Array | None, key: bytes) -> Digests:
    """A keyed hash of every row with its target and weight; no weight is a weight of 1."""
    sparse = X if isinstance(X, sp.csr_array) else None
    columns = [] if sparse is not None else [_column_bytes(c, key) for c in _columns(X)]
    columns += [_column_bytes(c, key) for c in (y.T if y.ndim == 2 else [y])]
    columns.append(_column_bytes(np.ones(len(y)) if weights is None else weights, key))
    joined = np.ascontiguousarray(np.hstack(columns))
    begun, raw = hashlib.blake2b(key=key, digest_size=_BYTES), bytearray()
    whole, width = joined.tobytes(), joined.shape[1]
    for i in range(len(joined)):
        digest = begun.copy()
        digest.update(whole[width * i : width * (i + 1)])
        if sparse is not None:
            part = slice(sparse.indptr[i], sparse.indptr[i + 1])
            digest.update(sparse.indices[part].astype("<i8").tobytes())
            digest.update(sparse.data[part].astype(sparse.dtype.newbyteorder("<")).tobytes())
        raw += digest.digest()
    return np.frombuffer(bytes(raw), dtype=np.uint8).reshape(-1, _BYTES)


def _columns(X: Any) -> list[Any]:
    if hasattr(X, "iloc"):  # types of pandas by value, so that a missing one changes no other row
        plain = [isinstance(dtype, np.dtype) for dtype in X.dtypes]
        columns = [X.iloc[:, i] for i in range(X.shape[1])]
        return [
            (c if p else c.astype(object)).to_numpy() for c, p in zip(columns, plain, strict=True)
        ]
    return list(X.T) if X.ndim == 2 and X.dtype.kind not in "biuf" else [X]


def _column_bytes(column: Any, key: bytes) -> NDArray[np.uint8]:
    """The values of a column, or of several numeric ones, as bytes of equal length."""
    column = np.asarray(column)
    n, kind = len(column), column.dtype.kind
    if kind == "f":
        numbers = np.ascontiguousarray(column, dtype="<f8") + 0.0  # -0.0 is 0.0
        return np.where(np.isnan(numbers), np.nan, numbers).reshape(n, -1).view(np.uint8)
    if kind in "biumM":
        plain = np.ascontiguousarray(column)
        return plain.astype(plain.dtype.newbyteorder("<")).reshape(n, -1).view(np.uint8)
    values = column.tolist()
    keyed: Any = values  # texts are equal to texts only; 1 and True are equal, too
    if not set(map(type, values)) <= {str, type(None)}:
        keyed = [(type(v), v) for v in values]
    try:
        places = {v: k for k, v in enumerate(dict.fromkeys(keyed))}
    except TypeError as error:
        raise TypeError(
            "every value of X and y: argument must be a string, a number, a date or missing, got "
            f"a value that cannot be compared ({error})."
        ) from None
    typed = places if keyed is not values else [(type(v), v) for v in places]
    hashed = [
        hashlib.blake2b(_value_bytes(*c), key=key, digest_size=_BYTES).digest() for c in typed
    ]
    each = np.frombuffer(b"".join(hashed), dtype=np.uint8).reshape(-1, _BYTES)
    return each[np.fromiter(map(places.__getitem__, keyed), dtype=np.intp, count=n)]


def _value_bytes(kind: type, value: Any) -> bytes:
    """A value with its type."""
    if kind is float:
        value = value + 0.0  # -0.0 is 0.0
    return f"{kind.__name__}:{value}".encode("utf-8", "surrogatepass")


def _weights(weights: Any, n: int) -> Array | None:
    if weights is None:
        return None
    values = np.array(weights, dtype=np.float64)
    if values.shape != (n,):
        raise WrongInput(f"sample_weight must have shape ({n},), got {values.shape}.")
    fine = (values == 0) | ((values >= _LEAST_WEIGHT) & (values <= _LARGEST_WEIGHT))
    if not fine.all():
        raise WrongInput(
            f"sample_weight must be 0 or between {_LEAST_WEIGHT:g} and {_LARGEST_WEIGHT:g}, so "
            f"non-negative and finite, got {values[~fine][0]:g}."
        )
    return values


def _rows(X: Any, positions: Positions) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[positions]
    return X[positions] if isinstance(X, sp.csr_array) else np.take(X, positions, axis=0)


def _with_own_categories(X: Any) -> Any:
    """Columns of categories without unused ones; those without an order of their own, sorted."""
    for i, dtype in enumerate(X.dtypes):
        if str(dtype) == "category":
            column = X.iloc[:, i].cat.remove_unused_categories()
            if not dtype.ordered:
                listed = sorted(column.cat.categories, key=lambda v: (str(type(v)), v))
                column = column.cat.set_categories(listed)
            X.isetitem(i, column)
    return X


def _stacked(first: Any, second: Any, schema: Schema) -> Any:
    if schema.kind == "frame":
        import pandas as pd

        joined = pd.concat([first, second], ignore_index=True)
        for i, dtype in enumerate(schema.dtypes):  # categories that differ would become text
            if isinstance(dtype, Categories) or joined.dtypes.iloc[i] != dtype:
                joined.isetitem(i, schema.cast_column(joined.iloc[:, i], i))
        return joined
    if schema.kind == "sparse":
        return sp.csr_array(sp.vstack([first, second]))
    return np.concatenate([first, second])
