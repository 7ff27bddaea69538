"""Every table, every picture and the pages of results.

python -m experiments --size quick          # minutes
python -m experiments --size full           # hours; goes on where it was stopped
python -m experiments --figures             # pictures and pages from the stored tables
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from experiments import pages, schematic
from experiments.certificates import __main__ as certificates
from experiments.certificates.render import render as render_certificates
from experiments.cifar10 import __main__ as cifar10
from experiments.linear import command as linear
from experiments.methods import __main__ as methods
from experiments.smooth import __main__ as smooth
from experiments.store import FIGURES, STORES, Store
from experiments.truth import __main__ as truth
from experiments.truth.render import render as render_truth


class Study(NamedTuple):
    """How a study computes its tables, and how it draws them."""

    compute: Callable[[str, bool], None]  # size, again
    render: Callable[[Store, Path], None]


STUDIES = {
    "depth": Study(*linear.study("depth")),
    "mnist": Study(*linear.study("mnist")),
    "cifar10": Study(cifar10.compute_study, cifar10.render),
    "smooth": Study(smooth.compute_studies, smooth.render_all),
    "certificates": Study(certificates.compute_all, render_certificates),
    "methods": Study(methods.compute, methods.render),
    "truth": Study(truth.compute, render_truth),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=tuple(STORES), default="quick")
    parser.add_argument("--studies", choices=tuple(STUDIES), nargs="+", default=tuple(STUDIES))
    parser.add_argument("--figures", action="store_true", help="draw stored full-size tables")
    parser.add_argument("--again", action="store_true", help="compute tables that are there too")
    options = parser.parse_args()
    size = "full" if options.figures else options.size
    schematic.render(FIGURES[size])
    for name in options.studies:
        study = STUDIES[name]
        if not options.figures:
            study.compute(size, options.again)
        study.render(STORES[size], FIGURES[size])
    print(f"\npictures are in {FIGURES[size]}")
    if set(options.studies) == set(STUDIES):
        for path in pages.write(size):
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
