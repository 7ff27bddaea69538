"""Classes in partitions: every row has exactly one, at every reading."""

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning

from data.partitions.conftest import COLUMNS, N
from data.partitions.test_dask import QUOTE, SETTINGS, statistics
from pilu import LangevinRidgeClassifier
from pilu.exceptions import RowsNotAttached

HALF = N // 2


@pytest.fixture
def up(rows):
    return rows[1] > 0


def classifier():
    return LangevinRidgeClassifier(**SETTINGS)


def in_halves(first, second):
    """Partitions of types of their own, as files may have them."""
    parts = [da.from_delayed(dask.delayed(v), (HALF,), dtype=object) for v in (first, second)]
    return da.concatenate(parts)


def halves(rows):
    return da.from_array(rows[0], chunks=(HALF, -1))


@pytest.mark.parametrize("unit", ["ns", "s", "D"])
@pytest.mark.parametrize("kind", ["arrays", "frames"])
def test_dates_are_classes(rows, frame, up, unit, kind):
    labels = np.where(up, np.datetime64("2020-01-01"), np.datetime64("2021-01-01"))
    labels = labels.astype(f"M8[{unit}]")
    if kind == "frames":
        whole = dd.from_pandas(frame.assign(label=labels), npartitions=3, sort=False)
        found = classifier().fit(whole[COLUMNS], whole["label"])
    else:
        found = classifier().fit(halves(rows), da.from_array(labels, chunks=HALF))
    expected = classifier().fit(rows[0], labels)
    # The last row of X'Y counts each class.
    np.testing.assert_array_equal(statistics(found).cross[-1], [up.sum(), N - up.sum()])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    noise = found.quote(**QUOTE).compute()["noise"]
    assert (noise > 0).any()
    np.testing.assert_allclose(noise, expected.quote(**QUOTE).noise, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        (int, lambda up: np.where(up, "1", "0"), "text and whole numbers"),
        (bool, lambda up: np.where(up, "True", "False"), "text and truth values"),
        (lambda up: np.where(up, 2**53, 2**53 + 1), float, "floats and whole numbers"),
        (lambda up: np.where(up, 2**63, 2**63 + 1).astype(np.uint64), int, "int64 and uint64"),
        (bool, int, "truth values and whole numbers"),
        (
            lambda up: up.astype(int).astype(object),
            lambda up: np.where(up, "1", "0").astype(object),
            "text and whole numbers",
        ),
    ],
)
def test_labels_of_one_type(rows, up, first, second, kinds):
    parts = [
        how(half) if callable(how) and not isinstance(how, type) else half.astype(how)
        for how, half in ((first, up[:HALF]), (second, up[HALF:]))
    ]
    with pytest.raises(ValueError, match=f"labels of one type in all partitions, got {kinds}"):
        classifier().fit(halves(rows), in_halves(*parts))


def test_types_that_hold_each_other_are_one(rows, up):
    found = classifier().fit(
        halves(rows), in_halves(up[:HALF].astype(np.int8), up[HALF:].astype(np.int64))
    )
    np.testing.assert_array_equal(found.classes_, [0, 1])
    assert statistics(found).cross[-1].sum() == N


