"""Some labels flipped at random: are the flipped rows the expensive ones, or those of high loss?

    python -m experiments.smooth.compute.flips --study mnist38 --size full

Everybody would first sort rows by their loss: by the model that has learned them, or by models that
have not (five folds).
"""

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from experiments.smooth.command import compute_script
from experiments.smooth.engine import Engine, margins


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    study, y = engine.study, engine.data.y
    tables, lines = [], []
    for draw in range(study.n_flips):
        rng = np.random.default_rng([study.seed, 3, draw])
        labels, flipped = flip(y, study.share_flipped, rng)
        other = engine.relabelled(labels)
        orders = {
            "noise": other.noises,
            "loss": -other.margins(),
            "held_out": held_out_losses(other),
        }
        tables.append(
            pd.DataFrame(
                {
                    "draw": draw,
                    "row": np.arange(len(y)),
                    "flipped": flipped.astype(int),
                }
                | {name: [float(f"{v:.4g}") for v in values] for name, values in orders.items()}
            )
        )
        lines.append(
            {
                "draw": draw,
                "flipped": int(flipped.sum()),
                "median_flipped": np.median(other.noises[flipped]),
                "median_others": np.median(other.noises[~flipped]),
                "accuracy": float(other.model.score(other.data.X_test, other.data.y_test)),
            }
            | {f"among_first_{name}": among_first(v, flipped) for name, v in orders.items()}
            | {f"auc_{name}": auc(values, flipped) for name, values in orders.items()}
        )
    return {"flips": pd.concat(tables), "flips_summary": pd.DataFrame(lines)}


def flip(y: np.ndarray, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels with a share of them changed to another class, and which they are."""
    classes, labels = np.unique(y), y.copy()
    rows = rng.choice(len(y), max(round(share * len(y)), 1), replace=False)
    moves = rng.integers(1, len(classes), len(rows))
    labels[rows] = classes[(np.searchsorted(classes, y[rows]) + moves) % len(classes)]
    return labels, labels != y


def held_out_losses(engine: Engine) -> np.ndarray:
    """-margin of every row by a model of the other folds, by the same penalty."""
    head = LogisticRegression(C=1 / engine.study.alpha, fit_intercept=False, max_iter=10_000)
    folds = StratifiedKFold(5, shuffle=True, random_state=engine.study.seed)
    given = head, engine.data.X, engine.data.y
    scores = cross_val_predict(*given, cv=folds, method="decision_function")
    if scores.ndim == 1:
        scores = np.stack([0 * scores, scores], axis=1)
    return -margins(scores, engine.places)


def among_first(values: np.ndarray, flipped: np.ndarray) -> float:
    """The share of flipped rows among as many with the largest values."""
    count = int(flipped.sum())
    return float(flipped[np.argsort(-values, kind="stable")[:count]].mean())


def auc(values: np.ndarray, flipped: np.ndarray) -> float:
    """How often a flipped row has a larger value than another one (Mann and Whitney)."""
    count, ranks = flipped.sum(), rankdata(values)
    above = ranks[flipped].sum() - count * (count + 1) / 2
    return float(above / (count * (len(flipped) - count)))


if __name__ == "__main__":
    compute_script(__doc__, "flips", compute)
