"""Real data by name: fetched once, checked against a sha256, kept in a cache.

`describe()` lists the data sets and `load(name)` loads one.
"""

from pilu.datasets.catalogue import (
    CATALOGUE,
    CIFAR10_CLASSES,
    describe,
    load,
    load_cifar10,
    load_diabetes,
    load_digits,
    load_mnist,
    load_vader,
)
from pilu.datasets.depth import load_motorcycle, load_nyu_depth, patch_targets
from pilu.exceptions import DatasetUnavailable

__all__ = [
    "CATALOGUE",
    "CIFAR10_CLASSES",
    "DatasetUnavailable",
    "describe",
    "load",
    "load_cifar10",
    "load_diabetes",
    "load_digits",
    "load_mnist",
    "load_motorcycle",
    "load_nyu_depth",
    "load_vader",
    "patch_targets",
]
