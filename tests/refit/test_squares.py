"""Ridge from kept statistics: leverages and choices against exact arithmetic and cold runs."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from pilu import Forgetful
from pilu.refit import sums_of_squares as sums_module
from pilu.refit import warm_alpha as warm_module
from pilu.refit.held_rows import Table
from pilu.refit.program import prepare
from pilu.refit.ridge_alpha import LeaveOneOut
from pilu.refit.settings import Options
from refit.minimisers import leave_one_out_alpha

OPTIONS = Options(epsilon=0.1, delta=1e-9, score_noise=1e-3)
GRID = [1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0]


def tables(rng, n=24):
    """(name, X, y): tables on which leverages and sums lose digits."""
    X = rng.normal(size=(n, 4))
    y = X @ rng.normal(size=4) + rng.normal(size=n)
    yield "plain", X, y
    collinear = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 0] * (1 + 1e-9)])
    yield "collinear", collinear, y
    outlier = X.copy()
    outlier[rng.integers(n)] *= 1e6
    yield "outlier", outlier, y
    yield "duplicates", np.repeat(X[: n // 4], 4, axis=0), y
    yield "means of 1e6", X + 1e6, y
    yield "scales", X * 10.0 ** np.array([-6, -2, 2, 6]), y
    yield "constant column", np.column_stack([X, np.full(n, 3.0)]), y
    yield "large targets", X, y * 1e6 + 1e8
    lonely = np.zeros((n, 1))
    lonely[rng.integers(n)] = 1.0  # a row of leverage near 1
    yield "lonely", np.column_stack([X, lonely]), y


# Exact leave-one-out -------------------------------------------------------------------------


def solve_exactly(A, B):
    """A^-1 B in fractions, by elimination."""
    A = [[*row, *right] for row, right in zip(A, B, strict=True)]
    size = len(A)
    for i in range(size):
        pivot = next(r for r in range(i, size) if A[r][i] != 0)
        A[i], A[pivot] = A[pivot], A[i]
        A[i] = [v / A[i][i] for v in A[i]]
        for r in range(size):
            if r != i and A[r][i] != 0:
                A[r] = [v - A[r][i] * t for v, t in zip(A[r], A[i], strict=True)]
    return [row[size:] for row in A]


def exact_leverages(X, w, alpha, units, intercept):
    """Leverages for penalties alpha units^2 on the columns of X, as fractions."""
    rows = [[Fraction(v) for v in x] + [Fraction(1)] * intercept for x in X.tolist()]
    w = [Fraction(v) for v in w.tolist()]
    P = len(rows[0])
    K = [
        [sum(v * r[a] * r[b] for v, r in zip(w, rows, strict=True)) for b in range(P)]
        for a in range(P)
    ]
    for a in range(P - intercept):
        K[a][a] += Fraction(alpha) * Fraction(float(units[a])) ** 2
    solved = solve_exactly(K, [list(column) for column in zip(*rows, strict=True)])
    return [w[i] * sum(rows[i][a] * solved[a][i] for a in range(P)) for i in range(len(rows))]


def program(scaled, head):
    return make_pipeline(StandardScaler(), head) if scaled else head


def numbered(X, y, w=None):
    return Table.of(X, y, w, key=b"k")


def exact_slopes(X, w, alpha, units, intercept):
    """-alpha dh/dalpha to 25 digits, by a central difference of exact leverages."""
    step = Fraction(1, 10**12)
    above, below = (
        exact_leverages(X, w, Fraction(alpha) * (1 + s), units, intercept) for s in (step, -step)
    )
    return [(b - a) / (2 * step) for a, b in zip(above, below, strict=True)]


def check_kept(kept, X, w):
    """Kept leverages are within their bounds, and slopes below theirs."""
    known = kept.leverages
    used = kept.table.numbers[kept.used]
    for j, alpha in enumerate(known.candidates.tolist()):
        exact = exact_leverages(X[used], w[used], alpha, known.units, True)
        slopes = exact_slopes(X[used], w[used], alpha, known.units, True)
        for i, h in enumerate(exact):
            error = abs(Fraction(float(known.values[i, j])) - h)
            bound = known.errors[i, j]
            assert not np.isfinite(bound) or error <= Fraction(float(bound))
            assert slopes[i] <= Fraction(float(known.slopes[i, j])) ** 2 * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("scaled", [True, False], ids=["scaler", ""])
@pytest.mark.parametrize("seed", range(2))
def test_kept_leverages_are_within_their_bounds_of_exact_ones(seed, scaled):
    rng = np.random.default_rng(seed)
    warm = 0
    for _, X, y in tables(rng, 16):
        w = np.ones(len(X)) if seed == 0 else rng.uniform(0.1, 4.0, size=len(X))
        model = program(scaled, RidgeCV(alphas=[1e-3, 1.0, 30.0]))
        table = numbered(X, y, None if seed == 0 else w)
        prepared = prepare(model, table, OPTIONS)
        check_kept(prepared.kept, X, w)
        for _ in range(2):
            left = np.delete(np.arange(len(table)), rng.choice(len(table), 2, replace=False))
            table = table.take(left)
            before = prepared.kept
            prepared = prepare(model, table, OPTIONS, before)
            check_kept(prepared.kept, X, w)
            warm += prepared.kept.front is before.front
    assert warm > 3


def test_leverages_that_are_kept_without_a_choice_are_within_their_bounds(monkeypatch):
    """On hostile tables few choices are proved; leverages must be right on all of them."""
    monkeypatch.setattr(warm_module, "_proved", lambda problem, alphas, *_: float(alphas[0]))
    monkeypatch.setattr(warm_module._Work, "bounds", lambda *_: (0, 0, 0))
    rng, finite = np.random.default_rng(5), 0
    for _, X, y in tables(rng, 16):
        for scaled in (True, False):
            table, w = numbered(X, y), np.ones(len(X))
            model = program(scaled, RidgeCV(alphas=[1e-4, 1.0, 50.0]))
            kept = prepare(model, table, OPTIONS).kept
            for size in (1, 3):
                left = np.delete(np.arange(len(table)), rng.choice(len(table), size, replace=False))
                table = table.take(left)
                kept = prepare(model, table, OPTIONS, kept).kept
                check_kept(kept, X, w)
                finite += np.isfinite(kept.leverages.errors).sum()
    assert finite > 500


def exact_scores(X, y, w, units, alphas):
    """Roots of the sums of squared leave-one-out errors, alphas x targets, to 50 digits."""
    out = []
    with mp.workdps(50):
        Y = y.reshape(len(X), -1)
        for alpha in alphas:
            rows = [[Fraction(v) for v in x] + [Fraction(1)] for x in X.tolist()]
            ws, P = [Fraction(v) for v in w.tolist()], len(rows[0])
            K = [
                [sum(v * r[a] * r[b] for v, r in zip(ws, rows, strict=True)) for b in range(P)]
                for a in range(P)
            ]
            for a in range(P - 1):
                K[a][a] += Fraction(alpha) * Fraction(float(units[a])) ** 2
            right = [
                [
                    sum(
                        v * r[a] * Fraction(t)
                        for v, r, t in zip(ws, rows, Y[:, k].tolist(), strict=True)
                    )
                    for k in range(Y.shape[1])
                ]
                for a in range(P)
            ]
            theta = solve_exactly(K, right)
            h = exact_leverages(X, w, alpha, units, True)
            sums = []
            for k in range(Y.shape[1]):
                total = Fraction(0)
                for i, r in enumerate(rows):
                    e = Fraction(float(Y[i, k])) - sum(r[a] * theta[a][k] for a in range(P))
                    total += ws[i] * (e / (1 - h[i])) ** 2
                sums.append(mp.sqrt(mpf(total.numerator) / mpf(total.denominator)))
            out.append(sums)
    return out


@pytest.mark.parametrize("seed", range(3))
def test_errors_are_within_their_bounds_warm_and_cold(seed, monkeypatch):
    """Both what a deletion computes, and what it says of a run from scratch."""
    rng, seen, done = np.random.default_rng(seed), [], []
    bounds, best = warm_module._Work.bounds, LeaveOneOut.best.fget
    monkeypatch.setattr(warm_module._Work, "bounds", lambda *a: seen.append(bounds(*a)) or seen[-1])
    monkeypatch.setattr(LeaveOneOut, "best", property(lambda s: done.append(s) or best(s)))
    proved = 0
    for _, X, y in tables(rng, 16):
        for scaled in (True, False):
            targets = np.column_stack([y, rng.normal(size=len(y))]) if seed == 2 else y
            w = rng.uniform(0.1, 4.0, size=len(X)) if seed else np.ones(len(X))
            model = program(scaled, RidgeCV(alphas=[1e-4, 1.0, 50.0]))
            table = numbered(X, targets, w if seed else None)
            kept = prepare(model, table, OPTIONS).kept
            left = np.delete(np.arange(len(X)), rng.choice(len(X), 1 + seed, replace=False))
            seen.clear()
            prepare(model, table.take(left), OPTIONS, kept)
            if not seen or seen[0] is None:
                continue
            lower, upper, wrong = seen[0]
            done.clear()
            cold = prepare(model, table.take(left), OPTIONS)
            computed = np.sqrt(done[0].squares)
            scale = cold.kept.front.scale
            exact = exact_scores(X[left], targets[left], w[left], scale, [1e-4, 1.0, 50.0])
            for j, k in np.ndindex(lower.shape):
                assert not lower[j, k] > exact[j][k]
                assert not upper[j, k] < exact[j][k]
                assert not wrong[j, k] < abs(mpf(computed[j, k]) - exact[j][k])
                proved += wrong[j, k] < 1e-3 * computed[j, k]
    assert proved > 15


class Counter:
    """Counts warm and cold runs."""

    def __init__(self, monkeypatch):
        self.warm = self.cold = 0
        warm, cold = sums_module._warm, sums_module._cold

        def counted_warm(*args):
            result = warm(*args)
            self.warm += result is not None
            return result

        def counted_cold(*args):
            self.cold += 1
            return cold(*args)

        monkeypatch.setattr(sums_module, "_warm", counted_warm)
        monkeypatch.setattr(sums_module, "_cold", counted_cold)


@pytest.fixture
def runs(monkeypatch):
    return Counter(monkeypatch)


def sequence(rng, model, table, steps, most=3):
    """Deletions one after the other; every choice against a run from scratch."""
    kept = prepare(model, table, OPTIONS).kept
    for _ in range(steps):
        size = int(rng.integers(1, most + 1))
        left = np.delete(np.arange(len(table)), rng.choice(len(table), size, replace=False))
        table = table.take(left)
        warm = prepare(model, table, OPTIONS, kept)
        cold = prepare(model, table, OPTIONS)
        assert np.array_equal(warm.problem.alpha, cold.problem.alpha)
        assert warm.transformers_sha256 == cold.transformers_sha256
        assert (warm.noise, warm.radius) == (cold.noise, cold.radius)
        error = warm.objective.known_gram.error + cold.objective.known_gram.error
        change = warm.objective.known_gram.matrix - cold.objective.known_gram.matrix
        assert np.linalg.norm(change, 2) <= error
        kept = warm.kept


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(4))
def test_a_warm_choice_is_never_another_one(seed, runs):
    rng = np.random.default_rng(seed)
    for _, X, y in tables(rng, 40):
        for scaled in (True, False):
            grids = [GRID, [1.0, 1.0 + 1e-9, 1.0 + 1e-6, 1.001], [3.0, 3.0, 0.1]]
            for grid in grids:
                model = program(scaled, RidgeCV(alphas=grid))
                sequence(rng, model, numbered(X, y), 5)
    assert runs.warm > 50


def scikit_learns_scores(X, y, gone, scaled, alphas):
    left = np.delete(np.arange(len(X)), gone)
    Z = StandardScaler().fit_transform(X[left]) if scaled else X[left]
    head = RidgeCV(alphas=alphas, store_cv_results=True)
    return head.fit(Z, y[left]).cv_results_.mean(axis=0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scaled", [True, False], ids=["scaler", ""])
def test_choices_at_a_crossing_of_two_alphas_are_never_another_one(scaled, runs):
    """Alphas are placed where two scores cross, so that their order is decided by rounding."""
    rng = np.random.default_rng(7)
    for _ in range(12):
        X = rng.normal(size=(60, 3))
        y = X @ rng.normal(size=3) + 3 * rng.normal(size=60)
        gone = rng.choice(60, 2, replace=False)
        low, high = 1e-2, 1e4

        first = 1e-3
        for _ in range(80):
            middle = np.sqrt(low * high)
            one, other = scikit_learns_scores(X, y, gone, scaled, [first, middle])
            low, high = (middle, high) if other < one else (low, middle)
        for other in (low, high, np.nextafter(low, high), low * (1 + 1e-7), low * (1 - 1e-7)):
            model, table = program(scaled, RidgeCV(alphas=[first, other])), numbered(X, y)
            kept = prepare(model, table, OPTIONS).kept
            left = table.take(np.delete(np.arange(60), gone))
            warm, cold = prepare(model, left, OPTIONS, kept), prepare(model, left, OPTIONS)
            assert warm.problem.alpha == cold.problem.alpha


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scaled", [True, False], ids=["scaler", ""])
def test_long_sequences_choose_as_runs_from_scratch(scaled, runs):
    """Targets of their own alphas, classes, weights and small gaps between alphas."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6)) + 5.0
    y = X @ rng.normal(size=6) + 6 * rng.normal(size=300)
    pair = np.column_stack([y, rng.normal(size=300)])
    classes = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    w = rng.uniform(0.2, 3.0, size=300) * (rng.random(300) < 0.9)
    grid = list(np.logspace(-3, 4, 12))
    for head, targets, weights in (
        (RidgeCV(alphas=grid), y, w),
        (RidgeCV(alphas=grid, alpha_per_target=True), pair, None),
        (RidgeCV(alphas=grid), pair, w),
        (RidgeClassifierCV(alphas=grid), classes, None),
        (RidgeClassifierCV(alphas=grid, class_weight="balanced"), classes, w),
        (RidgeCV(alphas=grid, fit_intercept=False), y, None),
    ):
        sequence(rng, program(scaled, head), numbered(X, targets, weights), 25, most=2)
    assert runs.warm > 60


