"""Measure what the tests notice: change the code a little, and see whether a test fails.

    python -m tools.mutants --size 220 --seed 1

There are too many mutants to try all. A random sample is tried, with as many of each module as its
share of all mutants. Mutants that `equivalent.toml` lists are left out of the share killed.
"""

import argparse
import ast
import json
import os
import random
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings
from scipy.stats import beta
from tools.mutants.mutate import Mutant, mutations
from tools.mutants.running import (
    KILLED,
    LATE,
    PACKAGE,
    ROOT,
    SURVIVED,
    UNCHANGED,
    Forks,
    chosen_tests,
    traced,
    try_mutant,
)

_ROOMS = ("accounting", "certify")
_TESTS = [
    "tests/accounting",
    "tests/certify",
    "src/pilu/accounting",
    "src/pilu/certify",
    "tests/estimators/test_langevin_exposure.py",
    "tests/refit/test_exposure_certificates.py",
]


def all_mutants() -> dict[str, list[Mutant]]:
    """Every mutant of every module."""
    paths = sorted(path for room in _ROOMS for path in (PACKAGE / room).glob("*.py"))
    found = {}
    for path in paths:
        module = str(path.relative_to(PACKAGE))
        if mutants := list(mutations(ast.parse(path.read_text()), module)):
            found[module] = mutants
    return found


def drawn(population: dict[str, list[Mutant]], size: int, seed: int) -> list[Mutant]:
    """A sample with as many mutants of each module as its share; a larger one contains it."""
    total = sum(map(len, population.values()))
    sample = []
    for module, mutants in population.items():
        shuffled = random.Random(f"{seed} {module}").sample(mutants, len(mutants))
        sample += shuffled[: max(1, round(size * len(mutants) / total))]
    return sample


def interval(killed: int, tried: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval for the share killed."""
    rest = (1 - level) / 2
    low = beta.ppf(rest, killed, tried - killed + 1) if killed else 0.0
    high = beta.ppf(1 - rest, killed + 1, tried - killed) if killed < tried else 1.0
    return float(low), float(high)


class Loop:
    """Instead of running the tests once, runs some of them for every mutant."""

    def __init__(self, args: argparse.Namespace, modules: list[str], sample: list[Mutant]) -> None:
        self._args, self._modules, self._sample = args, modules, sample
        self.codes: dict[str, int] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Trace what is not traced yet, then try the mutants."""
        out = self._args.out
        forks, items = Forks(self._args.jobs), {item.nodeid: item for item in session.items}
        tests = traced(session.items, self._modules, out, forks)
        for number, mutant in enumerate(self._sample):
            chosen = chosen_tests(mutant, tests, self._args.budget)
            running = [items[test["id"]] for test in chosen]
            log = out / f"mutant-{number}.log"
            for ended in forks.start(
                (mutant.key, log),
                lambda m=mutant, r=running, c=chosen: try_mutant(m, r, c),
                log,
            ):
                self._note(*ended)
        for ended in forks.rest():
            self._note(*ended)
        return True

    def _note(self, name: tuple[str, Path], code: int, seconds: float) -> None:
        key, log = name
        self.codes[key] = code = code if code in (SURVIVED, LATE, UNCHANGED) else KILLED
        by = [line for line in log.read_text().splitlines() if line.startswith("killed by ")]
        words = {SURVIVED: "SURVIVED", LATE: "took too long", UNCHANGED: "not tried"}
        word = words.get(code, (by or ["killed"])[-1])
        print(f"{len(self.codes)}/{len(self._sample)} {key}  {word}  {seconds:.1f} s", flush=True)


def main() -> int:
    """Draw, try, report; the exit code says whether enough were killed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--size", type=int, default=220, help="about so many mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="+", default=_TESTS, help="files and folders of tests")
    parser.add_argument("--only", default="", help="only mutants whose name contains this")
    parser.add_argument("--list", type=Path, help="only mutants that this file names")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument("--budget", type=float, default=20.0, help="CPU seconds of tests a mutant")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be killed")
    parser.add_argument("--out", type=Path, default=ROOT / "mutants-output")
    args = parser.parse_args()
    os.chdir(ROOT)
    args.out.mkdir(exist_ok=True)

    population = all_mutants()
    reasons = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text())
    listed = {key for keys in reasons.values() for key in keys}
    for key in sorted(listed - {m.key for mutants in population.values() for m in mutants}):
        print(f"equivalent.toml lists a mutant that does not exist: {key}")
    sample = [m for m in drawn(population, args.size, args.seed) if args.only in m.key]
    if args.list:
        wanted = set(args.list.read_text().splitlines())
        sample = [m for m in sample if m.key in wanted]
    tried = [m for m in sample if m.key not in listed]

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    settings.register_profile("mutants", derandomize=True, deadline=None, database=None)
    settings.load_profile("mutants")
    loop = Loop(args, list(population), tried)
    options = ["-q", "-s", "-p", "no:cacheprovider", "--tb=line", "--no-header", "--no-summary"]
    pytest.main([*options, *args.tests], plugins=[loop])

    codes = {key: code for key, code in loop.codes.items() if code != UNCHANGED}
    if not codes:
        return 1
    survivors = [key for key, code in codes.items() if code == SURVIVED]
    killed = len(codes) - len(survivors)
    low, high = interval(killed, len(codes))
    print("\nSurvivors:", *(survivors or ["none"]), sep="\n  ")
    print(
        f"\n{sum(map(len, population.values()))} mutants, {len(sample)} drawn with seed "
        f"{args.seed}; {len(sample) - len(tried)} are listed as equivalent, "
        f"{len(loop.codes) - len(codes)} cannot be tried. {killed} of {len(codes)} killed: "
        f"{killed / len(codes):.1%}, 95% interval {low:.1%} to {high:.1%}."
    )
    (args.out / "result.json").write_text(json.dumps(codes, indent=1))
    return 0 if killed >= args.least * len(codes) else 1


if __name__ == "__main__":
    sys.exit(main())
