"""The command line."""

import argparse
from pathlib import Path

from benchmarks.data import SIZES

DESCRIPTION = """What pilu costs, as ratios to references timed in the same run: BLAS and LAPACK on
the same arrays, and the paper's Algorithm 1 taken literally. See docs/benchmarks.md."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=DESCRIPTION)
    parser.add_argument(
        "--sizes",
        nargs="*",
        default=[
            "nyu",
            "mnist",
            "cyclic",
            "desk",
            "cluster",
            "softmax",
            "refit",
            "living",
            "serve",
        ],
        choices=[*SIZES],
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--literal-steps", type=int, help="steps of Algorithm 1 per timing; default a tenth of it"
    )
    parser.add_argument(
        "--exact-rows", type=int, help="time the exact quote on as many listed rows and scale up"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=600.0,
        help="seconds that the exact quote of all rows, and the deletions in a row, may take each",
    )
    parser.add_argument(
        "--memory-seconds",
        type=float,
        default=60.0,
        help="how long the exact quote's memory is watched",
    )
    parser.add_argument("--full", action="store_true", help="scale nothing, repeat everything")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--plot", action="store_true", help="draw the growth curves")
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    parser.add_argument("--name", default="bench", help="of the JSON file in --out")
    options = parser.parse_args(arguments)
    for name in ("repeats", "literal_steps", "exact_rows"):
        given = getattr(options, name)
        if given is not None and given < 1:
            parser.error(f"{name} must be at least 1, got {name}={given}.")
    return options
