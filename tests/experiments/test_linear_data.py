"""The rows of the linear studies: split, standardised, told apart."""

from dataclasses import replace

import numpy as np
import pytest
from experiments.features import Features
from experiments.linear import data
from experiments.linear.config import STUDIES, DepthData, MnistData

from pilu.datasets import load_motorcycle, patch_targets
from pilu.datasets.depth import Patches


@pytest.fixture
def numbered(made_up_data, monkeypatch):
    """Features that say which row they are of: i, and -i in a second column."""

    def columns(n):
        return np.stack([np.arange(n), -np.arange(n)], axis=1).astype(np.float32)

    def of_patches(images, patches):
        return Features(columns(len(patches.row)), {"of": "patches"})

    def of_images(images, network, *, size):
        return Features(columns(len(images)), {"network": network, "size": size})

    monkeypatch.setattr(data, "hypercolumns", of_patches)
    monkeypatch.setattr(data, "image_features", of_images)


def numbers(found):
    """Which rows are in the two parts, read off their features."""
    order = np.argsort(np.argsort(np.concatenate([found.X[:, 0], found.X_test[:, 0]])))
    return np.split(order, [len(found.X)])


# Both parts


def test_both_parts_are_in_units_of_the_training_part(rng):
    values = rng.normal(3.0, 2.0, size=(40, 5)).astype(np.float32)
    train = np.arange(40) % 4 > 0
    X, X_test = data.standardised(values, train)
    np.testing.assert_allclose(X[:, :5].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X[:, :5].std(axis=0), 1, rtol=1e-12)
    assert (X[:, 5] == 1).all()
    assert (X_test[:, 5] == 1).all()
    by_hand = (values[0] - values[train].mean(axis=0, dtype=float)) / values[train].std(
        axis=0, dtype=float
    )
    np.testing.assert_allclose(X_test[0, :5], by_hand, rtol=1e-6)
    assert X.dtype == X_test.dtype == np.float64


def test_held_out_rows_have_no_say_in_the_units(rng):
    values, train = rng.normal(size=(20, 3)), np.arange(20) < 15
    other = np.where(train[:, None], values, 1e6)
    np.testing.assert_array_equal(
        data.standardised(values, train)[0], data.standardised(other, train)[0]
    )


@pytest.mark.parametrize("constant", [0.0, 2.5, 0.1])
def test_a_feature_that_never_changes_says_nothing(constant, rng):
    values, train = rng.normal(size=(1010, 2)), np.arange(1010) < 1000
    values[:, 1] = constant
    X, X_test = data.standardised(values, train)
    np.testing.assert_allclose(X[:, 1], 0, atol=1e-9)
    np.testing.assert_allclose(X_test[:, 1], 0, atol=1e-9)


def test_the_digest_is_that_of_all_numbers(depth):
    given = depth.data
    told = data.with_provenance(given).provenance
    assert data.with_provenance(given).provenance == told
    assert len(told["sha256"]) == 64
    assert told["rows"] == {"train": 121, "test": 19, "columns": 6}
    for name in ("X", "y", "X_test", "y_test"):
        part = getattr(given, name).copy()
        part.flat[-1] = np.nextafter(part.flat[-1], np.inf)
        assert (
            data.with_provenance(given._replace(**{name: part})).provenance["sha256"]
            != told["sha256"]
        )
    turned = given._replace(X=np.asfortranarray(given.X))  # the same numbers, lying otherwise
    assert data.with_provenance(turned).provenance["sha256"] == told["sha256"]


# Depth


def test_whole_blocks_of_columns_are_held_out():
    settings = DepthData(patch=3, block=13)
    column = np.arange(741)
    patches = Patches(np.zeros(741, int), np.zeros(741, int), column, np.zeros(741))
    train = data.training_part(patches, settings)
    held_out = column[~train]
    # Blocks of 13 x 3 = 39 pixels; of seven, the fourth: 3, 10 and 17.
    np.testing.assert_array_equal(
        held_out, np.concatenate([np.arange(39 * block, 39 * block + 39) for block in (3, 10, 17)])
    )


def test_depth_rows_are_the_scenes_patches(numbered):
    settings = DepthData(patch=50, block=2)
    found = data.load_depth(settings)
    patches = patch_targets(load_motorcycle().depth, 50)
    train, test = numbers(found)
    np.testing.assert_array_equal(found.y, patches.depth[train])
    np.testing.assert_array_equal(found.y_test, patches.depth[test])
    for column, picked in zip(patches, found.pictures, strict=True):
        np.testing.assert_array_equal(picked, column[train])
    assert set(patches.column[test] // 100) == {3}
    assert 3 not in patches.column[train] // 100
    assert not found.is_classification
    assert found.provenance["features"] == {"of": "patches"}


@pytest.mark.parametrize("every", [1, 2])
def test_one_in_so_many_features(numbered, every):
    assert data.load_depth(DepthData(50, 2, every=every)).X.shape[1] == 2 // every + 1
    assert data.load_digits(MnistData(50, 60, 20, 32, every)).X.shape[1] == 2 // every + 1


# MNIST


def test_digits_come_out_of_both_parts(numbered):
    settings = MnistData(n_train=50, n_from_train=60, n_from_test=20, image_size=32)
    found, mnist = data.load_digits(settings), data.load_mnist()
    images = np.concatenate([mnist.train_images[:60], mnist.test_images[:20]])
    labels = np.concatenate([mnist.train_labels[:60], mnist.test_labels[:20]])
    train, test = numbers(found)
    assert (len(train), len(test)) == (50, 30)
    assert sorted([*train, *test]) == list(range(80))
    assert (train >= 60).any()
    assert (test < 60).any()
    np.testing.assert_array_equal(found.y, labels[train])
    np.testing.assert_array_equal(found.y_test, labels[test])
    np.testing.assert_array_equal(found.pictures, images[train])
    assert found.is_classification
    assert found.provenance["features"] == {"network": "resnet50", "size": 32}


def test_the_permutation_is_fixed(numbered):
    settings = MnistData(n_train=50, n_from_train=60, n_from_test=20, image_size=32)
    first, again = data.load_digits(settings), data.load_digits(settings)
    assert first.provenance == again.provenance
    more = data.load_digits(replace(settings, n_train=51))
    assert set(numbers(first)[0]) < set(numbers(more)[0])


def test_a_study_loads_its_own_data(made_up_data, monkeypatch, depth, digits):
    toys = {"depth": depth.study, "mnist": digits.study}
    monkeypatch.setitem(STUDIES, "small", toys)
    for name, engine in (("depth", depth), ("mnist", digits)):
        found = data.load.__wrapped__(name, "small")
        assert found.provenance == engine.data.provenance
