"""All tables of this study.

python -m experiments.certificates --size full
"""

import argparse

from experiments.certificates import audits, concentration, groups, quadratic, sequences
from experiments.certificates.config import CONFIGS

PARTS = {
    "audits": audits.compute,
    "concentration": concentration.compute,
    "quadratic": quadratic.compute,
    "groups": groups.compute,
    "sequences": sequences.compute,
}


def compute_all(size: str, again: bool = False) -> None:
    for compute in PARTS.values():
        compute(size, again)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=tuple(CONFIGS), default="quick")
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--again", action="store_true", help="also where the table is there")
    options = parser.parse_args()
    for part in options.parts:
        PARTS[part](options.size, options.again)


if __name__ == "__main__":
    main()
