"""Gradients against a loop over rows, and the curvature bound against fifty digits."""

from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from conftest import with_ones
from losses.plain import CASES, FORMS, problem_for
from pilu.data.rows import RowSource
from pilu.losses import Huber, Logistic, Loss, Softmax, Squared
from pilu.losses import problem as problem_module
from pilu.losses.loss import _Residual
from pilu.losses.probe import probe
from pilu.losses.problem import AuxiliaryRuns, SmoothProblem

ALPHA = 0.7
RUNS = AuxiliaryRuns(4, (1,), private=False)


def smooth_problem(X, Y, loss, batch_size=None, fit_intercept=True):
    source = RowSource.of(X, Y, fit_intercept=fit_intercept)
    return SmoothProblem.fit(source, ALPHA, Y.shape[1], batch_size or len(X), loss, RUNS)


def by_loop(X, Y, rows, gradient, theta):
    total = ALPHA * theta
    for i in rows:
        total = total + np.outer(X[i], gradient(X[i] @ theta, Y[i]))
    return total


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("b", [24, 7])
def test_gradients_of_one_run_and_of_many(name, fit_intercept, b, rng):
    case, (X, _, Y) = FORMS[name], problem_for(name)
    smooth = smooth_problem(X, Y, case.loss, b, fit_intercept)
    whole = with_ones(X) if fit_intercept else X
    thetas = rng.normal(size=(5, whole.shape[1], case.n_scores))
    M = -(-24 // b)
    assert smooth.n_batches == M
    for k in range(2 * M + 1):
        rows = [i for i in range(24) if i // b == k % M]
        expected = [by_loop(whole, Y, rows, case.gradient, theta) for theta in thetas]
        one = smooth.gradient(thetas[0], k)
        np.testing.assert_allclose(one, expected[0], rtol=1e-11, atol=1e-12)
        side_by_side = smooth.gradient(np.hstack(thetas), k, 5)
        np.testing.assert_allclose(side_by_side, np.hstack(expected), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "gone", [[3], [0, 1, 2], [299], range(0, 300, 2), range(100, 250), range(5)]
)
@pytest.mark.parametrize(("b", "block"), [(300, None), (60, None), (300, 4096), (60, 100)])
def test_forgotten_rows_do_not_matter_whatever_they_hold(gone, b, block, rng, monkeypatch):
    """Few gaps are read run by run and many are copied together; small blocks split both."""
    if block is not None:
        monkeypatch.setattr(problem_module, "_BLOCK_BYTES", block)
    X, Y = rng.normal(size=(300, 4)), rng.choice([-1.0, 1.0], size=(300, 1))
    gone, seen = list(gone), []
    smooth = smooth_problem(X, Y, Logistic(), b)
    smooth = smooth.without(np.array(gone), X[gone], Y[gone])
    X[gone] = np.nan
    Y[gone] = np.nan
    theta = rng.normal(size=(5, 1))
    for k in range(300 // b):
        rows = [i for i in range(300) if i // b == k and i not in gone]
        expected = by_loop(with_ones(X), Y, rows, CASES["logistic"].gradient, theta)
        smooth.check_rows(range(k, k + 1))
        found = smooth.gradient(theta, k, see=lambda _, rows, *scores: seen.extend(rows))
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert seen == [i for i in range(300) if i not in gone]


def test_an_empty_batch_has_only_its_penalty(rng):
    X, Y = rng.normal(size=(9, 2)), rng.normal(size=(9, 1))
    rows = np.array([3, 4, 5])
    smooth = smooth_problem(X, Y, Squared(), 3).without(rows, X[rows], Y[rows])
    theta = rng.normal(size=(3, 1))
    np.testing.assert_array_equal(smooth.gradient(theta, 1), ALPHA * theta)


def test_single_precision_and_integers(rng):
    Y = rng.normal(size=(40, 1))
    theta = rng.normal(size=(4, 1))
    for X in (rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, 9, size=(40, 3))):
        smooth = smooth_problem(X, Y, Squared())
        as_double = X.astype(np.float64)
        assert smooth.largest == smooth_problem(as_double, Y, Squared()).largest
        expected = by_loop(with_ones(as_double), Y, range(40), CASES["squared"].gradient, theta)
        np.testing.assert_allclose(smooth.gradient(theta, 0), expected, rtol=1e-12)


def test_spectators_see_scores_and_targets(rng):
    X, Y = rng.normal(size=(10, 2)), rng.normal(size=(10, 2))
    thetas = rng.normal(size=(3, 3, 2))

    def see(step, rows, scores, targets):
        assert step == 1
        expected = np.stack([with_ones(X)[rows] @ theta for theta in thetas], axis=1)
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
        np.testing.assert_array_equal(targets[:, 0], Y[rows])
        counted.extend(rows)

    counted = []
    smooth_problem(X, Y, Squared(), 4).gradient(np.hstack(thetas), 1, 3, see)
    assert counted == [4, 5, 6, 7]


def adversarial(rng):
    rank_one = np.outer(rng.normal(size=12), rng.normal(size=4))
    spread = rng.normal(size=(12, 4)) * 10.0 ** np.array([-8, -3, 2, 8])
    rows_spread = rng.normal(size=(9, 5)) * 10.0 ** np.linspace(-9, 9, 9)[:, None]
    return {
        "rank one": rank_one,
        "scales of columns": spread,
        "scales of rows": rows_spread,
        "wide": rng.normal(size=(3, 7)),
        "wide by one": rng.normal(size=(4, 4)),
        "tall": rng.normal(size=(25, 3)),
        "nearly dependent": rank_one + 1e-9 * rng.normal(size=(12, 4)),
        "equal rows": np.ones((8, 3)),
        "zeros": np.zeros((5, 2)),
        "tiny": 1e-40 * rng.normal(size=(6, 3)),
        "alternating signs": np.kron(np.ones((6, 2)), [[1.0, -1.0], [-1.0, 1.0]]),
    }


@pytest.mark.parametrize("name", adversarial(np.random.default_rng(0)))
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("b", [None, 3])
@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=lambda loss: loss.name)
def test_the_curvature_bound_is_above_the_truth_and_close(name, fit_intercept, b, loss, rng):
    """Eigenvalues of the smaller product in 50 digits; the doubles of X are exact numbers."""
    X = adversarial(rng)[name]
    smooth = smooth_problem(X, np.ones((len(X), 1)), loss, b, fit_intercept)
    whole = with_ones(X) if fit_intercept else X
    with mp.workdps(50):
        truth = mp.mpf(0)
        for first in range(0, len(X), b or len(X)):
            part = mp.matrix(whole[first : first + (b or len(X))].tolist())
            gram = part * part.T if part.rows < part.cols else part.T * part
            truth = max(truth, max(mp.eigsy(gram, eigvals_only=True)))
        truth = ALPHA + mp.mpf(loss.smoothness) * truth
        assert truth <= smooth.largest <= truth * (1 + mp.mpf(10) ** -6)
        assert mp.mpf(1) / truth >= mp.mpf(1 / smooth.largest) * (1 - mp.mpf(10) ** -15)


@pytest.mark.parametrize("seed", range(6))
def test_the_curvature_bound_covers_the_rounding_of_long_sums(seed):
    """Equal rows round all alike, and their one eigenvalue is n |x|^2, exact in fractions."""
    X = np.full((2000, 2), np.random.default_rng(seed).uniform())
    exact = 2 * 2000 * Fraction(X[0, 0]) ** 2  # the eigenvector is (1, 1)
    smooth = smooth_problem(X, np.ones((2000, 1)), Squared(), fit_intercept=False)
    truth = Fraction(ALPHA) + exact
    assert truth <= Fraction(smooth.largest) <= truth * (1 + Fraction(1, 10**6))


def test_the_curvature_bound_stays_when_rows_go(rng):
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    smooth = smooth_problem(X, Y, Squared())
    assert smooth.without(np.array([2]), X[[2]], Y[[2]]).largest == smooth.largest


class TenfoldLogistic(Logistic):
    """Has no name of its own."""


class Namesake(Logistic):
    name = "logistic"


@dataclass(frozen=True)
class WithArray(Squared):
    name = "with array"
    weights: np.ndarray = None


class Flat(Squared):
    name = "flat"

    def gradient(self, scores, targets):
        return (scores - targets)[..., 0]


class FirstOnly(Squared):
    """Looks at one score of several."""

    name = "first only"

    def statistic(self, scores, targets):
        return (scores - targets)[..., 0]

    def largest_gradient(self, low, high, n_scores):
        return np.maximum(np.abs(low), np.abs(high))


class Careless(Logistic):
    name = "careless"

    def largest_gradient(self, low, high, n_scores):
        return 0 * low


class CarelessHuber(Huber):
    name = "careless huber"

    def largest_gradient(self, low, high, n_scores):
        return 0 * low


class TooSmoothHuber(Huber):
    name = "too smooth huber"
    smoothness = 0.01


class TooSmooth(Logistic):
    name = "too smooth"
    smoothness = 0.1


class Wave(_Residual):
    """1 - cos(z - y): smooth, and convex near the targets only."""

    name = "wave"

    def value(self, scores, targets):
        return np.sum(1 - np.cos(scores - targets), axis=-1)

    def gradient(self, scores, targets):
        return np.sin(scores - targets)

    def largest_gradient(self, low, high, n_scores):
        return np.ones_like(low)


class Welsch(Wave):
    name = "welsch"

    def value(self, scores, targets):
        return np.sum(1 - np.exp(-((scores - targets) ** 2) / 2), axis=-1)

    def gradient(self, scores, targets):
        r = scores - targets
        return r * np.exp(-(r**2) / 2)


class AnotherValue(Squared):
    name = "another value"

    def value(self, scores, targets):
        return 2 * super().value(scores, targets)


class LowOnly(Squared):
    """Forgets the upper end."""

    name = "low only"

    def largest_gradient(self, low, high, n_scores):
        return np.abs(low)


class NothingBetween(Squared):
    name = "nothing between"

    def largest_gradient(self, low, high, n_scores):
        return np.where(high > low, 0.0, np.abs(low))


class InPlace(Logistic):
    name = "in place"

    def statistic(self, scores, targets):
        scores *= targets
        return scores[..., 0]


@dataclass(frozen=True)
class Disguised(Squared):
    name: str = "mine"


class Capped(Squared):
    """True near the targets, and not where the scores begin."""

    name = "capped"

    def largest_gradient(self, low, high, n_scores):
        return np.minimum(super().largest_gradient(low, high, n_scores), 5e3)


@dataclass(frozen=True)
class PseudoHuber(_Residual):
    """As in textbooks: for small residuals its value is lost in rounding."""

    name = "pseudo huber"
    d: float = 1.0

    def value(self, scores, targets):
        r = (scores - targets) / self.d
        return np.sum(self.d**2 * (np.sqrt(1 + r**2) - 1), axis=-1)

    def gradient(self, scores, targets):
        r = (scores - targets) / self.d
        return self.d * r / np.sqrt(1 + r**2)

    def largest_gradient(self, low, high, n_scores):
        return np.maximum(np.abs(low), np.abs(high)) if n_scores == 1 else np.maximum(high, 0.0)


FAR = [[1e6], [-2e6], [3e6 + 0.25]]


class Unsmooth(Loss):
    name = "unsmooth"
    smoothness = float("nan")


@pytest.mark.parametrize(
    ("loss", "targets", "complaint"),
    [
        (Softmax(), [[1.0], [-1.0]], "one-hot"),
        (Softmax(), [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], "one-hot"),
        (Logistic(), [[5.0], [-5.0]], "one column of 1 and -1"),
        (Logistic(), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "one column of 1 and -1"),
        (
            TenfoldLogistic(),
            [[1.0], [-1.0]],
            "name must be a string defined in TenfoldLogistic and",
        ),
        (Namesake(), [[1.0], [-1.0]], "name must be a string defined in Namesake and"),
        (WithArray(np.ones(2)), [[1.0], [-1.0]], "options of the with array loss"),
        (Flat(), [[1.0, 2.0], [0.0, 1.0]], r"gradient of the flat loss must be .* of shape"),
        (FirstOnly(), [[1.0, 2.0], [0.0, 1.0]], "largest_gradient of the first only loss does not"),
        (Careless(), [[1.0], [-1.0]], "largest_gradient of the careless loss does not hold"),
        (TooSmooth(), [[1.0], [-1.0]], "smoothness of the too smooth loss does not hold"),
        (Wave(), [[1.0], [-1.0]], "convexity of the wave loss does not hold"),
        (Welsch(), [[1.0], [-1.0]], "convexity of the welsch loss does not hold"),
        (Welsch(), FAR, "convexity of the welsch loss does not hold"),
        (AnotherValue(), [[1.0], [-1.0]], "gradient as that of value of the another value loss"),
        (AnotherValue(), FAR, "gradient as that of value of the another value loss"),
        (LowOnly(), [[1.0], [-1.0]], "largest_gradient of the low only loss does not hold"),
        (LowOnly(), FAR, "largest_gradient of the low only loss does not hold"),
        (NothingBetween(), [[1.0], [-1.0]], "largest_gradient of the nothing between loss"),
        (CarelessHuber(), FAR, "largest_gradient of the careless huber loss does not hold"),
        (TooSmoothHuber(), FAR, "smoothness of the too smooth huber loss does not hold"),
        (Capped(), FAR, "largest_gradient of the capped loss does not hold"),
        (CarelessHuber(), [[1e20], [-1e20]], "largest_gradient of the careless huber loss"),
        (InPlace(), [[1.0], [-1.0]], "read-only"),
        (Disguised("huber"), [[1.0], [-1.0]], "name must be a string defined in Disguised and"),
        (Logistic, [[1.0], [-1.0]], "make_loss must return"),
        (Unsmooth(), [[1.0], [-1.0]], "smoothness must be"),
    ],
)
def test_a_loss_that_does_not_fit_its_targets_is_refused(loss, targets, complaint):
    Y = np.array(targets)
    source = RowSource.of(np.ones((len(Y), 3)), Y, fit_intercept=True)
    with pytest.raises(ValueError, match=complaint):
        SmoothProblem.fit(source, 1.0, Y.shape[1], len(Y), loss, RUNS)


@pytest.mark.parametrize(
    "loss",
    [Squared(), Huber(), Huber(1e-3), Huber(1e4), *map(PseudoHuber, (1e-2, 1.0, 1e2, 1e4, 1e6))],
)
@pytest.mark.parametrize("size", [1e-12, 1e-3, 1.0, 1e6, 1e12, 1e30])
@pytest.mark.parametrize("C", [1, 3, 200])
def test_a_true_loss_is_not_refused_for_its_rounding(loss, size, C, rng):
    targets = size * rng.normal(size=(40, C))
    probe(loss, targets)


@pytest.mark.parametrize("C", [1, 2, 10, 1000])
def test_true_losses_of_classes_are_not_refused_for_their_rounding(C, rng):
    labels = rng.integers(max(C, 2), size=40)
    targets = np.eye(C)[labels] if C > 1 else np.where(labels[:, None] > 0, 1.0, -1.0)
    probe(Softmax() if C > 1 else Logistic(), targets)


def test_scores_are_left_alone_by_whoever_looks(rng):
    X, Y = rng.normal(size=(20, 3)), np.where(rng.normal(size=(20, 1)) > 0, 1.0, -1.0)
    smooth = smooth_problem(X, Y, Logistic())

    def meddle(step, rows, scores, targets):
        scores *= 2

    with pytest.raises(ValueError, match="read-only"):
        smooth.gradient(np.zeros((4, 1)), 0, see=meddle)
    assert Y.flags.writeable


@pytest.mark.parametrize("share", [0.5, 1.0, 1.2, 1.7, 1.99, 1.9999])
def test_a_coarser_curvature_stays_a_bound(share, rng):
    """Contraction is the same up to 1/L; beyond, L is at most an eighth of an octave larger."""
    source = RowSource.of(rng.normal(size=(20, 3)), np.ones((20, 1)), fit_intercept=False)
    exact = SmoothProblem.fit(source, 0.5, 1, 20, Logistic(), RUNS)
    step = share / exact.largest
    coarse = exact.for_steps(step)
    assert coarse.largest >= exact.largest * (1 - 1e-15)
    assert step * coarse.largest < 2
    if share <= 1.0:
        assert coarse.largest == 1 / step
    else:
        assert coarse.largest <= exact.largest * 2**0.125
