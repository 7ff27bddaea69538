"""Labels become columns of numbers and back."""

import pickle

import numpy as np
import pytest

from pilu.data.targets import ClassTargets, NumericTargets

THREE = np.array(["ash", "beech", "oak"])
LABELS = np.array(["oak", "ash", "oak", "beech"])


@pytest.mark.parametrize("signed", [False, True])
def test_a_column_for_each_of_three_classes(signed):
    targets = ClassTargets(THREE, signed=signed)
    Y = targets.encode(LABELS)
    np.testing.assert_array_equal(Y, [[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(targets.members(Y), Y)
    np.testing.assert_array_equal(targets.counts(Y.sum(axis=0), 4), [1, 1, 2])
    assert targets.n_outputs == 3


def test_two_classes_with_signs():
    targets = ClassTargets(THREE[1:], signed=True)
    Y = targets.encode(LABELS, strict=False)
    np.testing.assert_array_equal(Y, [[1], [0], [1], [-1]])  # ash is none of them
    np.testing.assert_array_equal(targets.members(Y), [[0, 1], [0, 0], [0, 1], [1, 0]])
    known = Y[[0, 2, 3]]
    np.testing.assert_array_equal(targets.counts(known.sum(axis=0), 3), [1, 2])
    assert (targets.n_outputs, ClassTargets(THREE[1:]).n_outputs) == (1, 2)


@pytest.mark.parametrize("labels", [np.array([1, 2, 2]), np.array(["ash", "elm", "oak"])])
def test_labels_of_no_class(labels):
    targets = ClassTargets(THREE)
    with pytest.raises(ValueError, match=r"t\.csv: y must be one of the 3 classes .* got"):
        targets.encode(labels, where="t.csv: y")
    rows = targets.encode(labels, strict=False)
    assert rows.shape == (3, 3)
    np.testing.assert_array_equal(rows.sum(axis=1), np.isin(labels, THREE))


def test_the_last_row_of_a_class():
    targets = pickle.loads(pickle.dumps(ClassTargets(THREE)))
    targets.check_left(np.array([0.0, 2, 1]), np.array([0.0, 1, 1]), "do not")  # ash had none
    with pytest.raises(ValueError, match=r"last row\(s\) of class 'oak'.* do not\.$"):
        targets.check_left(np.array([1.0, 2, 0]), np.array([0.0, 0, 1]), "do not")


def test_numbers():
    np.testing.assert_array_equal(NumericTargets().encode(np.array([1, 2])), [[1.0], [2.0]])
    assert NumericTargets(3).encode(np.ones((2, 3), dtype=np.float32)).dtype == np.float64
    with pytest.raises(ValueError, match="y must be finite"):
        NumericTargets().encode(np.array([1.0, np.nan]))
    assert np.isnan(NumericTargets().encode(np.array([1.0, np.nan]), strict=False)[1, 0])
    with pytest.raises(ValueError, match="y must be numeric"):
        NumericTargets().encode(np.array(["a"]))
