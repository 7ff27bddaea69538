"""Small networks of many runs side by side: every weight has the runs as its first dimension.

A run costs less this way than by itself, because one call multiplies the matrices of all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from torch.nn import functional

Tensor = torch.Tensor
Weights = Sequence[Tensor]


class Network(Protocol):
    """What the steps need to know of a network."""

    def start(self, seed: int) -> list[Tensor]:
        """The weights of one network, drawn from the seed."""
        ...

    def logits(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Logits (runs x batch x classes) of inputs (runs x batch x ...)."""
        ...


@dataclass(frozen=True)
class Perceptron:
    """Fully connected layers with ReLU between them."""

    sizes: tuple[int, ...] = (128, 64, 10)

    def start(self, seed: int) -> list[Tensor]:
        shapes = list(pairwise(self.sizes))
        return he_weights(shapes, [(1, b) for _, b in shapes], seed)

    def logits(self, weights: Weights, inputs: Tensor) -> Tensor:
        return dense(weights, inputs)


@dataclass(frozen=True)
class Convolutional:
    """Blocks of a 3x3 convolution, a 2x2 max pool and ReLU; then a hidden layer."""

    side: int = 8  # pixels
    widths: tuple[int, ...] = (16, 32)
    hidden: int = 128
    n_classes: int = 10

    def start(self, seed: int) -> list[Tensor]:
        channels = (3, *self.widths)
        kernels = [(b, a, 3, 3) for a, b in pairwise(channels)]
        n_left = self.widths[-1] * (self.side // 2 ** len(self.widths)) ** 2
        layers = [(n_left, self.hidden), (self.hidden, self.n_classes)]
        biases = [(width,) for width in self.widths] + [(1, layer[1]) for layer in layers]
        return he_weights([*kernels, *layers], biases, seed)

    def logits(self, weights: Weights, inputs: Tensor) -> Tensor:
        # The runs are groups of one convolution: (runs, batch, h, w, 3) -> (batch, runs * 3, h, w).
        n_runs, n_images, height, width, colours = inputs.shape
        maps = inputs.permute(1, 2, 3, 0, 4).reshape(n_images, height, width, n_runs * colours)
        maps = maps.permute(0, 3, 1, 2)
        n_kernels = 2 * len(self.widths)
        for kernel, bias in pairs(weights[:n_kernels]):
            maps = functional.conv2d(
                maps, kernel.flatten(0, 1), bias.flatten(), padding=1, groups=n_runs
            )
            maps = functional.max_pool2d(maps, 2).relu()
        left = maps.reshape(n_images, n_runs, -1).transpose(0, 1)
        return dense(weights[n_kernels:], left)


def dense(weights: Weights, values: Tensor) -> Tensor:
    layers = pairs(weights)
    for k, (matrix, bias) in enumerate(layers):
        values = torch.baddbmm(bias, values, matrix)
        if k < len(layers) - 1:
            values = values.relu()
    return values


def pairs(weights: Weights) -> list[tuple[Tensor, Tensor]]:
    """Matrix or kernel and bias of every layer."""
    return list(zip(weights[::2], weights[1::2], strict=True))


def he_weights(
    shapes: Sequence[tuple[int, ...]], biases: Sequence[tuple[int, ...]], seed: int
) -> list[Tensor]:
    """He's initial weights, biases of zero.

    With PyTorch's default, which is smaller, a narrow network had learned nothing after 500 steps
    of 0.01.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = []
    for shape, bias in zip(shapes, biases, strict=True):
        n_inputs = shape[0] if len(shape) == 2 else math.prod(shape[1:])
        matrix = torch.randn(shape, generator=generator) * math.sqrt(2 / n_inputs)
        weights += [matrix, torch.zeros(bias)]
    return weights


def side_by_side(weights: Weights, n_runs: int) -> list[Tensor]:
    """Copies of one network's weights for so many runs."""
    return [weight.expand(n_runs, *weight.shape).clone() for weight in weights]
