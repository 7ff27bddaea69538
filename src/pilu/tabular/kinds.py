"""Which kind of feature a column is, by its type and, for text, by how its values repeat.

| type | kind |
| --- | --- |
| whole numbers, fractions, decimals | number |
| booleans | boolean |
| dates and times, with or without a zone | date |
| text | words, left out, or category: see `kind_of_text` |
| lists, structs, bytes, durations, times of day | left out |
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.tabular.cells import arrow, encoded, family_of

KINDS = ("number", "boolean", "date", "category", "words")

FEW_VALUES = 20  # a text column with at most so many different values is a category
LEAST_WORDS = 3  # in a value of a column of words, on average
LEAST_SHARE = 0.1  # of different values among the rows of a column of words
LEAST_HOLDERS = 2  # people, or rows, that share a value of a category, on average
# Digits with separators and at most a sign: 39,78 or 31.12.2025.
_SEPARATED = re.compile(r"[-+]?\d+([.,/ -]\d+)+")


def kind_of(column: Any, subjects: NDArray[np.int64] | None) -> tuple[str | None, str]:
    """The kind of a column, or None and the reason why it is left out.

    `subjects` are codes of the people to whom the rows belong, if that is known.
    """
    family = family_of(column.type)
    if family in ("number", "boolean", "date"):
        return family, ""
    if family == "nothing":
        return None, "it has no values, and so no type"
    if family == "other":
        return None, f"columns of type {column.type} are not supported"
    return kind_of_text(column, subjects)


def kind_of_text(column: Any, subjects: NDArray[np.int64] | None) -> tuple[str | None, str]:
    """The kind of a text column.

    Missing and empty values do not count.

    1. With at most 20 different values it is a category.
    2. With 3 words a value on average, over the different values, and at least a tenth as many
       different values as rows it is words: free text.
    3. With fewer than 2 people a value on average it is left out: it holds names, addresses or
       numbers of people rather than something that they have in common. Without `subjects`, every
       row is a person.
    4. Otherwise it is a category.
    """
    codes, levels = encoded(column)
    present = codes >= 0
    present[present] = np.array([text is not None for text in levels], dtype=bool)[codes[present]]
    used, values = np.unique(codes[present], return_inverse=True)
    if len(used) <= FEW_VALUES:
        return "category", ""
    texts = [levels[code] or "" for code in used.tolist()]
    if len(used) >= LEAST_SHARE * len(values) and _mean_words(texts) >= LEAST_WORDS:
        return "words", ""
    holders = len(values)
    if subjects is not None:
        holders = len(np.unique(values * (subjects.max() + 1) + subjects[present]))
    if holders < LEAST_HOLDERS * len(used):
        who = "rows" if subjects is None else "people"
        return None, (
            f"its {len(used):,} different values have fewer than {LEAST_HOLDERS} {who} each on "
            f"average, as names and addresses do{_written_otherwise(texts)}"
        )
    return "category", ""


def _written_otherwise(texts: list[str]) -> str:
    """A hint for numbers and dates that are written in a way that is not recognised."""
    if all(_SEPARATED.fullmatch(text.strip()) for text in texts):
        return "; write numbers as 39.78 and dates as 2025-12-31 to have them used"
    return ""


def _mean_words(texts: list[str]) -> float:
    compute = arrow("pyarrow.compute")
    counts = compute.count_substring_regex(arrow().array(texts), pattern=r"\S+")
    return float(compute.mean(counts).as_py())
