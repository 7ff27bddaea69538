"""Work for dask: collections read side by side, sums by a tree, lost connections reported."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np

from pilu._checks import first_line
from pilu._extras import need
from pilu.exceptions import ClusterLost, WrongInput

_SPLIT_EVERY = 4  # so many sums are added up by one task


def meta_of(frame: Any) -> Any:
    """An empty pandas frame with the columns and types of a dask frame."""
    return frame._meta  # noqa: SLF001 (dask documents it under this name only)


def is_dask(value: Any) -> bool:
    """Whether this is one of dask's collections; dask itself is not imported."""
    return type(value).__module__.split(".")[0] in ("dask", "dask_expr")


def delayed(function: Any, n_results: int | None = None) -> Any:
    """The function as a dask task that is never taken for an equal one."""
    return need("dask", for_="dask collections", extra="dask").delayed(
        function, nout=n_results, pure=False
    )


def summed(tasks: Iterable[Any]) -> tuple[Any, list[Any]]:
    """Results of tasks that return (sum, note): the sum of all, added up by a tree, and the notes.

    A sum may be None, of every task or of none.
    """
    pairs = list(tasks)
    sums = [total for total, _ in pairs]
    while len(sums) > 1:
        sums = [
            delayed(_add_up)(sums[k : k + _SPLIT_EVERY]) for k in range(0, len(sums), _SPLIT_EVERY)
        ]
    total, *notes = computed(sums[0], *(note for _, note in pairs))
    return total, notes


def computed(*tasks: Any) -> tuple[Any, ...]:
    """The results, by the scheduler in use; `ClusterLost` if its connection is lost."""
    dask = need("dask", for_="dask collections", extra="dask")
    try:
        results: tuple[Any, ...] = dask.compute(*tasks)
    except Exception as error:
        # An OSError under a client that is still connected is a task's own: a file, a database.
        ours = type(error).__module__.split(".")[0] in ("distributed", "tornado")
        if not (ours or (isinstance(error, OSError) and _is_disconnected())):
            raise
        raise ClusterLost(
            f"the dask cluster could not finish the work: {first_line(error)}. Nothing was changed."
        ) from error
    return results


@contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """A client of a dask scheduler for the time being; "local" starts one on this machine."""
    distributed = need("distributed", for_="a scheduler", extra="dask")
    try:
        if scheduler == "local":
            client = distributed.Client(
                processes=True, threads_per_worker=1, dashboard_address=None, set_as_default=True
            )
        else:
            client = distributed.Client(scheduler, timeout="10s", set_as_default=True)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise ClusterLost(
            f"scheduler must be 'local' or the address of a dask scheduler, got {scheduler!r}: "
            f"{first_line(error)}. Nothing was changed."
        ) from None
    with client:
        yield client


def check_collection(name: str, value: Any) -> None:
    """Refuse a collection without partitions along the rows."""
    kind = type(value)  # a Delayed claims to have every attribute
    if not (hasattr(kind, "ndim") and hasattr(kind, "to_delayed")):
        raise WrongInput(
            f"{name} must be a dask array or dataframe, got a dask {kind.__name__}. "
            "dask.array.from_delayed makes one of a Delayed, to_dataframe of a Bag."
        )


def width_of(name: str, collection: Any) -> int:
    """Columns of a matrix or dataframe, at least one."""
    width = collection.shape[1]
    if width != width:
        raise WrongInput(
            f"{name} must have a known number of columns, got nan. "
            f"Call {name}.compute_chunk_sizes() first."
        )
    if width < 1:
        raise WrongInput(f"{name} must have at least 1 column, got 0.")
    return int(width)


def side_by_side(given: dict[str, Any]) -> list[Any]:
    """Delayed tuples of partitions; what the collections share is read once."""
    for name, collection in given.items():
        if (here := _n_partitions(given["X"])) != (there := _n_partitions(collection)):
            raise WrongInput(
                f"X and {name} must have the same partitions, got {here} and {there}. "
                f"Take both from one frame, or rechunk {name} as X."
            )
    X, *others = given.values()
    if all(hasattr(type(collection), "map_partitions") for collection in given.values()):
        # One expression: optimised separately, each would read its own columns.
        together = X.map_partitions(
            _together, *others, align_dataframes=False, enforce_metadata=False, meta=meta_of(X)
        )
        return list(together.to_delayed())
    # Not optimised, so that equal tasks keep equal keys and are computed once.
    parts = [_delayed(collection) for collection in given.values()]
    return [delayed(_together)(*part) for part in zip(*parts, strict=True)]


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


def _n_partitions(collection: Any) -> int:
    """Along the rows."""
    is_array = hasattr(type(collection), "numblocks")  # a frame may have a column of that name
    return int(collection.numblocks[0] if is_array else collection.npartitions)


def _delayed(collection: Any) -> list[Any]:
    """Partitions along the rows, with all columns."""
    if hasattr(type(collection), "rechunk") and collection.ndim > 1:
        collection = collection.rechunk({1: -1})
    return list(np.ravel(collection.to_delayed(optimize_graph=False)))


def _add_up(parts: Sequence[Any]) -> Any:
    return None if parts[0] is None else reduce(lambda total, part: total.plus(part), parts)


def _is_disconnected() -> bool:
    """Whether there is a client whose connection is lost."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        return bool(distributed.default_client().status != "running")
    except ValueError:  # no client
        return False
