"""Partitions as they come: shuffled, empty, permuted, nullable, attached again, or wrong."""

import pickle

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from data.partitions.conftest import COLUMNS, N, P
from data.partitions.test_dask import QUOTE, SETTINGS, as_arrays, as_frames, statistics
from pilu import LangevinLogistic, LangevinRidge, LangevinRidgeClassifier
from pilu.data.statistics import Statistics
from pilu.estimators import partitioned
from pilu.exceptions import RowsChanged


def ridge(**other):
    return LangevinRidge(**SETTINGS, **other)


@pytest.fixture
def model(rows):
    return ridge().fit(*rows)


def whole(table, n=4):
    return dd.from_pandas(table, npartitions=n, sort=False)


def same_sums(found, model):
    for name in ("gram", "cross"):
        here, there = getattr(statistics(found), name), getattr(statistics(model), name)
        assert np.linalg.norm(here - there) <= 1e-12 * np.linalg.norm(there)


def same_quotes(found, model):
    """By the quicker accountant; test_dask has both."""
    asked = {**QUOTE, "accountant": "theorem"}
    quoted, expected = found.quote(**asked).compute(), model.quote(**asked)
    assert len(quoted) == len(expected.noise)
    np.testing.assert_allclose(quoted["noise"], expected.noise, rtol=1e-8)
    return quoted


# Rows side by side


def shuffling(table, read):
    """A database without ORDER BY: rows come in another order whenever they are asked for."""

    def part(k, columns=None):
        read.append(k)
        some = table[60 * k : 60 * k + 60].sample(frac=1)
        return some if columns is None else some[columns]

    return dd.from_map(part, range(4), meta=table[:0])


def test_features_and_targets_are_read_together(frame, model):
    read = []
    table = frame.assign(person=np.arange(N) // 4)
    given = shuffling(table, read)
    with dask.config.set(scheduler="synchronous"):
        found = ridge().fit(
            given[COLUMNS], given["y"], sample_ids=given.index, subjects=given["person"]
        )
    assert sorted(read) == [0, 1, 2, 3]
    same_sums(found, model)
    # Ids and subjects are those of the rows that were read with them.
    book = found.fitted_.book
    for person, positions in book.subjects.items():
        names = {name for name, (row,) in book.ids.items() if row in positions}
        assert names == set(table.index[table["person"] == person])


def test_only_the_columns_in_use_are_read(frame):
    asked = []

    def part(k, columns=None):
        asked.append(columns)
        return (
            frame[60 * k : 60 * k + 60] if columns is None else frame[60 * k : 60 * k + 60][columns]
        )

    given = dd.from_map(part, range(4), meta=frame[:0])
    with dask.config.set(scheduler="synchronous"):
        ridge().fit(given[["f1", "f3"]], given["y"])
    assert {tuple(sorted(columns)) for columns in asked} == {("f1", "f3", "y")}


def test_arrays_of_one_reading():
    def read(k):
        return np.random.default_rng().normal(size=(60, 5))  # other numbers every time

    table = da.concatenate(
        [da.from_delayed(dask.delayed(read)(k), (60, 5), float) for k in range(3)]
    )
    table = da.concatenate([table, table.sum(axis=1, keepdims=True)], axis=1)
    found = LangevinRidge(n_steps=4000, noise=1e-4).fit(table[:, :5], table[:, 5])
    np.testing.assert_allclose(found.coef_, 1.0, atol=1e-2)  # y is the sum of X's columns


def test_another_index_is_refused(frame):
    X, y = as_frames(frame)
    turned = frame["y"].sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match="X and y must have the same index in every partition"):
        ridge().fit(X, as_frames(turned.to_frame().assign(**dict.fromkeys(COLUMNS, 0.0)))[1])
    people = whole(pd.Series(range(N), index=frame.index[::-1], name="p"), n=X.npartitions)
    with pytest.raises(ValueError, match="X and subjects must have the same index"):
        ridge().fit(X, y, subjects=people)


@pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")
def test_names_as_dask_arrays(rows):
    X, y = as_arrays(rows)
    people = da.from_array(np.arange(N) // 4, chunks=70)
    found = ridge().fit(X, y, subjects=people, sample_ids=da.arange(100, 100 + N, chunks=70))
    assert found.unlearn(subject=3, **QUOTE).rows == (12, 13, 14, 15)
    assert found.unlearn(ids=101, **QUOTE).rows == (1,)
    with pytest.raises(ValueError, match="X and subjects must have the same partitions"):
        ridge().fit(X, y, subjects=people.rechunk(30))


# Columns


def test_columns_are_put_in_order_by_their_names(frame, model):
    parts = [dask.delayed(frame[COLUMNS][:120]), dask.delayed(frame[COLUMNS[::-1]][120:])]
    X = dd.from_delayed(parts, meta=frame[COLUMNS][:0], verify_meta=False)
    found = ridge().fit(X, whole(frame, 2)["y"])
    same_sums(found, model)
    same_quotes(found, model)
    targets = frame[["f0", "y"]].rename(columns={"f0": "z"})
    parts = [dask.delayed(targets[:120]), dask.delayed(targets[["y", "z"]][120:])]
    Y = dd.from_delayed(parts, meta=targets[:0], verify_meta=False)
    same_sums(ridge().fit(whole(frame, 2)[COLUMNS], Y), ridge().fit(frame[COLUMNS], targets))


def test_columns_that_are_not_the_declared_ones(rows, frame):
    parts = [
        dask.delayed(frame[COLUMNS][:120]),
        dask.delayed(frame[COLUMNS][120:].rename(columns={"f0": "g0"})),
    ]
    X = dd.from_delayed(parts, meta=frame[COLUMNS][:0], verify_meta=False)
    with pytest.raises(ValueError, match=r"X must have the columns 'f0', .*, got 'g0'"):
        ridge().fit(X, whole(frame, 2)["y"])

    def narrow(block, block_info=None):
        number = block_info[0]["chunk-location"][0] if block_info else 0
        return block[:, :1] if number == 1 else block

    X, y = da.from_array(rows[0], chunks=(60, P)), da.from_array(rows[1], chunks=60)
    X = X.map_blocks(narrow, dtype=float, meta=np.empty((0, 0)))
    for fit_intercept in (True, False):
        with pytest.raises(ValueError, match=r"X must have 6 column\(s\) in every partition"):
            ridge(fit_intercept=fit_intercept).fit(X, y)


def test_names_of_columns_are_those_of_the_last_fit(rows, frame):
    found = ridge().fit(*as_frames(frame))
    assert list(found.feature_names_in_) == COLUMNS
    found.fit(*as_arrays(rows))
    assert not hasattr(found, "feature_names_in_")
    found.predict(rows[0])
    numbered = frame.rename(columns=dict(zip(COLUMNS, range(P), strict=True)))
    found.fit(whole(numbered)[list(range(P))], whole(numbered)["y"])
    assert not hasattr(found, "feature_names_in_")  # as in memory
    found.predict(numbered[list(range(P))])


# Empty partitions


@pytest.mark.parametrize("kind", ["arrays", "frames"])
@pytest.mark.parametrize("classes", [False, True])
def test_empty_partitions(rows, frame, kind, classes):
    values = np.where(rows[1] > 0, "u", "d") if classes else rows[1]
    make = LangevinRidgeClassifier if classes else LangevinRidge
    if kind == "arrays":
        first = 0
        sizes = (0, 100, 0, 0, N - 100, 0)
        X = da.from_array(rows[0], chunks=(sizes, P))
        y = da.from_array(values, chunks=(sizes,))
    else:
        first = 130
        table = whole(frame.assign(y=values, k=np.arange(N)), 5)
        table = table[table["k"] >= first]
        X, y = table[COLUMNS], table["y"]
    found = make(**SETTINGS).fit(X, y)
    expected = make(**SETTINGS).fit(rows[0][first:], values[first:])
    same_sums(found, expected)
    same_quotes(found, expected)
    for model in (found, expected):
        model.unlearn([2, 105], **QUOTE)
    loaded = pickle.loads(pickle.dumps(found)).attach(X, y)
    same_quotes(loaded, expected)
    loaded.unlearn(9, **QUOTE)


def test_an_empty_partition_of_any_type(frame, model):
    nothing = pd.DataFrame({name: [] for name in [*COLUMNS, "y"]}, dtype=object)
    parts = [dask.delayed(part) for part in (frame[:120], nothing, frame[120:])]
    table = dd.from_delayed(parts, meta=frame[:0], verify_meta=False)
    found = ridge().fit(table[COLUMNS], table["y"])
    same_sums(found, model)
    same_quotes(found, model)
    assert found.unlearn(ids="row 130", **QUOTE).rows == (130,)


def test_nothing_but_empty_partitions(rows, frame):
    with pytest.raises(ValueError, match="at least 2 rows, got n_samples=0"):
        ridge().fit(da.from_array(rows[0][:0]), da.from_array(rows[1][:0]))
    none = whole(frame)
    none = none[none["y"] > 1e9]
    with pytest.raises(ValueError, match="at least 2 classes, got n_classes=0"):
        LangevinRidgeClassifier().fit(none[COLUMNS], none["y"])


# Types of numbers


@pytest.mark.parametrize(
    "kind",
    ["bool", "boolean", "int8", "uint64", "Int64", "Float32", "double[pyarrow]", "int64[pyarrow]"],
)
def test_types_of_columns(frame, kind):
    values = (frame["f0"] > 0).astype(kind)
    if kind in ("Float32", "double[pyarrow]"):
        values = frame["f0"].astype("float32").astype(kind)
    table = frame.assign(f0=values)
    plain = table.astype({"f0": float})
    same_sums(ridge().fit(*as_frames(table)), ridge().fit(plain[COLUMNS], plain["y"]))
    only, alone = whole(table[["f0"]].assign(g=values)), plain[["f0"]].assign(g=plain["f0"])
    same_sums(ridge().fit(only, only["g"]), ridge().fit(alone, alone["g"]))


@pytest.mark.parametrize("kind", ["Int64", "boolean", "Float64", "int64[pyarrow]", "float64"])
def test_missing_values_are_refused_by_their_column(frame, kind):
    values = (frame["f3"] > 0).astype("boolean").where(frame["f3"] < 2.0)
    table = frame.assign(f3=values.astype(kind))
    with pytest.raises(ValueError, match=r"X must be finite, got a missing value.* in column 'f3'"):
        ridge().fit(*as_frames(table))
    table = frame.assign(f3=pd.array([pd.NA] * N, dtype="Int64"))
    with pytest.raises(ValueError, match="in column 'f3'"):
        ridge().fit(*as_frames(table))


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)])
def test_whole_numbers_that_would_be_rounded(rows, frame, value):
    numbers = np.arange(N)
    numbers[77] = value
    for kind in ("int64", "Int64", "int64[pyarrow]"):
        table = frame.assign(f2=pd.array(numbers, dtype=kind))
        with pytest.raises(ValueError, match=r"X's column 'f2' must be within 2\^53"):
            ridge().fit(*as_frames(table))
    X, y = as_arrays(rows)
    with pytest.raises(ValueError, match=r"y must be within 2\^53"):
        ridge().fit(X, da.from_array(numbers, chunks=70))
    with pytest.raises(ValueError, match=r"X must be within 2\^53"):
        ridge().fit(da.from_array(np.stack([numbers] * P, axis=1), chunks=(70, P)), y)


