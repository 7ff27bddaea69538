"""Noisy gradient steps on the networks of many runs.

    theta <- theta - eta (grad of the batch's mean loss + l2 theta) + sqrt(2 eta) sigma N(0, I)

[PILU, app. CIFAR-10]: learning takes T such steps on all rows, unlearning K more on the rest. Every
run has its own batches, augmentation and noise.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn import functional

from experiments.cifar10.networks import Network, Weights, side_by_side

Tensor = torch.Tensor
Generator = torch.Generator


class Rows(NamedTuple):
    """Images to learn, each with the same number of views: itself, its mirror, then crops."""

    views: Tensor  # (n, views, ...)
    labels: Tensor  # (n,)


@dataclass(frozen=True)
class Steps:
    """How many steps, and of which kind; `noise` is sigma."""

    n_steps: int
    step_size: float
    batch_size: int = 256
    l2: float = 1e-4
    noise: float = 0.0


def take_steps(
    network: Network,
    weights: Weights,
    rows: Rows,
    steps: Steps,
    generator: Generator,
    left_out: int | None = None,
) -> list[Tensor]:
    """The weights of all runs after steps on random views; none of them sees the row left out."""
    weights = [weight.clone().requires_grad_() for weight in weights]
    n_runs, n_views = len(weights[0]), rows.views.shape[1]
    learned = torch.tensor([row for row in range(len(rows.labels)) if row != left_out])
    for places in batches(n_runs, len(learned), steps, generator):
        chosen = learned[places]
        view = torch.randint(n_views, chosen.shape, generator=generator)
        logits = network.logits(weights, rows.views[chosen, view])
        loss = mean_losses(logits, rows.labels[chosen]).sum()
        gradients = torch.autograd.grad(loss, weights)  # of each run by its own loss
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= steps.step_size * (gradient + steps.l2 * weight)
                if steps.noise > 0:
                    spread = math.sqrt(2 * steps.step_size) * steps.noise
                    weight += spread * torch.randn(weight.shape, generator=generator)
    return [weight.detach() for weight in weights]


def batches(n_runs: int, n: int, steps: Steps, generator: Generator) -> Iterator[Tensor]:
    """Every row once in a pass, in a new order for each run. A pass's last batch may be short."""
    left = torch.empty(n_runs, 0, dtype=torch.long)
    for _ in range(steps.n_steps):
        if left.shape[1] == 0:
            left = torch.rand(n_runs, n, generator=generator).argsort(1)
        yield left[:, : steps.batch_size]
        left = left[:, steps.batch_size :]


def mean_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of every run's batch."""
    losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return losses.view(labels.shape).mean(1)


def outputs(network: Network, weights: Weights, images: Tensor) -> Tensor:
    """Logits (runs x images x classes) of the same images by every run."""
    with torch.no_grad():
        return network.logits(weights, images.expand(len(weights[0]), *images.shape))


def gradient_norms(network: Network, weights: Weights, rows: Rows) -> Tensor:
    """|grad l_i(theta)| of every row by itself, without augmentation.

    `weights` are those of one network: each row gets a copy, as if it were a run.
    """
    n = len(rows.labels)
    copies = [weight.requires_grad_() for weight in side_by_side(weights, n)]
    logits = network.logits(copies, rows.views[:, :1])
    gradients = torch.autograd.grad(mean_losses(logits, rows.labels[:, None]).sum(), copies)
    return sum(g.flatten(1).square().sum(1) for g in gradients).sqrt()
