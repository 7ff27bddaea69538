"""Theorem 1 end to end against a dense brute-force reference, simulation and its own logic."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from conftest import with_ones
from oracles.calibrate import dense_mu, dense_noise, group_sum_bounds
from oracles.dense import joint_group_bounds, sensitivity_bounds
from oracles.high_precision import epsilon_from_mu_mp
from pilu import LangevinRidge, Theorem
from pilu.data.rows import Request
from pilu.ridge.sensitivities import RidgeSensitivities


def quote(model, *requests, **options):
    return model.quote(*requests, **{"accountant": "theorem", **options})


def unlearn(model, rows, **options):
    return model.unlearn(rows, **{"accountant": "theorem", **options})


def certified_epsilon(model, rows, **options):
    return model.certified_epsilon(rows, **{"accountant": "theorem", **options})


def dense_reference(model, X, Y, rows, segments, **options):
    X = with_ones(X)
    start = np.zeros((X.shape[1], Y.shape[1]))
    return dense_noise(X, Y, rows, model.alpha, model.step_size_, segments, start, **options)


def assert_agrees(noise, reference):
    assert noise >= reference * (1 - 1e-12)
    assert noise <= reference * (1 + 1e-6)


def one_hot(y):
    return np.eye(10)[y]


@pytest.mark.parametrize(("name", "n_steps", "count"), [("diabetes", 150, 6), ("digits", 120, 4)])
def test_quotes_agree_with_the_dense_reference(name, n_steps, count, request, rng):
    check_quotes(*request.getfixturevalue(name), name, n_steps, count, rng)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("diabetes", 60), ("digits", 30)])
def test_quotes_agree_with_the_dense_reference_at_full_length(name, count, request, rng):
    check_quotes(*request.getfixturevalue(name), name, 800, count, rng)


def check_quotes(X, y, name, n_steps, count, rng):
    Y = one_hot(y) if name == "digits" else y[:, None]
    model = LangevinRidge(n_steps=n_steps, noise=0.01).fit(X, Y)
    for epsilon, delta in ((1.0, None), (0.1, 1e-9)):
        quoted = quote(model, epsilon=epsilon, delta=delta, n_unlearn_steps=30)
        hardest, easiest = int(np.argmax(quoted.noise)), int(np.argmin(quoted.noise))
        for row in [hardest, easiest, *rng.integers(len(X), size=count // 2 - 1)]:
            reference = dense_reference(
                model,
                X,
                Y,
                [row],
                [(n_steps, 0.01)],
                epsilon=epsilon,
                delta=delta or 1 / len(X),
                n_unlearn_steps=30,
            )
            assert_agrees(quoted.noise[row], reference)
            assert_agrees(
                quote(model, [row], epsilon=epsilon, delta=delta, n_unlearn_steps=30).noise[0],
                reference,
            )


def test_rows_where_the_papers_closed_form_is_infeasible(rng):
    # Targets of 0 start without sensitivity, and a large learning noise pays too early.
    X = rng.normal(size=(25, 3))
    Y = np.where(np.arange(25) % 2, 0.0, X[:, 0])[:, None]
    model = LangevinRidge(alpha=0.5, n_steps=12, noise=0.5).fit(X, Y)
    infeasible = 0
    for row in range(8):
        options = {"epsilon": 0.5, "delta": 0.01, "n_unlearn_steps": 5}
        reference = dense_reference(model, X, Y, [row], [(12, 0.5)], **options)
        quoted = quote(model, [row], **options)
        assert_agrees(quoted.noise[0], reference)
        model_copy = LangevinRidge(alpha=0.5, n_steps=12, noise=0.5).fit(X, Y)
        infeasible += not unlearn(model_copy, row, **options).checks["closed_form_feasible"]
        assert_agrees(quote(model, **options).noise[row], reference)
    assert infeasible >= 3


def test_a_group_by_the_triangle_sum(diabetes):
    X, y = diabetes
    model = LangevinRidge(n_steps=100).fit(X, y)
    options = {"epsilon": 1.0, "delta": 1e-4, "n_unlearn_steps": 20}
    reference = dense_reference(model, X, y[:, None], [3, 50, 200], [(100, 0.01)], **options)
    assert_agrees(quote(model, [[200, 3, 50]], **options).noise[0], reference)


def test_retained_strong_convexity_and_delta_split(rng):
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = LangevinRidge(alpha=0.1, n_steps=60, noise=0.1).fit(X, y)
    options = {"epsilon": 0.7, "delta": 1e-3, "n_unlearn_steps": 10}
    for row in (0, 17):
        left = with_ones(np.delete(X, row, axis=0))
        m = float(np.linalg.eigvalsh(left.T @ left + 0.1 * np.eye(4))[0])
        reference = dense_reference(
            model,
            X,
            y[:, None],
            [row],
            [(60, 0.1)],
            delta_split=0.2,
            strong_convexity=m,
            **options,
        )
        accountant = Theorem(delta_split=0.2, strong_convexity="retained")
        assert_agrees(quote(model, [row], accountant=accountant, **options).noise[0], reference)
        assert_agrees(quote(model, accountant=accountant, **options).noise[row], reference)
        by_alpha = quote(model, [row], accountant=Theorem(delta_split=0.2), **options).noise[0]
        assert reference < by_alpha


def test_a_later_request_is_certified_without_the_earlier_rows(rng):
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    model = LangevinRidge(alpha=0.1, n_steps=40, noise=0.1).fit(X, y)
    first = unlearn(model, [2, 5], epsilon=1.0, delta=1e-3, n_unlearn_steps=8)
    options = {"epsilon": 1.0, "delta": 1e-3, "n_unlearn_steps": 6}
    quoted = quote(model, [11], **options).noise[0]
    left = np.delete(np.arange(30), [2, 5])
    reference = dense_reference(
        model, X[left], y[left, None], [9], [(40, 0.1), (8, first.noise)], **options
    )  # row 11 stands at position 9 of what is left
    assert_agrees(quoted, reference)
    second = unlearn(model, 11, **options)
    assert_agrees(second.noise, reference)
    assert second.schedule == ((40, 0.1), (8, first.noise), (6, second.noise))


def test_certified_epsilon_is_the_theorem_reversed(diabetes):
    X, y = diabetes
    model = LangevinRidge(n_steps=100).fit(X, y)
    noise = quote(model, [7], epsilon=0.8, n_unlearn_steps=20).noise[0]
    assert certified_epsilon(model, 7, noise=noise, n_unlearn_steps=20) == pytest.approx(0.8)
    Xa, Y = with_ones(X), y[:, None]
    delta = 1 / len(X)
    s = group_sum_bounds(
        Xa, Y, [7], 1e-4, model.step_size_, [(100, 0.01)], np.zeros((11, 1)), delta / 2
    )
    mu = dense_mu(s, [(100, 0.01)], 3.0, 20, model.step_size_, 1e-4)
    exact = float(epsilon_from_mu_mp(mu, delta / 2))
    epsilon = certified_epsilon(model, 7, noise=3.0, n_unlearn_steps=20)
    assert exact * (1 - 1e-12) <= epsilon <= exact * (1 + 1e-6)


def test_a_step_size_of_the_users_own(rng):
    # Beyond 1/L the contraction is that of the largest eigenvalue: eta L - 1.
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    A = with_ones(X).T @ with_ones(X) + 0.1 * np.eye(3)
    L = float(np.linalg.eigvalsh(A)[-1])
    model = LangevinRidge(alpha=0.1, n_steps=15, noise=0.2, step_size=1.999 / L).fit(X, y)
    law = model.fitted_.law
    c = RidgeSensitivities(law).contraction(with_ones(X)[:1], "alpha")
    assert c >= 1.999 - 1
    assert c >= 1 - 1.999 / L * 0.1
    left = with_ones(X[1:])
    M = np.eye(3) - 1.999 / L * (left.T @ left + 0.1 * np.eye(3))
    assert np.linalg.norm(M, 2) <= c


def joint_problem(rng, n_outputs=2):
    X = rng.normal(size=(30, 4))
    Y = rng.normal(size=(30, n_outputs))
    model = LangevinRidge(alpha=0.1, n_steps=25, noise=0.3, fit_intercept=False).fit(X, Y)
    return X, Y, model


def test_joint_group_bounds_against_dense(rng):
    X, Y, model = joint_problem(rng)
    for rows in ([4], [1, 2, 3], list(range(6))):
        bounds = RidgeSensitivities(model.fitted_.law).of_group_jointly(
            Request(X[rows], Y[rows], np.array(rows)), 25 * 1e-4
        )
        reference = joint_group_bounds(
            X[rows], Y[rows], X, Y, 0.1, model.step_size_, [(25, 0.3)], np.zeros((4, 2)), 1e-4
        )
        assert (bounds >= reference * (1 - 1e-12)).all()
        np.testing.assert_allclose(bounds, reference, rtol=1e-6)


@pytest.mark.parametrize("distance", [1e-9, 1e-7, 1e-4])
def test_joint_bound_of_nearly_equal_rows_with_opposite_targets(distance, rng):
    # The gradients nearly cancel: X X' alone would lose what is left of them.
    x = rng.normal(size=5)
    rows = np.vstack([x, x + distance * rng.normal(size=5)])
    X = np.vstack([rows, rng.normal(size=(20, 5))])
    Y = np.concatenate([[1.0, -1.0], np.zeros(20)])[:, None]
    model = LangevinRidge(alpha=0.1, n_steps=3, noise=1e-13, fit_intercept=False).fit(X, Y)
    bounds = RidgeSensitivities(model.fitted_.law).of_group_jointly(
        Request(rows, Y[:2], np.arange(2)), 3e-6
    )
    with mp.workdps(50):
        exact = [sum(mpf(rows[i, j]) * -mpf(Y[i, 0]) for i in range(2)) for j in range(5)]
        norm = mp.sqrt(sum(v**2 for v in exact)) * mpf(model.step_size_)
    assert bounds[0] >= norm
    assert bounds[0] <= norm * (1 + 1e-2)


def test_after_a_request_without_noise_later_ones_are_answered(rng):
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    X[0] = 0.0
    model = LangevinRidge(alpha=0.5, n_steps=20, noise=0.1, fit_intercept=False).fit(X, y)
    assert unlearn(model, 0, n_unlearn_steps=4).noise == 0.0
    options = {"epsilon": 1.0, "delta": 1e-3, "n_unlearn_steps": 5}
    reference = dense_noise(
        X[1:],
        y[1:, None],
        [4],
        0.5,
        model.step_size_,
        [(20, 0.1), (4, 0.0)],
        np.zeros((3, 1)),
        **options,
    )
    assert_agrees(quote(model, [5], **options).noise[0], reference)
    assert_agrees(quote(model, **options).noise[4], reference)
    assert model.verify(unlearn(model, 5, **options))["epsilon_recomputed"]


def test_what_a_noise_certifies_can_be_asked_for(rng):
    X, y = rng.normal(size=(30, 3)), 0.1 * rng.normal(size=30)
    model = LangevinRidge(alpha=0.1, n_steps=40, noise=5.0).fit(X, y)
    for row in range(12):
        for noise in (0.0, 1.0):
            reached = certified_epsilon(model, row, noise=noise, delta=0.01, n_unlearn_steps=5)
            again = quote(model, [row], epsilon=reached, delta=0.01, n_unlearn_steps=5).noise[0]
            assert again <= noise * (1 + 1e-6) + 0.01


def test_joint_is_tighter_than_the_sum_and_equal_for_one_row(diabetes):
    X, y = diabetes
    model = LangevinRidge(n_steps=60).fit(X, y)
    joint, total = Theorem(group="joint"), Theorem()
    group = [list(range(20))]
    assert quote(model, group, accountant=joint).noise < 0.7 * quote(model, group).noise
    one = quote(model, [3], accountant=joint).noise
    assert one == pytest.approx(quote(model, [3], accountant=total).noise)


def test_bounds_hold_along_simulated_trajectories(rng):
    X, Y, model = joint_problem(rng)
    eta, runs, delta_s = model.step_size_, 4000, 0.05
    sensitivities = RidgeSensitivities(model.fitted_.law)
    rows = [3, 8, 9]
    request = Request(X[rows], Y[rows], np.array(rows))
    single = sensitivities.of_each(request, delta_s)
    joint = sensitivities.of_group_jointly(request, delta_s)
    summed = sensitivities.of_group_sum(request, delta_s)
    theta = np.zeros((runs, 4, 2))
    A, B = X.T @ X + 0.1 * np.eye(4), X.T @ Y
    broken = {"single": np.zeros((runs, 3), bool), "joint": np.zeros(runs, bool)}
    broken["sum"] = np.zeros(runs, bool)
    for k in range(25):
        residuals = X[rows] @ theta - Y[rows]
        size = eta * np.linalg.norm(X[rows], axis=1) * np.linalg.norm(residuals, axis=2)
        broken["single"] |= size > single[:, k] * (1 + 1e-12)
        group = eta * np.linalg.norm(X[rows].T @ residuals, axis=(1, 2))
        broken["joint"] |= group > joint[k] * (1 + 1e-12)
        broken["sum"] |= group > summed[k] * (1 + 1e-12)
        noise = np.sqrt(2 * eta) * 0.3 * rng.normal(size=theta.shape)
        theta = theta - eta * (A @ theta - B) + noise
    limit = delta_s + 4 * np.sqrt(delta_s / runs)
    for name, failures in broken.items():
        assert (failures.mean(axis=0) <= limit).all(), name
    assert broken["single"].any()  # the bounds are not vacuous


@pytest.mark.parametrize(
    ("p", "n_steps", "accountant", "least"),
    [
        # One step in one dimension: the theorem is tight up to its split of delta.
        (1, 1, Theorem(delta_split=0.01, strong_convexity="retained"), 0.9),
        (2, 10, Theorem(), 0.0),
    ],
)
def test_simulated_divergence_never_exceeds_the_certificate(p, n_steps, accountant, least, rng):
    # Definition 1 on simulated releases, by the optimal test between the two known laws.
    X, y = rng.normal(size=(12, p)), rng.normal(size=(12, 1))
    X[0], y[0] = 2.0, 3.0
    epsilon, delta, K, runs = 0.5, 0.05, 4, 100_000
    model = LangevinRidge(alpha=0.3, n_steps=n_steps, noise=0.5, fit_intercept=False).fit(X, y)
    eta = model.step_size_
    certificate = unlearn(
        model, 0, epsilon=epsilon, delta=delta, n_unlearn_steps=K, accountant=accountant
    )
    everyone, keep = np.arange(12), np.arange(1, 12)

    def phases(learn_rows):
        for rows, steps, noise in ((learn_rows, n_steps, 0.5), (keep, K, certificate.noise)):
            M = np.eye(p) - eta * (X[rows].T @ X[rows] + 0.3 * np.eye(p))
            for _ in range(steps):
                yield M, eta * X[rows].T @ y[rows], 2 * eta * noise**2

    def release(learn_rows):
        theta = np.zeros((runs, p, 1))
        for M, drift, variance in phases(learn_rows):
            theta = M @ theta + drift + np.sqrt(variance) * rng.normal(size=theta.shape)
        return theta[:, :, 0]

    def law(learn_rows):
        mean, cov = np.zeros((p, 1)), np.zeros((p, p))
        for M, drift, variance in phases(learn_rows):
            mean, cov = M @ mean + drift, M @ cov @ M.T + variance * np.eye(p)
        return mean[:, 0], cov

    def log_ratio(theta):
        values = []
        for mean, cov in (law(everyone), law(keep)):
            d = theta - mean
            exponent = np.sum(d @ np.linalg.inv(cov) * d, axis=1)
            values.append(-0.5 * exponent - 0.5 * np.linalg.slogdet(cov)[1])
        return values[0] - values[1]

    in_p, in_q = log_ratio(release(everyone)) > epsilon, log_ratio(release(keep)) > epsilon
    measured = in_p.mean() - np.exp(epsilon) * in_q.mean()
    error = 4 * np.sqrt((in_p.mean() + np.exp(2 * epsilon) * in_q.mean()) / runs)
    assert least * delta - error <= measured <= delta + error
    assert error < 0.2 * delta


@settings(deadline=None, max_examples=25)
@given(
    st.floats(0.05, 5),
    st.floats(1.01, 3),
    st.floats(1e-6, 0.1),
    st.integers(1, 60),
    st.integers(0, 29),
)
def test_monotone(epsilon, factor, delta, steps, row):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    model = LangevinRidge(alpha=0.5, n_steps=30, noise=0.2, random_state=0).fit(X, y)

    def noise(e, d, k):
        return quote(model, [row], epsilon=e, delta=d, n_unlearn_steps=k).noise[0]

    base = noise(epsilon, delta, steps)
    assert noise(epsilon * factor, delta, steps) <= base * (1 + 1e-9)
    assert noise(epsilon, delta * factor, steps) <= base * (1 + 1e-9)
    assert noise(epsilon, delta, steps + 1) <= base * (1 + 1e-9)
    spent = [
        certified_epsilon(model, row, noise=n, delta=delta, n_unlearn_steps=steps)
        for n in (base, base * factor + 0.01)
    ]
    assert spent[1] <= spent[0] * (1 + 1e-9)
    assert spent[0] <= epsilon * (1 + 1e-9)


def test_no_sensitivity_needs_no_noise():
    X = np.vstack([np.zeros(3), np.random.default_rng(0).normal(size=(10, 3))])
    y = np.arange(11.0)
    model = LangevinRidge(n_steps=20, noise=0.1, fit_intercept=False).fit(X, y)
    assert quote(model, [0]).noise[0] == 0.0
    assert quote(model).noise[0] == 0.0
    assert certified_epsilon(model, 0, noise=0.0) == 0.0
    certificate = unlearn(model, 0)
    assert (certificate.noise, certificate.epsilon, certificate.mu) == (0.0, 0.0, 0.0)
    assert model.verify(certificate)["epsilon_recomputed"]


def test_learning_noise_alone_may_suffice(rng):
    X, y = rng.normal(size=(50, 2)), 0.01 * rng.normal(size=50)
    model = LangevinRidge(alpha=1.0, n_steps=30, noise=20.0).fit(X, y)
    options = {"epsilon": 8.0, "delta": 0.01, "n_unlearn_steps": 5}
    assert quote(model, [4], **options).noise[0] == 0.0
    certificate = unlearn(model, 4, **options)
    assert certificate.noise == 0.0
    assert 0 < certificate.epsilon <= 8.0
    exact = sensitivity_bounds(
        with_ones(X)[4],
        y[[4]],
        with_ones(X),
        y[:, None],
        1.0,
        model.step_size_,
        [(30, 20.0)],
        np.zeros((3, 1)),
        0.005 / 30,
    )
    mu = dense_mu(exact, [(30, 20.0)], 0.0, 0, model.step_size_, 1.0)
    assert certificate.epsilon >= float(epsilon_from_mu_mp(mu, 0.005)) * (1 - 1e-12)


def test_alpha_zero_is_refused_by_the_papers_choice_only(rng):
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    model = LangevinRidge(alpha=0.0, n_steps=30, noise=0.1).fit(X, y)
    with pytest.raises(ValueError, match="strong_convexity='retained'"):
        quote(model, [0])
    assert quote(model, [0], accountant=Theorem(strong_convexity="retained")).noise[0] > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delta_split": 0.0}, "delta_split must be"),
        ({"delta_split": 1.0}, "delta_split must be"),
        ({"strong_convexity": "lambda"}, "strong_convexity must be one of 'alpha', 'retained'"),
        ({"group": "max"}, "group must be one of 'sum', 'joint'"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ValueError, match=words):
        Theorem(**options)
