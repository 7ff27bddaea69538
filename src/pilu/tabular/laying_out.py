"""Decide what each column of a table is, or say all that is wrong with it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_choice
from pilu.exceptions import WrongInput
from pilu.tabular.cells import arrow, encoded, family_of, numbers_of
from pilu.tabular.frames import read_frame
from pilu.tabular.kinds import kind_of
from pilu.tabular.layout import Layout
from pilu.tabular.pipelines import MODELS, bound_for, task_for
from pilu.tabular.reading import Reader, is_number

MOST_CLASSES_OF_NUMBERS = 20  # more different numbers than that are no classes


def lay_out(
    table: Any,
    *,
    target: str,
    subject: str | None = None,
    id: str | None = None,
    weight: str | None = None,
    ignore: Sequence[str] = (),
    words: Sequence[str] = (),
    categories: Sequence[str] = (),
    model: str = "auto",
) -> Layout:
    """Decide what each column of a table is; `WrongTable` lists all problems at once.

    A target of text or booleans is a class. A number is a class if it has exactly two different
    values that are whole, or if the model is one for classes. The kinds of features are decided by
    `pilu.tabular.kinds`.

    Parameters
    ----------
    table : pyarrow.Table
        All rows of the first fit.
    target : str
        The column to predict.
    subject, id, weight : str, optional
        Columns with the person, the name and the weight of each row.
    ignore, words, categories : sequence of str
        Columns to leave out, to take as free text, and to take as categories.
    model : str
        A name of `MODELS`.
    """
    check_choice("model", model, tuple(MODELS))
    if not isinstance(table, arrow().Table):
        raise WrongInput(f"table must be a pyarrow.Table, got {type(table).__name__}.")
    reader = Reader(table, first=True)
    roles = {"--target": target, "--subject": subject, "--id": id, "--weight": weight}
    named = [(option, name) for option, name in roles.items() if name is not None]
    lists = {"--ignore": ignore, "--words": words, "--categories": categories}
    named += [(option, name) for option, names in lists.items() for name in dict.fromkeys(names)]
    _check_roles(reader, named)

    task, labels = _task(reader, target, model)
    special = {name for option, name in named if option in roles}
    people = _people(reader, subject)
    kinds: dict[str, str] = {}
    left_out = dict.fromkeys(ignore, "named by --ignore")
    by_text: dict[str, str] = {}
    for name in dict.fromkeys(table.column_names):
        if name in special or name in ignore or not reader.has(name):
            continue
        column = table.column(name)
        if name in words or name in categories:
            kind, reason = _named_kind(
                reader, name, column, "words" if name in words else "category"
            )
        else:
            kind, reason = kind_of(column, people)
        if kind is None:
            left_out[name] = reason
        else:
            kinds[name] = kind
            if kind == "category" and family_of(column.type) in ("number", "boolean"):
                by_text[name] = family_of(column.type)
    left_out = {name: left_out[name] for name in table.column_names if name in left_out}
    bound = bound_for(model)
    layout = Layout(target, task, subject, id, weight, kinds, left_out, labels, bound, by_text)
    frame = read_frame(reader, layout)
    _check_whole(reader, layout, frame.y, frame.subjects)
    reader.refuse()
    return layout


def _check_roles(reader: Reader, named: list[tuple[str, str]]) -> None:
    """Note columns that are missing or have two meanings."""
    first: dict[str, str] = {}
    for option, name in named:
        reader.has(name, option)
        if name in first:
            reader.problems.append(
                f"column {name!r} is named by {first[name]} and by {option}. Name it once."
            )
        first.setdefault(name, option)


def _people(reader: Reader, subject: str | None) -> NDArray[np.int64] | None:
    """A code for the person of each row; None without a column that names people."""
    if subject is None or not reader.has(subject):
        return None
    column = reader.table.column(subject)
    return encoded(column)[0] if family_of(column.type) in ("text", "number") else None


def _named_kind(reader: Reader, name: str, column: Any, kind: str) -> tuple[str | None, str]:
    """The kind that an option asks for, if the column's type allows it."""
    family = family_of(column.type)
    allowed = ("text",) if kind == "words" else ("text", "number", "boolean")
    if family in allowed:
        return kind, ""
    option, needed = ("--words", "text") if kind == "words" else ("--categories", "text or numbers")
    if family == "nothing":
        return None, "it has no values, and so no type"
    reader.problems.append(
        f"{option} {name}: the column must hold {needed}, got {column.type}. Leave the option "
        f"away, or leave the column out: --ignore {name}."
    )
    return None, "of an unsupported type"


