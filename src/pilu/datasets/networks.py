"""Four networks, written out in the key layout of their published weights (need ``pilu[torch]``).

ResNet-50 (He et al. 2016; stride in the 3x3 convolution, as torchvision has it), MobileNetV2
(Sandler et al. 2018), the convolutions of VGG16 (Simonyan and Zisserman 2015) and DINOv2's vision
transformer (Oquab et al. 2024). All are frozen, without their classifiers.
"""

from collections import OrderedDict
from dataclasses import dataclass

from pilu._extras import need

need("torch", for_="pilu.datasets.networks", extra="torch")
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

__all__ = ["VGG16", "MobileNetV2", "ResNet50", "VisionTransformer"]


class ResNet50(nn.Module):
    """2048 features: the mean of the last of four stages of bottlenecks."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels = 64
        for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 1):
            layer = []
            for block in range(blocks):
                stride = 2 if stage > 1 and block == 0 else 1
                layer.append(_Bottleneck(channels, width, stride))
                channels = 4 * width
            self.add_module(f"layer{stage}", nn.Sequential(*layer))

    def forward(self, x: Tensor) -> Tensor:
        """Images (n x 3 x height x width) to features (n x 2048)."""
        x = functional.relu(self.bn1(self.conv1(x)))
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        for stage in range(1, 5):
            x = self.get_submodule(f"layer{stage}")(x)
        return x.mean((2, 3))


class _Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or channels != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride=stride, bias=False),
                nn.BatchNorm2d(4 * width),
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)))
        x = functional.relu(self.bn2(self.conv2(x)))
        return functional.relu(self.bn3(self.conv3(x)) + shortcut)


class MobileNetV2(nn.Module):
    """1280 features: the mean of the last convolution after 17 inverted residuals."""

    # expansion, channels, blocks, stride of the first
    _STAGES = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, 32, 3, stride=2)]
        channels = 32
        for expansion, width, blocks, first in self._STAGES:
            for block in range(blocks):
                stride = first if block == 0 else 1
                layers.append(_InvertedResidual(channels, width, stride, expansion))
                channels = width
        layers.append(_convolution(channels, 1280, 1))
        self.features = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Images (n x 3 x height x width) to features (n x 1280)."""
        features: Tensor = self.features(x)
        return features.mean((2, 3))


def _convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class _InvertedResidual(nn.Module):
    def __init__(self, channels: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels * expansion
        layers = [_convolution(channels, hidden, 1)] if expansion != 1 else []
        layers += [
            _convolution(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, width, 1, bias=False),
            nn.BatchNorm2d(width),
        ]
        self.conv = nn.Sequential(*layers)
        self.is_residual = stride == 1 and channels == width

    def forward(self, x: Tensor) -> Tensor:
        moved: Tensor = self.conv(x)
        return x + moved if self.is_residual else moved


class VGG16(nn.Module):
    """The thirteen convolutions; five maps, one before each pooling: 64 to 512 channels."""

    _BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList()
        channels = 3
        for width in (width for block in self._BLOCKS for width in block):
            self.convolutions.append(nn.Conv2d(channels, width, 3, padding=1))
            channels = width

    def forward(self, x: Tensor) -> list[Tensor]:
        """Images (n x 3 x height x width) to maps of 1, 1/2, ..., 1/16 of their size."""
        maps: list[Tensor] = []
        convolutions = iter(self.convolutions)
        for block in self._BLOCKS:
            if maps:
                x = functional.max_pool2d(x, 2)
            for _ in block:
                x = functional.relu(next(convolutions)(x))
            maps.append(x)
        return maps


@dataclass(frozen=True)
class _Shape:
    """What a DINOv2 checkpoint says about its own size."""

    width: int
    depth: int
    hidden: int
    patch: int
    grid: int
    heads: int

    @classmethod
    def of(cls, weights: OrderedDict[str, Tensor]) -> "_Shape":
        kernel = weights["patch_embed.proj.weight"]
        positions = weights["pos_embed"].shape[1] - 1
        depth = 1 + max(int(key.split(".")[1]) for key in weights if key.startswith("blocks."))
        width = kernel.shape[0]
        return cls(
            width,
            depth,
            weights["blocks.0.mlp.fc1.weight"].shape[0],
            kernel.shape[2],
            round(positions**0.5),
            max(width // 64, 1),  # heads of 64 numbers, in all sizes of DINOv2
        )


class VisionTransformer(nn.Module):
    """DINOv2's backbone (without registers): normalised class and patch tokens.

    Positions are interpolated to other image sizes as the authors' code does it: bicubic, with the
    grid enlarged by 0.1.
    """

    def __init__(self, shape: _Shape) -> None:
        super().__init__()
        self.shape, width = shape, shape.width
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.mask_token = nn.Parameter(torch.zeros(1, width))  # in the checkpoint, used by nobody
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + shape.grid**2, width))
        self.patch_embed = nn.ModuleDict(
            {"proj": nn.Conv2d(3, width, shape.patch, stride=shape.patch)}
        )
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(width, eps=1e-6)

    @classmethod
    def of(cls, weights: OrderedDict[str, Tensor]) -> "VisionTransformer":
        """The network that a checkpoint belongs to, with its weights."""
        network = cls(_Shape.of(weights))
        network.load_state_dict(weights)
        return network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images (n x 3 x height x width) to the class token (n x D) and patches (n x P x D)."""
        x = self.patch_embed["proj"](x)
        height, width = x.shape[2:]
        tokens = x.flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(x), -1, -1), tokens], dim=1)
        tokens = tokens + self._positions(height, width)
        for block in self.blocks:
            tokens = block(tokens)
        tokens = self.norm(tokens)
        return tokens[:, 0], tokens[:, 1:]

    def _positions(self, height: int, width: int) -> Tensor:
        grid = self.shape.grid
        if (height, width) == (grid, grid):
            return self.pos_embed
        patches = self.pos_embed[:, 1:].reshape(1, grid, grid, -1).permute(0, 3, 1, 2)
        patches = functional.interpolate(
            patches,
            scale_factor=((height + 0.1) / grid, (width + 0.1) / grid),
            mode="bicubic",
        )
        return torch.cat([self.pos_embed[:, :1], patches.flatten(2).transpose(1, 2)], dim=1)


class _Block(nn.Module):
    def __init__(self, shape: _Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = nn.ModuleDict(
            {"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)}
        )
        self.mlp = nn.ModuleDict(
            {"fc1": nn.Linear(width, shape.hidden), "fc2": nn.Linear(shape.hidden, width)}
        )
        self.ls1, self.ls2 = _Scale(width), _Scale(width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        qkv = self.attn["qkv"](self.norm1(x)).reshape(n, length, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.ls1(self.attn["proj"](seen.transpose(1, 2).reshape(n, length, width)))
        moved: Tensor = self.mlp["fc2"](functional.gelu(self.mlp["fc1"](self.norm2(x))))
        result: Tensor = x + self.ls2(moved)
        return result


class _Scale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma
