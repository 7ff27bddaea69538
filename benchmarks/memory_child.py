"""The process whose memory is measured: fit and both quotes, saying which has begun."""

import sys

import pilu
from benchmarks.data import SIZES, make_data
from benchmarks.work import fitted


def say_phase(name: str) -> None:
    print(name, flush=True)


def main() -> None:
    size = SIZES[sys.argv[1]]
    pilu.LangevinRidge()  # all of its imports are part of the baseline
    say_phase("imports")
    sys.stdin.readline()  # the parent has taken the baseline
    X, Y = make_data(size)
    say_phase("fit")
    model = fitted(size, X, Y)
    say_phase("theorem")
    model.quote(n_unlearn_steps=size.K, accountant="theorem")
    say_phase("exact")
    model.quote(n_unlearn_steps=size.K)
    say_phase("done")


if __name__ == "__main__":
    main()