def test_labels_that_change_between_two_readings(rows):
    read = []

    def labels(k):
        read.append(k)
        return np.array((["u", "d"] if len(read) <= 2 else ["x", "d"]) * (HALF // 2))

    parts = [
        da.from_delayed(dask.delayed(labels, pure=False)(k), (HALF,), dtype="U1") for k in (0, 1)
    ]
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(ValueError, match="one of the 2 classes of the fit in every row, got 'x'"),
    ):
        classifier().fit(halves(rows), da.concatenate(parts))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_labels(rows, up, missing):
    labels = np.where(up, "u", "d").astype(object)
    labels[7] = missing
    with pytest.raises(ValueError, match="y must have a class in every row, got a missing one"):
        classifier().fit(halves(rows), in_halves(labels[:HALF], labels[HALF:]))


def test_missing_labels_of_a_frame(frame, up):
    for labels in (
        pd.Series(np.where(up, "u", "d"), index=frame.index).where(frame["y"] < 2.0),
        pd.Series(up, index=frame.index).astype("Int64").where(frame["y"] < 2.0),
        pd.Series(np.where(up, np.datetime64("2020"), np.datetime64("NaT")), index=frame.index),
    ):
        whole = dd.from_pandas(frame.assign(label=labels), npartitions=3, sort=False)
        with pytest.raises(ValueError, match="y must have a class in every row"):
            classifier().fit(whole[COLUMNS], whole["label"])


def test_a_frame_of_one_column(frame, up):
    whole = dd.from_pandas(
        frame.assign(label=up, other=~up).astype({"label": "boolean"}), npartitions=3, sort=False
    )
    with pytest.warns(DataConversionWarning, match="y must be a vector of classes"):
        found = classifier().fit(whole[COLUMNS], whole[["label"]])
    np.testing.assert_array_equal(
        found.coef_, classifier().fit(whole[COLUMNS], whole["label"]).coef_
    )
    with pytest.raises(ValueError, match="y must be one column of classes, got shape"):
        classifier().fit(whole[COLUMNS], whole[["label", "other"]])


# Counts of classes


@pytest.fixture
def watched(rows):
    """X whose partitions of 40 rows are noted when they are read."""
    read = []

    def note(block, number):
        read.append(number)
        return block

    blocks = [
        da.from_delayed(dask.delayed(note)(rows[0][40 * k : 40 * k + 40], k), (40, 6), float)
        for k in range(6)
    ]
    with dask.config.set(scheduler="synchronous"):
        yield da.concatenate(blocks), read


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_request_reads_the_partition_of_its_row_only(watched, rows, up, fit_intercept):
    X, read = watched
    y = da.from_array(np.where(up, "u", "d"), chunks=40)
    found = LangevinRidgeClassifier(fit_intercept=fit_intercept, **SETTINGS).fit(X, y)
    for row, options in ((50, {}), (51, {"keep_empty_classes": True}), (52, {})):
        read.clear()
        found.unlearn(row, **options, **QUOTE)
        assert set(read) == {1}
    loaded = pickle.loads(pickle.dumps(found)).attach(X, y)
    read.clear()
    loaded.unlearn(130, **QUOTE)
    assert set(read) == {3}
    read.clear()
    loaded.unlearn(method="redraw")
    assert not read


def test_the_last_row_of_a_class(rows):
    labels = np.array(["a", "b", "c"])[np.arange(N) % 2]
    labels[[17, 200]] = "c"
    X, y = da.from_array(rows[0], chunks=(70, -1)), da.from_array(labels, chunks=70)
    # Fitted here, there, and here with the partitions attached, where classes are counted first.
    here = classifier().fit(rows[0], labels)
    there = classifier().fit(X, y)
    attached = classifier().fit(rows[0], labels).attach(X, y)
    for model in (here, there, attached):
        model.unlearn(3, **QUOTE)
        with pytest.raises(ValueError, match=r"the last row\(s\) of class .*'c'"):
            model.unlearn([17, 200], **QUOTE)
        model.unlearn(17, **QUOTE)
        with pytest.raises(ValueError, match=r"the last row\(s\) of class .*'c'"):
            model.unlearn(200, **QUOTE)
        model.unlearn(200, keep_empty_classes=True, **QUOTE)
        model.unlearn([4, 5], **QUOTE)
    left = [(labels[there.remaining_] == name).sum() for name in "abc"]
    np.testing.assert_array_equal(there.fitted_.class_counts, left)


def test_counts_of_another_fit_are_forgotten(rows):
    labels = np.where(np.arange(N) < 2, "rare", "often")
    X = da.from_array(rows[0], chunks=(70, -1))
    often = da.from_array(np.where(np.arange(N) % 2, "rare", "often"), chunks=70)
    model = classifier().fit(X, often).fit(rows[0], labels)
    model.attach(X, da.from_array(labels, chunks=70))
    with pytest.raises(ValueError, match=r"the last row\(s\) of class .*'rare'"):
        model.unlearn([0, 1], **QUOTE)


def test_counts_of_another_moment_are_forgotten(rows):
    labels = np.where(np.arange(N) < 2, "rare", "often")
    given = da.from_array(rows[0], chunks=(70, -1)), da.from_array(labels, chunks=70)
    model = classifier().fit(*given)
    model.attach(rows[0], labels).unlearn(0, **QUOTE)  # in memory, where nothing is counted off
    with pytest.raises(ValueError, match=r"the last row\(s\) of class .*'rare'"):
        model.attach(*given).unlearn(1, **QUOTE)


def test_a_redraw_of_nobody_needs_no_rows(rows, up):
    loaded = pickle.loads(pickle.dumps(classifier().fit(rows[0], up)))
    loaded.unlearn(method="redraw")
    with pytest.raises(RowsNotAttached):
        loaded.unlearn(3, **QUOTE)
