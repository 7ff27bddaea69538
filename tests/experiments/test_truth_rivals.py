"""The rivals of the truth suite: published formulas, derived again, and laws by runs."""

import math

import mpmath as mp
import numpy as np
import pytest
from experiments.truth import Draws, NotCovered, true_epsilon
from experiments.truth.adapters import certified_removal as removal
from experiments.truth.adapters import descent, langevin
from experiments.truth.adapters.controls import WrongSignOnLine
from experiments.truth.adapters.pilu_others import descended
from experiments.truth.problems import problems
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, log_expit

ALL = problems("full")
RIDGE = [problem for problem in ALL if problem.loss == "squared"]
LINES = [problem for problem in ALL if problem.loss == "logistic"]


def settings(chosen):
    return pytest.mark.parametrize("problem", chosen, ids=[one.setting for one in chosen])


def objective(problem, theta, b=0.0):
    """f + b theta of the one parameter, row by row."""
    scores = problem.X[:, 0] * theta
    return -log_expit(problem.y * scores).sum() + problem.alpha / 2 * theta**2 + b * theta


def slope(problem, theta, b=0.0):
    """Its derivative, by hand."""
    x, y = problem.X[:, 0], problem.y
    return -(y * x * expit(-y * x * theta)).sum() + problem.alpha * theta + b


def minimiser(problem, b):
    reach = (np.abs(problem.X).sum() + abs(b)) / problem.alpha + 1
    return brentq(lambda t: slope(problem, t, b), -reach, reach, xtol=1e-13)


@settings([*RIDGE[:2], *LINES[:2]])
def test_gradients_and_minimisers(problem):
    rng = np.random.default_rng(0)
    theta, tilt = rng.standard_normal(problem.n_parameters), rng.standard_normal()
    if problem.loss == "squared":
        expected = problem.X.T @ (problem.X @ theta - problem.y) + problem.alpha * theta
    else:
        h = 1e-5
        up, down = (objective(problem, theta[0] + s * h) for s in (1, -1))
        expected = [(up - down) / (2 * h)]
        assert slope(problem, theta[0]) == pytest.approx(expected[0], rel=1e-7)
        best = minimize_scalar(lambda t: objective(problem, t, tilt), tol=1e-12).x
        assert problem.minimiser(tilt)[0] == pytest.approx(best, abs=1e-6)
    assert problem.gradient(theta) == pytest.approx(expected, rel=1e-7)
    steps = np.linalg.eigvalsh(problem.hessian(theta))
    assert problem.alpha * (1 - 1e-9) <= steps[0]
    assert steps[-1] <= problem.largest * (1 + 1e-9)


# Certified removal


@pytest.mark.parametrize("delta", [1e-5, 0.01])
def test_the_conversion_of_theorem_3(delta):
    """delta = 1.5 e^(-c^2/2) and sigma = c eps' / eps."""
    c = brentq(lambda c: 1.5 * math.exp(-c * c / 2) - delta, 0, 20)
    assert removal.conversion(delta) == pytest.approx(c)


@settings(LINES)
def test_the_bounds_on_what_remains(problem):
    """Both bounds against the gradient that is left, at minimisers of many perturbations."""
    reference = removal.newton_reference(problem)
    n, penalty = problem.n_rows, problem.alpha / problem.n_rows
    assert reference.alpha == pytest.approx((n - 1) * penalty)
    x, y = problem.X[problem.row, 0], problem.y[problem.row]
    worst = removal.worst_case_bound(problem)
    assert worst == pytest.approx(n**2 / (problem.alpha**2 * (n - 1)))  # 4 gamma C^2 = 1
    for theta in np.linspace(-1, 1, 21) / penalty:  # where Theorem 1 is proved
        delta = penalty * theta - y * x * expit(-y * x * theta)
        scores = reference.X[:, 0] * theta
        weights = expit(scores) * expit(-scores)
        hessian = (reference.X[:, 0] ** 2 * weights).sum() + reference.alpha
        step = delta / hessian
        b = -slope(problem, theta)
        remains = abs(slope(reference, theta + step, b))
        bound = removal.data_dependent_bound(problem, np.array([theta]))[0]
        spread = math.sqrt((reference.X**2).sum())
        assert bound == pytest.approx(0.25 * spread * abs(step) * spread * abs(step), rel=1e-9)
        assert remains <= bound * (1 + 1e-9) + 1e-9
        assert remains <= worst