# Quotes as frames


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of dask's, to pandas
@pytest.mark.parametrize("kind", ["text", "dates", "numbers"])
def test_quotes_have_the_index_that_they_declare(frame, kind, tmp_path):
    index = {
        "text": frame.index,
        "dates": pd.date_range("2020", periods=N),
        "numbers": pd.RangeIndex(1000, 1000 + N),
    }[kind].rename("row_id")
    lazy = ridge().fit(*as_frames(frame.set_index(index))).quote(**QUOTE)
    quoted = lazy.compute()
    assert lazy._meta.index.name == quoted.index.name == "row_id"
    assert lazy._meta.index.dtype == quoted.index.dtype
    assert list(lazy.reset_index()["row_id"].compute()) == list(index)
    lazy.to_parquet(tmp_path)
    kept = pd.read_parquet(tmp_path)
    np.testing.assert_array_equal(kept["noise"], quoted["noise"])


# Attaching


@pytest.mark.parametrize("kind", ["arrays", "frames"])
def test_forgotten_rows_may_hold_anything(rows, frame, kind, model):
    given = as_arrays if kind == "arrays" else as_frames
    found = ridge().fit(*given(rows if kind == "arrays" else frame))
    for each in (found, model):
        each.unlearn([3, 200], **QUOTE)
    X, y = rows[0].copy(), rows[1].copy()
    X[[3, 200]], y[[3, 200]] = np.nan, np.inf
    table = frame.copy()
    table.iloc[[3, 200]] = np.nan
    found.attach(*(as_arrays((X, y)) if kind == "arrays" else as_frames(table)))
    same_quotes(found, model)
    assert found.unlearn(5, **QUOTE).noise == pytest.approx(model.unlearn(5, **QUOTE).noise)


