"""Which rows stand for the others, what they look like, and how hard two hundred others are.

python -m experiments.linear.compute.rows --study depth --size full
"""

import numpy as np
import pandas as pd

from experiments.linear.command import compute_script
from experiments.linear.data import training_part
from experiments.linear.engine import ACCOUNTANTS, Engine
from pilu.datasets import load_motorcycle, patch_targets

N_OTHERS = 200


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    tables = {"rows": representatives(engine), "difficulty": difficulty(engine)}
    if engine.data.is_classification:
        tables["pixels"] = pixels(engine)
    else:
        tables["map"] = depth_map(engine)
    return tables


def representatives(engine: Engine) -> pd.DataFrame:
    data, lines = engine.data, []
    scores = data.X @ engine.model.fitted_.theta
    for kind, wanted in engine.study.row_sets.items():
        for quantile, row in zip(wanted.quantiles, engine.rows(kind), strict=True):
            line = {
                "set": kind,
                "quantile": quantile,
                "row": row,
                "gradient_norm": engine.gradient_norms[row],
                "feature_norm": np.linalg.norm(data.X[row]),
                "residual": np.linalg.norm(scores[row] - engine.targets[row]),
                "true": data.y[row],
            }
            if data.is_classification:
                line["predicted"] = int(np.argmax(scores[row]))
            else:
                patches = data.pictures
                line |= {
                    "predicted": scores[row, 0],
                    "image_row": patches.row[row],
                    "image_column": patches.column[row],
                }
            lines.append(line)
    return pd.DataFrame(lines)


def difficulty(engine: Engine) -> pd.DataFrame:
    """Noise at epsilon = 1 of rows drawn at random."""
    n = len(engine.data.X)
    rng = np.random.default_rng(engine.study.seed)
    rows = np.sort(rng.choice(n, min(N_OTHERS, n), replace=False))
    frame = pd.DataFrame({"row": rows, "gradient_norm": engine.gradient_norms[rows]})
    for name in ACCOUNTANTS:
        quote = engine.model.quote(
            [int(row) for row in rows],
            n_unlearn_steps=engine.study.n_unlearn_steps,
            accountant=name,
        )
        frame[name] = quote.noise
    return frame


def depth_map(engine: Engine) -> pd.DataFrame:
    """Predicted metres of all patches, held-out ones too: the image's rows by its columns."""
    data, size, theta = engine.data, engine.study.data.patch, engine.model.fitted_.theta
    patches = patch_targets(load_motorcycle().depth, size)
    train = training_part(patches, engine.study.data)
    predicted = np.empty(len(train))
    predicted[train], predicted[~train] = (data.X @ theta)[:, 0], (data.X_test @ theta)[:, 0]
    grid = np.full((patches.row.max() // size + 1, patches.column.max() // size + 1), np.nan)
    grid[patches.row // size, patches.column // size] = predicted.round(3)
    return pd.DataFrame(grid, columns=[f"c{k}" for k in range(grid.shape[1])])


def pixels(engine: Engine) -> pd.DataFrame:
    """The representative images themselves, one a line."""
    rows = engine.rows()
    images = engine.data.pictures[rows].reshape(len(rows), -1)
    frame = pd.DataFrame(images, columns=[f"p{k}" for k in range(images.shape[1])])
    frame.insert(0, "row", rows)
    return frame


if __name__ == "__main__":
    compute_script(__doc__, "rows", compute)
