"""What kind of table the rows come in: its columns and their types, fixed at fit.

Rows that come later are brought to the schema, or refused. So a row that is forgotten leaves no
type behind: no column that became text or fractions because of it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pilu.exceptions import WrongInput

_REMEDY = "Fit again with a type that holds them all."


@dataclass(frozen=True)
class Schema:
    """Kind and columns of a table, and the type of its targets."""

    kind: str  # "array", "sparse", "frame" or "texts"
    n_columns: int
    names: tuple[Any, ...] | None  # of a frame's columns
    dtypes: tuple[Any, ...]  # of a frame's columns, or the one of an array
    target: Any  # numpy's type of the targets
    target_shape: tuple[int, ...]

    @classmethod
    def of(cls, X: Any, y: Any, *, labels: bool | None = None) -> "Schema":
        """The schema of given rows; `labels` says whether y holds class labels or numbers."""
        X, y = _plain_rows(X), _plain_targets(y)
        target = y.dtype
        if labels is False and target.kind in "biuf":
            target = np.dtype(np.float64)
        shape = y.shape[1:]
        if _is_frame(X):
            names, dtypes = tuple(X.columns), tuple(_without_names(t) for t in X.dtypes)
            if not X.columns.is_unique:
                again = X.columns[X.columns.duplicated()].tolist()
                raise WrongInput(
                    f"every column of X must have a name of its own, got {again} twice."
                )
            return cls("frame", len(names), names, dtypes, target, shape)
        kind = "sparse" if sp.issparse(X) else "texts" if X.ndim == 1 else "array"
        n_columns = 0 if X.ndim == 1 else X.shape[1]
        return cls(kind, n_columns, None, (X.dtype,), target, shape)

    def rows(self, X: Any) -> Any:
        """A copy of rows in this schema."""
        X = _plain_rows(X)
        if _is_frame(X) != (self.kind == "frame"):
            needed = "a frame" if self.kind == "frame" else "an array"
            raise WrongInput(f"X must be {needed}, as at fit, got {type(X).__name__}.")
        if self.kind == "frame":
            return self._frame(X)
        if isinstance(X, sp.csr_array) and self.kind == "array":
            X = X.toarray()
        if self.kind == "texts" and X.ndim == 2:
            raise WrongInput(f"X must be a list of texts, as at fit, got shape {X.shape}.")
        n_columns = 0 if X.ndim == 1 else X.shape[1]
        if n_columns != self.n_columns:
            raise WrongInput(f"X must have {self.n_columns} columns, got {n_columns}.")
        if self.kind == "sparse":
            return _clean_sparse(X, self.dtypes[0])
        return _cast(X, self.dtypes[0], "X")

    def _frame(self, X: Any) -> Any:
        assert self.names is not None
        names = tuple(X.columns)
        if names != self.names:
            if sorted(map(repr, names)) != sorted(map(repr, self.names)):
                missing = [n for n in self.names if n not in names]
                unknown = [n for n in names if n not in self.names]
                problems = [f"{missing} are missing"] * bool(missing)
                problems += [f"{unknown} are unknown"] * bool(unknown)
                raise WrongInput(f"X must have the columns of the fit: {', '.join(problems)}.")
            X = X[list(self.names)]
        X = X.reset_index(drop=True)
        X.attrs = {}
        for i, dtype in enumerate(self.dtypes):
            if isinstance(dtype, Categories) or X.dtypes.iloc[i] != dtype:
                X.isetitem(i, self.cast_column(X.iloc[:, i], i))
        return X

    def cast_column(self, series: Any, i: int) -> Any:
        """The i-th column of a frame in its type."""
        assert self.names is not None
        what, dtype = f"column {self.names[i]!r} of X", self.dtypes[i]
        if isinstance(dtype, Categories):
            return _as_categories(series, dtype.values, what)
        return _cast_series(series, dtype, what)

    def targets(self, y: Any) -> NDArray[Any]:
        """Targets in this schema."""
        values = _plain_targets(y)
        if values.shape[1:] != self.target_shape:
            shape = "".join(f", {k}" for k in self.target_shape)
            raise WrongInput(f"y must have shape (n{shape}) as at fit, got {values.shape}.")
        if self.target.kind in "biuf" and values.dtype.kind in "biuf":
            return _cast(values, self.target, "y")
        if self.target.kind in (values.dtype.kind, "O"):
            return values
        raise WrongInput(
            f"y must have the type of the labels at fit, got {values.ravel()[0]!r}. {_REMEDY}"
        )


@dataclass(frozen=True)
class Categories:
    """The type of a column of categories without an order: they come and go, their type stays."""

    values: Any


def _is_category(dtype: Any) -> bool:
    return str(dtype) == "category"


def _without_names(dtype: Any) -> Any:
    """A column's type, without the names of categories that have no order."""
    unordered = _is_category(dtype) and not dtype.ordered
    return Categories(dtype.categories.dtype) if unordered else dtype