@pytest.mark.parametrize("kind", ["arrays", "frames"])
def test_the_rows_that_are_left_are_attached(rows, frame, kind, model):
    left = np.setdiff1d(np.arange(N), [3, 200])
    if kind == "arrays":
        found, rest = ridge().fit(*as_arrays(rows)), as_arrays((rows[0][left], rows[1][left]))
    else:
        found, rest = ridge().fit(*as_frames(frame)), as_frames(frame.iloc[left])
    for each in (found, model):
        each.unlearn([3, 200], **QUOTE)
    found.attach(*rest)
    quoted = same_quotes(found, model)
    assert list(quoted.index) == list(left if kind == "arrays" else frame.index[left])
    for each in (found, model):
        assert each.unlearn([2, 239], **QUOTE).rows == (2, 239)
    same_quotes(found, model)
    few = as_frames(frame[:50]) if kind == "frames" else as_arrays((rows[0][:50], rows[1][:50]))
    with pytest.raises(ValueError, match="all 240 rows of the fit or the 236 remaining ones"):
        found.attach(*few)


@pytest.mark.parametrize("there", [True, False])
def test_the_index_of_the_fit(rows, frame, there):
    found = ridge().fit(*(as_frames(frame) if there else (frame[COLUMNS], frame["y"])))
    turned = frame.set_index(frame.index[::-1])
    with pytest.raises(ValueError, match="index of the fit, got 'row 239' where it was 'row 0'"):
        found.attach(*as_frames(turned))
    found.attach(*as_frames(frame))
    found.unlearn(ids="row 5", **QUOTE)
    expected = found.quote(**QUOTE).compute()
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        found.attach(*as_arrays(rows))
    quoted = found.quote(**QUOTE)  # arrays have no index: the fit's stays
    assert quoted._meta.index.dtype == quoted.compute().index.dtype
    pd.testing.assert_series_equal(
        quoted.compute()["noise"], expected["noise"], check_index_type=False
    )
    assert "row 5" not in expected.index


def test_an_index_that_is_nobodys_name(frame):
    found = ridge().fit(*as_frames(frame), sample_ids=range(N))
    found.attach(*as_frames(frame.set_index(frame.index[::-1])))
    assert found.unlearn(ids=7, **QUOTE).rows == (7,)


def test_wrong_things_to_attach(rows, frame):
    X, y = as_arrays(rows)
    found = ridge().fit(X, y)
    short = da.from_array(rows[1][:-10], chunks=((70, 70, 70, 20),))
    for given, complaint in (
        ((X, short), "X and y must have as many rows, got 30 and 20"),
        ((X.map_blocks(scipy.sparse.csr_matrix), y), "X must be dense, got sparse partitions"),
        ((X[:, :3], y), "X has 3 features, but LangevinRidge is expecting 6"),
        ((X, y.astype("U32")), "y must be numeric"),
    ):
        with pytest.raises(ValueError, match=complaint):
            found.attach(*given).unlearn(2, **QUOTE)
    with pytest.raises(
        ValueError, match=r"must be arrays or memory maps for losses other than ridge"
    ):
        LangevinLogistic(n_steps=5).fit(rows[0], rows[1] > 0).attach(X, y)


