"""Each loss against fifty digits, and what it claims of itself against grids and random pairs."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from losses.plain import CASES, FORMS, THRESHOLD
from pilu.losses import Huber, Logistic, Loss, Softmax

EXTREME = [0.0, 1e-300, 1e-9, 0.3, 0.8, 1.0, 2.5, 37.0, 40.0, 700.0, 1000.0]
SCORES = sorted({s * v for v in EXTREME for s in (1, -1)})


def value_mp(name, z, y):
    """The loss of one row, each formula so that no term is lost beside a larger one."""
    z, y = [mp.mpf(v) for v in z], [mp.mpf(v) for v in y]
    if name == "logistic":
        return mp.log1p(mp.exp(-y[0] * z[0]))
    if name == "softmax":
        own = y.index(1)
        return mp.log1p(mp.fsum(mp.exp(v - z[own]) for j, v in enumerate(z) if j != own))
    if name.startswith("hinge"):
        return max(mp.mpf(0), 1 - y[0] * z[0]) ** 2 / 2
    sizes = [abs(a - b) for a, b in zip(z, y, strict=True)]
    if name.startswith("squared"):
        return mp.fsum(r**2 / 2 for r in sizes)
    t = mp.mpf(THRESHOLD)
    return mp.fsum(r**2 / 2 if r <= t else t * r - t**2 / 2 for r in sizes)


def gradient_mp(name, z, y):
    def along(j):
        return lambda v: value_mp(name, [*z[:j], v, *z[j + 1 :]], y)

    return [mp.diff(along(j), mp.mpf(z[j])) for j in range(len(z))]


def points(name):
    """Scores and targets of single rows: ordinary, extreme, tied."""
    case, rng = CASES[name], np.random.default_rng(3)
    C = case.n_scores
    if C == 1:
        rows = [[v] for v in SCORES]
    else:
        rows = [list(rng.normal(size=C) * 10.0**k) for k in (-3, 0, 1, 2, 3) for _ in range(4)]
        rows += [[v] * C for v in (0.0, -1000.0, 1000.0, 0.3)]
        rows += [[1000.0, -1000.0, 1000.0][:C], [-1000.0, 1000.0, 0.0][:C], [5.0, 5.0, -3.0][:C]]
    if name == "softmax":
        targets = [list(row) for row in np.eye(3)]
    elif case.classes:
        targets = [[1.0], [-1.0]]
    else:
        targets = [[0.0] * C, [0.3, -1.7][:C]]
    return [(z, y) for z in rows for y in targets]


@pytest.mark.parametrize("name", FORMS)
def test_values_and_gradients_to_fifty_digits(name):
    """Softmax's p - y is rounded as a difference, absolutely; the others keep their digits."""
    loss, plain = FORMS[name].loss, name.removeprefix("bare ")
    with mp.workdps(50):
        for z, y in points(plain):
            exact = float(value_mp(plain, z, y))
            # e^-z keeps as many digits as z has behind the point
            assert loss.value(np.array(z), np.array(y)) == pytest.approx(
                exact, rel=3e-13, abs=1e-300
            )
            slopes = [float(v) for v in gradient_mp(plain, z, y)]
            found = loss.gradient(np.array(z), np.array(y))
            absolute = 3e-16 if plain == "softmax" else 1e-25
            np.testing.assert_allclose(found, slopes, rtol=3e-13, atol=absolute)


@pytest.mark.parametrize("name", FORMS)
def test_shapes_broadcast(name):
    """n x R x C scores against n x 1 x C targets, as a problem hands them over."""
    case, rng = FORMS[name], np.random.default_rng(0)
    loss, (rows, runs, C) = case.loss, (5, 4, case.n_scores)
    z = rng.normal(size=(rows, runs, C))
    y = np.array([points(name.removeprefix("bare "))[i][1] for i in range(rows)])[:, None, :]
    kept = z.copy()
    values, gradients = loss.value(z, y), loss.gradient(z, y)
    found = loss.statistic(z, y)
    np.testing.assert_array_equal(z, kept)
    assert values.shape == found.shape == (rows, runs)
    for i in range(rows):
        for r in range(runs):
            np.testing.assert_allclose(values[i, r], loss.value(z[i, r], y[i, 0]), rtol=1e-14)
            np.testing.assert_allclose(gradients[i, r], case.gradient(z[i, r], y[i, 0]), rtol=1e-9)
            expected = case.form.statistic(z[i, r], y[i, 0])
            np.testing.assert_allclose(found[i, r], expected, rtol=1e-9, atol=1e-14)


def hessian(gradient, z, y, h=1e-5):
    units = h * np.eye(len(z))
    return np.array([(gradient(z + u, y) - gradient(z - u, y)) / (2 * h) for u in units])


