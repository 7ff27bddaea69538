"""All tables and pictures of smooth losses.

python -m experiments.smooth --size full
"""

import argparse
from pathlib import Path

from experiments.smooth.command import run_compute
from experiments.smooth.config import STUDIES
from experiments.smooth.figures import PICTURES, TABLES, of_study, script
from experiments.store import FIGURES, STORES, Store


def compute_studies(size: str, again: bool = False) -> None:
    for study in STUDIES[size]:
        for name in of_study(TABLES, study):
            run_compute(name, script("compute", name).compute, study, size, again)


def render_all(store: Store, folder: Path) -> None:
    for name in PICTURES:
        script("render", name).render(store, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=tuple(STUDIES), default="quick")
    size = parser.parse_args().size
    compute_studies(size)
    render_all(STORES[size], FIGURES[size])


if __name__ == "__main__":
    main()
