"""Features of images, patches and texts by frozen networks."""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch.nn import functional

from experiments.features.cache import Features, compute_once
from experiments.features.weights import Frozen, minilm_folder, packaged
from pilu._checks import check_choice, check_integer, complaint
from pilu.datasets.depth import Patches

__all__ = ["hypercolumns", "image_features", "patch_tokens", "text_features"]

_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's


def image_features(images: NDArray[np.uint8], network: str | Frozen, *, size: int) -> Features:
    """One row of features for each image.

    Parameters
    ----------
    images : array (n x height x width, or x 3), uint8
    network : "resnet50", "mobilenet_v2" or a `Frozen`
        2048 or 1280 features.
    size : int
        Images are resized to size x size pixels; the networks were trained on 224.
    """
    check_integer("size", size, least=32)
    images = _check_images(images)
    frozen = _find_network(network, ("resnet50", "mobilenet_v2"))

    def compute(part: NDArray[np.uint8]) -> NDArray[np.float32]:
        batch = functional.interpolate(
            _to_tensor(part), (size, size), mode="bilinear", antialias=True
        )
        return np.asarray(frozen.network(_normalise(batch)).numpy())

    return compute_once("images", images, frozen, {"size": size}, compute)


def hypercolumns(
    images: NDArray[np.uint8], patches: Patches, network: str | Frozen = "vgg16"
) -> Features:
    """One row for each patch: all maps of the network at its centre, 1472 numbers for VGG16.

    Maps smaller than the image are interpolated (bilinear). Images keep their size.
    """
    images = _check_images(images)
    frozen = _find_network(network, ("vgg16",))
    places = _check_patches(patches, images)
    height, width = images.shape[1:3]

    def compute(numbers: NDArray[np.intp]) -> NDArray[np.float32]:
        rows = []
        for number in numbers:
            here = patches.image == number
            maps = frozen.network(_normalise(_to_tensor(images[number][None])))
            x = (2 * patches.column[here] + 1) / width - 1
            y = (2 * patches.row[here] + 1) / height - 1
            grid = torch.from_numpy(np.stack([x, y], axis=1).astype(np.float32))[None, None]
            columns = [
                functional.grid_sample(each, grid, padding_mode="border", align_corners=False)
                for each in maps
            ]
            rows.append(torch.cat(columns, dim=1)[0, :, 0].T.numpy())
        return np.concatenate(rows)

    numbers = np.unique(patches.image)
    options = {"patches": hashlib.sha256(places.tobytes()).hexdigest()}
    return compute_once("hypercolumns", numbers, frozen, options, compute, part=1, data=images)


def patch_tokens(images: NDArray[np.uint8], network: Frozen, *, size: int = 224) -> Features:
    """One row for each patch of each image: its token beside the image's class token, normalised.

    As in the paper: 256 rows of 1536 numbers for an image of 224 x 224 and ViT-B/14. Class tokens
    are scaled to norm one.
    """
    check_integer("size", size, least=14)
    if size % 14:
        raise complaint("size", "a multiple of 14", size, "DINOv2 has patches of 14 x 14 pixels.")
    images = _check_images(images)

    def compute(part: NDArray[np.uint8]) -> NDArray[np.float32]:
        batch = functional.interpolate(
            _to_tensor(part), (size, size), mode="bicubic", antialias=True
        )
        whole, tokens = network.network(_normalise(batch.clamp(0, 1)))
        whole = functional.normalize(whole, dim=1)
        both = torch.cat([tokens, whole[:, None].expand_as(tokens)], dim=2)
        return np.asarray(both.flatten(0, 1).numpy())

    return compute_once("tokens", images, network, {"size": size}, compute)


def text_features(texts: Sequence[str]) -> Features:
    """384 features for each text, by all-MiniLM-L6-v2: the mean of its tokens, of norm one."""
    kinds = {type(text).__name__ for text in texts if not isinstance(text, str)}
    if isinstance(texts, str) or len(texts) == 0 or kinds:
        given = "one string" if isinstance(texts, str) else ", ".join(kinds) or "none"
        raise complaint("texts", "a sequence of one or more strings", given)
    folder, origin, sha256 = minilm_folder()

    @cache
    def load() -> tuple[Any, Any]:  # only where features are not in the cache
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        return tokenizer, transformers.AutoModel.from_pretrained(folder).eval()

    def compute(part: Sequence[str]) -> NDArray[np.float32]:
        tokenizer, network = load()
        tokens = tokenizer(
            list(part), padding=True, truncation=True, max_length=256, return_tensors="pt"
        )
        states = network(**tokens).last_hidden_state
        mask = tokens["attention_mask"][:, :, None].to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1)
        return np.asarray(functional.normalize(mean, dim=1).numpy())

    frozen = Frozen("minilm", None, origin, sha256)
    return compute_once("texts", list(texts), frozen, {"max_length": 256}, compute)


def _find_network(network: Any, names: tuple[str, ...]) -> Frozen:
    if isinstance(network, Frozen):
        return network
    return packaged(check_choice("network", network, names))


def _check_images(given: Any) -> NDArray[np.uint8]:
    images: NDArray[np.uint8] = np.asarray(given)
    # A last axis of three is colour: n x height x 3 is one image in colour, not n grey ones.
    colour = images.ndim in (3, 4) and images.shape[-1] == 3
    good = images.ndim == (4 if colour else 3)
    if images.dtype != np.uint8 or not good or len(images) == 0:
        raise complaint(
            "images",
            "bytes of shape n x height x width, or x 3, with n > 0",
            f"{images.dtype} of shape {images.shape}",
        )
    return images


def _check_patches(patches: Patches, images: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Image, row and column of each patch."""
    places = np.stack([patches.image, patches.row, patches.column])
    if (np.diff(patches.image) < 0).any():
        raise complaint("patches", "sorted by image", "another order")
    limits = np.array([len(images), *images.shape[1:3]])[:, None]
    if places.size == 0 or not ((places >= 0) & (places < limits)).all():
        raise complaint(
            "patches",
            "one or more places in {} images of {} x {} pixels".format(*limits[:, 0]),
            "none" if places.size == 0 else f"places up to {tuple(places.max(axis=1).tolist())}",
        )
    return places


def _to_tensor(images: NDArray[np.uint8]) -> torch.Tensor:
    pixels = torch.from_numpy(np.array(images)).float() / 255
    if pixels.ndim == 3:  # grey: three times the same channel
        return pixels[:, None].expand(-1, 3, -1, -1)
    return pixels.permute(0, 3, 1, 2)


def _normalise(batch: torch.Tensor) -> torch.Tensor:
    mean, deviation = (torch.tensor(v)[:, None, None] for v in (_MEAN, _DEVIATION))
    return ((batch - mean) / deviation).contiguous(memory_format=torch.channels_last)
