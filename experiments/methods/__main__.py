"""All tables of this study, as many as are not there.

python -m experiments.methods --size full
"""

import argparse

from experiments.methods import exposures, reconstruction, side_by_side
from experiments.methods.config import SETTINGS
from experiments.methods.render import render
from experiments.store import FIGURES, STORES


def compute(size: str, again: bool = False) -> None:
    for name in SETTINGS[size].side_by_side:
        side_by_side.compute(size, name, again)
    exposures.compute(size, again)
    reconstruction.compute(size, again)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.methods", description=__doc__)
    parser.add_argument("--size", choices=tuple(SETTINGS), default="quick")
    parser.add_argument("--again", action="store_true", help="also what is there already")
    options = parser.parse_args()
    compute(options.size, options.again)
    render(STORES[options.size], FIGURES[options.size])


if __name__ == "__main__":
    main()
