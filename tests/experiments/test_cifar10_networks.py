"""Networks side by side, against PyTorch's modules, optimiser and gradients for one at a time."""

import numpy as np
import pytest
import torch
from experiments.cifar10 import steps as module
from experiments.cifar10.networks import Convolutional, Perceptron, side_by_side
from experiments.cifar10.steps import Rows, Steps, batches, gradient_norms, outputs, take_steps
from torch import nn

N_RUNS, N = 3, 12
PERCEPTRON, CONVOLUTIONAL = Perceptron((6, 5, 3)), Convolutional(4, (2, 3), 5, 3)
SHAPES = {PERCEPTRON: (6,), CONVOLUTIONAL: (4, 4, 3)}
NETWORKS = pytest.mark.parametrize("network", SHAPES, ids=("perceptron", "convolutional"))


def rows_for(network, n_views=1):
    generator = torch.Generator().manual_seed(0)
    views = torch.randn(N, n_views, *SHAPES[network], generator=generator)
    return Rows(views, torch.randint(0, 3, (N,), generator=generator))


def starts(network):
    """Different weights for every run."""
    each = [network.start(seed) for seed in range(N_RUNS)]
    return [torch.stack(weights) for weights in zip(*each, strict=True)]


def by_itself(network, weights, run):
    """The same network as PyTorch's modules, with the weights of one run."""
    if network is PERCEPTRON:
        layers = [nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)]
    else:
        layers = [nn.Conv2d(3, 2, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
        layers += [nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
        layers += [nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3)]
    made = nn.Sequential(*layers)
    with torch.no_grad():
        for parameter, weight in zip(made.parameters(), weights, strict=True):
            one = weight[run].squeeze() if parameter.ndim == 1 else weight[run]
            parameter.copy_(one.T if parameter.ndim == 2 else one)
    return made


def images(network, values):
    return values if network is PERCEPTRON else values.permute(0, 3, 1, 2)


@NETWORKS
def test_logits_of_every_run(network):
    weights, rows = starts(network), rows_for(network)
    found = outputs(network, weights, rows.views[:, 0])
    assert found.shape == (N_RUNS, N, 3)
    for run in range(N_RUNS):
        expected = by_itself(network, weights, run)(images(network, rows.views[:, 0]))
        np.testing.assert_allclose(found[run], expected.detach(), atol=1e-5)


@NETWORKS
def test_steps_are_those_of_one_network_at_a_time(network, monkeypatch):
    """PyTorch's SGD with weight decay on the batches that each run has drawn."""
    seen = []

    def watched(*given):
        for places in batches(*given):
            seen.append(places)
            yield places

    monkeypatch.setattr(module, "batches", watched)
    weights, rows = starts(network), rows_for(network)
    steps = Steps(7, 0.05, batch_size=5, l2=0.1)
    generator = torch.Generator().manual_seed(1)
    found = take_steps(network, weights, rows, steps, generator, left_out=4)
    kept = [row for row in range(N) if row != 4]
    assert (seen[0][0] != seen[0][1]).any()
    for run in range(N_RUNS):
        one = by_itself(network, weights, run)
        optimiser = torch.optim.SGD(one.parameters(), lr=0.05, weight_decay=0.1)
        for places in seen:
            chosen = torch.tensor([kept[place] for place in places[run]])
            optimiser.zero_grad()
            logits = one(images(network, rows.views[chosen, 0]))
            nn.functional.cross_entropy(logits, rows.labels[chosen]).backward()
            optimiser.step()
        after = by_itself(network, found, run)
        for ours, theirs in zip(after.parameters(), one.parameters(), strict=True):
            np.testing.assert_allclose(ours.detach(), theirs.detach(), atol=1e-5)


def test_the_row_left_out_is_never_seen():
    rows = rows_for(PERCEPTRON, n_views=2)
    rows.views[7] = torch.nan
    steps = Steps(9, 0.1, batch_size=5)
    for left_out, finite in ((7, True), (6, False)):
        generator = torch.Generator().manual_seed(0)
        after = take_steps(PERCEPTRON, starts(PERCEPTRON), rows, steps, generator, left_out)
        assert all(weight.isfinite().all() for weight in after) == finite


def test_every_view_is_drawn():
    """Views are equally likely: only one of four holds a number that is not finite."""
    rows = rows_for(PERCEPTRON, n_views=4)
    rows.views[:, 2] = torch.nan
    many = side_by_side(PERCEPTRON.start(0), 400)
    generator = torch.Generator().manual_seed(0)
    after = take_steps(PERCEPTRON, many, rows, Steps(1, 0.1, batch_size=2), generator)
    share = after[0].isfinite().flatten(1).all(1).double().mean()
    assert share == pytest.approx((3 / 4) ** 2, abs=4 * np.sqrt(0.25 / 400))


def test_every_row_has_its_turn():
    generator = torch.Generator().manual_seed(0)
    seen = list(batches(2, N, Steps(6, 0.1, batch_size=5), generator))
    assert [len(batch[0]) for batch in seen] == [5, 5, 2, 5, 5, 2]
    for run in range(2):
        for start in (0, 3):
            one_pass = torch.cat([batch[run] for batch in seen[start : start + 3]])
            assert sorted(one_pass.tolist()) == list(range(N))
    assert (seen[0] != seen[3]).any()


def test_noise_has_its_size():
    wide = Perceptron((60, 40, 30))
    start = side_by_side(wide.start(0), 2)
    rows = Rows(torch.zeros(4, 1, 60), torch.zeros(4, dtype=torch.long))
    steps = Steps(4, 1e-6, batch_size=4, l2=0.0, noise=50.0)
    after = take_steps(wide, start, rows, steps, torch.Generator().manual_seed(0))
    moved = (after[0] - start[0]).numpy()
    assert np.std(moved) == pytest.approx(np.sqrt(4 * 2 * 1e-6) * 50, rel=0.05)
    assert abs(np.corrcoef(moved[0].ravel(), moved[1].ravel())[0, 1]) < 0.1


def test_a_seed_fixes_a_run():
    rows, found = rows_for(PERCEPTRON, n_views=2), []
    for seed in (5, 5, 6):
        generator = torch.Generator().manual_seed(seed)
        steps = Steps(3, 0.1, batch_size=5, noise=0.1)
        found.append(take_steps(PERCEPTRON, starts(PERCEPTRON), rows, steps, generator)[0])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@NETWORKS
def test_gradient_norms(network):
    rows = rows_for(network, n_views=2)
    found = gradient_norms(network, network.start(2), rows)
    for row in range(N):
        one = by_itself(network, [weight[None] for weight in network.start(2)], 0)
        logits = one(images(network, rows.views[row, :1]))
        nn.functional.cross_entropy(logits, rows.labels[row : row + 1]).backward()
        squares = sum(float(p.grad.square().sum()) for p in one.parameters())
        assert float(found[row]) == pytest.approx(np.sqrt(squares), rel=1e-4)
