"""Accuracy after forgetting by a refit, beside retraining by scikit-learn.

`python -m experiments.refit` computes `results/refit_accuracy.csv`; `--quick` leaves out the data
sets that need a download. `docs/refit.md` shows the table.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from experiments.smooth.config import STUDIES
from experiments.store import HERE, Store
from pilu import Forgetful
from pilu.datasets import make_customers

NAME = "refit_accuracy"
SHARES = ("one person", "1 %", "10 %")
REPEATS = 3
CONFIG = {"repeats": REPEATS, "shares": SHARES, "epsilon": 0.1, "delta": 1e-9}
STORE = Store(HERE / "results")


class Case(NamedTuple):
    """Data to learn and to test, and a pipeline; `people` are the subjects of the rows."""

    name: str
    pipeline: Any
    X: Any
    y: np.ndarray
    people: np.ndarray
    X_test: Any
    y_test: np.ndarray


def bundled() -> Iterator[Case]:
    """Data sets that need no download."""
    head = LogisticRegression(max_iter=100_000)
    for name, load in (("digits", load_digits), ("breast cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        parts = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
        people = np.arange(len(parts[0]))
        pipeline = make_pipeline(StandardScaler(), clone(head))
        yield Case(name, pipeline, parts[0], parts[2], people, parts[1], parts[3])
    X, y, people, numbers, categories = make_customers()
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), list(numbers)),
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), list(categories)),
    )
    test = np.isin(people, np.unique(people)[::4])
    pipeline = make_pipeline(columns, clone(head))
    yield Case("customers", pipeline, X[~test], y[~test], people[~test], X[test], y[test])


def downloaded() -> Iterator[Case]:
    """The data sets of docs/smooth_results.md, with its features and its alpha."""
    from experiments.smooth.data import load

    for name, study in STUDIES["full"].items():
        data = load(name, "full")
        head = LogisticRegression(C=1 / study.alpha, max_iter=100_000)
        people = np.arange(len(data.X))
        yield Case(name, head, data.X, data.y, people, data.X_test, data.y_test)


def strict(pipeline: Any) -> Any:
    """scikit-learn's own fit at a tolerance below which accuracy does not change."""
    head = "tol" if isinstance(pipeline, LogisticRegression) else "logisticregression__tol"
    return clone(pipeline).set_params(**{head: 1e-8})


def compute(cases: Iterator[Case], say: Callable[[str], None]) -> pd.DataFrame:
    lines = []
    for case in cases:
        for share in SHARES:
            for repeat in range(REPEATS):
                lines.append(one_request(case, share, repeat))
                say("{data}, {share}: {refit:.4f}, retraining {retraining:.4f}".format(**lines[-1]))
    return pd.DataFrame(lines)


def one_request(case: Case, share: str, repeat: int) -> dict[str, Any]:
    """Forget some people and compare with retraining without them."""
    everybody = np.unique(case.people)
    count = 1 if share == SHARES[0] else round(float(share.split()[0]) / 100 * len(everybody))
    rng = np.random.default_rng([repeat, count])
    gone = rng.choice(everybody, size=count, replace=False)
    left = ~np.isin(case.people, gone)
    guarantee = {name: CONFIG[name] for name in ("epsilon", "delta")}
    model = Forgetful(clone(case.pipeline), **guarantee)
    model.fit(case.X, case.y, subjects=case.people)
    before = model.score(case.X_test, case.y_test)
    start = time.perf_counter()
    certificate = model.unlearn(subjects=gone.tolist())
    took = time.perf_counter() - start
    start = time.perf_counter()
    theirs = strict(case.pipeline).fit(case.X[left], case.y[left])
    took_theirs = time.perf_counter() - start
    return {
        "data": case.name,
        "rows": len(case.X),
        "share": share,
        "repeat": repeat,
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "before": before,
        "refit": model.score(case.X_test, case.y_test),
        "retraining": theirs.score(case.X_test, case.y_test),
        "same_predictions": np.mean(model.predict(case.X_test) == theirs.predict(case.X_test)),
        "seconds": took,
        "seconds_retraining": took_theirs,
    }


def table(frame: pd.DataFrame) -> str:
    """The table of docs/refit.md: accuracies, and the largest difference in points."""
    lines = [
        "| data | rows | before | one person | 1 % | 10 % | largest difference, points |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, each in frame.groupby("data", sort=False):
        cells = [f"{name}", f"{each['rows'].iloc[0]:,}", f"{100 * each['before'].mean():.2f}"]
        for share in SHARES:
            some = each[each["share"] == share]
            means = (100 * some[kind].mean() for kind in ("refit", "retraining"))
            cells.append(" / ".join(f"{mean:.2f}" for mean in means))
        gap = (100 * (each["refit"] - each["retraining"])).abs().max()
        lines.append("| " + " | ".join([*cells, f"{gap:.2f}"]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.refit", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only data that need no download")
    parser.add_argument("--table", action="store_true", help="print the table of the last run")
    options = parser.parse_args()
    if not options.table:
        frame = compute(bundled(), print)
        if not options.quick:
            frame = pd.concat([frame, compute(downloaded(), print)], ignore_index=True)
            STORE.write(NAME, frame, {"config": CONFIG})
    print(table(frame if options.quick and not options.table else STORE.read(NAME)))


if __name__ == "__main__":
    main()
