"""Three networks as functions of their published weights, written from their papers.

A weight is drawn when it is first needed, under its published name, so that a network is its own
list of weights. Everything is in double precision.
"""

import math

import torch
from torch.nn import functional


class Weights(dict):
    """Random weights that keep the size of their input, far from any default."""

    def __init__(self, seed=20261115):
        super().__init__()
        self.random = torch.Generator().manual_seed(seed)

    def draw(self, name, *shape, positive=False, scale=1.0):
        if name not in self:
            values = scale * torch.randn(*shape, generator=self.random, dtype=torch.float64)
            self[name] = 0.5 + values.abs() if positive else values
        return self[name]


def convolve(weights, name, x, outputs, size, stride=1, groups=1):
    inputs = x.shape[1] // groups
    scale = math.sqrt(2 / (inputs * size**2))
    kernel = weights.draw(f"{name}.weight", outputs, inputs, size, size, scale=scale)
    return functional.conv2d(x, kernel, stride=stride, padding=size // 2, groups=groups)


def normalise(weights, name, x):
    """Batch normalisation with the statistics of its training."""
    n = x.shape[1]
    gamma = weights.draw(f"{name}.weight", n, positive=True)
    beta = weights.draw(f"{name}.bias", n)
    mean = weights.draw(f"{name}.running_mean", n)
    variance = weights.draw(f"{name}.running_var", n, positive=True)
    weights.setdefault(f"{name}.num_batches_tracked", torch.tensor(1))
    gamma, beta, mean, variance = (v[:, None, None] for v in (gamma, beta, mean, variance))
    return gamma * (x - mean) / torch.sqrt(variance + 1e-5) + beta


def resnet50(weights, images):
    """He et al. 2016, with the stride in the 3x3 convolution; torchvision's names."""
    x = normalise(weights, "bn1", convolve(weights, "conv1", images, 64, 7, stride=2)).relu()
    x = functional.max_pool2d(x, 3, stride=2, padding=1)
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 1):
        for block in range(blocks):
            stride = 2 if stage > 1 and block == 0 else 1
            x = bottleneck(weights, f"layer{stage}.{block}", x, width, stride, first=block == 0)
    return x.mean((2, 3))


def bottleneck(weights, name, x, width, stride, first):
    y = x
    for k, (outputs, size) in enumerate(((width, 1), (width, 3), (4 * width, 1)), 1):
        y = convolve(weights, f"{name}.conv{k}", y, outputs, size, stride if k == 2 else 1)
        y = normalise(weights, f"{name}.bn{k}", y)
        if k < 3:
            y = y.relu()
    if first:
        x = convolve(weights, f"{name}.downsample.0", x, 4 * width, 1, stride)
        x = normalise(weights, f"{name}.downsample.1", x)
    return (x + y).relu()


# expansion, channels, blocks, stride of the first
MOBILENET = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(weights, images):
    """Sandler et al. 2018; torchvision's names."""
    x = clipped(weights, "features.0", images, 32, 3, stride=2)
    place = 1
    for expansion, width, blocks, first in MOBILENET:
        for block in range(blocks):
            stride = first if block == 0 else 1
            x = inverted_residual(weights, f"features.{place}.conv", x, width, stride, expansion)
            place += 1
    return clipped(weights, f"features.{place}", x, 1280, 1).mean((2, 3))


def clipped(weights, name, x, outputs, size, stride=1, groups=1):
    """Convolution, normalisation, ReLU6."""
    x = convolve(weights, f"{name}.0", x, outputs, size, stride, groups)
    return normalise(weights, f"{name}.1", x).clamp(0, 6)


def inverted_residual(weights, name, x, width, stride, expansion):
    hidden, y, k = expansion * x.shape[1], x, 0
    if expansion != 1:
        y, k = clipped(weights, f"{name}.0", y, hidden, 1), 1
    y = clipped(weights, f"{name}.{k}", y, hidden, 3, stride, groups=hidden)
    y = convolve(weights, f"{name}.{k + 1}", y, width, 1)
    y = normalise(weights, f"{name}.{k + 2}", y)
    return x + y if y.shape == x.shape else y


def dinov2(weights, images, positions):
    """Oquab et al. 2024: class token and patch tokens; heads of 64 numbers."""
    kernel, bias = (weights[f"patch_embed.proj.{part}"] for part in ("weight", "bias"))
    patch, width = kernel.shape[2], kernel.shape[0]
    patches = images.unfold(2, patch, patch).unfold(3, patch, patch)  # n, 3, rows, columns, ., .
    patches = torch.einsum("nchwyx,dcyx->nhwd", patches, kernel).flatten(1, 2) + bias
    x = torch.cat([weights["cls_token"].expand(len(images), -1, -1), patches], dim=1) + positions
    depth = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
    for k in range(depth):
        block = {n[len(f"blocks.{k}.") :]: v for n, v in weights.items() if f"blocks.{k}." in n}
        seen = attention(block, layer_norm(block, "norm1", x), width // 64)
        x = x + block["ls1.gamma"] * seen
        hidden = linear(block, "mlp.fc1", layer_norm(block, "norm2", x))
        hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
        x = x + block["ls2.gamma"] * linear(block, "mlp.fc2", hidden)
    x = layer_norm(weights, "norm", x)
    return x[:, 0], x[:, 1:]


def dinov2_weights(width=128, depth=2, hidden=384, patch=14, grid=4):
    """Random weights under the names of DINOv2's own files."""
    shapes = {
        "cls_token": (1, 1, width),
        "pos_embed": (1, 1 + grid**2, width),
        "mask_token": (1, width),
        "patch_embed.proj.weight": (width, 3, patch, patch),
        "patch_embed.proj.bias": (width,),
    }
    for k in range(depth):
        shapes |= {
            f"blocks.{k}.{name}": shape
            for name, shape in {
                "norm1.weight": (width,),
                "norm1.bias": (width,),
                "attn.qkv.weight": (3 * width, width),
                "attn.qkv.bias": (3 * width,),
                "attn.proj.weight": (width, width),
                "attn.proj.bias": (width,),
                "ls1.gamma": (width,),
                "norm2.weight": (width,),
                "norm2.bias": (width,),
                "mlp.fc1.weight": (hidden, width),
                "mlp.fc1.bias": (hidden,),
                "mlp.fc2.weight": (width, hidden),
                "mlp.fc2.bias": (width,),
                "ls2.gamma": (width,),
            }.items()
        }
    shapes |= {"norm.weight": (width,), "norm.bias": (width,)}
    weights = Weights(7)
    for name, shape in shapes.items():
        large = name in ("pos_embed", "cls_token")
        weights.draw(name, *shape, scale=1 if large else 1 / math.sqrt(math.prod(shape[1:])))
    return dict(weights)


def attention(block, x, heads):
    n, length, width = x.shape
    query, key, value = (
        part.reshape(n, length, heads, -1).transpose(1, 2)
        for part in linear(block, "attn.qkv", x).split(width, dim=2)
    )
    shares = torch.softmax(query @ key.mT / math.sqrt(width // heads), dim=3)
    return linear(block, "attn.proj", (shares @ value).transpose(1, 2).reshape(n, length, width))


def linear(weights, name, x):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(weights, name, x):
    centred = x - x.mean(2, keepdim=True)
    spread = torch.sqrt((centred**2).mean(2, keepdim=True) + 1e-6)
    return weights[f"{name}.weight"] * centred / spread + weights[f"{name}.bias"]
