"""The rows of a study: frozen features, scaled without using the training rows.

Features are standardised by rows that were set aside, which are neither learned nor tested. Then
each row is scaled to norm one. Without the first step, the features of a network with rectifiers
all point in the same direction (`compute/scalings.py` measures what that costs).
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from experiments.features import image_features, text_features
from experiments.smooth.config import STUDIES, PictureData, Study, TextData
from experiments.store import sha256_of_arrays
from pilu.datasets import CIFAR10_CLASSES, load_cifar10, load_mnist, load_vader


class Data(NamedTuple):
    """Rows of norm one, labels, names of the labels, and the images or texts of the rows."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    names: dict[int, str]
    shown: np.ndarray  # images or texts of the rows to learn
    provenance: dict[str, Any]


class Rows(NamedTuple):
    """Rows before scaling."""

    values: np.ndarray
    labels: np.ndarray
    parts: np.ndarray  # "train", "aside" or "test"
    names: dict[int, str]
    shown: np.ndarray
    features: dict[str, Any]


@cache
def load(name: str, size: str) -> Data:
    return mapped(read(STUDIES[size][name]))


def read(study: Study) -> Rows:
    data = study.data
    return read_texts(data) if isinstance(data, TextData) else read_pictures(data)


def read_pictures(settings: PictureData) -> Rows:
    data = load_mnist() if settings.source == "mnist" else load_cifar10()
    a, b = settings.n_from_train, settings.n_from_test
    images = np.concatenate([data.train_images[:a], data.test_images[:b]])
    labels = np.concatenate([data.train_labels[:a], data.test_labels[:b]])
    features = image_features(images, settings.network, size=settings.image_size)
    parts = shared_out(len(images), settings.n_train, settings.n_aside)
    kept = np.isin(labels, settings.classes) if settings.classes else np.ones(len(labels), bool)
    some = CIFAR10_CLASSES if settings.source == "cifar10" else [str(k) for k in range(10)]
    names = {int(label): some[label] for label in np.unique(labels[kept])}
    values = np.asarray(features.values)[kept]
    return Rows(values, labels[kept], parts[kept], names, images[kept], features.provenance)


def shared_out(n: int, n_train: int, n_aside: int) -> np.ndarray:
    """Which part each row belongs to."""
    order, parts = np.random.default_rng(0).permutation(n), np.full(n, "test", dtype="<U5")
    parts[order[:n_train]] = "train"
    parts[order[n_train : n_train + n_aside]] = "aside"
    return parts


def read_texts(settings: TextData) -> Rows:
    vader = load_vader()
    written = np.array([kind != "tweets" for kind in vader.kinds])
    clear = np.flatnonzero(written & (np.abs(vader.ratings) >= settings.least_rating))
    sizes = (settings.n_train, settings.n_aside, settings.n_test)
    chosen = np.random.default_rng(0).permutation(clear)[: sum(sizes)]
    texts = [vader.texts[k] for k in chosen]
    features = text_features(texts)
    parts = np.repeat(["train", "aside", "test"], sizes)[: len(chosen)]
    labels = (vader.ratings[chosen] > 0).astype(int)
    names = {0: "negative", 1: "positive"}
    values = np.asarray(features.values)
    return Rows(values, labels, parts, names, np.array(texts, object), features.provenance)


def mapped(rows: Rows, in_units_of_aside: bool = True) -> Data:
    values = np.asarray(rows.values, dtype=np.float64)
    if in_units_of_aside:
        aside = values[rows.parts == "aside"]
        deviation = aside.std(axis=0)
        # Features that are constant there are only centred.
        values = (values - aside.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    values = values / np.linalg.norm(values, axis=1, keepdims=True)
    train, test = rows.parts == "train", rows.parts == "test"
    data = Data(
        values[train],
        rows.labels[train],
        values[test],
        rows.labels[test],
        rows.names,
        rows.shown[train],
        {},
    )
    return with_provenance(data, rows)


def with_provenance(data: Data, rows: Rows) -> Data:
    counts = {part: int(np.sum(rows.parts == part)) for part in ("train", "aside", "test")}
    provenance = {
        "features": rows.features,
        "rows": counts | {"columns": data.X.shape[1]},
        "sha256": sha256_of_arrays(data.X, data.y, data.X_test, data.y_test),
    }
    return data._replace(provenance=provenance)
