"""Short texts with human ratings of their sentiment (Hutto and Gilbert 2014)."""

import io
import tarfile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu.datasets.fetch import member, pip_package

__all__ = ["RatedTexts", "load_vader"]

_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
_KINDS = ("tweets", "movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets")


class RatedTexts(NamedTuple):
    """Texts, their mean ratings from -4 (negative) to 4 (positive), and their sources."""

    texts: tuple[str, ...]
    ratings: NDArray[np.float64]
    kinds: tuple[str, ...]


def load_vader() -> RatedTexts:
    """About 23,700 tweets and snippets of reviews and editorials, each rated by twenty people."""
    package = pip_package("vaderSentiment", "3.3.2", "vaderSentiment-3.3.2.tar.gz", _SHA256)
    inner = member(package, "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz")
    texts: list[str] = []
    ratings: list[float] = []
    kinds: list[str] = []
    with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
        for kind in _KINDS:
            file = archive.extractfile(f"hutto_ICWSM_2014/{kind}_GroundTruth.txt")
            assert file is not None
            for line in file.read().decode("utf-8").strip().split("\r\n"):
                _, rating, text = line.split("\t", 2)
                texts.append(text.strip())
                ratings.append(float(rating))
                kinds.append(kind)
    return RatedTexts(tuple(texts), np.array(ratings), tuple(kinds))
