"""How this section is set: tables and spans of numbers."""

import pandas as pd

from experiments.markdown import markdown


def table(lines: list[dict[str, str]]) -> str:
    """A Markdown table; a column is there if any line has it."""
    names = list(dict.fromkeys(name for line in lines for name in line if line[name] != ""))
    return markdown(names, ([line.get(name, "") for name in names] for line in lines))


def span(values: pd.Series, form: str) -> str:
    """From the least to the largest, or the one that both are."""
    low, high = form.format(values.min()), form.format(values.max())
    return low if low == high else f"{low} to {high}"
