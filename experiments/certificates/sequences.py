"""Requests one after another on ridge: totals, accuracy and seconds, beside redrawing.

Random rows are forgotten one by one with `LangevinRidgeClassifier.unlearn`. A total composes the
requests' curves (docs/guarantee.md, "Repeated requests"). A redraw discards the parameters, has
epsilon 0 and resets the total. Scores are expectations in closed form for the run that never saw
the forgotten rows. Retraining is scikit-learn's on the rows that are left.
"""

import copy
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeClassifier

from experiments.certificates.config import CONFIGS, Sequences
from experiments.certificates.groups import most_frequent
from experiments.certificates.ridge import ridge
from experiments.linear.engine import Engine
from experiments.store import STORES
from pilu.accounting.curves import Spent
from pilu.exceptions import TotalBudgetWarning


def compute(
    size: str, again: bool = False, studies: tuple[str, ...] = ("vader", "mnist38")
) -> None:
    """One table a study."""
    config = CONFIGS[size].sequences
    for study in (name for name in studies if name in config.studies):

        def prepare(study: str = study) -> dict[str, Any]:
            prepared = ridge(study, size)
            settings = prepared.study.describe()
            _ = prepared.model
            return {
                "data": prepared.data.provenance,
                "delta": prepared.delta,
                "study": {name: settings[name] for name in ("alpha", "noise", "n_steps")},
            }

        def tables(study: str = study) -> dict[str, pd.DataFrame]:
            return {f"certificates_sequences_{study}": sequences(ridge(study, size), config)}

        settings = CONFIGS[size].describe("sequences", study)
        name = f"certificates_sequences_{study}"
        STORES[size].compute(name, settings, prepare, tables, again)


def sequences(engine: Engine, config: Sequences) -> pd.DataFrame:
    """One line a checkpoint of every sequence."""
    lines, name = [], engine.study.name
    for repeat in range(config.repeats[name]):
        order = np.random.default_rng([config.seed, repeat]).permutation(len(engine.data.X))
        for epsilon, share in config.terms:
            points = config.checkpoints[name]
            about = {"epsilon": epsilon, "share_of_delta": share, "repeat": repeat}
            found = sequence(engine, order, epsilon, share * engine.delta, points)
            lines += [about | line for line in found]
        print(f"{name}: sequences of repeat {repeat}", flush=True)
    constant = most_frequent(engine.data.y, engine.data.y_test)
    before = engine.held_out.score(forecast_of(engine.model, engine).before)
    return pd.DataFrame(lines).assign(before=before, constant=constant)


def sequence(
    engine: Engine, order: np.ndarray, epsilon: float, delta: float, checkpoints: tuple[int, ...]
) -> list[dict[str, float]]:
    """One sequence; `epsilon_now` is the total's least epsilon at delta = 1/n."""
    model, K = copy.copy(engine.model), engine.study.n_unlearn_steps
    X, y = engine.data.X, engine.data.y
    seconds, noises, lines = 0.0, [], []
    for count, row in enumerate(order[: max(checkpoints)].tolist(), start=1):
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TotalBudgetWarning)
            certificate = model.unlearn(row, epsilon=epsilon, delta=delta, n_unlearn_steps=K)
        seconds += time.perf_counter() - started
        noises.append(certificate.noise)
        if count not in checkpoints:
            continue
        left = np.setdiff1d(np.arange(len(X)), order[:count])
        redrawn, started = copy.copy(model), time.perf_counter()
        redrawn.unlearn(method="redraw")
        redraw_seconds, started = time.perf_counter() - started, time.perf_counter()
        retrained = RidgeClassifier(engine.study.alpha, fit_intercept=False).fit(X[left], y[left])
        retrain_seconds = time.perf_counter() - started
        total_epsilon, total_delta = model.total_
        score = engine.held_out.score
        lines.append(
            {
                "requests": count,
                "noise": noises[-1],
                "median_noise": float(np.median(noises)),
                "total_epsilon": total_epsilon,
                "total_delta": total_delta,
                "epsilon_now": epsilon_at(model.fitted_.spent, engine.delta),
                "accuracy": score(forecast_of(model, engine).before),
                "redraw": score(forecast_of(redrawn, engine).before),
                "retrained": float(retrained.score(engine.data.X_test, engine.data.y_test)),
                "seconds": seconds,
                "redraw_seconds": redraw_seconds,
                "retrain_seconds": retrain_seconds,
            }
        )
    return lines


def forecast_of(model: Any, engine: Engine) -> Any:
    """Predictions on the rows to test, under the law of a model's chain."""
    return model.fitted_.chain.law().forecast(engine.held_out.X, 1)


def epsilon_at(spent: Spent, delta: float) -> float:
    """The least epsilon at which the total's stored points prove this delta; infinite if none.

    Found by halving, and rounded up: delta does not rise with epsilon, and behind the last stored
    point it is that point's.
    """

    def proved(epsilon: float) -> bool:
        known = float(spent.table.at(epsilon))
        if spent.gaussian is not None:
            known = min(known, float(spent.gaussian.deltas(np.array([epsilon]))[0]))
        return known <= delta

    low, high = 0.0, np.nextafter(max(spent.table.epsilons), np.inf)
    if proved(low):
        return 0.0
    if not proved(high):
        return float("inf")
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if proved(middle) else (middle, high)
    return float(high)
