"""The truth suite: its oracle, its laws, its verdicts, its stored table and its page."""

import contextlib
import io
import math
from dataclasses import replace
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from experiments.store import STORES, Store
from experiments.truth import Bins, Claim, Draws, Gaussian, NotCovered, render, score, true_epsilon
from experiments.truth import page as pages
from experiments.truth.adapters import ADAPTERS
from experiments.truth.adapters.controls import WrongSign
from experiments.truth.adapters.lines import langevin_map
from experiments.truth.adapters.pilu_langevin import PiluExact
from experiments.truth.grid import Phase, of_normal, steps_on_line
from experiments.truth.oracle import Interval, of_bins, of_gaussians
from experiments.truth.problems import problems
from experiments.truth.scores import LOOSE, OPEN, OUTSIDE_REFUTED, REFUTED, TABLE, TRUE, judge
from scipy.optimize import brentq
from scipy.stats import norm

ALL = problems("full")
RIDGE = [problem for problem in ALL if problem.loss == "squared"]
STORED = STORES["full"]


def named(name, setting):
    return next(one for one in ALL if (one.name, one.setting) == (name, setting))


def line_delta(mean, variance, epsilon):
    """sup_S P(S) - e^epsilon Q(S) for P = N(mean, variance) and Q = N(0, 1), in closed form.

    log p/q > epsilon is a quadratic inequality; P and Q of its solution are normal integrals.
    """
    a = (1 - 1 / variance) / 2
    b = mean / variance
    c = -(mean**2) / (2 * variance) - mp.log(variance) / 2 - epsilon

    def masses(low, high):
        s = mp.sqrt(variance)
        p = mp.ncdf((high - mean) / s) - mp.ncdf((low - mean) / s)
        return p - mp.exp(epsilon) * (mp.ncdf(high) - mp.ncdf(low))

    if a == 0:
        root = -c / b
        return masses(root, mp.inf) if b > 0 else masses(-mp.inf, root)
    discriminant = b * b - 4 * a * c
    if discriminant <= 0:
        return masses(-mp.inf, mp.inf) if a > 0 else mp.mpf(0)
    roots = sorted((-b + sign * mp.sqrt(discriminant)) / (2 * a) for sign in (-1, 1))
    if a < 0:
        return masses(*roots)
    return masses(-mp.inf, roots[0]) + masses(roots[1], mp.inf)


def contains(found, delta_at, delta, width=1e-3):
    """The least epsilon with delta_at(epsilon) <= delta is inside, and the interval is narrow."""
    assert delta_at(mp.mpf(found.upper)) <= delta
    assert found.lower == 0 or delta_at(mp.mpf(found.lower)) >= delta
    assert found.upper - found.lower <= width * found.upper


ONE_DIMENSION = [(1, 1), (0.1, 1), (3, 2), (0, 4), (0, 0.25), (0.5, 0.5), (-2, 1.3), (8, 0.9)]


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize(("mean", "variance"), ONE_DIMENSION)
def test_one_dimension_against_80_digits(mean, variance, delta):
    P = Gaussian(np.array([2.0 + 3 * mean]), np.array([[9.0 * variance]]))
    Q = Gaussian(np.array([2.0]), np.array([[9.0]]))  # the same after (theta - 2) / 3
    with mp.workdps(80):
        m, v = mp.mpf(mean), mp.mpf(variance)
        contains(of_gaussians(P, Q, delta), lambda e: line_delta(m, v, e), delta)
        # Q against P: N(-m / sqrt v, 1 / v) against N(0, 1)
        contains(of_gaussians(Q, P, delta), lambda e: line_delta(-m / mp.sqrt(v), 1 / v, e), delta)


@pytest.mark.parametrize("means", [(0.7, -1.0), (0, 0)])
def test_two_dimensions_against_quadrature(means):
    """delta = E over the first coordinate of the second one's delta at epsilon - l_1."""
    variances, delta = (0.6, 1.7), 1e-5
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    P = Gaussian(turn @ np.array(means, float), turn @ np.diag(variances) @ turn.T)
    found = of_gaussians(P, Gaussian(np.zeros(2), np.eye(2)), delta)
    with mp.workdps(40):
        (m, n), (v, w) = (tuple(map(mp.mpf, pair)) for pair in (means, variances))

        def delta_at(epsilon):
            def inner(t):  # t is the first coordinate under P
                loss = t * t / 2 - (t - m) ** 2 / (2 * v) - mp.log(v) / 2
                density = mp.npdf(t, m, mp.sqrt(v))
                return density * line_delta(n, w, epsilon - loss)

            return mp.quad(inner, mp.linspace(m - 12, m + 12, 13), maxdegree=5)

        contains(found, delta_at, delta)


