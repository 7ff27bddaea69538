"""Both accountants on mini-batches against brute force, and against the full batch at b = n."""

import copy

import numpy as np
import pytest

from conftest import with_ones
from oracles.minibatch import (
    both_ways_delta,
    cyclic_exact_noise,
    cyclic_noise,
    cyclic_pair,
    cyclic_sensitivities,
    walk,
)
from pilu import Exact, LangevinRidge, Theorem
from pilu.certify.issue import set_target
from pilu.chains.schedule import Schedule, Segment
from pilu.data.rows import Request, RowSource
from pilu.minibatch.difference import compare_minibatches
from pilu.minibatch.law import MinibatchLaw
from pilu.minibatch.problem import MinibatchProblem
from pilu.minibatch.sensitivities import MinibatchSensitivities

SMALL = {"alpha": 0.3, "n_steps": 29, "noise": 0.2, "step_size": 0.015}
TARGET = {"epsilon": 1.0, "delta": 1e-3, "n_unlearn_steps": 6}


def brute_force(model, X, Y, rows, gone=(), *, method=cyclic_noise, **options):
    arguments = (
        with_ones(X),
        Y,
        rows,
        model.alpha,
        model.step_size_,
        model.batch_size,
        list(model.schedule_),
        np.zeros((X.shape[1] + 1, Y.shape[1])),
        TARGET["epsilon"],
        TARGET["delta"],
    )
    if method is cyclic_noise:
        arguments = (*arguments, 0.5)
    return method(*arguments, TARGET["n_unlearn_steps"], gone, **options)


def assert_theorem(found, reference):
    assert found >= reference * (1 - 1e-12)
    assert found == pytest.approx(reference, rel=1e-6)


def assert_exact(found, reference):
    assert found >= reference * (1 - 1e-10)
    # What rounding may have done in all steps is charged: some 1e-7 of the noise.
    assert found == pytest.approx(reference, rel=5e-7)


# Batch size, steps (never whole cycles), noise; rows of the first, a middle and the last batch
DIGITS = [
    (1, 1900, 0.003, (3, 102, 1796)),
    (64, 145, 0.05, (3, 900, 1796)),
    (300, 20, 0.02, (3, 901, 1796)),
    (1796, 7, 0.02, (4, 901, 1796)),
    (1797, 7, 0.02, (901,)),
]


@pytest.mark.parametrize(
    ("b", "steps", "noise", "rows"),
    [
        # one row each, of the first or the last batch in turn; all of them take a minute
        *(
            (b, steps, noise, (rows[-(k % 2)],))
            for k, (b, steps, noise, rows) in enumerate(DIGITS[:-1])
        ),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in DIGITS),
    ],
)
def test_digits(b, steps, noise, rows, digits):
    X, y = digits
    Y = y[:, None].astype(float)
    model = LangevinRidge(alpha=1.0, n_steps=steps, noise=noise, batch_size=b).fit(X, y)
    theorem = model.quote(rows, accountant="theorem", **TARGET).noise
    exact = model.quote(rows, **TARGET).noise
    for i, row in enumerate(rows):
        assert_theorem(theorem[i], brute_force(model, X, Y, [row]))
        assert_exact(exact[i], brute_force(model, X, Y, [row], method=cyclic_exact_noise))
    assert (theorem > 0).any()
    assert (theorem >= exact).all()


GROUPS = [(b, rows) for b in (1, 7, 29) for rows in ([13], [29], [0, 1], [2, 13, 29])]


@pytest.mark.parametrize(
    ("b", "rows"),
    # every size and every group once; all of them take half a minute
    [pytest.param(*one, marks=[] if k in (0, 6, 9, 11) else pytest.mark.slow)
     for k, one in enumerate(GROUPS)],
)  # fmt: skip
def test_groups_and_later_requests(b, rows, small):
    X, Y = small
    model = LangevinRidge(batch_size=b, **SMALL).fit(X, Y)
    for gone in ((), (5, 14, 15)):
        if gone:
            model.unlearn(gone, **TARGET)
        theorem = model.quote([rows], accountant="theorem", **TARGET).noise[0]
        assert_theorem(theorem, brute_force(model, X, Y, rows, gone))
        exact = model.quote([rows], **TARGET).noise[0]
        reference = brute_force(model, X, Y, rows, gone, method=cyclic_exact_noise, digits50=True)
        assert_exact(exact, reference)


