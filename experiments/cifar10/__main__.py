"""Both studies: runs, scores, audits, pictures.

    python -m experiments.cifar10 --size quick|full [--again]

`full` takes about an hour of two cores and resumes where it was stopped. `quick` checks in a few
minutes that everything works; its numbers say nothing about the paper.
"""

import argparse

from experiments.cifar10.audits import audit_study
from experiments.cifar10.choices import try_step_sizes
from experiments.cifar10.compute import compute
from experiments.cifar10.config import STUDIES, Study
from experiments.cifar10.render import render
from experiments.cifar10.scores import score
from experiments.store import FIGURES, STORES, Store

__all__ = ["compute_study", "render"]


def compute_study(size: str, again: bool = False) -> None:
    """Tables that are not there yet by the same settings; stored blocks of runs stay."""
    store = STORES[size]
    for name, study in STUDIES[size].items():
        tried, audits = f"cifar10_{name}_step_sizes", f"cifar10_{name}_audits"
        config = study.describe()
        if again or not store.has(tried, config):
            store.write(tried, try_step_sizes(study), {"config": config})
        if again or not is_complete(store, audits, study):
            compute(study)
            score(study, store)
            audit_study(name, store)
        else:
            print(f"{audits}: is there already (--again computes it anew)", flush=True)


def is_complete(store: Store, audits: str, study: Study) -> bool:
    """By the same settings and from all runs; a study may have been audited before its end."""
    if not store.has(audits, study.describe()):
        return False
    return store.provenance(audits)["runs_of_each_kind"] == study.n_runs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=tuple(STUDIES), default="quick")
    parser.add_argument("--again", action="store_true", help="compute tables that are there too")
    options = parser.parse_args()
    compute_study(options.size, options.again)
    render(STORES[options.size], FIGURES[options.size])


if __name__ == "__main__":
    main()
