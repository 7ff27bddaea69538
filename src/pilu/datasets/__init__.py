"""Real data by name: fetched once, checked against a sha256, kept in a cache.

`describe()` lists what there is, `load(name)` gives it. Features by frozen networks (ResNet-50,
MobileNetV2, VGG16 hypercolumns, MiniLM; DINOv2 and torchvision's ResNet-50 from files that the user
has) are in `pilu.datasets.features` and `pilu.datasets.weights`, and need ``pilu[torch]``.
"""

from pilu.datasets.catalogue import CATALOGUE, describe, load
from pilu.datasets.depth import load_motorcycle, load_nyu_depth, patch_targets
from pilu.datasets.features import (
    Features,
    hypercolumns,
    image_features,
    patch_tokens,
    text_features,
)
from pilu.datasets.pictures import CIFAR10_CLASSES, load_cifar10, load_mnist
from pilu.datasets.tables import load_diabetes, load_digits
from pilu.datasets.texts import load_vader
from pilu.datasets.weights import dinov2, packaged, torchvision_resnet50
from pilu.exceptions import DatasetUnavailable

__all__ = [
    "CATALOGUE",
    "CIFAR10_CLASSES",
    "DatasetUnavailable",
    "Features",
    "describe",
    "dinov2",
    "hypercolumns",
    "image_features",
    "load",
    "load_cifar10",
    "load_diabetes",
    "load_digits",
    "load_mnist",
    "load_motorcycle",
    "load_nyu_depth",
    "load_vader",
    "packaged",
    "patch_targets",
    "patch_tokens",
    "text_features",
    "torchvision_resnet50",
]
