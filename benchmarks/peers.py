"""pilu's refit beside others, in one run: `python -m benchmarks.peers`.

All of them learn the same rows x_j of norm at most 1, without an intercept, for labels y_j = -1, 1:

    sum_j log(1 + exp(-y_j x_j'theta)) + lambda n/2 |theta|^2.

Each is then asked once to forget 1, 100 or 1,000 people. Its epsilon is against its own kind of
retraining: 0 for retraining itself, the certificate's for pilu, none where a claim is not proved.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine, references
from benchmarks.peer_methods import METHODS, Rows, need_river, need_torch
from benchmarks.stopwatch import Stopwatch, say
from benchmarks.table import aligned

Array = NDArray[np.float64]


def customers(n_rows: int) -> Rows:
    """Made-up customers, encoded by what other rows of their kind say."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    from pilu.datasets.customers import make_customers

    table, aside, test = (make_customers(n, seed=k) for k, n in enumerate([n_rows, *[10_000] * 2]))
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    columns = make_column_transformer(
        (numbers, list(table.numbers)), (encoder, list(table.categories))
    ).fit(aside.X)
    X, X_test = (_of_norm_one(columns.transform(part.X)) for part in (table, test))
    y, y_test = (np.where(part.y == "left", 1.0, -1.0) for part in (table, test))
    return Rows(X, y, table.subjects, X_test, y_test)


def mnist() -> Rows:
    """Odd and even digits of MNIST by a frozen ResNet-50 at 96 pixels, a person each."""
    from experiments.smooth.data import load

    data = load("mnist", "full")
    y, y_test = (np.where(labels % 2 == 1, 1.0, -1.0) for labels in (data.y, data.y_test))
    return Rows(data.X, y, np.arange(len(y)), data.X_test, y_test)


def digits() -> Rows:
    """Odd and even digits of scikit-learn, a person each."""
    from sklearn.datasets import load_digits

    X, labels = load_digits(return_X_y=True)
    X, y = _of_norm_one(X / 16), np.where(labels % 2 == 1, 1.0, -1.0)
    return Rows(X[:1400], y[:1400], np.arange(1400), X[1400:], y[1400:])


def _of_norm_one(rows: Array) -> Array:
    rows = np.hstack([rows, np.ones((len(rows), 1))])  # a column for the intercept
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


# Data, and how many people leave
SIZES: dict[str, tuple[dict[str, Callable[[], Rows]], tuple[int, ...]]] = {
    "quick": ({"customers": lambda: customers(2_000), "digits": digits}, (1, 10, 100)),
    "full": ({"customers": lambda: customers(40_000), "mnist": mnist}, (1, 100, 1_000)),
}


def measure(rows: Rows, counts: tuple[int, ...], repeats: int, title: str) -> list[dict[str, Any]]:
    """All methods in turn, for every number of people, as often as asked."""
    watch = Stopwatch({}, title)
    found: dict[tuple[int, str], dict[str, Any]] = {}
    references.wake()
    for repeat in range(repeats):
        learned = {}
        for name, method in METHODS.items():
            learned[name] = watch.time(f"{name}, learning", method, rows, repeat)
        for count in counts:
            leaving = rows.of(count)
            for name, model in learned.items():
                answer = watch.time(f"{name}, {count}", model.forget, leaving)
                hits = (rows.X_test @ answer.theta > 0) == (rows.y_test > 0)
                entry = found.setdefault((count, name), {"accuracies": [], "epsilons": []})
                entry["accuracies"].append(float(np.mean(hits)))
                entry["epsilons"].append(answer.epsilon)
                entry |= {"rests_on": answer.rests_on, "delta": answer.delta}
    return [
        {"people": count, "method": name, "seconds": watch.times[f"{name}, {count}"], **entry}
        | {"learning": watch.times[f"{name}, learning"]}
        for (count, name), entry in found.items()
    ]


def text(found: list[dict[str, Any]]) -> str:
    """Medians, and the range of the seconds and of their ratios to scikit-learn's."""
    head = ("people", "method", "seconds", "range", "to scikit-learn", "accuracy", "epsilon", "")
    base = {e["people"]: e["seconds"] for e in found if e["method"] == "scikit-learn, cold refit"}
    lines = [head]
    for e in found:
        ratios = [s / b for s, b in zip(e["seconds"], base[e["people"]], strict=True)]
        epsilon = f"{statistics.median(e['epsilons']):.3g}"
        epsilon += f" at {e['delta']:g}" if e["delta"] else ""
        is_claim = e["rests_on"].startswith("claimed")
        lines.append(
            (
                *(str(e["people"]), e["method"], f"{statistics.median(e['seconds']):.3g}"),
                f"{min(e['seconds']):.3g} to {max(e['seconds']):.3g}",
                f"{statistics.median(ratios):.2g}",
                f"{statistics.median(e['accuracies']):.4f}",
                f"none (claim: {epsilon})" if is_claim else epsilon,
                e["rests_on"],
            )
        )
    return aligned(lines)


def main() -> int:
    """Run one size, print its tables, keep all raw figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--size", choices=[*SIZES], default="full")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error(f"repeats must be at least 1, got repeats={options.repeats}.")
    need_river(), need_torch()
    options.out.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"machine": machine.describe(), "load": machine.load(), "data": {}}
    print(machine.sentence(record["machine"]), flush=True)
    busy = machine.complaint_of_load()
    say(busy, end="")
    data, counts = SIZES[options.size]
    others = machine.Others()
    for name, load in data.items():
        rows = load()
        found = measure(rows, counts, options.repeats, name)
        record["data"][name] = {"n": len(rows.X), "p": rows.X.shape[1], "found": found}
        n, p = rows.X.shape
        print(f"\n{name}: {n:,} rows, {p} columns, {len(np.unique(rows.people)):,} people")
        print(text(found), flush=True)
    record["others"] = others.cores()
    path = options.out / f"peers-{options.size}.json"
    path.write_text(json.dumps(record, indent=1))
    if record["others"] is not None and not machine.is_quiet(record["others"]):
        busy += f"Others kept {record['others']:.1f} cores busy: do not trust these seconds.\n"
    print(f"\n{busy}All raw figures: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
