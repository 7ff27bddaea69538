"""A small VGG-style network and noisy gradient steps on it.

    theta <- theta - eta (grad of the batch's mean loss + l2 theta) + sqrt(2 eta) sigma N(0, I)

[PILU, app. CIFAR-10]: learning takes T such steps on all rows, unlearning K more on the rest.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = [
    "Architecture",
    "Steps",
    "augmented",
    "gradient_norms",
    "logits",
    "take_steps",
    "without",
]

Tensor = torch.Tensor


@dataclass(frozen=True)
class Architecture:
    """Three blocks of two 3x3 convolutions, ReLU and a max pool; a hidden layer with dropout."""

    widths: tuple[int, ...] = (32, 64, 128)
    hidden: int = 256
    dropout: float = 0.5
    n_classes: int = 10
    image_size: int = 32

    def build(self, seed: int) -> torch.nn.Module:
        """A network with He's initial weights, drawn from the seed.

        PyTorch's default weights shrink the signal from layer to layer: with widths 8, 16 and 32
        and a step size of 0.01, the network had learned nothing after 500 steps.
        """
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            layers: list[torch.nn.Module] = []
            channels = 3
            for width in self.widths:
                for _ in range(2):
                    layers += [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.ReLU()]
                    channels = width
                layers.append(torch.nn.MaxPool2d(2))
            side = self.image_size // 2 ** len(self.widths)
            network = torch.nn.Sequential(
                *layers,
                torch.nn.Flatten(),
                torch.nn.Linear(channels * side**2, self.hidden),
                torch.nn.ReLU(),
                torch.nn.Dropout(self.dropout),
                torch.nn.Linear(self.hidden, self.n_classes),
            )
            for layer in network:
                if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
                    torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                    torch.nn.init.zeros_(torch.as_tensor(layer.bias))
        return network.to(memory_format=torch.channels_last)


@dataclass(frozen=True)
class Steps:
    """Noisy gradient steps; `noise` is sigma."""

    n_steps: int
    step_size: float
    batch_size: int
    l2: float
    noise: float


def take_steps(
    network: torch.nn.Module, images: Tensor, labels: Tensor, steps: Steps, seed: int
) -> None:
    """Steps on augmented batches, in place. All randomness, dropout included, is the seed's."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network.train()
        parameters = list(network.parameters())
        for rows in _batches(len(images), steps):
            loss = torch.nn.functional.cross_entropy(network(augmented(images[rows])), labels[rows])
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for weight, gradient in zip(parameters, gradients, strict=True):
                    weight.sub_(steps.step_size * (gradient + steps.l2 * weight))
                    if steps.noise > 0:
                        spread = math.sqrt(2 * steps.step_size) * steps.noise
                        weight.add_(spread * torch.randn(weight.shape))


def _batches(n: int, steps: Steps) -> Iterator[Tensor]:
    """Every row once in a pass, in a new order each time. The last batch may be short."""
    left = torch.randperm(n)
    for _ in range(steps.n_steps):
        yield left[: steps.batch_size]
        left = left[steps.batch_size :]
        if len(left) == 0:
            left = torch.randperm(n)


def augmented(images: Tensor, padding: int = 4) -> Tensor:
    """Random crops out of padded images, and half of them mirrored."""
    n, _, size, _ = images.shape
    padded = torch.nn.functional.pad(images, [padding] * 4)
    corner = torch.randint(0, 2 * padding + 1, (2, n, 1))
    place = torch.arange(size)
    rows, columns = corner[0] + place, corner[1] + place
    columns = torch.where(torch.rand(n, 1) < 0.5, columns.flip(1), columns)
    picked = padded.permute(0, 2, 3, 1)[
        torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]
    ]
    return picked.permute(0, 3, 1, 2)  # channels last in memory, as in the network


def gradient_norms(network: torch.nn.Module, images: Tensor, labels: Tensor) -> NDArray[np.float64]:
    """|grad l_i(theta)| of every row by itself, without augmentation or dropout."""
    network.eval()
    parameters = list(network.parameters())
    norms = []
    for image, label in zip(images[:, None], labels[:, None], strict=True):
        loss = torch.nn.functional.cross_entropy(network(image), label)
        gradients = torch.autograd.grad(loss, parameters)
        norms.append(math.sqrt(sum(float(g.square().sum()) for g in gradients)))
    return np.array(norms)


def logits(network: torch.nn.Module, probe: Tensor) -> NDArray[np.float64]:
    """The network's logits on a probe set, in one vector: the input of a distinguisher."""
    network.eval()
    with torch.no_grad():
        return np.asarray(network(probe).double().numpy().ravel())


def without(values: Sequence[Tensor], row: int) -> list[Tensor]:
    """Tensors without one row."""
    return [torch.cat([value[:row], value[row + 1 :]]) for value in values]
