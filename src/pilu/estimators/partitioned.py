"""Learning from dask collections, and quoting their rows as a lazy frame (extra ``pilu[dask]``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from pilu._extras import need
from pilu.certify.accountant import Accountant, Law, Target
from pilu.chains.request import Request
from pilu.data.graphs import delayed
from pilu.data.partitions import PartitionedRows, Reading, taken
from pilu.data.rows import RowSource, compare_digests, digests_of
from pilu.data.values import index_of

__all__ = ["lazy_quote", "partitioned_rows"]

Array = NDArray[np.float64]


def partitioned_rows(source: RowSource) -> PartitionedRows | None:
    """The partitions that a source reads from, if it does."""
    return source.rows if isinstance(source.rows, PartitionedRows) else None


def lazy_quote(
    rows: PartitionedRows, source: RowSource, law: Law, judge: Accountant, target: Target
) -> Any:
    """A dask frame with noise, epsilon and delta of every row that is left, not computed yet.

    Its index is that of the frame that was fitted, or the rows' numbers: what `unlearn` takes.
    """
    frames = need("dask.dataframe", for_="quotes of dask collections", extra="dask")
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    # One task for all partitions: the law goes to every worker once.
    price = delayed(_Price(law, judge, target, source.key, source.fit_intercept, rows.reading))
    names, named = _names(rows, source.live), 0
    parts = []
    for part, here in rows.numbered():
        left = here[source.live[here]]
        mine = None if names is None else names[named : named + len(left)]
        named += len(left)
        parts.append(
            delayed(_priced)(
                price, part, len(here), np.flatnonzero(source.live[here]), left,
                source.digests[left], mine,
            )
        )  # fmt: skip
    index = names[:0] if names is not None else index_of(rows.partitions.like)
    if index is None:
        index = pandas.Index(np.array([], dtype=np.intp))
    return frames.from_delayed(parts, meta=_table([[]] * len(_COLUMNS), index), verify_meta=False)


_COLUMNS = ("noise", "epsilon", "delta")


@dataclass(frozen=True)
class _Price:
    law: Law
    judge: Accountant
    target: Target
    key: bytes
    fit_intercept: bool
    reading: Reading


def _names(rows: PartitionedRows, live: NDArray[np.bool_]) -> Any:
    """The fit's ids of the rows that are left, where their partitions have none."""
    if rows.names is None:
        return None
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    return pandas.Index([rows.names[k] for k in rows.numbers[live[rows.numbers]]])


def _priced(
    price: _Price,
    part: Any,
    size: int,
    kept: NDArray[np.intp],
    numbers: NDArray[np.intp],
    digests: NDArray[np.uint8],
    names: Any,
) -> Any:
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    features, targets = taken(part, kept, size, price.reading)
    index, own = names, index_of(part[0])
    if index is None:
        index = pandas.Index(numbers) if own is None else own[kept]
    if not len(kept):
        return _table([[]] * len(_COLUMNS), index)
    compare_digests(digests, digests_of(features, targets, price.key), numbers)
    ones = np.ones((len(kept), int(price.fit_intercept)))
    request = Request(np.hstack([features, ones]), targets, numbers)
    with parallel_config(n_jobs=1):  # the other cores are with other partitions
        noise, epsilon = price.judge.calibrate_each(
            price.law, [request], price.target, lambda _: None
        )
    return _table([noise, epsilon, np.full(len(noise), price.target.delta)], index)


def _table(columns: Sequence[Any], index: Any) -> Any:
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    values = {n: np.asarray(c, dtype=float) for n, c in zip(_COLUMNS, columns, strict=True)}
    return pandas.DataFrame(values, index=index)