@pytest.mark.parametrize("variance", [0.3, 1.5, 6])
def test_three_dimensions_against_chi_square(variance):
    """For N(0, v I) against N(0, I) the best sets are balls, or what is outside of them."""
    delta = 1e-5
    rng = np.random.default_rng(0)
    shape = rng.standard_normal((3, 3))
    mean, covariance = rng.standard_normal(3), shape @ shape.T + np.eye(3)
    P, Q = Gaussian(mean, variance * covariance), Gaussian(mean, covariance)
    with mp.workdps(40):
        v = mp.mpf(variance)

        def delta_at(epsilon):
            square = 2 * (epsilon + 3 * mp.log(v) / 2) / (1 - 1 / v)
            if square <= 0:
                return mp.mpf(0) if v < 1 else 1 - mp.exp(epsilon)
            ends = (square, mp.inf) if v > 1 else (0, square)
            p, q = (
                mp.gammainc(1.5, *(end / (2 * scale) for end in ends), regularized=True)
                for scale in (v, 1)
            )
            return p - mp.exp(epsilon) * q

        contains(of_gaussians(P, Q, delta), delta_at, delta)


@pytest.mark.parametrize("mu", [0.03, 0.5, 2.0, 9.0])
def test_equal_covariances_against_dp_accounting(mu):
    rng = np.random.default_rng(1)
    shape, shift = rng.standard_normal((3, 3)), rng.standard_normal(3)
    covariance = shape @ shape.T + 0.1 * np.eye(3)
    shift *= mu / math.sqrt(shift @ np.linalg.inv(covariance) @ shift)
    truth = true_epsilon(Gaussian(shift, covariance), Gaussian(np.zeros(3), covariance), 1e-5)
    for found in (truth.forward, truth.backward):
        contains(found, lambda e: google_delta(mu, e), 1e-5)


@pytest.mark.parametrize("shift", [0.0, 1e-14, 1e-9])
def test_equal_laws_have_no_epsilon(shift):
    covariance = np.array([[2.0, 1.0], [1.0, 3.0]])
    P, Q = Gaussian(np.array([1.0, shift]), covariance), Gaussian(np.array([1.0, 0.0]), covariance)
    truth = true_epsilon(P, Q, 1e-5).of("both")
    assert (truth.lower, truth.upper) == (0, 0)


def test_bounds_are_ordered():
    rng = np.random.default_rng(2)
    for p in (1, 2, 5, 12):
        laws = []
        for _ in range(2):
            shape = rng.standard_normal((p, p))
            laws.append(Gaussian(rng.standard_normal(p), shape @ shape.T + np.eye(p)))
        truth = true_epsilon(*laws, 1e-4)
        for found in (truth.forward, truth.backward, truth.of("both")):
            assert 0 < found.lower <= found.value <= found.upper < 1.01 * found.lower
        assert truth.of("both").upper == max(truth.forward.upper, truth.backward.upper)
        assert truth.of("backward") == truth.backward


def test_senseless_laws_are_refused():
    P = Gaussian(np.zeros(1), np.eye(1))
    with pytest.raises(ValueError, match="delta must be at least"):
        true_epsilon(P, P, 0.0)
    with pytest.raises(TypeError, match="one form"):
        true_epsilon(P, Bins(np.ones(2) / 2, np.ones(1)), 0.1)
    half = Bins(np.ones(2) / 4, np.ones(1))
    with pytest.raises(ValueError, match="add up to 1"):
        true_epsilon(half, half, 0.1)
    with pytest.raises(ValueError, match="at least 4 runs"):
        true_epsilon(Draws(np.zeros((3, 1))), P, 0.1)
    with pytest.raises(ValueError, match="no epsilon"):
        Interval(np.nan, np.nan, np.nan)
    for wrong in ({"epsilon": -1}, {"epsilon": np.nan}, {"delta": 1}, {"direction": "up"}):
        with pytest.raises(ValueError, match="must be"):
            Claim(**{"epsilon": 1.0, "delta": 0.1, "unlearned": P, "retrained": P, **wrong})


