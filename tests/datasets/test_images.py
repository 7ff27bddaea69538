"""MNIST and CIFAR-10: out of small archives of the same layout, and the real ones (slow)."""

import io
import json
import struct

import numpy as np
import pytest
from PIL import Image

from pilu.datasets import CIFAR10_CLASSES, catalogue, load_cifar10, load_mnist


def idx(values):
    """LeCun's format, with its lengths in big-endian order."""
    head = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.tobytes()


def test_mnist_from_a_small_archive(make_archive, monkeypatch, rng):
    # 300 images: a length that does not fit into one byte.
    train, test = (rng.integers(0, 256, (n, 28, 28), dtype=np.uint8) for n in (300, 3))
    labels = rng.integers(0, 10, 300, dtype=np.uint8)
    archive = make_archive(
        "small.tgz",
        {
            "package/data/train-images-idx3-ubyte": idx(train),
            "package/data/train-labels-idx1-ubyte": idx(labels),
            "package/data/t10k-images-idx3-ubyte": idx(test),
            "package/data/t10k-labels-idx1-ubyte": idx(np.array([7, 2, 1], dtype=np.uint8)),
        },
    )
    monkeypatch.setattr(catalogue, "npm_package", lambda *_: archive)
    found = load_mnist()
    np.testing.assert_array_equal(found.train_images, train, strict=True)
    np.testing.assert_array_equal(found.train_labels, labels.astype(np.int64), strict=True)
    np.testing.assert_array_equal(found.test_images, test, strict=True)
    np.testing.assert_array_equal(found.test_labels, np.array([7, 2, 1]), strict=True)


def test_cifar10_from_a_small_archive(make_archive, monkeypatch, rng):
    files, pixels = {}, {}
    for name in [f"data_batch_{k}.png" for k in range(1, 6)] + ["test_batch.png"]:
        # In each picture of the package, a row of 1024 pixels is one photograph.
        pixels[name] = rng.integers(0, 256, (4, 1024, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels[name]).save(buffer, "PNG")
        files[f"package/{name}"] = buffer.getvalue()
    files["package/train_lables.json"] = json.dumps(list(range(20))).encode()
    files["package/test_lables.json"] = json.dumps([3, 1, 4, 1]).encode()
    archive = make_archive("small.tgz", files)
    monkeypatch.setattr(catalogue, "npm_package", lambda *_: archive)
    found = load_cifar10()
    assert found.train_images.shape == (20, 32, 32, 3)
    np.testing.assert_array_equal(found.train_labels, np.arange(20), strict=True)
    np.testing.assert_array_equal(found.test_labels, np.array([3, 1, 4, 1]), strict=True)
    np.testing.assert_array_equal(
        found.train_images[5], pixels["data_batch_2.png"][1].reshape(32, 32, 3), strict=True
    )
    np.testing.assert_array_equal(
        found.test_images[2], pixels["test_batch.png"][2].reshape(32, 32, 3), strict=True
    )


@pytest.mark.slow
def test_the_real_mnist():
    """Its first labels, the count of every digit, and the mean that everybody subtracts."""
    found = load_mnist()
    assert found.train_images.shape == (60_000, 28, 28)
    assert found.test_images.shape == (10_000, 28, 28)
    assert found.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert found.test_labels[:5].tolist() == [7, 2, 1, 0, 4]
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(found.train_labels).tolist() == train
    assert np.bincount(found.test_labels).tolist() == test
    grey = found.train_images / 255
    np.testing.assert_allclose([grey.mean(), grey.std()], [0.1307, 0.3081], atol=5e-5)


@pytest.mark.slow
def test_the_real_cifar10():
    """139 MB: the count of every class, the mean that everybody subtracts, two first labels."""
    found = load_cifar10()
    assert found.train_images.shape == (50_000, 32, 32, 3)
    assert found.test_images.shape == (10_000, 32, 32, 3)
    assert (np.bincount(found.train_labels) == 5000).all()
    assert (np.bincount(found.test_labels) == 1000).all()
    means = found.train_images.mean(axis=(0, 1, 2)) / 255
    np.testing.assert_allclose(means, (0.4914, 0.4822, 0.4465), atol=1e-4)
    assert CIFAR10_CLASSES[found.train_labels[0]] == "frog"
    assert CIFAR10_CLASSES[found.test_labels[0]] == "cat"
