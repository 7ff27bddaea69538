"""A model of Motorcycle on a scene that it has never seen: Middlebury's Aloe, all of it.

    python -m experiments.linear.compute.other_scene --study depth --size full

Learned and unlearned on Motorcycle's training part, scored on all patches of Aloe. Three scores,
each the root of the expected mean squared error in metres:

    metres    of the predictions m as they are,
    scaled    of b m, with b = median(y) / median(m),
    aligned   of a + b m, with the a and b that make it least.

The last two know the scene's depth. They forgive a model that it has learned other distances: Aloe
stands at 1.2 to 1.9 metres, Motorcycle's room reaches from 2 to 6. The references are the mean
depth of Motorcycle's training part, and models of Aloe itself, which predict one seventh of the
columns after the others.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.linear import data
from experiments.linear.command import compute_script
from experiments.linear.config import DepthData
from experiments.linear.data import Data, standardised, training_part
from experiments.linear.engine import ACCOUNTANTS, Engine
from pilu.chains.predictions import Predictions, expected_rmse
from pilu.datasets import load_motorcycle, patch_targets
from pilu.datasets.depth import DepthImages, Patches, load_aloe

SHRINK = 3  # to 370 x 427 pixels, the size of Middlebury's own smallest version
EPSILON = 1.0
SCORES = ("metres", "scaled", "aligned", "correlation")
COLUMNS = ("model", "row", "accountant", "noise", *SCORES)


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    settings = engine.study.data
    scene = shrunk(load_aloe(), SHRINK)
    patches, values = read(scene, settings)
    y = patches.depth[:, None]
    X = in_motorcycles_units(values, settings)
    mean = np.full(y.shape, engine.data.y.mean())
    lines = [
        {"model": "constant", **scores(Predictions(mean, np.zeros(len(y))), y)},
        {"model": "own", **scores(of_its_own(engine, patches, values), y)},
    ]
    with threadpool_limits(1, user_api="blas"):
        lines += transferred(engine, X, y)
    return {"other_scene": pd.DataFrame(lines, columns=COLUMNS).assign(patches=len(y))}


def transferred(engine: Engine, X: np.ndarray, y: np.ndarray) -> list[dict[str, object]]:
    """Motorcycle's model before and after every row's request, at the points X."""
    law, K = engine.law(), engine.study.n_unlearn_steps
    forecast = law.forecast(X, K)
    lines = [{"model": "before", **scores(forecast.before, y)}]
    for row in engine.rows():
        prospect = forecast.without(*engine.request(row)).after(K)
        for accountant in ACCOUNTANTS:
            noise = engine.calibrated(law, row, accountant, EPSILON, K)
            request = {"row": row, "accountant": accountant, "noise": noise}
            lines.append({"model": "after", **request, **scores(prospect.at(noise), y)})
    return lines


def of_its_own(engine: Engine, patches: Patches, values: np.ndarray) -> Predictions:
    """Every patch of the scene, predicted by a model of the columns in which it is not."""
    settings, depth = engine.study.data, patches.depth
    mean, variance = np.empty((len(depth), 1)), np.empty(len(depth))
    for held_out in range(settings.period):
        train = training_part(patches, replace(settings, held_out=held_out))
        if train.all():  # a small scene has fewer blocks
            continue
        X, X_test = standardised(values, train)
        fold = Engine(engine.study, Data(X, depth[train], X_test, depth[~train], {}, None))
        before = fold.law().forecast(X_test, 1).before
        mean[~train], variance[~train] = before.mean, before.variance
    return Predictions(mean, variance)


def scores(predictions: Predictions, y: np.ndarray) -> dict[str, float]:
    """The three scores, and the correlation of the mean predictions with the depth.

    E mean (a + b m - y)^2 is least for b = cov(m, y) / (var(m) + mean variance), where it is
    var(y) - b cov(m, y).
    """
    m, variance = predictions.mean, predictions.variance
    covariance = np.mean((m - m.mean()) * (y - y.mean()))
    spread = np.var(m) + np.mean(variance)
    scale = np.median(y) / np.median(m)
    gain = covariance**2 / spread if spread > 0 else 0.0
    return {
        "metres": expected_rmse(predictions, y),
        "scaled": expected_rmse(Predictions(scale * m, scale**2 * variance), y),
        "aligned": float(np.sqrt(np.var(y) - gain)),
        "correlation": covariance / (m.std() * y.std()) if np.ptp(m) > 0 else 0.0,
    }


def read(scene: DepthImages, settings: DepthData) -> tuple[Patches, np.ndarray]:
    """The patches of a scene and their features."""
    patches = patch_targets(scene.depth, settings.patch)
    features = data.hypercolumns(scene.images, patches)
    return patches, features.values[:, :: settings.every]


def in_motorcycles_units(values: np.ndarray, settings: DepthData) -> np.ndarray:
    """Features of another scene, standardised as Motorcycle's are, with the ones."""
    patches, known = read(load_motorcycle(), settings)
    known = known[training_part(patches, settings)]
    both = np.concatenate([known, values])
    return standardised(both, np.arange(len(both)) < len(known))[1]


def shrunk(scene: DepthImages, factor: int) -> DepthImages:
    """The mean colour of every factor x factor pixels, and the depth at their centre."""
    n, height, width = (
        size - size % k for size, k in zip(scene.depth.shape, (1, factor, factor), strict=True)
    )
    shape = n, height // factor, factor, width // factor, factor, 3
    colours = scene.images[:, :height, :width].reshape(shape).mean(axis=(2, 4))
    centre = slice(factor // 2, None, factor)
    depth = scene.depth[:, :height, :width][:, centre, centre]
    return DepthImages(colours.round().astype(np.uint8), depth)


if __name__ == "__main__":
    compute_script(__doc__, "other_scene", compute)
