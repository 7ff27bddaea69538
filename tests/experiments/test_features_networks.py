"""The four networks against functions of the same weights, written from their papers.

All weights are random, running statistics too, and both sides compute in double precision: a
layer, a stride or an epsilon that differs shows in the first digits. For VGG16 the other side is
a sequence of PyTorch's layers.
"""

import math

import numpy as np
import pytest
import torch
from experiments.features.networks import VGG16, VisionTransformer, mobilenet_v2, resnet50
from torch import nn

from oracles import networks as oracles

RANDOM = torch.Generator().manual_seed(20261115)


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def normal(*shape):
    return torch.randn(*shape, generator=RANDOM)


def assert_close(found, expected):
    assert found.dtype == torch.float64
    assert expected.std() > 1e-3  # dead networks agree about everything
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))


@torch.inference_mode()
def test_resnet50_from_its_paper():
    weights, images = oracles.Weights(), normal(2, 3, 64, 96)
    expected = oracles.resnet50(weights, images)
    assert expected.shape == (2, 2048)
    assert_close(resnet50(weights)(images), expected)


@torch.inference_mode()
def test_mobilenet_from_its_paper():
    weights, images = oracles.Weights(), normal(2, 3, 64, 96)
    expected = oracles.mobilenet_v2(weights, images)
    assert expected.shape == (2, 1280)
    assert_close(mobilenet_v2(weights)(images), expected)
    first = oracles.clipped(weights, "features.0", images, 32, 3, stride=2)
    assert 0 < (first == 6).double().mean() < 0.5  # ReLU6 clips some values, not all


@torch.inference_mode()
def test_vgg16_is_the_usual_sequence_of_layers():
    ours = VGG16()
    for values in ours.state_dict().values():
        scale = math.sqrt(2 / values[0].numel()) if values.ndim > 1 else 1
        values.copy_(scale * normal(*values.shape))
    layers, channels, before_pooling = [], 3, []
    for width in [64, 64, "M", 128, 128, "M", *3 * [256], "M", *3 * [512], "M", *3 * [512], "M"]:
        if width == "M":
            before_pooling.append(len(layers))
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
        else:
            layers += [nn.Conv2d(channels, width, kernel_size=3, padding=1), nn.ReLU()]
            channels = width
    theirs = nn.Sequential(*layers)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    images = normal(2, 3, 48, 37)  # 37: pooling drops a column
    found = ours(images)
    assert [tuple(one.shape[1:]) for one in found] == [
        (64, 48, 37),
        (128, 24, 18),
        (256, 12, 9),
        (512, 6, 4),
        (512, 3, 2),
    ]
    for one, end in zip(found, before_pooling, strict=True):
        assert_close(one, theirs[:end](images))


@torch.inference_mode()
@pytest.mark.parametrize(
    ("draw", "build", "parameters"),
    [
        # As torchvision's documentation counts them, less the classifier.
        (oracles.resnet50, resnet50, 25_557_032 - 2048 * 1000 - 1000),
        (oracles.mobilenet_v2, mobilenet_v2, 3_504_872 - 1280 * 1000 - 1000),
    ],
)
def test_as_many_parameters_as_published(draw, build, parameters):
    weights = oracles.Weights()
    draw(weights, normal(1, 3, 32, 32))
    counted = {name: v for name, v in weights.items() if name.endswith(("weight", "bias"))}
    assert sum(values.numel() for values in counted.values()) == parameters
    assert sum(values.numel() for values in build(weights).parameters()) == parameters


def test_vgg16_has_as_many_parameters_as_published():
    classifier = (25088 * 4096 + 4096) + (4096 * 4096 + 4096) + (4096 * 1000 + 1000)
    with torch.device("meta"):
        found = sum(values.numel() for values in VGG16().parameters())
    assert found == 138_357_544 - classifier


