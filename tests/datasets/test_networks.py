"""The four networks against other people's: Hugging Face's, and PyTorch's own layers for VGG16.

All weights are random, running statistics too, and both sides compute in double precision: a
layer, a stride or an epsilon that differs shows in the first digits.
"""

import math
import re

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from pilu.datasets.networks import VGG16, MobileNetV2, ResNet50, VisionTransformer

RANDOM = torch.Generator().manual_seed(20261115)


def normal(*shape):
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


def randomised(network):
    """Weights that keep the size of their input; statistics and scales far from their defaults."""
    state = network.double().eval().state_dict()
    for name, values in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        drawn = normal(*values.shape)
        if values.ndim > 1:
            drawn *= math.sqrt(2 / values[0].numel())
        elif name.endswith(("weight", "running_var")):  # of a normalisation
            drawn = 0.5 + drawn.abs()
        values.copy_(drawn)
    return network


def renamed(state, *rules):
    """Keys by regular expressions, the first that fits; every key must have one."""
    result = {}
    for key, values in state.items():
        fits = [re.sub(old, new, key) for old, new in rules if re.fullmatch(old, key)]
        result[fits[0]] = values
    return result


def assert_close(found, expected):
    assert expected.std() > 1e-3  # dead networks agree about everything
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))


@torch.inference_mode()
def test_resnet50_is_hugging_faces():
    ours = randomised(ResNet50())
    config = transformers.ResNetConfig(
        embedding_size=64,
        hidden_sizes=[256, 512, 1024, 2048],
        depths=[3, 4, 6, 3],
        layer_type="bottleneck",
        downsample_in_bottleneck=False,
    )
    theirs = transformers.ResNetModel(config).double().eval()
    rules = [(r"conv1\.(.*)", r"embedder.embedder.convolution.\1")]
    rules += [(r"bn1\.(.*)", r"embedder.embedder.normalization.\1")]
    for stage in range(1, 5):
        block, there = rf"layer{stage}\.(\d)\.", rf"encoder.stages.{stage - 1}.layers.\1."
        for k in range(1, 4):
            rules += [(rf"{block}conv{k}\.(.*)", rf"{there}layer.{k - 1}.convolution.\2")]
            rules += [(rf"{block}bn{k}\.(.*)", rf"{there}layer.{k - 1}.normalization.\2")]
        rules += [(rf"{block}downsample\.0\.(.*)", rf"{there}shortcut.convolution.\2")]
        rules += [(rf"{block}downsample\.1\.(.*)", rf"{there}shortcut.normalization.\2")]
    theirs.load_state_dict(renamed(ours.state_dict(), *rules))
    images = normal(2, 3, 64, 96)
    found = ours(images)
    assert found.shape == (2, 2048)
    assert_close(found, theirs(images).pooler_output[:, :, 0, 0])


@torch.inference_mode()
def test_mobilenet_is_hugging_faces():
    ours = randomised(MobileNetV2())
    for name, values in ours.state_dict().items():
        if name.endswith(".1.weight") and values.ndim == 1:
            values.mul_(4)  # so that ReLU6 cuts off at six
    # TensorFlow's padding and epsilon are Hugging Face's defaults, PyTorch's are others.
    config = transformers.MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5)
    theirs = transformers.MobileNetV2Model(config).double().eval()
    layer = {"0": "convolution", "1": "normalization"}
    rules = []
    for k, part in layer.items():
        rules += [(rf"features\.0\.{k}\.(.*)", rf"conv_stem.first_conv.{part}.\1")]
        rules += [(rf"features\.1\.conv\.0\.{k}\.(.*)", rf"conv_stem.conv_3x3.{part}.\1")]
        rules += [(rf"features\.1\.conv\.{int(k) + 1}\.(.*)", rf"conv_stem.reduce_1x1.{part}.\1")]
        rules += [(rf"features\.18\.{k}\.(.*)", rf"conv_1x1.{part}.\1")]
        for block in range(2, 18):
            here, there = rf"features\.{block}\.conv\.", f"layer.{block - 2}."
            rules += [(rf"{here}0\.{k}\.(.*)", rf"{there}expand_1x1.{part}.\1")]
            rules += [(rf"{here}1\.{k}\.(.*)", rf"{there}conv_3x3.{part}.\1")]
            rules += [(rf"{here}{int(k) + 2}\.(.*)", rf"{there}reduce_1x1.{part}.\1")]
    theirs.load_state_dict(renamed(ours.state_dict(), *rules))
    images = normal(2, 3, 64, 96)
    found = ours(images)
    assert found.shape == (2, 1280)
    assert_close(found, theirs(images).pooler_output)
    assert 0 < (ours.features[0](images) == 6).double().mean() < 0.5


