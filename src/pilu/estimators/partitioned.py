"""Learning from dask collections, and quoting their rows as a lazy frame (extra ``pilu[dask]``)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from pilu._extras import need
from pilu.certify.accountant import Accountant, Law, Request, Target
from pilu.certify.floor import noise_floor
from pilu.ridge.partitions import PartitionedRows, rows_of
from pilu.ridge.rows import RowSource, digests_of

__all__ = ["NumericTargets", "OneHotTargets", "lazy_quote", "partitioned_rows"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NumericTargets:
    """Targets of regression, n x d."""

    def __call__(self, y: Any) -> Array:
        """Numbers of a partition's targets."""
        values = np.asarray(y)
        if values.dtype.kind not in "iufb":
            raise ValueError(f"y must be numeric, got {values.dtype}.")
        return np.asarray(values, dtype=np.float64).reshape(len(values), -1)


@dataclass(frozen=True)
class OneHotTargets:
    """A column for every class."""

    classes: tuple[Any, ...]

    def __call__(self, y: Any) -> Array:
        """Ones where the label is a class's."""
        return np.asarray(np.asarray(y)[:, None] == np.array(self.classes), dtype=np.float64)


def partitioned_rows(source: RowSource) -> PartitionedRows | None:
    """The partitions that a source reads from, if it does."""
    rows = getattr(source.X, "rows", None)
    return rows if isinstance(rows, PartitionedRows) else None


def lazy_quote(
    rows: PartitionedRows, source: RowSource, law: Law, judge: Accountant, target: Target
) -> Any:
    """A dask frame with noise, epsilon and delta of every row that is left, not computed yet.

    Its index is that of the frame that was fitted, or the rows' numbers.
    """
    delayed = need("dask", for_="dask collections", extra="dask").delayed
    frames = need("dask.dataframe", for_="quotes of dask collections", extra="dask")
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    # One task for all partitions: the law goes to every worker once.
    price = delayed(_Price(law, judge, target, source.key, source.fit_intercept, rows.encode))
    parts = []
    for (x, y), start, end in zip(
        rows.partitions.blocks, rows.ends - rows.sizes, rows.ends, strict=True
    ):
        here = slice(int(start), int(end))
        parts.append(
            delayed(_priced, pure=False)(
                price, x, y, int(start), source.live[here], source.digests[here]
            )
        )
    meta = pandas.DataFrame({name: np.array([], dtype=float) for name in _COLUMNS})
    return frames.from_delayed(parts, meta=meta, verify_meta=False)


_COLUMNS = ("noise", "epsilon", "delta")


@dataclass(frozen=True)
class _Price:
    law: Law
    judge: Accountant
    target: Target
    key: bytes
    fit_intercept: bool
    encode: Any


def _priced(
    price: _Price,
    x: Any,
    y: Any,
    start: int,
    live: NDArray[np.bool_],
    digests: NDArray[np.uint8],
) -> Any:
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    X, Y = rows_of(x, y, price.encode)
    kept = np.flatnonzero(live)
    features, targets = np.asarray(X[kept], dtype=np.float64), Y[kept]
    index = x.index[kept] if hasattr(x, "index") else pandas.RangeIndex(start, start + len(X))[kept]
    RowSource.compare(digests[kept], digests_of(features, targets, price.key), start + kept)
    if not len(kept):
        return pandas.DataFrame({name: np.array([], dtype=float) for name in _COLUMNS}, index=index)
    ones = np.ones((len(kept), int(price.fit_intercept)))
    request = Request(np.hstack([features, ones]), targets, start + kept)
    with parallel_config(n_jobs=1):  # the other cores are with other partitions
        noise, epsilon = price.judge.calibrate_each(
            price.law, [request], price.target, lambda _: None
        )
    floor = noise_floor(price.law)
    noise = np.where((noise > 0) & (noise < floor), floor, noise)
    columns = (noise, epsilon, np.full(len(noise), price.target.delta))
    return pandas.DataFrame(dict(zip(_COLUMNS, columns, strict=True)), index=index)
