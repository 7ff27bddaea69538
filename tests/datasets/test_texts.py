"""VADER's texts: out of a small archive in an archive, and the real ones (slow)."""

import io
import tarfile
from collections import Counter

import numpy as np
import pytest

from pilu.datasets import catalogue, load_vader

LINES = {
    # The second tweet has a tab and a line separator inside.
    "tweets": "1\t2.5\tgood :)\r\n2\t-0.75\tso\tso \u2028 \u00e9",
    "movieReviewSnippets": "1_1\t-3.9\tbad",
    "amazonReviewSnippets": "1_1\t0\tit came",
    "nytEditorialSnippets": "1_1\t1e-1\tthe vote",
}


def test_vader_from_a_small_archive(make_archive, monkeypatch):
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        for kind, lines in LINES.items():
            content = f"{lines}\r\n".encode()
            info = tarfile.TarInfo(f"hutto_ICWSM_2014/{kind}_GroundTruth.txt")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    name = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
    package = make_archive("small.tar.gz", {name: inner.getvalue()})
    monkeypatch.setattr(catalogue, "pip_package", lambda *_: package)
    found = load_vader()
    assert found.texts == ("good :)", "so\tso \u2028 \u00e9", "bad", "it came", "the vote")
    np.testing.assert_array_equal(found.ratings, [2.5, -0.75, -3.9, 0.0, 0.1])
    assert found.kinds == ("tweets", *LINES)


@pytest.mark.slow
def test_the_real_vader():
    """The numbers of texts that its authors give, and ratings from -4 to 4."""
    found = load_vader()
    assert Counter(found.kinds) == {
        "tweets": 4200,
        "movieReviewSnippets": 10_605,
        "amazonReviewSnippets": 3708,
        "nytEditorialSnippets": 5190,
    }
    assert len(found.texts) == len(found.ratings) == 23_703
    assert -4 <= found.ratings.min() < -3
    assert 3 < found.ratings.max() <= 4
    assert all(found.texts)
