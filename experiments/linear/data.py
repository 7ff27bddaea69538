"""The rows of a study: features by a frozen network, standardised on the training part."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from experiments.features import hypercolumns, image_features
from experiments.linear.config import STUDIES, DepthData, MnistData
from experiments.store import sha256_of_arrays
from pilu.datasets import load_mnist, load_motorcycle, patch_targets
from pilu.datasets.depth import Patches


class Data(NamedTuple):
    """Rows with a last column of ones, targets or labels, and the pictures of the rows."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    provenance: dict[str, Any]
    pictures: Any  # depth: patches of the training part; mnist: images of it

    @property
    def is_classification(self) -> bool:
        return self.y.dtype.kind == "i"


@cache
def load(name: str, size: str) -> Data:
    settings = STUDIES[size][name].data
    return load_depth(settings) if isinstance(settings, DepthData) else load_digits(settings)


def load_depth(settings: DepthData) -> Data:
    """Motorcycle: VGG16 hypercolumns of patches, median depth in metres."""
    scene = load_motorcycle()
    patches = patch_targets(scene.depth, settings.patch)
    features = hypercolumns(scene.images, patches)
    train = training_part(patches, settings)
    X, X_test = standardised(features.values[:, :: settings.every], train)
    pictures = Patches(*(column[train] for column in patches))
    depth = patches.depth
    return with_provenance(
        Data(X, depth[train], X_test, depth[~train], features.provenance, pictures)
    )


def training_part(patches: Patches, settings: DepthData) -> np.ndarray:
    """Which patches are not in a held-out block of columns."""
    block = patches.column // settings.patch // settings.block
    return block % settings.period != settings.held_out


def load_digits(settings: MnistData) -> Data:
    """MNIST: ResNet-50 features, labels."""
    mnist = load_mnist()
    a, b = settings.n_from_train, settings.n_from_test
    images = np.concatenate([mnist.train_images[:a], mnist.test_images[:b]])
    labels = np.concatenate([mnist.train_labels[:a], mnist.test_labels[:b]])
    features = image_features(images, "resnet50", size=settings.image_size)
    order = np.random.default_rng(0).permutation(len(images))
    test = np.ones(len(images), dtype=bool)
    test[order[: settings.n_train]] = False
    X, X_test = standardised(features.values[:, :: settings.every], ~test)
    return with_provenance(
        Data(X, labels[~test], X_test, labels[test], features.provenance, images[~test])
    )


def standardised(values: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both parts in units of the training part, with a column of ones."""
    values = np.asarray(values, dtype=np.float64)
    mean, deviation = values[train].mean(axis=0), values[train].std(axis=0)
    # Constant features become 0. The computed deviation of equal numbers need not be 0.
    same = np.ptp(values[train], axis=0) == 0
    mean[same], deviation[same] = values[train][0, same], 1.0
    values = np.hstack([(values - mean) / deviation, np.ones((len(values), 1))])
    return values[train], values[~train]


def with_provenance(data: Data) -> Data:
    provenance = {
        "features": data.provenance,
        "rows": {"train": len(data.X), "test": len(data.X_test), "columns": data.X.shape[1]},
        "sha256": sha256_of_arrays(data.X, data.y, data.X_test, data.y_test),
    }
    return data._replace(provenance=provenance)
