"""Real data by name: fetched once, checked against a sha256, kept in a cache."""

from pilu.datasets.cifar10 import CIFAR10_CLASSES, load_cifar10
from pilu.exceptions import DatasetUnavailable

__all__ = ["CIFAR10_CLASSES", "DatasetUnavailable", "load_cifar10"]
