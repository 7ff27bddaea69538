"""Some labels flipped at random: are the flipped rows the expensive ones?

python -m experiments.smooth.compute.flips --study mnist38 --size full
"""

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from experiments.smooth.command import compute_script
from experiments.smooth.engine import Engine


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    study, y = engine.study, engine.data.y
    tables, lines = [], []
    for draw in range(study.n_flips):
        rng = np.random.default_rng([study.seed, 3, draw])
        labels, flipped = flip(y, study.share_flipped, rng)
        other = engine.relabelled(labels)
        noises = other.noises
        tables.append(
            pd.DataFrame(
                {
                    "draw": draw,
                    "row": np.arange(len(y)),
                    "flipped": flipped.astype(int),
                    "noise": [float(f"{noise:.4g}") for noise in noises],
                }
            )
        )
        lines.append(
            {
                "draw": draw,
                "flipped": int(flipped.sum()),
                "among_dearest": among_dearest(noises, flipped),
                "auc": auc(noises, flipped),
                "median_flipped": np.median(noises[flipped]),
                "median_others": np.median(noises[~flipped]),
                "accuracy": float(other.model.score(other.data.X_test, other.data.y_test)),
            }
        )
    return {"flips": pd.concat(tables), "flips_summary": pd.DataFrame(lines)}


def flip(y: np.ndarray, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels with a share of them changed to another class, and which they are."""
    classes, labels = np.unique(y), y.copy()
    rows = rng.choice(len(y), max(round(share * len(y)), 1), replace=False)
    moves = rng.integers(1, len(classes), len(rows))
    labels[rows] = classes[(np.searchsorted(classes, y[rows]) + moves) % len(classes)]
    return labels, labels != y


def among_dearest(noises: np.ndarray, flipped: np.ndarray) -> float:
    """The share of flipped rows among as many of the dearest."""
    count = int(flipped.sum())
    return float(flipped[np.argsort(-noises, kind="stable")[:count]].mean())


def auc(noises: np.ndarray, flipped: np.ndarray) -> float:
    """How often a flipped row is dearer than another one (Mann and Whitney)."""
    count, ranks = flipped.sum(), rankdata(noises)
    above = ranks[flipped].sum() - count * (count + 1) / 2
    return float(above / (count * (len(flipped) - count)))


if __name__ == "__main__":
    compute_script(__doc__, "flips", compute)
