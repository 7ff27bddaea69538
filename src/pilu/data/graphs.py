"""What is asked of dask: collections read side by side, sums by a tree, losses told."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from pilu._checks import first_line
from pilu._extras import need
from pilu.exceptions import ClusterLost

__all__ = ["added_up", "check_collection", "computed", "is_dask", "side_by_side", "width_of"]

_SPLIT_EVERY = 4  # sums are added up so many at a time


def is_dask(value: Any) -> bool:
    """Whether this is one of dask's collections; dask itself is not imported."""
    return type(value).__module__.split(".")[0] in ("dask", "dask_expr")


def added_up(sums: list[Any]) -> Any:
    """The sum of delayed statistics, by a tree."""
    delayed = need("dask", for_="dask collections", extra="dask").delayed
    while len(sums) > 1:
        sums = [
            delayed(_add_up, pure=False)(sums[k : k + _SPLIT_EVERY])
            for k in range(0, len(sums), _SPLIT_EVERY)
        ]
    return sums[0]


def computed(*tasks: Any) -> tuple[Any, ...]:
    """The results, by whichever scheduler is at hand; one that goes away is told."""
    dask = need("dask", for_="dask collections", extra="dask")
    try:
        found: tuple[Any, ...] = dask.compute(*tasks)
    except Exception as error:
        # An OSError under a client that is still connected is a task's own: a file, a database.
        ours = type(error).__module__.split(".")[0] in ("distributed", "tornado")
        if not (ours or (isinstance(error, OSError) and _disconnected())):
            raise
        raise ClusterLost(
            f"the dask cluster could not finish the work: {first_line(error)}. Nothing was changed."
        ) from error
    return found


def check_collection(name: str, value: Any) -> None:
    """Refuse what has no partitions along the rows."""
    kind = type(value)  # a Delayed has any attribute that one asks for
    if not (hasattr(kind, "ndim") and hasattr(kind, "to_delayed")):
        raise ValueError(
            f"{name} must be a dask array or dataframe, got a dask {kind.__name__}. "
            "dask.array.from_delayed makes one of a Delayed, to_dataframe of a Bag."
        )


def width_of(name: str, collection: Any) -> int:
    """Columns of a matrix or dataframe, at least one."""
    width = collection.shape[1]
    if width != width:
        raise ValueError(
            f"{name} must have a known number of columns, got nan. "
            f"Call {name}.compute_chunk_sizes() first."
        )
    if width < 1:
        raise ValueError(f"{name} must have at least 1 column, got 0.")
    return int(width)


def side_by_side(given: dict[str, Any]) -> list[Any]:
    """Delayed tuples of partitions; what the collections have in common is read once for all."""
    delayed = need("dask", for_="dask collections", extra="dask").delayed
    for name, collection in given.items():
        if (here := _n_partitions(given["X"])) != (there := _n_partitions(collection)):
            raise ValueError(
                f"X and {name} must have the same partitions, got {here} and {there}. "
                f"Take both from one frame, or rechunk {name} as X."
            )
    X, *others = given.values()
    if all(hasattr(type(collection), "map_partitions") for collection in given.values()):
        # One expression: optimised apart, each of them would read its own columns by itself.
        together = X.map_partitions(
            _together, *others, align_dataframes=False, enforce_metadata=False, meta=X._meta
        )
        return list(together.to_delayed())
    # Not optimised, so that tasks keep the keys by which they are known to be the same.
    parts = [_delayed(collection) for collection in given.values()]
    return [delayed(_together, pure=False)(*part) for part in zip(*parts, strict=True)]


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


def _n_partitions(collection: Any) -> int:
    """Along the rows."""
    is_array = hasattr(type(collection), "numblocks")  # a frame may have a column of that name
    return int(collection.numblocks[0] if is_array else collection.npartitions)


def _delayed(collection: Any) -> list[Any]:
    """Partitions along the rows; columns are kept together."""
    if hasattr(type(collection), "rechunk") and collection.ndim > 1:
        collection = collection.rechunk({1: -1})
    return list(np.ravel(collection.to_delayed(optimize_graph=False)))


def _add_up(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total


def _disconnected() -> bool:
    """Whether there is a cluster, and it is out of reach."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        return bool(distributed.default_client().status != "running")
    except ValueError:  # no client
        return False