@pytest.mark.parametrize("b", [4, 7])
def test_all_rows_are_quoted_as_each_of_them_is(b, small):
    X, Y = small
    model = LangevinRidge(batch_size=b, **SMALL).fit(X, Y)
    for accountant in ("theorem", "exact"):
        together = model.quote(accountant=accountant, **TARGET)
        apart = model.quote(range(30), accountant=accountant, **TARGET)
        np.testing.assert_allclose(together.noise, apart.noise, rtol=1e-9)
        np.testing.assert_allclose(together.epsilon, apart.epsilon, rtol=1e-9)


@pytest.mark.parametrize(
    "accountant",
    [
        Theorem(),
        Theorem(group="joint"),
        Theorem(strong_convexity="retained"),
        Exact(),
        Exact(direction="definition"),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [[3], [5, 6, 400]])
def test_one_batch_is_the_full_batch(accountant, rows, diabetes):
    X, y = diabetes
    model = LangevinRidge(alpha=0.1, n_steps=200, noise=0.5).fit(X, y)
    model.unlearn(7, n_unlearn_steps=11)
    chain = model.fitted_.chain
    problem = MinibatchProblem(chain.problem.source, 0.1, len(X), 1, chain.problem.spectrum.largest)
    law = MinibatchLaw(problem, chain.step_size, chain.schedule, chain.start)
    request, target = Request.read(problem.source, np.array(rows)), set_target(law, 1.0, 1e-3, 12)
    full = accountant.calibrate(model.fitted_.law, request, target)
    cyclic = accountant.calibrate(law, request, target)
    # Both charge what rounding may have done, each in its own way.
    assert cyclic.noise == pytest.approx(full.noise, rel=5e-7)
    assert cyclic.epsilon == pytest.approx(full.epsilon, rel=5e-7)
    assert accountant.spend(law, request, 0.7, target).epsilon == pytest.approx(
        accountant.spend(model.fitted_.law, request, 0.7, target).epsilon, rel=5e-7
    )


def test_batch_size_n_is_the_full_batch_for_a_user(diabetes):
    X, y = diabetes
    options = {"alpha": 0.1, "n_steps": 100, "random_state": 3}
    full, whole = (LangevinRidge(batch_size=b, **options).fit(X, y) for b in (None, len(X)))
    np.testing.assert_array_equal(full.coef_, whole.coef_)
    np.testing.assert_array_equal(full.quote([4]).noise, whole.quote([4]).noise)


def test_bounds_hold_along_simulated_trajectories(small, rng):
    X, Y = small
    model = LangevinRidge(batch_size=4, **SMALL).fit(X, Y)
    sensitivities, delta_s, runs = MinibatchSensitivities(model.fitted_.law), 0.1, 2000
    rows = [4, 6, 13]
    request = Request.read(model.fitted_.source, np.array(rows))
    single = sensitivities.of_each(request, delta_s)
    joint = sensitivities.of_group_jointly(request, delta_s)
    summed = sensitivities.of_group_sum(request, delta_s)
    assert (joint <= summed * (1 + 1e-9)).all()
    whole, eta, start = with_ones(X), model.step_size_, np.zeros((5, 2))
    reference = cyclic_sensitivities(whole, Y, rows, 0.3, eta, 4, [(29, 0.2)], start, delta_s)
    np.testing.assert_allclose(summed, reference, rtol=1e-6)
    assert (summed >= reference * (1 - 1e-12)).all()
    broken = np.zeros((runs, 5), dtype=bool)
    for run in broken:
        path = walk(whole, Y, 0.3, eta, 4, [(29, 0.2)], start, rng)[:-1]
        gradients = np.zeros((3, 29, 5, 2))
        for i, row in enumerate(rows):
            for k in range(row // 4, 29, 8):
                gradients[i, k] = eta * np.outer(whole[row], whole[row] @ path[k] - Y[row])
        sizes = np.linalg.norm(gradients, axis=(2, 3))
        group = np.linalg.norm(gradients.sum(axis=0), axis=(1, 2))
        run[:3] = (sizes > single * (1 + 1e-12)).any(axis=1)
        run[3:] = [(group > bound * (1 + 1e-12)).any() for bound in (joint, summed)]
    assert (broken.mean(axis=0) <= delta_s + 4 * np.sqrt(delta_s / runs)).all()
    assert broken[:, :3].mean() > delta_s / 10  # they are not vacuous


@pytest.mark.parametrize("K", [1, 3, 40])
def test_after_requests_without_noise_covariances_may_be_singular(K, small):
    X, Y = small
    X = X.copy()
    X[20] = 0.0
    options = {**SMALL, "step_size": "auto"}
    model = LangevinRidge(batch_size=4, fit_intercept=False, **options).fit(X, Y)
    # At eta = 1/L a step takes one direction away; without noise nothing is put in its place.
    certificate = model.unlearn(20, n_unlearn_steps=16, delta=1e-3)
    assert certificate.noise == 0.0
    quote = model.quote([[4], [1, 2, 9]], epsilon=0.5, delta=1e-3, n_unlearn_steps=K)
    for rows, noise in zip(([4], [1, 2, 9]), quote.noise, strict=True):
        options = (0.3, model.step_size_, 4, list(model.schedule_), np.zeros((4, 2)))
        pair = cyclic_pair(X, Y, rows, *options, noise, K, [20], digits50=True)
        reached = both_ways_delta(pair.x, pair.a2, 2, 0.5)
        assert reached <= 1e-3
        if K > 1:
            assert reached >= 1e-3 * (1 - 1e-5)


def assert_never_flattered(X, Y, b, rows, gone, segments, noises, K, *, enclosed=False):
    """What is certified for small noises holds in 50 digits; some of them have to be answered."""
    source = RowSource.of(X, Y, fit_intercept=False)
    whole = MinibatchProblem.fit(source, 1e-6, 1, b)
    left = np.array(gone, dtype=np.intp)
    problem, eta = whole.without(left, X[left], Y[left]), 1 / whole.largest
    schedule, start = Schedule(tuple(Segment(*s) for s in segments)), np.zeros((X.shape[1], 1))
    law = MinibatchLaw(problem, eta, schedule, start)
    request, answered = Request.read(problem.source, np.array(rows)), 0
    for noise in noises:
        try:
            epsilon = Exact().spend(law, request, noise, set_target(law, 0.1, 1e-6, K)).epsilon
        except ArithmeticError:  # too little to tell the laws from rounding
            continue
        answered += 1
        run = (1e-6, eta, b, segments, start, noise, K, gone)
        pair = cyclic_pair(X, Y, rows, *run, digits50=True)
        assert both_ways_delta(pair.x, pair.a2, 1, epsilon) <= 1e-6
        if enclosed:
            found = compare_minibatches(law, request.rows, request.X, request.Y).enclosure(noise, K)
            shown = np.pad(found.excesses, (0, len(pair.x) - len(found.excesses)))
            off = np.abs(np.sort(shown) - np.sort(pair.x.astype(float)))
            assert np.max(off) <= found.covariance_error
    assert answered >= 2


def test_rounding_that_steps_without_noise_uncover_is_charged():
    # The noiseless step takes one direction away, the next step the other: what is left of both
    # covariances is far below the rounding of the difference.
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((2, 2)))[0]
    X = np.array([[1, 0.0], [0, 0], [0, 0], [0, 1], [3e-4, 3e-4], [0, 0]]) @ turn
    Y = np.random.default_rng(2).standard_normal((6, 1))
    noises = (1e-1, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
    for without_noise in (1, 3):
        segments = [(40, 0.1), (without_noise, 0.0)]
        assert_never_flattered(X, Y, 3, [4], [2], segments, noises, 1, enclosed=True)


@pytest.mark.parametrize("K", [11, 13])
@pytest.mark.parametrize("learning_noise", [1e-4, 1e-8])
def test_directions_that_the_steps_have_taken_away_are_not_trusted(learning_noise, K):
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    rows = [[0.7, 0, 0], [0.7, 0, 0], [0.05, 0, 0], [0, 0.1, 0.02], [0, 0.05, 0.1], [0, 0.1, -0.1]]
    Y = np.array([[1.0], [1], [1], [0.5], [0.2], [0.1]])
    noises = (1e-12, 3e-12, 1e-11, 1e-10)
    assert_never_flattered(np.array(rows) @ turn, Y, 3, [2], [], [(1, learning_noise)], noises, K)


def test_variances_that_are_only_rounding_stay_variances():
    # Orthonormal rows, one to a batch: noiseless steps take every direction away, and forwards
    # x'Sigma x is a difference of equal numbers.
    X = np.linalg.qr(np.random.default_rng(4).standard_normal((40, 40)))[0]
    y = np.random.default_rng(5).standard_normal(40)
    model = LangevinRidge(alpha=1e-3, n_steps=39, noise=0.1, batch_size=1, fit_intercept=False).fit(
        X, y
    )
    assert model.unlearn(39, n_unlearn_steps=120).noise == 0.0
    law = model.fitted_.law
    assert (law._all_variances()[0] >= 0.0).all()
    every = model.quote(accountant="theorem", n_unlearn_steps=5).noise
    each = model.quote(range(39), accountant="theorem", n_unlearn_steps=5).noise
    assert np.isfinite(every).all()
    np.testing.assert_allclose(every, each, rtol=1e-9)


def test_all_rows_cost_what_each_of_them_does_after_steps_without_noise():
    # Rows that are all alike, one to a batch: forwards, variances would be mostly rounding.
    X, y = np.ones((12, 1)), 1e-3 * np.random.default_rng(0).standard_normal(12)
    options = {"alpha": 0.1, "noise": 1e4, "batch_size": 1, "fit_intercept": False}
    model = LangevinRidge(n_steps=11, **options).fit(X, y)
    assert model.unlearn(11, n_unlearn_steps=40).noise == 0.0
    alone = copy.deepcopy(model).quote([0], accountant="theorem", n_unlearn_steps=5).noise[0]
    every = model.quote(accountant="theorem", n_unlearn_steps=5).noise
    assert alone > 0
    assert every[0] == pytest.approx(alone, rel=1e-6)


def test_exact_delta_is_that_of_a_simulation(small, rng):
    X, Y = small
    model = LangevinRidge(batch_size=7, **SMALL).fit(X, Y)
    noise = model.quote([13], **TARGET).noise[0]
    options = (0.3, model.step_size_, 7, [(29, 0.2)], np.zeros((5, 2)))
    pair = cyclic_pair(with_ones(X), Y, [13], *options, noise, 6)
    (mean_p, cov_p), (mean_q, cov_q) = pair.P, pair.Q
    draws = mean_p + np.linalg.cholesky(cov_p) @ rng.standard_normal((200_000, 5, 2))
    ratio = log_density(draws, mean_p, cov_p) - log_density(draws, mean_q, cov_q)
    gain = np.maximum(0.0, 1 - np.exp(1.0 - ratio))
    back = mean_q + np.linalg.cholesky(cov_q) @ rng.standard_normal((200_000, 5, 2))
    ratio = log_density(back, mean_q, cov_q) - log_density(back, mean_p, cov_p)
    loss = np.maximum(0.0, 1 - np.exp(1.0 - ratio))
    # The larger of the two directions is the one that the noise was calibrated to.
    larger = max(gain, loss, key=np.mean)
    assert larger.mean() == pytest.approx(1e-3, abs=5 * larger.std() / np.sqrt(len(larger)))


def log_density(draws, mean, covariance):
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, draws - mean)
    d = mean.shape[1]
    return -0.5 * np.sum(white**2, axis=(1, 2)) - d * np.sum(np.log(np.diag(root)))
