"""Every table, every picture and the page of results.

python -m experiments --size quick          # minutes
python -m experiments --size full           # an hour or two; goes on where it was stopped
python -m experiments --figures             # pictures from the stored tables, in seconds
"""

import argparse

from experiments.cifar10 import __main__ as cifar10
from experiments.cifar10.config import CONFIGS as CIFAR10
from experiments.cifar10.render import render as render_cifar10
from experiments.linear.command import run_compute
from experiments.linear.figures import PICTURES, TABLES, of_study, script
from experiments.page import write as write_page
from experiments.smooth import __main__ as smooth
from experiments.store import FIGURES, STORES

STUDIES = ("depth", "mnist", "cifar10", "smooth")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=tuple(STORES), default="quick")
    parser.add_argument("--studies", choices=STUDIES, nargs="+", default=STUDIES)
    parser.add_argument("--figures", action="store_true", help="draw stored full-size tables")
    parser.add_argument("--again", action="store_true", help="compute tables that are there too")
    options = parser.parse_args()
    size = "full" if options.figures else options.size
    for study in options.studies:
        if study == "smooth":
            if not options.figures:
                smooth.compute_studies(size, options.again)
            smooth.render_all(STORES[size], FIGURES[size])
            continue
        if study == "cifar10":
            if not options.figures:
                config = CIFAR10[cifar10.OF_SIZE[size]]
                cifar10.compute_study(config, options.again)
            render_cifar10(STORES[size], FIGURES[size])
            continue
        if not options.figures:
            for name in of_study(TABLES, study):
                run_compute(name, script("compute", name).compute, study, size, options.again)
        for name in of_study(PICTURES, study):
            script("render", name).render(STORES[size], study, FIGURES[size])
    print(f"\npictures are in {FIGURES[size]}")
    if set(options.studies) == set(STUDIES) and not options.figures:
        print(f"the page of results is {write_page(size)}")
        print(f"that of smooth losses is {smooth.write_page(size)}")


if __name__ == "__main__":
    main()
