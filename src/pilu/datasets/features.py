"""Features by frozen networks, computed once: arrays in the cache with what they came from.

Work is done in parts that are kept as soon as they are done; an interrupted call goes on there.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_choice, check_integer, complaint
from pilu._extras import need
from pilu._progress import progress_bar
from pilu.datasets.depth import Patches
from pilu.datasets.fetch import cache_folder
from pilu.datasets.weights import Frozen, minilm_folder, packaged

__all__ = ["Features", "hypercolumns", "image_features", "patch_tokens", "text_features"]

_PART = 256  # images or texts in a part
_BATCH = 64
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's


@dataclass(frozen=True, eq=False)
class Features:
    """Features (n x p, float32) and their provenance."""

    values: NDArray[np.float32]
    provenance: dict[str, Any]


def image_features(images: NDArray[np.uint8], network: str | Frozen, *, size: int) -> Features:
    """One row of features for each image.

    Parameters
    ----------
    images : array (n x height x width, or x 3), uint8
    network : "resnet50", "mobilenet_v2" or a `Frozen`
        2048 or 1280 features.
    size : int
        Images are resized to size x size pixels; 224 is what the networks were trained on.
    """
    check_integer("size", size, least=32)
    images = _checked_images(images)
    frozen = _frozen(network, ("resnet50", "mobilenet_v2"))

    def some(part: NDArray[np.uint8]) -> NDArray[np.float32]:
        torch = need("torch", for_="image_features", extra="torch")
        batch = torch.nn.functional.interpolate(
            _tensor(part), (size, size), mode="bilinear", antialias=True
        )
        found = frozen.network(_normalised(batch))
        return np.asarray(found.numpy())

    return _cached("images", images, frozen, {"size": size}, some)


def hypercolumns(
    images: NDArray[np.uint8], patches: Patches, network: str | Frozen = "vgg16"
) -> Features:
    """One row for each patch: all maps of the network at its centre, 1472 for VGG16.

    Maps smaller than the image are interpolated (bilinear), images keep their size.
    """
    images = _checked_images(images)
    frozen = _frozen(network, ("vgg16",))
    key = np.stack([patches.image, patches.row, patches.column])
    torch = need("torch", for_="hypercolumns", extra="torch")

    def some(numbers: NDArray[np.intp]) -> NDArray[np.float32]:
        rows = []
        for number in numbers:
            here = patches.image == number
            maps = frozen.network(_normalised(_tensor(images[number][None])))
            height, width = images.shape[1:3]
            x = (2 * patches.column[here] + 1) / width - 1
            y = (2 * patches.row[here] + 1) / height - 1
            places = torch.from_numpy(np.stack([x, y], axis=1).astype(np.float32))[None, None]
            columns = [
                torch.nn.functional.grid_sample(
                    found, places, padding_mode="border", align_corners=False
                )[0, :, 0]
                for found in maps
            ]
            rows.append(torch.cat(columns).T.numpy())
        return np.concatenate(rows)

    order = np.argsort(patches.image, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        raise complaint("patches", "sorted by image", "another order")
    limits = np.array([len(images), *images.shape[1:3]])[:, None]
    if key.size == 0 or not ((key >= 0) & (key < limits)).all():
        raise complaint(
            "patches",
            "one or more places in {} images of {} x {} pixels".format(*limits[:, 0]),
            "none" if key.size == 0 else f"places up to {tuple(key.max(axis=1).tolist())}",
        )
    numbers = np.unique(patches.image)
    options = {"patches": hashlib.sha256(key.tobytes()).hexdigest()}
    return _cached("hypercolumns", numbers, frozen, options, some, part=1, data=images)


def patch_tokens(images: NDArray[np.uint8], network: Frozen, *, size: int = 224) -> Features:
    """One row for each patch of each image: its token beside the image's class token, normalised.

    As in the paper: 256 rows of 1536 numbers for an image of 224 x 224 and ViT-B/14. Class tokens
    are scaled to norm one.
    """
    check_integer("size", size, least=14)
    if size % 14:
        raise complaint("size", "a multiple of 14", size, "DINOv2 sees patches of 14 x 14 pixels.")
    images = _checked_images(images)
    torch = need("torch", for_="patch_tokens", extra="torch")

    def some(part: NDArray[np.uint8]) -> NDArray[np.float32]:
        batch = torch.nn.functional.interpolate(
            _tensor(part), (size, size), mode="bicubic", antialias=True
        )
        whole, tokens = network.network(_normalised(batch.clamp(0, 1)))
        whole = torch.nn.functional.normalize(whole, dim=1)
        both = torch.cat([tokens, whole[:, None].expand_as(tokens)], dim=2)
        return np.asarray(both.flatten(0, 1).numpy())

    return _cached("tokens", images, network, {"size": size}, some)


def text_features(texts: Sequence[str]) -> Features:
    """384 features for each text, by all-MiniLM-L6-v2: the mean of its tokens, of norm one."""
    kinds = {type(text).__name__ for text in texts if not isinstance(text, str)}
    if isinstance(texts, str) or len(texts) == 0 or kinds:
        found = "one string" if isinstance(texts, str) else ", ".join(kinds) or "none"
        raise complaint("texts", "a sequence of one or more strings", found)
    transformers = need("transformers", for_="text_features", extra="text")
    torch = need("torch", for_="text_features", extra="torch")
    folder, origin, sha256 = minilm_folder()
    frozen = Frozen("minilm", None, origin, sha256)
    loaded: list[Any] = []

    def some(part: Sequence[str]) -> NDArray[np.float32]:
        if not loaded:
            loaded.append(transformers.AutoTokenizer.from_pretrained(folder))
            loaded.append(transformers.AutoModel.from_pretrained(folder).eval())
        tokenizer, network = loaded
        tokens = tokenizer(
            list(part), padding=True, truncation=True, max_length=256, return_tensors="pt"
        )
        found = network(**tokens).last_hidden_state
        mask = tokens["attention_mask"][:, :, None].to(found.dtype)
        mean = (found * mask).sum(1) / mask.sum(1)
        return np.asarray(torch.nn.functional.normalize(mean, dim=1).numpy())

    return _cached("texts", list(texts), frozen, {"max_length": 256}, some)


def _cached(
    kind: str,
    items: Any,
    frozen: Frozen,
    options: dict[str, Any],
    compute: Callable[[Any], NDArray[np.float32]],
    *,
    part: int = _PART,
    data: Any = None,
) -> Features:
    provenance = {
        "kind": kind,
        "network": frozen.name,
        "weights": frozen.origin,
        "weights_sha256": frozen.sha256,
        "data_sha256": _digest(items if data is None else data),
        **options,
    }
    key = hashlib.sha256(json.dumps(provenance, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache_folder() / "features"
    folder.mkdir(exist_ok=True)
    array = folder / f"{kind}-{frozen.name}-{key}.npy"
    record = array.with_suffix(".json")
    if not array.exists():
        parts = folder / f".part-{key}-{part}"
        values = _in_parts(items, compute, parts, part)
        torch = need("torch", for_="pilu.datasets.features", extra="torch")
        versions = {"torch": torch.__version__, "python": platform.python_version()}
        told = json.dumps(provenance | {"versions": versions, "shape": values.shape}, indent=1)
        record.write_text(told + "\n")
        _save(array, values)
        shutil.rmtree(parts, ignore_errors=True)
    return Features(np.load(array, mmap_mode="r"), json.loads(record.read_text()))


def _in_parts(
    items: Any, compute: Callable[[Any], NDArray[np.float32]], folder: Path, size: int
) -> NDArray[np.float32]:
    torch = need("torch", for_="pilu.datasets.features", extra="torch")
    folder.mkdir(exist_ok=True)
    paths = []
    bar = progress_bar(len(items), what="features", unit="item")
    with bar, torch.inference_mode(), _without_denormals(torch):
        for start in range(0, len(items), size):
            path = folder / f"{start}.npy"
            paths.append(path)
            some = items[start : start + size]
            if not path.exists():
                batches = [compute(some[k : k + _BATCH]) for k in range(0, len(some), _BATCH)]
                _save(path, np.concatenate(batches))
            bar.update(len(some))
    return np.concatenate([np.load(path) for path in paths])


@contextmanager
def _without_denormals(torch: Any) -> Iterator[None]:
    # They slow convolutions down; but the switch holds for NumPy and Python's own numbers too.
    were_off = np.float64(5e-324) * np.float64(1) == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(bool(were_off))


def _save(path: Path, values: NDArray[np.float32]) -> None:
    # Under another name until it is whole.
    half = path.with_name(f".{os.getpid()}-{path.name}")
    np.save(half, values)
    os.replace(half, path)


def _frozen(network: Any, names: tuple[str, ...]) -> Frozen:
    if isinstance(network, Frozen):
        return network
    return packaged(check_choice("network", network, names))


def _checked_images(given: Any) -> NDArray[np.uint8]:
    images: NDArray[np.uint8] = np.asarray(given)
    # Three channels last are one image in colour, which must be told from grey images.
    colour = images.ndim in (3, 4) and images.shape[-1] == 3
    good = images.ndim == (4 if colour else 3)
    if images.dtype != np.uint8 or not good or len(images) == 0:
        raise complaint(
            "images",
            "bytes of shape n x height x width, or x 3, with n > 0",
            f"{images.dtype} of shape {images.shape}",
        )
    return images


def _tensor(images: NDArray[np.uint8]) -> Any:
    torch = need("torch", for_="pilu.datasets.features", extra="torch")
    pixels = torch.from_numpy(np.array(images)).float() / 255
    if pixels.ndim == 3:  # grey: three times the same channel
        return pixels[:, None].expand(-1, 3, -1, -1)
    return pixels.permute(0, 3, 1, 2)


def _normalised(batch: Any) -> Any:
    torch = need("torch", for_="pilu.datasets.features", extra="torch")
    mean, deviation = (torch.tensor(v)[:, None, None] for v in (_MEAN, _DEVIATION))
    return ((batch - mean) / deviation).contiguous(memory_format=torch.channels_last)


def _digest(items: Any) -> str:
    digest = hashlib.sha256()
    if isinstance(items, np.ndarray):
        digest.update(repr((items.dtype.str, items.shape)).encode())
        digest.update(np.ascontiguousarray(items).tobytes())
    else:
        for text in items:
            digest.update(len(text.encode()).to_bytes(8) + text.encode())
    return digest.hexdigest()