@settings([RIDGE[0], RIDGE[2]])
@pytest.mark.parametrize("n_steps", [None, 7])
def test_laws_after_a_newton_step(problem, n_steps):
    """theta^- is affine in b: its image of 0 and of unit vectors, by steps and a solve."""
    sigma, p = 0.3, problem.n_parameters
    x, y = problem.X[problem.row], problem.y[problem.row]
    share = problem.alpha / problem.n_rows
    kept = np.arange(problem.n_rows) != problem.row
    H = problem.X[kept].T @ problem.X[kept] + (problem.n_rows - 1) * share * np.eye(p)
    A = problem.X.T @ problem.X + problem.alpha * np.eye(p)

    def removed(b):
        if n_steps is None:
            theta = np.linalg.solve(A, problem.X.T @ problem.y - b)
        else:
            theta = np.zeros(p)
            for _ in range(n_steps):
                theta = theta - problem.step_size * (A @ theta - problem.X.T @ problem.y + b)
        return theta + np.linalg.solve(H, share * theta + x * (x @ theta - y))

    def retrained(b):
        return np.linalg.solve(H, problem.X[kept].T @ problem.y[kept] - b)

    laws = removal.after_newton(problem, sigma, n_steps)
    for law, output in zip(laws, (removed, retrained), strict=True):
        mean = output(np.zeros(p))
        columns = np.stack([output(axis) - mean for axis in np.eye(p)], axis=1)
        assert law.mean == pytest.approx(mean, rel=1e-8)
        assert law.covariance == pytest.approx(sigma**2 * columns @ columns.T, rel=1e-7, abs=1e-12)
    if n_steps is None:
        assert removed(np.ones(p)) == pytest.approx(retrained(np.ones(p)))


def test_the_law_of_the_newton_step_on_a_line_against_runs():
    """The wrong sign is far from the truth, so that runs can see how far."""
    problem, delta = LINES[0], 0.01
    sigma = 5.0
    rng = np.random.default_rng(1)
    x, y = problem.X[problem.row, 0], problem.y[problem.row]
    reference = removal.newton_reference(problem)
    share = problem.alpha / problem.n_rows
    removed, retrained = [], []
    for b, other in sigma * rng.standard_normal((3000, 2)):
        theta = minimiser(problem, b)
        scores = reference.X[:, 0] * theta
        hessian = (reference.X[:, 0] ** 2 * expit(scores) * expit(-scores)).sum() + reference.alpha
        step = (share * theta - y * x * expit(-y * x * theta)) / hessian
        removed.append([theta + step, theta - step])
        retrained.append(minimiser(reference, other))
    removed, retrained = np.array(removed), np.array(retrained)[:, None]
    right = true_epsilon(*removal.newton_on_line(problem, sigma), delta).of("both")
    wrong = true_epsilon(*removal.newton_on_line(problem, sigma, sign=-1.0), delta).of("both")
    lower = [
        true_epsilon(Draws(removed[:, [k]]), Draws(retrained), delta).of("both").lower
        for k in range(2)
    ]
    assert lower[0] <= right.upper
    assert lower[1] <= wrong.upper
    assert lower[1] > 0.3 * wrong.value > right.value


def test_shares_of_the_law_of_the_newton_step():
    """Half of the runs end below the image of the median minimiser."""
    problem, sigma = LINES[0], 3.0
    P, Q = removal.newton_on_line(problem, sigma)
    theta = minimiser(problem, 0.0)
    assert removal.perturbed_minimiser(problem, sigma)(np.array([theta]))[0] == pytest.approx(0)
    for law in (P, Q):
        assert law.probabilities.sum() == pytest.approx(1)
        assert len(law.coarser) < len(law.probabilities)
    with pytest.raises(NotCovered):
        WrongSignOnLine().run(RIDGE[0], 1.0)


# Langevin unlearning


@pytest.mark.parametrize("constants", [langevin, descent])
@settings([RIDGE[0], RIDGE[1], LINES[0]])
def test_constants_hold_on_the_ball(problem, constants):
    """Every row's gradient and curvature at random points of the ball."""
    found, rng = constants.Constants.of(problem), np.random.default_rng(2)
    share, radius = problem.alpha / problem.n_rows, constants.RADIUS
    points = rng.standard_normal((2000, problem.n_parameters))
    points *= radius / np.linalg.norm(points, axis=1, keepdims=True)
    points[::2] *= rng.uniform(size=(1000, 1))
    steepest = 0.0
    for x, y in zip(problem.X, problem.y, strict=True):
        scores = points @ x
        slopes = scores - y if problem.loss == "squared" else -y * expit(-y * scores)
        gradients = slopes[:, None] * x + share * points
        steepest = max(steepest, np.linalg.norm(gradients, axis=1).max())
    assert steepest <= found.lipschitz <= 1.5 * steepest
    assert found.convexity == pytest.approx(share)
    if constants is descent:
        most = max(problem.curvature * x @ x for x in problem.X) + share
        assert found.smoothness == pytest.approx(most)
    else:  # of the mean
        gram = problem.X.T @ problem.X * problem.curvature / problem.n_rows
        smooth = np.linalg.eigvalsh(gram)[-1] + share
        assert found.step_size == pytest.approx(1 / smooth)