def _task(reader: Reader, target: str, model: str) -> tuple[str, str | None]:
    """Whether the target is a number or a class, and the type of the classes."""
    table, asked = reader.table, task_for(model)
    if target not in table.column_names or table.column_names.count(target) != 1:
        return asked or "number", None if asked != "class" else "text"
    column = table.column(target)
    family = family_of(column.type)
    if asked == "number" or family in ("other", "date", "nothing"):
        return "number", None
    if family in ("text", "boolean"):
        return "class", family
    values = numbers_of(column)
    different = np.unique(values[~np.isnan(values)])
    whole = bool((different == np.floor(different)).all()) and bool(np.isfinite(different).all())
    if asked is None:
        return ("class", "whole") if whole and len(different) == 2 else ("number", None)
    if len(different) > MOST_CLASSES_OF_NUMBERS:
        reader.problems.append(
            f"--target {target}: a class of numbers must have at most {MOST_CLASSES_OF_NUMBERS} "
            f"different values for --model {model}, got {len(different):,}. Choose --model ridge."
        )
        return "number", None
    return "class", "whole"


def _check_whole(
    reader: Reader, layout: Layout, y: NDArray[Any] | None, subjects: list[str] | None
) -> None:
    """Note what makes all rows together too little to learn from."""
    n_rows = reader.table.num_rows
    if n_rows < 2:
        reader.problems.append(f"the table must have at least 2 rows, got {n_rows}.")
    elif subjects is not None and len(set(subjects) - {None}) < 2:
        reader.problems.append(
            f"--subject {layout.subject}: there must be at least 2 people, got one for all rows. "
            "Name another column by --subject."
        )
    if layout.bound == "non-negative" and y is not None and len(y) and not y.any():
        reader.problems.append(
            f"--target {layout.target}: at least one count must be above 0 for --model poisson, "
            "got none. Choose --model ridge."
        )
    if not layout.kinds:
        why = "; ".join(f"{name!r} is left out: {why}" for name, why in layout.left_out.items())
        reader.problems.append(
            "there must be a column to learn from besides target, names and weight, got none"
            f"{f' ({why})' if why else ''}. Use fewer --ignore, or --words or --categories."
        )
    if layout.task == "class" and n_rows >= 2 and reader.has(layout.target):
        _check_classes(reader, layout)


def _check_classes(reader: Reader, layout: Layout) -> None:
    where = f"--target {layout.target}"
    codes, levels = encoded(reader.table.column(layout.target))
    present = [levels[code] for code in codes.tolist() if code >= 0]
    counts = len(set(present) - {None})
    if counts == 1:
        reader.problems.append(
            f"{where}: there must be at least 2 classes, got {present[0]!r} only. Name another "
            "column by --target."
        )
    few_rows = counts == len(present) > 2
    if few_rows or (counts > MOST_CLASSES_OF_NUMBERS and counts > len(present) / 2):
        reader.problems.append(
            f"{where}: there must be fewer classes than rows, got {counts:,} in {len(present):,} "
            f"rows. Name another column by --target{_numbers_meant(levels)}."
        )


def _numbers_meant(levels: list[str | None]) -> str:
    """A hint for a column of numbers that a stray text made a column of text."""
    odd = [text for text in levels if text is not None and not is_number(text)]
    if 0 < len(odd) < len(levels) / 2:
        return f", or mend what is no number in it, such as {odd[0]!r}, and read it as numbers"
    return ""