@pytest.mark.parametrize(("mean", "deviation"), [(1.0, 1.0), (0.4, 1.5), (0.0, 0.7)])
def test_bins_agree_with_the_lattice(mean, deviation):
    edges = np.linspace(-12, 12, 4001)
    first, second = of_normal(lambda t: (t - mean) / deviation, lambda t: t, edges)
    assert first.probabilities[1:-1] == pytest.approx(
        np.diff(norm.cdf(edges, mean, deviation)), abs=1e-15
    )
    P = Gaussian(np.array([mean]), np.array([[deviation**2]]))
    Q = Gaussian(np.zeros(1), np.eye(1))
    for delta in (1e-5, 1e-2):
        bins, lattice = true_epsilon(first, second, delta), true_epsilon(P, Q, delta)
        for way in ("forward", "backward"):
            found, true = bins.of(way), lattice.of(way)
            assert found.lower <= true.lower
            assert true.upper <= found.upper
            assert found.value <= true.upper  # bins only lose
            assert found.value == pytest.approx(true.value, rel=1e-3)


def test_bins_that_one_law_never_meets():
    p, q = np.array([0.9, 0.1]), np.array([1.0, 0.0])
    found = of_bins(Bins(p, p), Bins(q, q), 0.01)
    assert found.lower > 600  # e^epsilon beyond all doubles
    assert of_bins(Bins(q, q), Bins(p, p), 0.01).value == pytest.approx(math.log(0.99 / 0.9))


@pytest.mark.parametrize("seed", range(2))
def test_empirical_bounds_stay_below_the_truth(seed):
    """Each of two bounds may exceed it in 1 % of runs: 5 of 80 would be a chance of 1e-3."""
    rng = np.random.default_rng(seed)
    covariances = np.eye(2), np.diag([1.0, 1.6])
    laws = [Gaussian(np.array([m, 0.0]), c) for m, c in zip((1.2, 0.0), covariances, strict=True)]
    truth = true_epsilon(*laws, 0.01)
    above, found = 0, []
    for k in range(40):
        P, Q = (Draws(law.draw(2000, rng)) for law in laws)
        bounds = true_epsilon(P, Q if k % 2 else laws[1], 0.01)
        for way in ("forward", "backward"):
            above += bounds.of(way).lower > truth.of(way).upper
            found.append(bounds.of(way).lower / truth.of(way).value)
            assert bounds.of(way).upper == np.inf
    assert above < 5
    assert np.median(found) > 0.3  # and they do find something


def steps_taken(problem, theta, n_steps, noise, eta, rng):
    """Runs x p, one step after the other, the gradient row by row."""
    X, y = problem.X, problem.y
    for _ in range(n_steps):
        scores = theta @ X.T
        slopes = scores - y if problem.loss == "squared" else -y / (1 + np.exp(y * scores))
        theta = theta - eta * (slopes @ X + problem.alpha * theta)
        theta = theta + math.sqrt(2 * eta) * noise * rng.standard_normal(theta.shape)
    return theta


@pytest.mark.parametrize("setting", ["plain", "T = 5", "badly conditioned", "n = 10, p = 1"])
def test_laws_of_ridge_steps(setting):
    """Mean and covariance by the recursion of one step; a few thousand runs as well."""
    problem = named("ridge", setting)
    eta, p = problem.step_size, problem.n_parameters
    A = problem.X.T @ problem.X + problem.alpha * np.eye(p)
    mean, covariance = np.zeros(p), np.zeros((p, p))
    for _ in range(problem.n_steps):
        mean = mean - eta * (A @ mean - problem.X.T @ problem.y)
        M = np.eye(p) - eta * A
        covariance = M @ covariance @ M + 2 * eta * problem.noise**2 * np.eye(p)
    law = problem.after_steps(None, problem.n_steps, problem.noise, eta)
    assert law.mean == pytest.approx(mean, rel=1e-9)
    assert law.covariance == pytest.approx(covariance, rel=1e-8, abs=1e-14)
    runs = steps_taken(
        problem, np.zeros((4000, p)), problem.n_steps, problem.noise, eta, np.random.default_rng(0)
    )
    z = (runs.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / 4000)
    assert np.abs(z).max() < 4.5
    assert runs.var(axis=0) == pytest.approx(np.diag(covariance), rel=0.12)
    rest = problem.stationary(problem.noise, eta)
    again = problem.after_steps(rest, 1, problem.noise, eta)
    assert again.mean == pytest.approx(rest.mean)
    assert again.covariance == pytest.approx(rest.covariance, abs=1e-15)