def test_partitions_that_grow_later(rows):
    n = [60]
    parts = [dask.delayed(lambda k: rows[0][60 * k : 60 * k + n[0]], pure=False)(k) for k in (0, 1)]
    X = da.concatenate([da.from_delayed(part, (60, P), float) for part in parts])
    y = da.concatenate(
        [
            da.from_delayed(
                dask.delayed(lambda k: rows[1][60 * k : 60 * k + n[0]], pure=False)(k), (60,), float
            )
            for k in (0, 1)
        ]
    )
    with dask.config.set(scheduler="synchronous"):
        found = ridge().fit(X, y)
        n[0] = 70
        with pytest.raises(RowsChanged, match=r"a partition has 70 row\(s\), and had 60"):
            found.quote(**QUOTE).compute()
        with pytest.raises(RowsChanged, match=r"a partition has 70 row\(s\), and had 60"):
            found.unlearn(5, **QUOTE)


# More columns than rows


@pytest.mark.parametrize("kind", ["arrays", "frames"])
def test_more_columns_than_a_machine_could_square(kind, monkeypatch):
    rng = np.random.default_rng(1)
    p = 60_000 if kind == "arrays" else 1_100
    X, y = rng.normal(size=(12, p)), rng.normal(size=12)
    expected = ridge().fit(X, y)
    monkeypatch.setattr(Statistics, "of_rows", None)  # p x p sums are not made
    monkeypatch.setattr(partitioned, "check_room", None)
    if kind == "arrays":
        given = da.from_array(X, chunks=(5, p)), da.from_array(y, chunks=5)
    else:
        table = whole(pd.DataFrame(X).rename(columns=str).assign(y=y), 3)
        given = table[list(map(str, range(p)))], table["y"]
    found = ridge().fit(*given)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-14)


# What cannot be meant


def test_things_that_are_no_tables(rows):
    X, y = as_arrays(rows)
    unknown = X[:, da.from_array(np.ones(P, dtype=bool), chunks=P)]
    for given, complaint in (
        ((unknown, y), "X must have a known number of columns"),
        ((X.map_blocks(lambda b: b[:, :2], dtype=float), y), r"X must have 6 column\(s\)"),
        (
            (dask.bag.from_sequence([1, 2]), y),
            "X must be a dask array or dataframe, got a dask Bag",
        ),
        ((dask.delayed(rows[0]), y), "X must be a dask array or dataframe, got a dask Delayed"),
        ((X, dask.delayed(rows[1])), "y must be a dask array or dataframe"),
        ((X[:, :0], y), "X must have at least 1 column, got 0"),
        ((X[:, 0], y), "X must have two dimensions"),
        ((X, y[:, None, None]), "y must have one or two dimensions"),
        ((X, y[:, None].map_blocks(scipy.sparse.csr_matrix)), "y must be dense"),
    ):
        with pytest.raises(ValueError, match=complaint):
            ridge().fit(*given)


def raise_it(block, error):
    raise error


@pytest.mark.parametrize("error", [TimeoutError("s3 timed out"), ConnectionError("db is down")])
def test_errors_of_a_task_are_no_lost_cluster(rows, error):
    X, y = as_arrays(rows)
    broken = X.map_blocks(raise_it, error, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(type(error), match=str(error)):
        ridge().fit(broken, y)


def test_errors_of_a_task_on_a_cluster(client, rows):
    X, y = as_arrays(rows)
    error = TimeoutError("s3 timed out")
    broken = X.map_blocks(raise_it, error, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(TimeoutError, match="s3 timed out"):
        ridge().fit(broken, y)


@pytest.mark.parametrize("name", ["subjects", "sample_ids"])
def test_names_are_a_column_not_a_frame(name, frame):
    """`list(frame)` would be the names of its columns."""
    d = dd.from_pandas(frame.assign(who=[f"p{i // 4}" for i in range(N)]), npartitions=N)
    with pytest.raises(ValueError, match=f"{name} must have one dimension, got 2"):
        ridge().fit(d[COLUMNS], d["y"], **{name: d[["who"]]})
