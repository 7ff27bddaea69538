"""Score all adapters and print the table.

python -m experiments.truth --size quick      # seconds
python -m experiments.truth --size full       # a minute or two
"""

import argparse
from typing import Any

import pandas as pd

from experiments.store import STORES
from experiments.truth.adapters import ADAPTERS
from experiments.truth.problems import problems
from experiments.truth.scores import TABLE, score

EPSILONS = {"full": (0.1, 1.0, 10.0), "quick": (1.0,)}


def compute(size: str, again: bool = False) -> None:
    """Score and store."""
    chosen = problems(size)
    config = {
        "epsilons": EPSILONS[size],
        "adapters": [adapter.name for adapter in ADAPTERS],
        "settings": [f"{problem.name}, {problem.setting}" for problem in chosen],
    }

    def tables() -> dict[str, pd.DataFrame]:
        return {TABLE: score(ADAPTERS, chosen, EPSILONS[size])}

    def nothing() -> dict[str, Any]:
        return {}

    STORES[size].compute(TABLE, config, nothing, tables, again)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=tuple(STORES), default="full")
    parser.add_argument("--again", action="store_true", help="compute a stored table too")
    options = parser.parse_args()
    compute(options.size, options.again)
    with pd.option_context("display.width", 200, "display.max_rows", None):
        shown = ["adapter", "problem", "setting", "claimed", "true_forward", "true_backward"]
        frame = STORES[options.size].read(TABLE)
        print(frame[[*shown, "verdict", "factor"]].to_string(index=False))


if __name__ == "__main__":
    main()