CHAINS = [
    (0.1, 0.2, 30, 1),
    (0.2, 0.02, 5, 2),
    (0.05, 1e-9, 40, 12),  # noise far inside of a cell
]


@pytest.mark.parametrize(("noise", "last_noise", "T", "K"), CHAINS)
def test_the_grid_agrees_with_normal_laws(noise, last_noise, T, K):
    problem = named("ridge", "n = 10, p = 1")
    left, eta = problem.left, problem.step_size / 3
    root = math.sqrt(2 * eta)
    last = Phase(langevin_map(left, eta), root * last_noise, K)
    bins = steps_on_line(
        *([Phase(langevin_map(one, eta), root * noise, T), last] for one in (problem, left))
    )
    normal = [
        left.after_steps(one.after_steps(None, T, noise, eta), K, last_noise, eta)
        for one in (problem, left)
    ]
    for delta in (1e-5, 0.01):
        found, true = true_epsilon(*bins, delta), true_epsilon(*normal, delta)
        for way in ("forward", "backward"):
            assert found.of(way).lower <= true.of(way).upper
            assert found.of(way).upper >= true.of(way).lower
            assert found.of(way).value == pytest.approx(true.of(way).value, rel=5e-3)


@pytest.mark.parametrize(("shrink", "noise", "K"), [(0.995, 0.015, 150), (0.998, 0.008, 100)])
def test_the_grid_moves_laws_that_move_less_than_a_cell(shrink, noise, K):
    """Starts 0.5 apart with noise 1, then many steps theta -> shrink theta + noise N(0, 1)."""
    last = Phase(lambda theta: shrink * theta, noise, K)
    bins = steps_on_line(
        [Phase(lambda theta: 0 * theta + 0.5, 1.0, 1), last],
        [Phase(lambda theta: 0 * theta, 1.0, 1), last],
    )
    left = shrink ** (2 * K)
    variance = np.array([[left + noise**2 * (1 - left) / (1 - shrink**2)]])
    normal = [Gaussian(np.array([mean * math.sqrt(left)]), variance) for mean in (0.5, 0.0)]
    found, true = (true_epsilon(*laws, 1e-5).forward for laws in (bins, normal))
    assert found.lower < true.value < found.upper
    assert found.value == pytest.approx(true.value, rel=5e-3)


def test_the_grid_forgets_what_steps_forget():
    """After many steps with little noise both laws are the same, to the last digits."""
    problem = named("logistic", "K = 200")
    eta, root = problem.step_size, math.sqrt(2 * problem.step_size)
    last = Phase(langevin_map(problem.left, eta), root * 1e-11, 200)
    laws = (
        [Phase(langevin_map(one, eta), 0.1 * root, 20), last] for one in (problem, problem.left)
    )
    P, Q = steps_on_line(*laws)
    assert P.probabilities.sum() == pytest.approx(1)
    assert np.abs(P.probabilities - Q.probabilities).sum() < 1e-9


def test_logistic_and_projected_steps_against_runs():
    problem = named("logistic", "plain")
    eta, rng = problem.step_size, np.random.default_rng(3)
    deviation, radius, steps = 0.3, 2.2, 12
    laws, runs = [], []
    for one in (problem, problem.left):
        laws.append([Phase(langevin_map(one, eta), deviation, steps, radius)])
        theta = np.zeros((200_000, 1))
        for _ in range(steps):
            theta = steps_taken(one, theta, 1, 0.0, eta, rng)
            theta = np.clip(theta + deviation * rng.standard_normal(theta.shape), -radius, radius)
        runs.append(theta[:, 0])
    P, Q = steps_on_line(*laws)
    for law, theta in zip((P, Q), runs, strict=True):
        share = np.mean(theta == radius)
        assert 0.1 < share < 0.9  # the end is an atom
        assert law.probabilities[-1] == pytest.approx(share, abs=0.01)
    truth = true_epsilon(P, Q, 1e-3).forward
    lower = true_epsilon(*(Draws(theta[:, None]) for theta in runs), 1e-3).forward.lower
    assert 0.5 * truth.value < lower < truth.upper


