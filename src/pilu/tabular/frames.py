"""Rows of a table for scikit-learn, in types that the layout alone decides."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need
from pilu.tabular.layout import Layout
from pilu.tabular.reading import Reader

Array = NDArray[np.float64]


class Frame(NamedTuple):
    """Rows: features, targets, weights, and the names of rows and people."""

    X: Any  # a pandas frame
    y: NDArray[Any] | None
    weights: Array | None
    ids: list[str] | None
    subjects: list[str] | None


def frame_of(table: Any, layout: Layout, *, targets: bool = True) -> Frame:
    """The rows of a table, or `WrongTable` with all of its problems.

    Numbers, booleans (0 and 1) and dates (days since 1970-01-01 UTC) are float64, NaN where they
    are missing. Categories are objects of type str, None where they are missing or empty; words
    have "" there. What becomes of a row does not depend on other rows.

    Parameters
    ----------
    table : pyarrow.Table
    layout : Layout
    targets : bool, default=True
        False for rows to predict: targets and weights are not read, and names of rows and people
        only if the table has them.
    """
    reader = Reader(table, first=False)
    frame = read_frame(reader, layout, targets=targets)
    reader.refuse()
    return frame


def read_frame(reader: Reader, layout: Layout, *, targets: bool = True) -> Frame:
    """The rows of a table; problems are noted in the reader, and columns with any left out."""
    columns = read_features(reader, layout)
    y = weights = None
    if targets:
        y = read_target(reader, layout)
        weights = reader.weights(layout.weight) if layout.weight else None
    named = reader.table.column_names
    ids, subjects = (
        reader.names(name, option, unique=targets and option == "--id")
        if name is not None and (targets or name in named)
        else None
        for name, option in ((layout.id, "--id"), (layout.subject, "--subject"))
    )
    X = columns if reader.problems else _frame(columns)
    return Frame(X, y, weights, ids, subjects)


def read_features(reader: Reader, layout: Layout) -> dict[str, NDArray[Any]]:
    """The features that can be read."""
    columns = {}
    for name, kind in layout.kinds.items():
        held = "text" if kind in ("category", "words") else kind
        if reader.has(name):
            values = reader.feature(name, kind, layout.by_text.get(name, held))
            if values is not None:
                columns[name] = values
    return columns


def read_target(reader: Reader, layout: Layout) -> NDArray[Any] | None:
    """The target, if it can be read."""
    if not reader.has(layout.target, "--target"):
        return None
    if layout.labels is not None:
        return reader.target_labels(layout.target, layout.labels)
    return reader.target_numbers(layout.target, layout.bound)


def _frame(columns: dict[str, NDArray[Any]]) -> Any:
    pd = need("pandas", for_="fitting a table", extra="pandas")
    # Without a type, pandas would choose one by the values.
    typed = {
        name: pd.Series(values, dtype=values.dtype, name=name, copy=False)
        for name, values in columns.items()
    }
    return pd.DataFrame(typed)