@torch.inference_mode()
def test_vgg16_is_the_usual_sequence_of_layers():
    ours = randomised(VGG16())
    layers, channels, before_pooling = [], 3, []
    for width in [64, 64, "M", 128, 128, "M", *3 * [256], "M", *3 * [512], "M", *3 * [512], "M"]:
        if width == "M":
            before_pooling.append(len(layers))
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
        else:
            layers += [nn.Conv2d(channels, width, kernel_size=3, padding=1), nn.ReLU()]
            channels = width
    theirs = nn.Sequential(*layers).double()
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


@pytest.mark.parametrize(
    ("network", "parameters"),
    [
        # As torchvision's documentation counts them, less the classifier.
        (ResNet50, 25_557_032 - 2048 * 1000 - 1000),
        (MobileNetV2, 3_504_872 - 1280 * 1000 - 1000),
        (VGG16, 138_357_544 - (25088 * 4096 + 4096) - (4096 * 4096 + 4096) - (4096 * 1000 + 1000)),
    ],
)
def test_as_many_parameters_as_published(network, parameters):
    with torch.device("meta"):
        assert sum(values.numel() for values in network().parameters()) == parameters


def hugging_faces(weights, config):
    theirs = transformers.Dinov2Model(config).double().eval()
    there = {}
    for key, values in weights.items():
        if "attn.qkv" in key:  # one matrix here, three there
            place = key.replace("blocks.", "encoder.layer.").replace(
                "attn.qkv", "attention.{}_proj"
            )
            there |= {place.format(k): v for k, v in zip("qkv", values.chunk(3), strict=True)}
        else:
            there[key] = values
    theirs.load_state_dict(
        renamed(
            there,
            (r"cls_token|mask_token", r"embeddings.\g<0>"),
            (r"pos_embed", "embeddings.position_embeddings"),
            (r"patch_embed\.proj\.(.*)", r"embeddings.patch_embeddings.projection.\1"),
            (r"norm\.(.*)", r"layernorm.\1"),
            (r"encoder\..*", r"\g<0>"),
            (r"blocks\.(\d)\.attn\.proj\.(.*)", r"encoder.layer.\1.attention.o_proj.\2"),
            (r"blocks\.(\d)\.ls(\d)\.gamma", r"encoder.layer.\1.layer_scale\2.lambda1"),
            (r"blocks\.(\d)\.(.*)", r"encoder.layer.\1.\2"),
        )
    )
    return theirs


SMALL = {"hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 2, "mlp_ratio": 3}


@pytest.fixture(scope="module")
def transformer(checkpoint):
    weights = checkpoint(hidden=384)
    config = transformers.Dinov2Config(patch_size=14, image_size=56, **SMALL)
    ours = VisionTransformer.of(weights).double().eval()
    ours.load_state_dict(weights)  # once more: `of` has rounded them to single precision
    return ours, hugging_faces(weights, config), weights["pos_embed"]


@torch.inference_mode()
def test_dinov2_is_hugging_faces(transformer):
    ours, theirs, _ = transformer
    images = normal(3, 3, 56, 56)
    whole, patches = ours(images)
    expected = theirs(images).last_hidden_state
    assert patches.shape == (3, 16, 128)
    assert_close(whole, expected[:, 0])
    assert_close(patches, expected[:, 1:])


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
def test_other_image_sizes_as_the_authors_do_it(transformer, height, width, monkeypatch):
    """2 x 8 has as many patches as the stored grid of 4 x 4, and still other positions."""
    ours, theirs, stored = transformer
    positions = positions_of_the_authors(stored, height, width)
    # Hugging Face interpolates without the authors' 0.1.
    monkeypatch.setattr(theirs.embeddings, "interpolate_pos_encoding", lambda *_: positions)
    images = normal(1, 3, 14 * height, 14 * width)
    whole, patches = ours(images)
    expected = theirs(images).last_hidden_state
    assert_close(whole, expected[:, 0])
    assert_close(patches, expected[:, 1:])


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
    ours, _, stored = transformer
    grid = stored[0, 1:].reshape(4, 4, 128).numpy()
    down, across = (bicubic(4, n, (n + 0.1) / 4) for n in (6, 3))
    expected = np.einsum("ai,bj,ijd->abd", down, across, grid).reshape(18, 128)
    found = ours._positions(6, 3)[0].numpy()
    np.testing.assert_allclose(found[1:], expected, atol=1e-12)
    np.testing.assert_array_equal(found[0], stored[0, 0].numpy())


@pytest.mark.parametrize(("width", "heads"), [(384, 6), (768, 12), (1024, 16)])
def test_the_number_of_heads_of_the_published_sizes(checkpoint, width, heads):
    """ViT-S, B and L of the authors' code."""
    assert VisionTransformer.of(checkpoint(width, depth=1, hidden=8)).shape.heads == heads
