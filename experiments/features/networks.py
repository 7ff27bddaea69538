"""Four frozen networks without their classifiers, from weights under their published names.

ResNet-50 (He et al. 2016), MobileNetV2 (Sandler et al. 2018) and DINOv2's vision transformer
(Oquab et al. 2024) are Hugging Face's, which has other names for the same parameters. It has no
VGG16 (Simonyan and Zisserman 2015), whose thirteen convolutions are written out.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from transformers.models.dinov2.modeling_dinov2 import Dinov2Embeddings

__all__ = ["VGG16", "VisionTransformer", "mobilenet_v2", "resnet50"]

Weights = Mapping[str, Tensor]
Rules = Sequence[tuple[str, str]]

# Published names -> Hugging Face's: every rule is applied, in this order.
_RESNET: Rules = [
    (r"^(conv|bn)1\.", r"embedder.embedder.\1."),
    *((rf"^layer{k}\.(\d+)\.", rf"encoder.stages.{k - 1}.layers.\1.") for k in range(1, 5)),
    *((rf"\.(conv|bn){k}\.", rf".layer.{k - 1}.\1.") for k in range(1, 4)),
    (r"\.downsample\.0\.", ".shortcut.conv."),
    (r"\.downsample\.1\.", ".shortcut.bn."),
    (r"\.conv\.", ".convolution."),
    (r"\.bn\.", ".normalization."),
]
_MOBILENET: Rules = [
    (r"^features\.0\.", "conv_stem.first_conv."),
    (r"^features\.1\.conv\.0\.", "conv_stem.conv_3x3."),
    *((rf"^features\.1\.conv\.{k}\.", f"conv_stem.reduce_1x1.{k - 1}.") for k in (1, 2)),
    *((rf"^features\.{k}\.conv\.", f"layer.{k - 2}.") for k in range(2, 18)),
    (r"^features\.18\.", "conv_1x1."),
    (r"^(layer\.\d+)\.0\.", r"\1.expand_1x1."),
    (r"^(layer\.\d+)\.1\.", r"\1.conv_3x3."),
    *((rf"^(layer\.\d+)\.{k}\.", rf"\1.reduce_1x1.{k - 2}.") for k in (2, 3)),
    (r"\.0\.(\w+)$", r".convolution.\1"),
    (r"\.1\.(\w+)$", r".normalization.\1"),
]
_DINOV2: Rules = [
    (r"^(cls_token|mask_token)$", r"embeddings.\1"),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^norm\.", "layernorm."),
    (r"^blocks\.", "encoder.layer."),
    (r"\.attn\.([qkv])\.", r".attention.\1_proj."),
    (r"\.attn\.proj\.", ".attention.o_proj."),
    (r"\.ls([12])\.gamma$", r".layer_scale\1.lambda1"),
]


def resnet50(weights: Weights) -> nn.Module:
    """2048 features an image, from weights under torchvision's names."""
    # torchvision's variant: the stride is in the 3x3 convolution. The defaults are ResNet-50.
    config = transformers.ResNetConfig(downsample_in_bottleneck=False)
    network = transformers.ResNetModel(config)
    network.load_state_dict(_renamed(weights, _RESNET))
    return _Pooled(network).eval()


def mobilenet_v2(weights: Weights) -> nn.Module:
    """1280 features an image, from weights under torchvision's names."""
    # Hugging Face's defaults are TensorFlow's padding and epsilon; these are PyTorch's.
    config = transformers.MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5)
    network = transformers.MobileNetV2Model(config)
    network.load_state_dict(_renamed(weights, _MOBILENET))
    return _Pooled(network).eval()


class _Pooled(nn.Module):
    """Images (n x 3 x height x width) to the mean of the network's last map."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Tensor:
        return self.backbone(images).pooler_output.flatten(1)


class VGG16(nn.Module):
    """The thirteen convolutions; five maps, one before each pooling: 64 to 512 channels."""

    _BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))

    def __init__(self) -> None:
        super().__init__()
        widths = [3, *(width for block in self._BLOCKS for width in block)]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 3, padding=1)
            for inputs, outputs in itertools.pairwise(widths)
        )

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


class VisionTransformer(nn.Module):
    """DINOv2's backbone without registers: normalised class and patch tokens.

    Its size is read off the checkpoint.
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        width, _, patch, _ = weights["patch_embed.proj.weight"].shape
        blocks = {name.split(".")[1] for name in weights if name.startswith("blocks.")}
        config = transformers.Dinov2Config(
            hidden_size=width,
            num_hidden_layers=len(blocks),
            num_attention_heads=max(width // 64, 1),  # heads of 64 numbers, in all sizes of DINOv2
            mlp_ratio=len(weights["blocks.0.mlp.fc1.weight"]) // width,
            patch_size=patch,
            image_size=patch * math.isqrt(weights["pos_embed"].shape[1] - 1),
        )
        self.backbone = transformers.Dinov2Model(config)
        self.backbone.embeddings = _Embeddings(config)
        self.backbone.load_state_dict(_renamed(_split_attention(weights), _DINOV2))
        self.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Images (n x 3 x height x width) to the class token (n x D) and patches (n x P x D)."""
        tokens = self.backbone(images).last_hidden_state
        return tokens[:, 0], tokens[:, 1:]


class _Embeddings(Dinov2Embeddings):
    """Positions for other image sizes as the authors' code interpolates them.

    The authors enlarge the grid by 0.1 before the bicubic interpolation, Hugging Face does not.
    """

    def interpolate_pos_encoding(self, embeddings: Tensor, height: int, width: int) -> Tensor:
        """Positions of an image of height x width pixels."""
        stored = self.position_embeddings
        grid = math.isqrt(stored.shape[1] - 1)
        rows, columns = height // self.patch_size, width // self.patch_size
        if (rows, columns) == (grid, grid):
            return stored
        patches = functional.interpolate(
            stored[:, 1:].reshape(1, grid, grid, -1).permute(0, 3, 1, 2),
            scale_factor=((rows + 0.1) / grid, (columns + 0.1) / grid),
            mode="bicubic",
        )
        return torch.cat([stored[:, :1], patches.flatten(2).transpose(1, 2)], dim=1)


def _split_attention(weights: Weights) -> Weights:
    """One matrix for queries, keys and values in the checkpoint, three here."""
    split: dict[str, Tensor] = {}
    for name, values in weights.items():
        if ".attn.qkv." in name:
            parts = zip("qkv", values.chunk(3), strict=True)
            split |= {name.replace("qkv", letter): part for letter, part in parts}
        else:
            split[name] = values
    return split


def _renamed(weights: Weights, rules: Rules) -> Weights:
    """Weights under Hugging Face's names; a name that no rule knows stays, and is refused later."""

    def rename(name: str) -> str:
        for old, new in rules:
            name = re.sub(old, new, name)
        return name

    return {rename(name): values for name, values in weights.items()}
