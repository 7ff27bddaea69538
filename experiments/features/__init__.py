"""Features by frozen networks: computed once, kept in the cache with their provenance."""

from experiments.features.cache import Features
from experiments.features.extract import (
    hypercolumns,
    image_features,
    patch_tokens,
    text_features,
)
from experiments.features.weights import dinov2, packaged, torchvision_resnet50

__all__ = [
    "Features",
    "dinov2",
    "hypercolumns",
    "image_features",
    "packaged",
    "patch_tokens",
    "text_features",
    "torchvision_resnet50",
]