def google_delta(mu, epsilon):
    return GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(float(epsilon))


class Shifted:
    """Normal laws mu apart; `share` of the true epsilon is claimed."""

    name, cite = "shifted", "test"

    def __init__(self, share=1.0, unmet=()):
        self.share, self.unmet = share, unmet

    def run(self, problem, epsilon):
        if problem.name != "ridge":
            raise NotCovered("for ridge")
        sigma = brentq(lambda s: google_delta(1 / s, epsilon) - problem.delta, 0.05, 1e3)
        laws = (Gaussian.isotropic([mean, 0.0], sigma) for mean in (1, 0))
        return Claim(self.share * epsilon, problem.delta, *laws, unmet=self.unmet)


def test_verdicts_of_right_and_wrong_adapters():
    quick = problems("quick")
    for share, verdict in ((1.0, TRUE), (0.5, REFUTED), (0.99, REFUTED), (2.0, LOOSE)):
        table = score([Shifted(share)], quick, (0.1, 1.0, 10.0))
        assert len(table) == 6  # the line's problem is not covered
        assert set(table["verdict"]) == {verdict}
        factor = 1 / share if share < 1 else share
        assert table["factor"].to_numpy() == pytest.approx(factor, rel=1e-3)
    outside = score([Shifted(0.5, unmet=("a", "b"))], quick)
    assert set(outside["verdict"]) == {OUTSIDE_REFUTED}
    assert set(outside["outside"]) == {"a; b"}


def test_a_claim_between_the_ends_is_neither_true_nor_refuted():
    P = Gaussian(np.zeros(1), np.eye(1))
    claim = Claim(1.0, 0.1, P, P)
    assert judge(claim, Interval(0.5, 0.6, np.inf))[0] == OPEN
    assert judge(claim, Interval(0.9, 1.0, 1.1))[0] == OPEN
    assert judge(claim, Interval(1.0 + 1e-9, 1.1, 1.2))[0] == REFUTED
    assert judge(claim, Interval(0.9, 0.95, 1.0))[0] == TRUE


def test_problems_count_once_where_a_method_ignores_the_difference():
    problem = named("ridge", "plain")
    chosen = (problem, replace(problem, n_steps=3), replace(problem, delta=1e-3))
    adapter = Shifted()
    assert len(score([adapter], chosen)) == 3
    adapter.ignores = ("n_steps",)
    assert len(score([adapter], chosen)) == 2


def test_the_suite_finds_half_of_an_epsilon_of_pilu():
    class Halved(PiluExact):
        def run(self, problem, epsilon):
            claim = super().run(problem, epsilon)
            return replace(claim, epsilon=claim.epsilon / 2)

    chosen = [named("ridge", setting) for setting in ("plain", "strong penalty", "n = 10, p = 1")]
    assert set(score([PiluExact()], chosen)["verdict"]) == {TRUE}
    assert set(score([Halved()], chosen)["verdict"]) == {REFUTED}
    assert set(score([WrongSign()], chosen)["verdict"]) == {REFUTED}


@pytest.fixture(scope="module")
def table():
    return STORED.read(TABLE)


def test_the_stored_table_is_of_these_adapters_and_problems(table):
    config = STORED.provenance(TABLE)["config"]
    assert config["adapters"] == [adapter.name for adapter in ADAPTERS]
    assert config["settings"] == [f"{problem.name}, {problem.setting}" for problem in ALL]
    assert list(dict.fromkeys(table["adapter"])) == config["adapters"]  # each covers something
    assert (table["lower"] <= table["upper"]).all()


def test_no_certificate_of_pilu_is_refuted(table):
    own = table[table["adapter"].str.startswith("pilu")]
    assert len(own) > 200
    assert own["adapter"].nunique() == 11
    assert (own["lower"] <= own["claimed"] * (1 + 1e-5)).all()  # six digits are stored
    assert not own["verdict"].str.contains(REFUTED).any()
    assert own["outside"].isna().all()