def _as_categories(series: Any, values: Any, what: str) -> Any:
    """A column of sorted categories of the given type, only those that occur."""
    import pandas as pd

    plain = series.astype(object)
    unique = plain.dropna().drop_duplicates()
    listed = sorted(unique.tolist(), key=lambda v: (str(type(v)), v))
    index = pd.Index(listed, dtype=object)
    try:
        cast = index.astype(values)
        kept = bool((cast.astype(object) == index).all())
    except (TypeError, ValueError, OverflowError):
        kept = False
    if not kept:
        raise WrongInput(
            f"{what} must hold categories of type {values} as at fit, got {listed[:3]}. {_REMEDY}"
        )
    return pd.Series(pd.Categorical(plain, categories=cast), index=series.index, name=series.name)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _plain_rows(X: Any) -> Any:
    """The rows as a frame, a CSR matrix, an array, or texts."""
    rows = X
    if sp.issparse(X):
        rows = sp.csr_array(rows)
    elif not _is_frame(X):
        rows = np.asarray(X)
        if rows.ndim == 1 and len(rows) and all(isinstance(v, str) for v in rows.tolist()):
            rows = rows.astype(object)
        elif rows.ndim != 2:
            raise WrongInput(
                f"X must have two dimensions, rows and columns, got shape {rows.shape}. Reshape "
                "your data: X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a row."
            )
    if rows.shape[0] == 0:
        raise WrongInput(f"X must have at least one row, got 0 sample(s) (shape={rows.shape}).")
    return rows


def _plain_targets(y: Any) -> NDArray[Any]:
    if y is None:
        raise WrongInput("requires y to be passed, but the target y is None.")
    values = np.array(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.ndim not in (1, 2):
        raise WrongInput(f"y must have one or two dimensions, got shape {values.shape}.")
    of_texts = isinstance(y, np.ndarray) and y.dtype.kind == "U"  # it can hold nothing else
    if values.dtype.kind in "OU" and values.ndim == 1 and not of_texts:
        # numpy would make the text 'nan' of NaN
        for row, value in enumerate(y):
            if value is None or str(value) == "<NA>" or value != value:
                raise WrongInput(f"y must have no missing values (NaN), got {value!r}, row {row}.")
            if not isinstance(value, str) and values.dtype.kind == "U":
                raise WrongInput(f"y must hold labels of one type, got {value!r} beside texts.")
    return np.array(values.tolist()) if values.dtype.kind in "US" else values


def _clean_sparse(X: Any, dtype: Any) -> Any:
    """Without stored zeros, indices in order: equal rows are stored alike."""
    X = sp.csr_array(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    return sp.csr_array((_cast(X.data, dtype, "X"), X.indices, X.indptr), shape=X.shape)


def _cast(values: NDArray[Any], dtype: Any, what: str) -> NDArray[Any]:
    """A copy in another type, if no value is lost by it; numbers may be rounded to floats."""
    if values.dtype == dtype or dtype.kind == "O":
        return np.array(values, dtype=dtype, order="C")
    if values.dtype.kind == dtype.kind and dtype.kind in "US":
        return np.array(values.tolist())  # by content: the width may come from another row
    try:
        cast = values.astype(dtype)
        kept = dtype.kind == "f" and values.dtype.kind in "biuf"
        kept = kept or bool((cast == values).all())
    except (TypeError, ValueError, OverflowError):
        kept = False
    if not kept or dtype.kind in "US":
        shown = values.ravel()[:3].tolist()
        raise WrongInput(
            f"{what} must hold values of type {dtype} as at fit, got {shown}. {_REMEDY}"
        )
    return np.ascontiguousarray(cast)


def _cast_series(series: Any, dtype: Any, what: str) -> Any:
    """A column of a frame in another type; categories need not be the same."""
    if _is_category(dtype):
        cast = series.astype(dtype)
        if int(cast.isna().sum()) == int(series.isna().sum()):
            return cast
    else:
        try:
            cast = series.astype(dtype)
            is_number = getattr(series.dtype, "kind", "O") in "biuf"
            if (is_number and str(dtype).lower().startswith("float")) or _same(series, cast):
                return cast
        except (TypeError, ValueError):
            pass
    shown = series.head(3).tolist()
    raise WrongInput(f"{what} must hold values of type {dtype} as at fit, got {shown}. {_REMEDY}")


def _same(one: Any, other: Any) -> bool:
    both = one.isna() & other.isna()
    return bool(((one == other).fillna(False).astype(bool) | both).all())