@settings([RIDGE[0], LINES[0], LINES[1]])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_epsilon_of_langevin_unlearning(problem, epsilon):
    """4 a M^2 / (m sigma^2 n^2) e^(-m eta K / a) + log(1/delta) / (a - 1), by brute force."""
    found, K = langevin.Constants.of(problem), problem.n_unlearn_steps
    sigma = found.sigma(epsilon, K, problem.delta)
    m, M, eta, n = found.convexity, found.lipschitz, found.step_size, problem.n_rows
    a = 1 + np.exp(np.linspace(-10, 18, 400_001))
    renyi = 4 * a * M**2 / (m * sigma**2 * n**2) * np.exp(-m * eta * K / a)
    least = (renyi + math.log(1 / problem.delta) / (a - 1)).min()
    assert least == pytest.approx(epsilon, rel=1e-6)


def test_langevin_unlearning_replaces_the_row_by_zeros():
    problem = LINES[0]
    other = langevin.with_zeros(problem)
    theta = np.array([0.7])
    x, y = problem.X[problem.row], problem.y[problem.row]
    without = problem.gradient(theta) + y * x * expit(-y * x * theta)
    assert other.gradient(theta) == pytest.approx(without)


# Descent-to-Delete


@settings([RIDGE[0], RIDGE[1], LINES[0]])
@pytest.mark.parametrize("epsilon", [0.1, 10.0])
def test_the_noise_for_a_secret_state(problem, epsilon):
    """A sensitivity of 8 L gamma^I / (m n (1 - gamma^I)) by zCDP: rho + 2 sqrt(rho log 1/delta)."""
    found, updates = descent.Constants.of(problem), 10
    m, M, L, n = found.convexity, found.smoothness, found.lipschitz, problem.n_rows
    g = (M - m) / (M + m)
    distance = L * g**updates / (m * n * (1 - g**updates))
    sigma = found.secret_noise(epsilon, problem.delta, updates)
    rho = (8 * distance) ** 2 / (2 * sigma**2)
    assert rho + 2 * math.sqrt(rho * math.log(1 / problem.delta)) == pytest.approx(epsilon)
    with mp.workdps(40):
        log, e = 2 * mp.log(2 / mp.mpf(problem.delta)), mp.mpf(epsilon)
        published = 8 * mp.mpf(distance) / (mp.sqrt(log + 3 * e) - mp.sqrt(log + 2 * e))
        least = mp.sqrt(2 * problem.n_parameters) / (
            (1 - mp.mpf(g)) * (mp.sqrt(log + e) - mp.sqrt(log))
        )
    assert found.published_noise(epsilon, problem.delta, updates) == pytest.approx(float(published))
    updates = found.least_updates(epsilon, problem.delta, problem.n_parameters)
    assert g**-updates >= float(least) > g ** -(updates - 1)


@settings([*RIDGE[:2], *LINES[:2]])
def test_descent_ends_nearer_than_its_noise_assumes(problem):
    found, updates = descent.Constants.of(problem), problem.n_unlearn_steps
    T = found.least_steps(updates)
    m, n, L = found.convexity, problem.n_rows, found.lipschitz
    away = found.gamma ** (T - updates) * 2 * descent.RADIUS
    assert away <= 2 * L / (m * n) * (1 + 1e-9)
    assert updates <= T
    _, forgotten, retrained = descent.ends(problem, found, T, updates)
    gap = np.linalg.norm(forgotten - retrained)
    assert gap <= 8 * found.distance(updates)
    # The steps once more: on the sum, with the share of the penalty that is left
    eta = 2 / (found.smoothness + m) / (n - 1)
    left = descent.mean_of(problem.left, m)
    assert left.alpha == pytest.approx(m * (n - 1))
    assert retrained == pytest.approx(
        descended(left, None, T, eta, descent.RADIUS), rel=1e-9, abs=1e-12
    )