def test_what_is_wrong_on_purpose_is_refuted(table):
    wrong = table[table["adapter"].str.startswith("wrong sign")]
    assert set(wrong["verdict"]) == {REFUTED}
    idle = table[table["adapter"] == "does nothing"]
    assert (idle["verdict"] == REFUTED).mean() > 0.5


def test_inside_of_its_assumptions_one_published_rule_fails_at_epsilon_10_only(table):
    inside = table["outside"].isna() & (table["cite"] != "a mistake")
    falls = table[inside & (table["verdict"] == REFUTED)]
    assert set(falls["adapter"]) == {"certified removal, fixed residual"}
    assert set(falls["claimed"]) == {10.0}
    for line in falls.itertuples():  # mu = epsilon / c by the published conversion
        mu = 10 / math.sqrt(2 * math.log(1.5 / line.delta))
        true = brentq(lambda e, mu=mu, d=line.delta: google_delta(mu, e) - d, 1, 50)
        assert line.lower <= true * (1 + 1e-5)
        assert true <= line.upper * (1 + 1e-5)
        assert true > 10


def test_the_stored_lines_can_be_computed_again(table):
    chosen = [named("ridge", setting) for setting in ("plain", "n = 10, p = 1")]
    keep = ("pilu, exact", "pilu, Theorem 1", "certified removal, ridge minimiser", "does nothing")
    again = score([one for one in ADAPTERS if one.name in keep], chosen, (0.1, 1.0, 10.0))
    columns = ["adapter", "setting", "wish"]
    both = again.merge(table, on=columns, suffixes=("", "_stored"))
    assert len(both) == len(again) == 20
    for name in ("claimed", "lower", "upper"):
        assert both[name].to_numpy() == pytest.approx(both[f"{name}_stored"], rel=1e-4, abs=1e-9)
    assert (both["verdict"] == both["verdict_stored"]).all()


def test_the_picture(tmp_path):
    render.render(STORED, tmp_path)
    assert (tmp_path / "truth_claims.png").stat().st_size > 10_000
    found = render.ratios(STORED.read(TABLE))
    falls = STORED.read(TABLE)["verdict"].str.contains(REFUTED)
    assert (found[falls] < 1).all()
    assert (found[~falls] > 0.999).all()


def test_the_page(table):
    text = pages.page(STORED)
    assert set(pages.REFERENCES) == {adapter.name for adapter in ADAPTERS}
    assert "No certificate of pilu is refuted" in text
    assert f"{len(table):,} claims" in text
    assert "nan" not in text
    for name in table.loc[table["verdict"].str.contains(REFUTED), "adapter"].unique():
        assert f"**{name[0].upper()}{name[1:]}**" in text
    prose = text.split("```")[0]
    for block in prose.split("\n\n"):
        lines = block.strip().splitlines()
        if not block.startswith("|"):
            assert len(lines) <= 6, block
            assert all(len(line) <= 100 for line in lines), block
            assert not any(line[:2] in {"1.", "- ", "# "} for line in lines[1:]), block


def test_the_page_tells_if_pilu_is_refuted(table, tmp_path):
    wrong = table.copy()
    wrong.loc[wrong.index[0], ["verdict", "lower", "factor"]] = [REFUTED, 5.0, 50.0]
    pages.REASONS["pilu, exact"] = "Not so."
    try:
        (tmp_path / f"{TABLE}.json").write_bytes((STORED.folder / f"{TABLE}.json").read_bytes())
        wrong.to_csv(tmp_path / f"{TABLE}.csv", index=False)
        text = pages.page(Store(Path(tmp_path)))
    finally:
        del pages.REASONS["pilu, exact"]
    assert "1 certificate of pilu was refuted" in text
    assert "No certificate of pilu is refuted" not in text


def test_the_example_of_the_page_runs():
    code = pages.page(STORED).split("```python\n")[1].split("```")[0]
    found, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, found)
    verdicts = found["table"].groupby("claimed")["verdict"].agg(set)
    assert verdicts[1.0] == {LOOSE}
    assert verdicts[10.0] == {REFUTED}
    assert "REFUTED" in printed.getvalue()