@pytest.mark.parametrize(
    ("draw", "build", "name"),
    [
        (oracles.resnet50, resnet50, "layer3.5.conv2.weight"),
        (oracles.mobilenet_v2, mobilenet_v2, "features.9.conv.2.weight"),
    ],
)
@torch.inference_mode()
def test_every_weight_is_needed_and_none_is_ignored(draw, build, name):
    weights = oracles.Weights()
    draw(weights, normal(1, 3, 32, 32))
    with pytest.raises(RuntimeError, match=r"features\.99\.weight"):
        build(weights | {"features.99.weight": torch.zeros(1)})
    del weights[name]
    with pytest.raises(RuntimeError, match="Missing key"):
        build(weights)


@pytest.fixture(scope="module")
def transformer():
    weights = oracles.dinov2_weights()
    return VisionTransformer(weights), weights


@torch.inference_mode()
def test_dinov2_from_its_paper(transformer):
    network, weights = transformer
    images = normal(3, 3, 56, 56)
    whole, patches = network(images)
    assert patches.shape == (3, 16, 128)
    expected = oracles.dinov2(weights, images, weights["pos_embed"])
    assert_close(whole, expected[0])
    assert_close(patches, expected[1])


def positions_of_the_authors(stored, height, width):
    """dinov2/models/vision_transformer.py, interpolate_pos_encoding: a grid enlarged by 0.1."""
    old = math.isqrt(stored.shape[1] - 1)
    grid = stored[:, 1:].reshape(1, old, old, -1).permute(0, 3, 1, 2)
    scales = ((height + 0.1) / old, (width + 0.1) / old)
    grid = nn.functional.interpolate(grid, scale_factor=scales, mode="bicubic")
    assert grid.shape[2:] == (height, width)
    rows = grid.permute(0, 2, 3, 1).reshape(1, height * width, -1)
    return torch.cat([stored[:, :1], rows], dim=1)


@torch.inference_mode()
@pytest.mark.parametrize(("height", "width"), [(7, 7), (2, 5), (3, 3), (2, 8)])
def test_other_image_sizes_as_the_authors_do_it(transformer, height, width):
    """2 x 8 has as many patches as the stored grid of 4 x 4, and still other positions."""
    network, weights = transformer
    images = normal(1, 3, 14 * height, 14 * width)
    whole, patches = network(images)
    positions = positions_of_the_authors(weights["pos_embed"], height, width)
    expected = oracles.dinov2(weights, images, positions)
    assert_close(whole, expected[0])
    assert_close(patches, expected[1])


def bicubic(n_old, n_new, scale):
    """The matrix of Keys' interpolation (a = -0.75) from n_old to n_new points, edges repeated."""
    matrix = np.zeros((n_new, n_old))
    for new in range(n_new):
        place = (new + 0.5) / scale - 0.5
        for old in range(math.floor(place) - 1, math.floor(place) + 3):
            x = abs(place - old)
            if x <= 1:
                weight = 1.25 * x**3 - 2.25 * x**2 + 1
            else:
                weight = -0.75 * (x**3 - 5 * x**2 + 8 * x - 4)
            matrix[new, min(max(old, 0), n_old - 1)] += weight
    return matrix


@torch.inference_mode()
def test_positions_by_hand(transformer):
    """The interpolation itself, without PyTorch's."""
    network, weights = transformer
    stored = weights["pos_embed"]
    grid = stored[0, 1:].reshape(4, 4, 128).numpy()
    down, across = (bicubic(4, n, (n + 0.1) / 4) for n in (6, 3))
    expected = np.einsum("ai,bj,ijd->abd", down, across, grid).reshape(18, 128)
    found = network.backbone.embeddings.interpolate_pos_encoding(None, 84, 42)[0].numpy()
    np.testing.assert_allclose(found[1:], expected, atol=1e-12)
    np.testing.assert_array_equal(found[0], stored[0, 0].numpy())


@pytest.mark.parametrize(("width", "heads"), [(384, 6), (768, 12), (1024, 16)])
def test_the_number_of_heads_of_the_published_sizes(width, heads):
    """ViT-S, B and L of the authors' code."""
    network = VisionTransformer(oracles.dinov2_weights(width, depth=1, hidden=width))
    assert network.backbone.config.num_attention_heads == heads
