"""The numbers of docs/tables.md are those of the code."""

import re
from pathlib import Path

from pilu.tabular import MODELS, kinds, pipelines

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()


def test_the_numbers_of_the_page():
    for text in (
        f"levels in fewer than {pipelines.RARE_LEVEL} rows",
        f"beyond the {pipelines.MOST_LEVELS - 1} most frequent",
        f"the {pipelines.MOST_TERMS:,} most frequent words",
        f"At most {kinds.FEW_VALUES} different values",
        f"At least {kinds.LEAST_WORDS} words",
        f"Fewer than {kinds.LEAST_HOLDERS} people a value",
        f"in {pipelines.CHOICE_FOLDS} folds",
        "0.1, 1, 10, 100 or 1000",
    ):
        assert text in PAGE
    assert pipelines.ALPHAS == (0.1, 1.0, 10.0, 100.0, 1000.0)
    assert kinds.LEAST_SHARE == 0.1
    assert set(re.findall(r"^\| `(\w+)` \| (?:numbers|classes)", PAGE, re.M)) == set(MODELS) - {
        "auto"
    }
