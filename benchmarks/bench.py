"""What pilu costs, as ratios to references timed in the same run.

References: BLAS and LAPACK on the same arrays (X'X, eigh, X V, the two n x p x T products), and the
paper's Algorithm 1 taken literally, T + K full-gradient steps on X. Where a whole run would take
minutes a part of it is timed and scaled up; the table says so.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pilu

SIZES = {
    "nyu": {"n": 38_400, "p": 1_537, "d": 1, "T": 800, "K": 80},
    "mnist": {"n": 4_000, "p": 2_049, "d": 10, "T": 300, "K": 20},
    "small": {"n": 4_000, "p": 300, "d": 1, "T": 200, "K": 20},
}
LITERAL_STEPS = 10
EXACT_ROWS = 24


def make_data(n: int, p: int, d: int, **_: int) -> tuple[np.ndarray, np.ndarray]:
    """Features with a decaying spectrum, p - 1 of them: the intercept is the last column."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p - 1)) * np.arange(1, p) ** -0.5
    return X, X @ rng.standard_normal((p - 1, d)) + rng.standard_normal((n, d))


def seconds(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def literal_steps(X: np.ndarray, Y: np.ndarray, alpha: float, eta: float, count: int) -> None:
    theta = np.zeros((X.shape[1], Y.shape[1]))
    rng = np.random.default_rng(0)
    for _ in range(count):
        gradient = X.T @ (X @ theta - Y) + alpha * theta
        theta = theta - eta * gradient + np.sqrt(2 * eta) * 0.01 * rng.standard_normal(theta.shape)


def measure(name: str, repeats: int) -> list[dict[str, object]]:
    size = SIZES[name]
    T, K = size["T"], size["K"]
    X, Y = make_data(**size)
    ones = np.hstack([X, np.ones((len(X), 1))])
    gram = seconds(lambda: ones.T @ ones, repeats)
    G = ones.T @ ones
    eigen = seconds(lambda: np.linalg.eigh(G), repeats)
    V = np.linalg.eigh(G)[1]
    rotate = seconds(lambda: ones @ V, repeats)
    profile = np.ones((size["p"], T))
    product = seconds(lambda: ones @ profile, repeats)
    model = pilu.LangevinRidge(n_steps=T)
    fit = seconds(lambda: model.fit(X, Y), repeats)
    step = seconds(lambda: literal_steps(ones, Y, 1e-4, model.step_size_, LITERAL_STEPS), repeats)
    algorithm = step / LITERAL_STEPS * (T + K)
    theorem = seconds(lambda: model.quote(n_unlearn_steps=K, accountant="theorem"), 1)
    rows = list(range(EXACT_ROWS))
    exact = seconds(lambda: model.quote(rows, n_unlearn_steps=K), 1) / EXACT_ROWS * size["n"]
    forgotten = iter(range(100, 200))
    deletion = seconds(lambda: model.unlearn(next(forgotten), n_unlearn_steps=K), max(repeats, 3))
    products = rotate + (1 + size["d"]) * product
    return [
        row("fit", fit, gram + eigen, "X'X + eigh", 1.3),
        row("quote all rows, theorem", theorem, products, "X V + (1 + d) n x p x T", 2.5),
        row(f"quote all rows, exact (from {EXACT_ROWS})", exact, algorithm, "Algorithm 1", 5.0),
        row("one deletion, exact", deletion, algorithm, "Algorithm 1", 1e-3),
    ]


def row(work: str, took: float, reference: float, name: str, at_most: float) -> dict[str, object]:
    return {
        "work": work,
        "seconds": took,
        "reference": name,
        "reference_seconds": reference,
        "ratio": took / reference,
        "at_most": at_most,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", default=["nyu", "mnist"], choices=[*SIZES])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.sizes:
        print(f"{name}: " + ", ".join(f"{k} = {v}" for k, v in SIZES[name].items()))
        print(f"Algorithm 1 is scaled up from {LITERAL_STEPS} literal steps.")
        rows = measure(name, options.repeats)
        for r in rows:
            print(
                f"  {r['work']:34s} {r['seconds']:9.3f} s {r['ratio']:9.4f} x "
                f"{r['reference']:24s} (at most {r['at_most']:g})"
            )
        (options.out / f"{name}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