def test_the_choice_is_that_of_refits_without_each_row(runs):
    """The oracle leaves out every row by itself, in decimals."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 3))
    for fit_intercept in (True, False):
        y = X @ rng.normal(size=3) + 2 * rng.normal(size=30) + 1.0
        head = RidgeCV(alphas=[0.1, 3.0, 100.0], fit_intercept=fit_intercept)
        model = Forgetful(head).fit(X, y)
        for gone in (4, [7, 8], 20):
            model.unlearn(rows=gone)
            left = model.remaining_
            assert model.alpha_ == leave_one_out_alpha(head, X[left], y[left])[0]
    assert runs.warm >= 4


HEADS = [
    Ridge(alpha=2.0, solver="cholesky"),
    Ridge(alpha=2.0, fit_intercept=False, solver="cholesky"),
    RidgeCV(alphas=[0.1, 1.0, 10.0, 1000.0]),
    RidgeClassifier(alpha=3.0, class_weight="balanced", solver="cholesky"),
    RidgeClassifierCV(alphas=[0.1, 10.0, 1000.0]),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("front", [None, StandardScaler(), MinMaxScaler()], ids=str)
@pytest.mark.parametrize("head", HEADS, ids=str)
def test_any_sequence_of_requests_ends_where_scikit_learn_ends(head, front, runs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * [1.0, 10.0, 0.1, 1.0, 3.0] + 2.0
    signal = X @ [1.0, 0.1, 5.0, 0.0, 0.5] + rng.normal(size=400)
    y = (
        np.digitize(signal, np.quantile(signal, [0.4, 0.7]))
        if hasattr(head, "class_weight")
        else signal
    )
    pipeline = head if front is None else make_pipeline(front, head)
    model = Forgetful(pipeline, score_noise=1e-7).fit(X[:300], y[:300])
    rows, targets = X.copy(), y.copy()
    model.unlearn(rows=[5])
    model.unlearn(rows=[6, 7])
    model.add(X[300:310], y[300:310])
    model.unlearn(rows=[304])
    rows[100] = X[350]
    model.correct(X[350:351], y[100:101], rows=[100])
    model.unlearn(rows=[11])
    model = pickle.loads(pickle.dumps(model))
    assert model.fitted_.kept is None
    left = model.remaining_
    model.attach(rows[left], targets[left])
    model.unlearn(rows=[12])
    model.unlearn(rows=[13])
    left = model.remaining_
    expected = pipeline.fit(rows[left], targets[left])
    score = "decision_function" if hasattr(head, "class_weight") else "predict"
    theirs = getattr(expected, score)(X)
    np.testing.assert_allclose(getattr(model, score)(X), theirs, atol=1e-5 * theirs.std(), rtol=0)
    if hasattr(head, "alphas"):
        assert model.alpha_ == (expected if front is None else expected[-1]).alpha_
    affine = not isinstance(front, MinMaxScaler)
    free = front is None or head.fit_intercept
    constant = getattr(head, "class_weight", None) is None  # balanced weights change with each row
    assert (runs.warm >= 4) == (affine and free and constant)


def test_rows_without_weight_can_be_deleted(runs):
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(50, 3)), rng.normal(size=50), np.ones(50)
    w[7] = 0.0
    table, model = numbered(X, y, w), RidgeCV(alphas=[0.1, 10.0, 1000.0])
    kept = prepare(model, table, OPTIONS).kept
    warm = prepare(model, table.take(np.delete(np.arange(50), 7)), OPTIONS, kept)
    assert np.array_equal(warm.kept.leverages.values, kept.leverages.values)


def test_nothing_is_kept_of_a_row_that_is_gone():
    """Neither the table nor the leverages of the run before survive a deletion."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    X[7] = 123.0
    model = Forgetful(RidgeCV(alphas=[0.1, 1000.0])).fit(X, y)
    model.unlearn(rows=[7])
    kept = model.fitted_.kept
    assert kept.table is model.fitted_.table
    assert not (kept.table.X == 123.0).any()
    assert len(kept.used) == len(kept.leverages.values) == 49
