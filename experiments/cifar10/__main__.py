"""The whole study: runs, audits, tables and pictures.

    python -m experiments.cifar10 --quick | --hour | --paper

`hour` is what `make reproduce-full` runs; `paper` takes days of two cores.
"""

import argparse

from experiments.cifar10.audits import audit_all, store_of
from experiments.cifar10.compute import RUNS, compute
from experiments.cifar10.config import CONFIGS, Config
from experiments.cifar10.render import render
from experiments.store import FIGURES

OF_SIZE = {"quick": "quick", "full": "hour"}


def compute_study(config: Config, again: bool = False) -> None:
    """Runs and audits, unless the tables are there by the same settings."""
    store = store_of(config)
    if store.has("cifar10_audits", config.describe()) and not again:
        print("cifar10_audits: is there already (--again computes it anew)", flush=True)
        return
    compute(config, RUNS)
    audit_all(config, RUNS, store)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = parser.add_mutually_exclusive_group()
    for name in CONFIGS:
        sizes.add_argument(f"--{name}", action="store_const", const=name, dest="config")
    config = CONFIGS[parser.parse_args().config or "quick"]
    compute_study(config)
    render(store_of(config), FIGURES["quick" if config.name == "quick" else "full"])


if __name__ == "__main__":
    main()
