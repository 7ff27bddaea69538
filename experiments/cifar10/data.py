"""The images of both studies: as features of a frozen network, and as small images.

The split is the same in both. Features are projected on the principal components of the images that
were set aside, which are neither learned, probed nor tested.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional

from experiments.cifar10.config import Split, Study
from experiments.cifar10.networks import Convolutional, Perceptron
from experiments.cifar10.steps import Rows
from experiments.features import image_features
from pilu.datasets import load_cifar10

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
Tensor = torch.Tensor


class Labelled(NamedTuple):
    images: Tensor
    labels: Tensor


class Data(NamedTuple):
    rows: Rows
    probe: Tensor
    test: Labelled
    choose: Labelled
    pixels: np.ndarray  # of the rows to learn, as uint8


def data_of(study: Study) -> Data:
    return load(study.split, study.network, study.image_size)


@cache
def load(split: Split, network: Perceptron | Convolutional, image_size: int) -> Data:
    source = load_cifar10()
    a, b = split.n_from_train, split.n_from_test
    images = np.concatenate([source.train_images[:a], source.test_images[:b]])
    labels = np.concatenate([source.train_labels[:a], source.test_labels[:b]])
    order = np.random.default_rng(split.seed).permutation(len(images))
    ends = np.cumsum([split.n_train, split.n_probe, split.n_test])
    learned, probe, test, aside = np.split(order, ends)
    views = (
        small_views(images, network.side)
        if isinstance(network, Convolutional)
        else feature_views(images, aside, network.sizes[0], image_size)
    )
    choose = aside[: split.n_choose]
    targets = torch.from_numpy(labels.astype(np.int64))
    return Data(
        Rows(crops(views[learned]), targets[learned]),
        views[probe, 0],
        Labelled(views[test, 0], targets[test]),
        Labelled(views[choose, 0], targets[choose]),
        images[learned],
    )


def feature_views(images: np.ndarray, aside: np.ndarray, n_components: int, size: int) -> Tensor:
    """Principal components (n x 2 x components) of the features of every image and its mirror.

    Features are standardised; then one factor gives the components a mean square of 1. Components
    of equal size instead, each by its own factor, learned much less (0.55 against 0.69).
    """
    mirrored = np.ascontiguousarray(images[:, :, ::-1])
    both = [
        np.asarray(image_features(some, "mobilenet_v2", size=size).values, dtype=np.float64)
        for some in (images, mirrored)
    ]
    known = both[0][aside]
    deviation = known.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    standard = [(values - known.mean(axis=0)) / scale for values in both]
    axes = np.linalg.svd(standard[0][aside], full_matrices=False)[2][:n_components]
    factor = np.sqrt(np.mean(np.square(standard[0][aside] @ axes.T)))
    components = np.stack([values @ axes.T / factor for values in standard], axis=1)
    return torch.from_numpy(components.astype(np.float32))


def small_views(images: np.ndarray, side: int) -> Tensor:
    """Normalised images and their mirrors (n x 2 x side x side x 3): a pixel is a square's mean."""
    normal = torch.from_numpy(((images / 255 - MEAN) / DEVIATION).astype(np.float32))
    pooled = functional.avg_pool2d(normal.permute(0, 3, 1, 2), images.shape[1] // side)
    pooled = pooled.permute(0, 2, 3, 1)
    return torch.stack([pooled, pooled.flip(2)], dim=1).contiguous()


def crops(views: Tensor) -> Tensor:
    """For images, all crops of the image and of its mirror, padded with the mean colour.

    The padding is an eighth of the side, as in the paper's 4 of 32 pixels. The first two views stay
    the image and its mirror. Features cannot be cropped.
    """
    if views.ndim == 3:
        return views
    side = views.shape[2]
    padding = side // 8
    padded = functional.pad(views, (0, 0, padding, padding, padding, padding))
    corners = [(i, j) for i in range(2 * padding + 1) for j in range(2 * padding + 1)]
    corners.sort(key=lambda corner: corner != (padding, padding))  # the image itself first
    found = [padded[:, :, i : i + side, j : j + side] for i, j in corners]
    return torch.cat(found, dim=1).contiguous()
