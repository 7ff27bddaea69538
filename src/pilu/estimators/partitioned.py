"""Learning from dask collections, and lazy quotes of their rows (extra ``pilu[dask]``)."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from pilu._extras import need
from pilu.certify.issue import Terms
from pilu.data.graphs import delayed, is_dask
from pilu.data.partitions import PartitionedRows, Partitions, Reading, taken
from pilu.data.rows import Request, RowSource, compare_digests, digests_of
from pilu.data.targets import ClassTargets
from pilu.data.values import index_of
from pilu.estimators.requests import RowBook, index_as_ids
from pilu.estimators.utility import Validation
from pilu.exceptions import WrongInput
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.spectral import check_room

Array = NDArray[np.float64]
Named = dict[str, Any]  # sample_ids and subjects

_COUNTED_FIRST = 1024  # columns: from here on, products take longer than counting the rows first


def refuse_dask(X: Any, y: Any) -> None:
    """Refuse dask collections where every step reads the rows again."""
    if is_dask(X) or is_dask(y):
        raise WrongInput(
            "X and y must be arrays or memory maps for losses other than ridge, got a dask "
            "collection. Every step reads the rows again. Call .compute() on both."
        )


def learned_partitions(
    model: Any, partitions: Partitions, read_targets: Callable[[Partitions], None], named: Named
) -> tuple[RidgeProblem, RowBook, Array | None, bool]:
    """The ridge problem of dask collections, from one pass over the partitions, in place.

    `model` is a ridge estimator; `read_targets` sets its `targets_`. Also returns the book of rows,
    the rows of each class, and whether the index of X names the rows.
    """
    if model.batch_size is not None or model.solver != "spectral":
        raise WrongInput(
            "batch_size must be None and solver must be 'spectral' for dask collections, got "
            f"batch_size={model.batch_size!r} and solver={model.solver!r}. Their rows are "
            "read only once."
        )
    key, fit_intercept = secrets.token_bytes(32), bool(model.fit_intercept)
    validate_data(model, partitions.like, skip_check_array=True)  # records the column names
    sums = _wants_sums(partitions, fit_intercept=fit_intercept)
    read_targets(partitions)
    d, alpha = model.targets_.n_outputs, float(model.alpha)
    reading = partitions.reading(model.targets_)
    learned = partitions.learn(reading, key, fit_intercept=fit_intercept, sums=sums)
    n = int(learned.sizes.sum())
    if n < 2:
        raise WrongInput(f"X must have at least 2 rows, got n_samples={n}.")
    learned.notes.check_scale()
    rows, live = PartitionedRows(partitions, learned.sizes, reading), np.ones(n, dtype=bool)
    digests = learned.notes.digests
    source = RowSource(rows, partitions.n_features, fit_intercept, live, digests, key)
    if n >= source.n_columns and learned.statistics is not None:
        problem = RidgeProblem.of_statistics(source, alpha, learned.statistics)
    else:
        problem = RidgeProblem.collected(source, alpha, d, source.features)
    named, indexed = {**named, **learned.beside}, False
    if named["sample_ids"] is None:
        named["sample_ids"] = index_as_ids(learned.index)
        indexed = named["sample_ids"] is not None
    counts = None
    if isinstance(model.targets_, ClassTargets):
        counts = model.targets_.counts(learned.notes.target_sums, n)
    return problem, RowBook.open(n, key, **named), counts, indexed


def _wants_sums(partitions: Partitions, *, fit_intercept: bool) -> bool:
    """Whether to learn from p x p sums, i.e. there are at least as many rows as columns."""
    p, n = partitions.n_features + fit_intercept, partitions.n_rows
    if n is None and p >= _COUNTED_FIRST:
        n = int(partitions.rows()[0].sum())
    if n is not None and n < p:
        return False
    check_room(p)
    return True


def attached_partitions(
    model: Any, partitions: Partitions, ids: Mapping[Any, tuple[int, ...]] | None
) -> RowSource:
    """The rows of a fitted model, read from dask collections.

    `ids` maps the index of the fit to positions, if the index names the rows.
    """
    source = model.fitted_.source
    validate_data(model, partitions.like, reset=False, skip_check_array=True)
    reading = partitions.reading(model.targets_)
    (sizes, index), numbers = partitions.rows(), np.flatnonzero(source.live)
    n, n_given = source.n_rows, int(sizes.sum())
    if n_given not in (n, len(numbers)):
        raise WrongInput(
            f"X must have all {n} rows of the fit or the {len(numbers)} remaining ones, in their "
            f"order, got {n_given} rows."
        )
    if n_given == n:
        numbers = np.arange(n)
    names: list[Any] | None = None
    if ids is not None:
        names = [None] * n  # None for forgotten rows
        for name, (place,) in ids.items():
            names[place] = name
    if names is not None and index is not None:
        for position, name in zip(numbers, index, strict=True):
            if source.live[position] and name != names[position]:
                raise WrongInput(
                    f"X must have the index of the fit, got {name!r} where it was "
                    f"{names[position]!r}. The index names the rows to forget: restore it with "
                    "set_index."
                )
        names = None  # the frame has the same names, with their dtype
    rows = PartitionedRows(partitions, sizes, reading, numbers=numbers, names=names)
    attached: RowSource = source.reading(rows)
    return attached


def lazy_quote(
    rows: PartitionedRows, source: RowSource, terms: Terms, validation: Validation | None
) -> Any:
    """A lazy dask frame with noise, epsilon and delta of every remaining row.

    Its index is that of the fitted frame, or the row numbers. `unlearn` accepts both.
    """
    if validation is not None:
        raise WrongInput("validation must be None for a quote of all rows of a dask collection.")
    frames = need("dask.dataframe", for_="quotes of dask collections", extra="dask")
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    # A single task that all partitions share, so that the law is sent to every worker once.
    given = delayed(_QuoteTerms(terms, source.key, source.fit_intercept, rows.reading))
    names, named = _names(rows, source.live), 0
    parts = []
    for part, here in rows.numbered():
        left = here[source.live[here]]
        mine = None if names is None else names[named : named + len(left)]
        named += len(left)
        parts.append(
            delayed(_quoted)(
                given, part, len(here), np.flatnonzero(source.live[here]), left,
                source.digests[left], mine,
            )
        )  # fmt: skip
    index = names[:0] if names is not None else index_of(rows.partitions.like)
    if index is None:
        index = pandas.Index(np.array([], dtype=np.intp))
    return frames.from_delayed(parts, meta=_table([[]] * len(_COLUMNS), index), verify_meta=False)


_COLUMNS = ("noise", "epsilon", "delta")


@dataclass(frozen=True)
class _QuoteTerms:
    terms: Terms
    key: bytes
    fit_intercept: bool
    reading: Reading


def _names(rows: PartitionedRows, live: NDArray[np.bool_]) -> Any:
    """The fit's ids of the remaining rows, if the partitions have no index of their own."""
    if rows.names is None:
        return None
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    return pandas.Index([rows.names[k] for k in rows.numbers[live[rows.numbers]]])


def _quoted(
    given: _QuoteTerms,
    part: Any,
    size: int,
    kept: NDArray[np.intp],
    numbers: NDArray[np.intp],
    digests: NDArray[np.uint8],
    names: Any,
) -> Any:
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    features, targets = taken(part, kept, size, given.reading)
    index, own = names, index_of(part[0])
    if index is None:
        index = pandas.Index(numbers) if own is None else own[kept]
    if not len(kept):
        return _table([[]] * len(_COLUMNS), index)
    compare_digests(digests, digests_of(features, targets, given.key), numbers)
    ones = np.ones((len(kept), int(given.fit_intercept)))
    request = Request(np.hstack([features, ones]), targets, numbers)
    accountant, law, target = given.terms
    with parallel_config(n_jobs=1):  # other cores work on other partitions
        noise, epsilon = accountant.calibrate_each(law, [request], target, lambda _: None)
    return _table([noise, epsilon, np.full(len(noise), target.delta)], index)


def _table(columns: Sequence[Any], index: Any) -> Any:
    pandas = need("pandas", for_="quotes of dask collections", extra="dask")
    values = {n: np.asarray(c, dtype=float) for n, c in zip(_COLUMNS, columns, strict=True)}
    return pandas.DataFrame(values, index=index)
