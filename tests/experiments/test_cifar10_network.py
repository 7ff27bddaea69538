"""The network and its noisy steps, against PyTorch's own optimiser and gradients."""

import numpy as np
import pytest
import torch
from experiments.cifar10 import network as module
from experiments.cifar10.network import (
    Architecture,
    Steps,
    augmented,
    gradient_norms,
    logits,
    take_steps,
)

TINY = Architecture(widths=(2, 3, 4), hidden=5, dropout=0.0, n_classes=3, image_size=8)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(12, 3, 8, 8, generator=generator)
    return images, torch.randint(0, 3, (12,), generator=generator)


def weights(network):
    return torch.cat([p.detach().ravel() for p in network.parameters()]).numpy()


def test_the_papers_shape():
    network = Architecture().build(0)
    kinds = [type(layer).__name__ for layer in network]
    block = ["Conv2d", "ReLU", "Conv2d", "ReLU", "MaxPool2d"]
    assert kinds == [*3 * block, "Flatten", "Linear", "ReLU", "Dropout", "Linear"]
    convolutions = [layer for layer in network if isinstance(layer, torch.nn.Conv2d)]
    assert [layer.kernel_size for layer in convolutions] == [(3, 3)] * 6
    assert network[-4].out_features == 256
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_weights_are_the_seeds():
    state = torch.get_rng_state()
    first, again, other = (weights(TINY.build(seed)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert torch.equal(state, torch.get_rng_state())


def test_steps_without_noise_are_gradient_descent(data, monkeypatch):
    """Full batches, no crops, no dropout: PyTorch's SGD with weight decay does the same."""
    monkeypatch.setattr(module, "augmented", lambda images: images)
    network, reference = TINY.build(3), TINY.build(3)
    take_steps(network, *data, Steps(7, 0.05, 12, 0.1, noise=0.0), seed=0)
    optimiser = torch.optim.SGD(reference.parameters(), lr=0.05, weight_decay=0.1)
    for _ in range(7):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(reference(data[0]), data[1]).backward()
        optimiser.step()
    np.testing.assert_allclose(weights(network), weights(reference), atol=1e-5)


def test_noise_has_its_size(data):
    wide = Architecture(widths=(8, 8, 8), hidden=64, dropout=0.0, n_classes=3, image_size=8)
    network = wide.build(0)
    before = weights(network)
    take_steps(network, *data, Steps(4, 1e-6, 12, 0.0, noise=50.0), seed=1)
    moved = weights(network) - before
    assert np.std(moved) == pytest.approx(np.sqrt(4 * 2 * 1e-6) * 50, rel=0.05)
    assert abs(np.mean(moved)) < 4 * np.std(moved) / np.sqrt(len(moved))


def test_a_seed_fixes_a_run(data):
    runs = []
    for seed in (5, 5, 6):
        network = TINY.build(0)
        take_steps(network, *data, Steps(3, 0.1, 5, 0.0, noise=0.1), seed)
        runs.append(weights(network))
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


def test_every_row_has_its_turn(data, monkeypatch):
    seen = []

    def watched(images):
        seen.append(images)
        return images

    monkeypatch.setattr(module, "augmented", watched)
    take_steps(TINY.build(0), *data, Steps(6, 0.0, 5, 0.0, noise=0.0), seed=0)
    assert [len(batch) for batch in seen] == [5, 5, 2, 5, 5, 2]
    for k in (0, 3):
        one_pass = torch.cat(seen[k : k + 3])
        distances = torch.cdist(one_pass.flatten(1), data[0].flatten(1))
        assert sorted(distances.argmin(1).tolist()) == list(range(12))


def test_crops_and_mirrors():
    """Every augmented image is one of the crops of the padded original, mirrored or not."""
    images = torch.randn(40, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    found = augmented(images, padding=2)
    padded = torch.nn.functional.pad(images, [2] * 4)
    kinds = set()
    for image, whole in zip(found, padded, strict=True):
        matches = [
            (top, left, mirrored)
            for top in range(5)
            for left in range(5)
            for mirrored in (False, True)
            for crop in [whole[:, top : top + 6, left : left + 6]]
            if torch.equal(image, crop.flip(2) if mirrored else crop)
        ]
        assert matches
        kinds.add(matches[0])
    assert len(kinds) > 15
    assert {mirrored for _, _, mirrored in kinds} == {False, True}


def test_gradient_norms(data):
    network = TINY.build(0).double()
    images, labels = data[0].double(), data[1]
    parameters = dict(network.named_parameters())

    def loss(given, image, label):
        scores = torch.func.functional_call(network, given, image[None])
        return torch.nn.functional.cross_entropy(scores, label[None])

    each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(parameters, images, labels)
    squares = sum(g.flatten(1).square().sum(1) for g in each.values())
    np.testing.assert_allclose(
        gradient_norms(network, images, labels), squares.sqrt().detach(), rtol=1e-9
    )


def test_logits_are_without_dropout(data):
    network = Architecture(
        widths=(2, 3, 4), hidden=5, dropout=0.9, n_classes=3, image_size=8
    ).build(0)
    network.train()
    first, again = logits(network, data[0]), logits(network, data[0])
    assert first.shape == (36,)
    assert (first == again).all()


def test_rows_left_out(data):
    images, labels = module.without(data, 4)
    assert len(images) == len(labels) == 11
    assert torch.equal(images[4], data[0][5])
