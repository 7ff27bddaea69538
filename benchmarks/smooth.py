"""Softmax regression: bounds for all rows beside auxiliary runs, a deletion beside its steps."""

import math
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import pilu
from benchmarks import references
from benchmarks.data import SIZES, Array, Size, make_data, with_intercept
from benchmarks.machine import own_peak
from benchmarks.stopwatch import Stopwatch
from benchmarks.work import Outcome, Plan

RUNS = 32  # the default of LangevinLogistic
ALPHA, NOISE = 1.0, 0.01
BLOCK = 32 * 2**20  # bytes
ROOT = Path(__file__).resolve().parent.parent


def measure(size: Size, plan: Plan, watch: Stopwatch, outcome: Outcome) -> None:
    """Time quotes and deletions, with references beside them."""
    X, labels = _data(size)
    rows, hot = with_intercept(X), np.eye(size.d)[labels]
    references.wake()
    steps = max(1, size.T // 10)
    for _ in range(plan.long_repeats):
        model = watch.time("fit", _fitted, size, X, labels)
        eta = model.step_size_
        watch.time("runs before", _runs, rows, hot, eta, RUNS, steps)
        watch.time("quote", model.quote, n_unlearn_steps=size.K)
        watch.time("runs after", _runs, rows, hot, eta, RUNS, steps)
    outcome.counts["reference_steps"] = steps
    left, its = np.delete(rows, size.n // 3, axis=0), np.delete(hot, size.n // 3, axis=0)
    for _ in range(plan.repeats):
        fresh = _same_law(model)
        watch.time("steps", _runs, left, its, eta, 1, size.K)
        watch.time("deletion", fresh.unlearn, size.n // 3, n_unlearn_steps=size.K)
    name = next(name for name, other in SIZES.items() if other == size)
    if Path("/proc/self/statm").exists():
        outcome.counts["blocks"] = _peak_blocks(name)


def _data(size: Size) -> tuple[Array, Any]:
    X, scores = make_data(size)
    X /= np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]  # no copy: it would hide a peak
    return X, scores.argmax(axis=1)


def _fitted(size: Size, X: Array, labels: Any) -> Any:
    return pilu.LangevinLogistic(ALPHA, n_steps=size.T, noise=NOISE, n_auxiliary_runs=RUNS).fit(
        X, labels
    )


def _same_law(model: Any) -> Any:
    """A copy that shares the auxiliary runs: they belong to the fit, not to a deletion."""
    other = pilu.LangevinLogistic(**model.get_params())
    other.__dict__.update(model.__dict__)
    return other


def _runs(X: Array, Y: Array, step_size: float, n_runs: int, steps: int) -> Array:
    """Langevin steps of softmax regression, `n_runs` side by side, in plain NumPy."""
    rng = np.random.default_rng(4)
    theta = np.zeros((X.shape[1], n_runs * Y.shape[1]))
    for _ in range(steps):
        scores = (X @ theta).reshape(len(X), n_runs, -1)
        scores -= scores.max(axis=2, keepdims=True)
        likely = np.exp(scores)
        likely /= likely.sum(axis=2, keepdims=True)
        likely -= Y[:, None, :]
        gradient = X.T @ likely.reshape(len(X), -1) + ALPHA * theta
        theta = theta - step_size * gradient
        theta += math.sqrt(2 * step_size) * NOISE * rng.standard_normal(theta.shape)
    return theta


def _peak_blocks(name: str) -> float:
    """Peak memory of fit, quote and deletion above X, in blocks, by a process of its own."""
    code = f"from benchmarks.smooth import child; child({name!r})"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    before, after = map(int, found.stdout.split())
    return round((after - before) / BLOCK, 2)


def child(name: str) -> None:
    """Print the memory with X at hand, and the peak; a few steps show it as well as all."""
    size = SIZES[name]
    X, labels = _data(size)
    references.wake()
    tiny = pilu.LangevinLogistic(n_steps=2, n_auxiliary_runs=2).fit(X[:50, :20], labels[:50])
    tiny.quote(n_unlearn_steps=1)  # libraries are loaded now
    X[:64].T @ X[:64]  # and BLAS has its own buffers
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = _now()
    model = pilu.LangevinLogistic(ALPHA, n_steps=10, noise=NOISE, n_auxiliary_runs=RUNS)
    model.fit(X, labels).quote(n_unlearn_steps=2)
    model.unlearn(size.n // 3, n_unlearn_steps=2)
    print(before, own_peak())


def _now() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
