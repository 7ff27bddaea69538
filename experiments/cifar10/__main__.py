"""The whole study: runs, audits, tables and pictures.

python -m experiments.cifar10 --quick | --hour | --paper
"""

import argparse

from experiments.cifar10.audits import RESULTS, audit_all
from experiments.cifar10.compute import RUNS, compute
from experiments.cifar10.config import CONFIGS
from experiments.cifar10.render import FIGURES, render


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = parser.add_mutually_exclusive_group()
    for name in CONFIGS:
        sizes.add_argument(f"--{name}", action="store_const", const=name, dest="config")
    config = CONFIGS[parser.parse_args().config or "quick"]
    compute(config, RUNS)
    audit_all(config, RUNS, RESULTS if config.name != "quick" else RUNS.parent)
    render(config, RESULTS if config.name != "quick" else RUNS.parent, FIGURES)


if __name__ == "__main__":
    main()