@pytest.mark.parametrize("name", FORMS)
def test_convex_and_as_smooth_as_claimed(name):
    case, rng = FORMS[name], np.random.default_rng(1)
    C, largest = case.n_scores, 0.0
    targets = {tuple(y) for _, y in points(name.removeprefix("bare "))}
    special = [np.zeros(C), np.array([0.0, 0.0, -60.0])[:C], np.full(C, 0.1)]
    for z in [*special, *rng.normal(size=(150, C)) * 3]:
        for y in targets:
            H = hessian(case.gradient, z, np.array(y))
            eigenvalues = np.linalg.eigvalsh((H + H.T) / 2)
            assert eigenvalues[0] >= -1e-8
            largest = max(largest, eigenvalues[-1])
    assert 0.99 * case.loss.smoothness <= largest <= case.loss.smoothness * (1 + 1e-8)


@pytest.mark.parametrize("name", FORMS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_the_statistic_moves_no_faster_than_claimed(name, data):
    loss, C = FORMS[name].loss, FORMS[name].n_scores
    some = st.lists(st.floats(-1e3, 1e3), min_size=C, max_size=C).map(np.array)
    z, way = data.draw(some), data.draw(some)
    length = data.draw(st.sampled_from([1e-3, 1.0, 1e3]))
    other = z + length * way / max(1.0, np.linalg.norm(way))
    y = np.array(data.draw(st.sampled_from([y for _, y in points(name.removeprefix("bare "))])))
    moved = abs(loss.statistic(z, y) - loss.statistic(other, y))
    rounding = 1e-15 * (np.abs(z).max() + np.abs(other).max() + 1)
    assert moved <= loss.lipschitz * np.linalg.norm(z - other) * (1 + 1e-12) + 8 * rounding


@pytest.mark.parametrize("name", FORMS)
def test_the_lipschitz_constant_is_reached(name):
    loss, C = FORMS[name].loss, FORMS[name].n_scores
    z = np.array([0.1, 0.0, -60.0])[:C]
    y = np.array(points(name.removeprefix("bare "))[0][1])
    ways = [np.eye(C)[0], np.array([1.0, -1.0, 0.0])[:C]]
    rates = [
        abs(loss.statistic(z + 1e-3 * w, y) - loss.statistic(z, y)) / np.linalg.norm(1e-3 * w)
        for w in ways
    ]
    assert max(rates) >= 0.99 * loss.lipschitz


def score_grid(C):
    """One score, or two; of three the first is 0: softmax does not see a shift of all."""
    if C == 1:
        return np.linspace(-12, 12, 48001)[:, None]
    line = np.linspace(-9, 9, 361) if C == 2 else np.linspace(-25, 25, 501)
    a, b = np.meshgrid(line, line)
    return np.column_stack([np.zeros(a.size)] * (C - 2) + [a.ravel(), b.ravel()])


@pytest.mark.parametrize("name", FORMS)
def test_no_gradient_is_larger_where_the_statistic_lies_in_an_interval(name):
    case, rng = FORMS[name], np.random.default_rng(2)
    loss, grid = case.loss, score_grid(case.n_scores)
    for y in {tuple(y) for _, y in points(name.removeprefix("bare "))}:
        y = np.array(y)
        sizes = np.linalg.norm(case.gradient(grid, y), axis=-1)
        statistics = case.form.statistic(grid, y)
        intervals = np.sort(rng.normal(size=(25, 2)) * 2, axis=1)
        if not case.relative:
            intervals -= 0.5  # a norm's interval may begin below zero
        for low, high in [*intervals, (0.4, 0.4001)]:
            bound = loss.largest_gradient(np.array(low), np.array(high), case.n_scores)
            assert bound >= 0
            inside = sizes[(statistics >= low) & (statistics <= high)]
            if not len(inside):
                continue
            assert inside.max() <= bound * (1 + 1e-12)
            if case.n_scores == 1 and high > low + 0.01 and inside.max() < 0.999 * sizes.max():
                assert inside.max() >= bound - 1.1e-3  # the grid's step is 5e-4


def test_softmax_bound_is_reached_by_one_rival():
    for margin in (-3.0, 0.0, 5.0):
        z = np.array([margin, 0.0, -80.0])
        size = np.linalg.norm(FORMS["softmax"].gradient(z, np.eye(3)[0]))
        assert Softmax().largest_gradient(margin, margin, 3) == pytest.approx(size, rel=1e-9)


def test_descriptions_and_thresholds():
    assert Huber(2.0).describe() == {"name": "huber", "threshold": 2.0}
    assert Logistic().describe() == {"name": "logistic"}
    assert FORMS["bare huber"].loss.describe()["name"] == "bare"
    for threshold in (0.0, -1.0, np.nan, np.inf, "1"):
        with pytest.raises(ValueError, match="threshold must be"):
            Huber(threshold)
    for method in (Loss().value, Loss().gradient):
        with pytest.raises(NotImplementedError):
            method(np.zeros(1), np.zeros(1))
