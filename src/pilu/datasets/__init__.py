"""Real data by name: fetched once, checked against a sha256, kept in a cache.

`describe()` lists the data sets and `load(name)` loads one. `make_customers` draws a table of
customers who do not exist.
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
from pilu.datasets.customers import make_customers
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
    "make_customers",
    "patch_targets",
]
