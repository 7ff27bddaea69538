"""Audits of scores whose laws are known: estimates, intervals, p-values and bounds."""

import numpy as np
import pandas as pd
import pytest
from experiments.cifar10 import audits, heterogeneity, page, render, tables
from experiments.cifar10.config import FEATURES
from experiments.claims import IN_PART, OPEN
from experiments.claims import cifar10 as claims
from experiments.store import Store
from scipy.special import ndtr
from scipy.stats import binomtest, kstest, mannwhitneyu
from sklearn.metrics import roc_auc_score

from oracles.high_precision import epsilon_from_mu_mp

DELTA = 1 / 500


def table_of(unlearned, retrained, score="loss"):
    """Scores (runs x rows), higher for unlearned runs, as a stored table has them."""
    sign = -1.0 if score in audits.FIXED else 1.0
    n, k = unlearned.shape
    return pd.DataFrame(
        {
            "row": np.repeat(np.arange(k), n),
            "run": np.tile(np.arange(n), k),
            f"unlearned_{score}": sign * unlearned.T.ravel(),
            f"retrained_{score}": sign * retrained.T.ravel(),
        }
    )


def gaussians(mu, n, seed):
    unlearned, retrained = np.random.default_rng(seed).normal(size=(2, n, 1))
    return unlearned + mu, retrained


def lines(n, k, seed, shared=0.9, means=0.0):
    """Unlearned runs of rows have a learned network in common, retrained ones nothing."""
    rng = np.random.default_rng(seed)
    own, retrained = rng.normal(size=(2, n, k))
    common = rng.normal(size=(n, 1))
    return np.sqrt(shared) * common + np.sqrt(1 - shared) * own + means, retrained


@pytest.fixture
def few_draws(monkeypatch):
    """Where only bounds, or only p-values, matter."""
    monkeypatch.setattr(audits, "N_DRAWS", 2)
    monkeypatch.setattr(heterogeneity, "N_DRAWS", 2)
    monkeypatch.setattr(heterogeneity, "N_PERMUTATIONS", 99)


def not_more_often(count, times, rate):
    """Whether so many cases agree with a rate of at most `rate`, at one in a thousand."""
    return binomtest(int(count), times, rate, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("score", audits.SCORES)
def test_auc_is_scikit_learns(score, few_draws):
    """With ties; and the loss is small where a row is remembered."""
    unlearned, retrained = (np.round(kind, 1) for kind in gaussians(0.7, 60, 1))
    table = table_of(unlearned, retrained, score)
    area = roc_auc_score(np.repeat([1, 0], 60), np.concatenate([unlearned, retrained]))
    assert heterogeneity.areas(unlearned, retrained)[0] == pytest.approx(area, abs=1e-12)
    assert audits.audited_curve(table, score, "unlearned").auc == pytest.approx(area, abs=1e-12)
    if score in audits.FIXED:
        line = audits.audit_row(table, score, "unlearned", DELTA)
        assert line["auc"] == pytest.approx(area, abs=1e-12)
        even, odd = retrained[::2], retrained[1::2]
        control = roc_auc_score(np.repeat([1, 0], 30), np.concatenate([even, odd]))
        line = audits.audit_row(table, score, "control", DELTA)
        assert line["auc"] == pytest.approx(control, abs=1e-12)
        assert line["runs"] == 30


def test_bootstrap_is_the_audits_own_estimate_on_other_runs():
    """Runs drawn as they are: every draw is the estimate of `audit`."""

    class AsTheyAre:
        def integers(self, n, size):
            return np.arange(size)

    for mu in (0.0, 1.5, 20.0):
        unlearned, retrained = (kind[:, 0] for kind in gaussians(mu, 80, 2))
        found = audits.known(unlearned, retrained, DELTA)
        ends = audits.bootstrap(unlearned, retrained, DELTA, AsTheyAre())
        for end in ("low", "high"):
            assert ends[f"auc_{end}"] == pytest.approx(found.auc, abs=1e-12)
            assert ends[f"mu_{end}"] == pytest.approx(found.mu_hat, abs=0.006)  # a grid of 0.01
            epsilon = float(epsilon_from_mu_mp(ends[f"mu_{end}"], DELTA))
            assert ends[f"epsilon_{end}"] == pytest.approx(epsilon, abs=1e-6)


def covered(mu, n, times):
    """How many intervals hold the true AUC, and how many the true mu."""
    area, found = ndtr(mu / np.sqrt(2)), np.zeros(2, dtype=int)
    for seed in range(times):
        unlearned, retrained = (kind[:, 0] for kind in gaussians(mu, n, seed))
        rng = np.random.default_rng([seed, 1])  # other numbers than those of the runs
        ends = audits.bootstrap(unlearned, retrained, DELTA, rng)
        found += [
            ends["auc_low"] <= area <= ends["auc_high"],
            ends["mu_low"] <= mu <= ends["mu_high"],
        ]
    return found


def test_intervals_cover_as_often_as_stated(monkeypatch):
    monkeypatch.setattr(audits, "N_DRAWS", 200)
    for count in covered(1.0, 150, 150):
        assert binomtest(int(count), 150, 0.95).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0, 3.0, 4.0])
def test_intervals_of_a_thousand_runs(mu):
    for count in covered(mu, 1000, 200):
        assert binomtest(int(count), 200, 0.95).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "share"), [(3.0, 0.90), (4.0, 0.81)])
def test_intervals_near_one_are_too_short_as_the_page_says(mu, share):
    """AUC 0.983 and 0.998 by a hundred runs."""
    assert "90 % of them cover an AUC of 0.98" in " ".join(page.AREAS.split())
    count = covered(mu, 100, 1000)[0]
    assert count / 1000 == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("mu", [0.5, 1.5, 3.0])
def test_mu_and_epsilon_are_near_the_truth(mu, few_draws):
    """By 4,000 runs of two Gaussians."""
    line = audits.audit_row(table_of(*gaussians(mu, 4000, 3)), "loss", "unlearned", DELTA)
    assert line["mu_hat"] == pytest.approx(mu, abs=0.1)
    assert line["epsilon_hat"] == pytest.approx(float(epsilon_from_mu_mp(line["mu_hat"], DELTA)))
    assert 0.7 * mu < line["mu_lower"] <= mu or mu == 0.5
    assert line["fit_error"] < 1e-3


def exceeded(mu, score, times):
    """How many of the three bounds are above the truth; every seed is a study of its own."""
    truth = float(epsilon_from_mu_mp(mu, DELTA)) if mu else 0.0
    wrong = np.zeros(3, dtype=int)
    for seed in range(times):
        table = table_of(*gaussians(mu, 60, seed), score)
        if score == "mlp":
            for kind in ("unlearned", "retrained"):
                table[f"{kind}_mlp_held"] = table[f"{kind}_mlp"].where(table["run"] >= 30)
        line = audits.audit_row(table, score, "unlearned", DELTA)
        wrong += [
            line["mu_lower"] > mu,
            line["epsilon_lower"] > truth,
            line["epsilon_lower_reverse"] > truth,
        ]
    assert line["counted"] == (30 if score == "loss" else 15)
    return wrong


@pytest.mark.parametrize(("score", "mu"), [("loss", 0.0), ("loss", 1.0), ("mlp", 1.0)])
def test_bounds_are_below_the_truth(score, mu, few_draws):
    """Each of them in 95 % of studies; a trained score is bounded by its held-out half."""
    assert all(not_more_often(count, 120, 0.05) for count in exceeded(mu, score, 120))


@pytest.mark.slow
@pytest.mark.parametrize("score", ["loss", "mlp"])
@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 3.0])
def test_bounds_of_a_thousand_studies(score, mu, few_draws):
    assert all(not_more_often(count, 1000, 0.05) for count in exceeded(mu, score, 1000))


def test_without_an_error_the_most_provable_is_proved(few_draws):
    """log((1 - b - delta) / a) with Clopper and Pearson's limits at 4.5 % and 0.5 % by SciPy."""
    line = audits.audit_row(table_of(*gaussians(50.0, 100, 0)), "loss", "unlearned", DELTA)
    a = binomtest(0, 50).proportion_ci(1 - 2 * 0.045, method="exact").high
    b = binomtest(0, 50).proportion_ci(1 - 2 * 0.005, method="exact").high
    assert line["counted"] == 50
    assert line["epsilon_provable"] == pytest.approx(np.log((1 - b - DELTA) / a), rel=1e-6)
    assert line["epsilon_lower"] == line["epsilon_provable"]
    assert line["mu_lower"] == line["mu_provable"]


def test_what_trained_a_distinguisher_proves_nothing(few_draws):
    """Cross-fitted scores that are far apart, held-out ones that are not."""
    table = table_of(*gaussians(9.0, 80, 0), "linear")
    unlearned, retrained = gaussians(0.0, 80, 1)
    held = table["run"] >= 40
    table["unlearned_linear_held"] = pd.Series(unlearned[:, 0]).where(held)
    table["retrained_linear_held"] = pd.Series(retrained[:, 0]).where(held)
    table["control_linear"] = table["retrained_linear"]
    line = audits.audit_row(table, "linear", "unlearned", DELTA)
    assert line["auc"] > 0.99
    assert line["epsilon_hat"] > 5
    assert line["epsilon_lower"] == line["mu_lower"] == 0
    assert line["counted"] == 20
    p = mannwhitneyu(unlearned[40:, 0], retrained[40:, 0], alternative="greater").pvalue
    assert line["p"] == pytest.approx(p, abs=4 * np.sqrt(0.25 / 100))
    assert not {"p", "epsilon_lower"} & set(audits.audit_row(table, "linear", "control", DELTA))


def test_a_table_is_tested_by_fixed_scores_and_held_out_ones(few_draws):
    parts = [table_of(*lines(40, 3, seed), score) for seed, score in enumerate(audits.SCORES)]
    table = parts[0]
    for part in parts[1:]:
        table = table.merge(part, on=["row", "run"])
    for score in ("linear", "mlp"):
        for kind in ("unlearned", "retrained"):
            values = table[f"{kind}_{score}"] + 7 * (kind == "unlearned")
            table[f"{kind}_{score}_held"] = values.where(table["run"] >= 20)
    found = audits.tests_all(table).set_index(["score", "comparison"])
    assert set(found.index) == {
        *((score, "unlearned") for score in audits.SCORES),
        ("loss", "control"),
        ("mirror", "control"),
    }
    for score in ("linear", "mlp"):  # the held-out half alone is 7 apart
        assert found.loc[(score, "unlearned"), "largest_auc"] > 0.99
        assert found.loc[(score, "unlearned"), "runs"] == 20
        assert found.loc[(score, "unlearned"), "p_any"] == 0.01


def test_controls_compare_disjoint_runs():
    unlearned, retrained = lines(9, 2, 0)
    first, second = audits.two_kinds(table_of(unlearned, retrained), "loss", "control")
    np.testing.assert_array_equal(first, retrained[:8:2])
    np.testing.assert_array_equal(second, retrained[1:8:2])
    table = table_of(unlearned, retrained, "mlp").assign(control_mlp=np.tile(np.arange(9.0), 2))
    first, second = audits.two_kinds(table, "mlp", "control")
    assert first[:, 0].tolist() == [0, 2, 4, 6]
    assert second[:, 0].tolist() == [1, 3, 5, 7]


def test_p_of_a_row_is_the_exact_one():
    """Mann and Whitney's by SciPy, up to the permutations that are drawn."""
    for mu in (-0.5, 0.0, 0.4):
        unlearned, retrained = (kind[:, 0] for kind in gaussians(mu, 30, 4))
        exact = mannwhitneyu(unlearned, retrained, alternative="greater", method="exact").pvalue
        found = heterogeneity.p_of_row(unlearned, retrained)
        assert found == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 2000))


def test_ties_count_against_a_detection():
    """One run in six stands out: by chance it is of the first kind in half of all cases."""
    one, none = np.array([1.0, 0.0, 0.0]), np.zeros(3)
    assert heterogeneity.p_of_row(one, none) == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / 2000))
    assert heterogeneity.p_of_row(none, none) == 1


def test_p_values_are_uniform_without_a_difference(few_draws):
    """Lines of both kinds by one law, in which rows have much in common."""
    times, found = 300, []
    for seed in range(times):
        rng = np.random.default_rng(seed)
        both = rng.normal(size=(60, 4)) + 2 * rng.normal(size=(60, 1))
        test = heterogeneity.compare_rows(both[:30], both[30:], seed)
        one = heterogeneity.p_of_row(both[:30, 0], both[30:, 0], seed)
        found.append((one, test.p_any))
    for values in np.transpose(found):
        assert values.min() >= 1 / 100
        # p takes the values k/100; spread within its step it is uniform.
        spread = values - np.random.default_rng(0).uniform(0, 0.01, times)
        assert kstest(spread, "uniform").pvalue > 1e-3


def test_rows_that_share_more_in_one_kind_are_not_told(few_draws):
    """Copies of one learned network against networks of their own, each row by one law."""
    times = 300
    found = [heterogeneity.compare_rows(*lines(50, 7, seed), seed) for seed in range(times)]
    assert not_more_often(sum(test.p_any <= 0.05 for test in found), times, 0.05)


def p_differ(runs, seed):
    return heterogeneity.p_of_difference(*runs, np.random.default_rng([seed, 1]))


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_p_of_a_difference_is_uniform_where_all_rows_have_one_auc(mean, monkeypatch):
    """Also where every row is detected, which permuted labels could not take as their null."""
    monkeypatch.setattr(heterogeneity, "N_DRAWS", 99)
    times = 120
    found = np.array([p_differ(lines(50, 7, s, means=mean), s) for s in range(times)])
    assert found.min() >= 1 / 100
    for level in (0.05, 0.2, 0.5, 0.8):
        assert binomtest(int(np.sum(found <= level)), times, level).pvalue > 1e-3


def test_rows_that_differ_are_told(monkeypatch):
    monkeypatch.setattr(heterogeneity, "N_DRAWS", 99)
    monkeypatch.setattr(heterogeneity, "N_PERMUTATIONS", 99)
    for seed in range(10):
        means = np.array([1, 1, 1, 1, 1, 1, 2.2])  # all of them are detected
        test = heterogeneity.compare_rows(*lines(80, 7, seed, means=means), seed)
        assert test.p_any == test.p_differ == 0.01
        assert test.contrast > 0.08
    # Away from the mean in the other direction: detected by nobody, but unequal.
    means = np.array([0, 0, 0, 0, 0, 0, -1.2])
    test = heterogeneity.compare_rows(*lines(80, 7, 0, means=means), 0)
    assert test.p_differ == 0.01
    assert test.p_any > 0.05


def test_the_contrast_covers_as_often_as_stated(monkeypatch):
    """Rows share most of their unlearned runs: intervals for rows apart would be too wide."""
    monkeypatch.setattr(heterogeneity, "N_DRAWS", 120)
    monkeypatch.setattr(heterogeneity, "N_PERMUTATIONS", 1)
    means = np.array([0.0, 5.0, 0.8])
    truth, times, inside = ndtr(0.8 / np.sqrt(2)) - 0.5, 250, 0
    for seed in range(times):
        test = heterogeneity.compare_rows(*lines(60, 3, seed, 0.98, means), seed)
        inside += test.contrast_low <= truth <= test.contrast_high
    assert binomtest(int(inside), times, 0.95).pvalue > 1e-3


def test_the_contrast_draws_unlearned_runs_as_whole_lines():
    """Its spread is that over new studies; rows drawn apart would spread 1.4 times as much."""

    def runs(seed):
        return lines(200, 2, seed, 0.98)

    studies = [np.diff(heterogeneity.areas(*runs(seed))) for seed in range(1, 501)]
    rng = np.random.default_rng(0)
    drawn = [heterogeneity.contrast(*runs(0), rng) for _ in range(500)]
    assert np.std(drawn) == pytest.approx(np.std(studies), rel=0.18)


def audit_line(row, epsilon, score="mlp", p=0.001, runs=100, auc=0.8):
    low, value, high = epsilon
    return {
        "row": row,
        "score": score,
        "comparison": "unlearned",
        "runs": runs,
        "auc": auc,
        "auc_low": auc,
        "auc_high": auc,
        "mu_hat": value / 4,
        "mu_low": low / 4,
        "mu_high": high / 4,
        "epsilon_hat": value,
        "epsilon_low": low,
        "epsilon_high": high,
        "epsilon_lower": low / 2,
        "fit_error": 0.001,
        "p": p,
    }


def stored(folder, epsilons, p_differ=(0.001, 0.001), contrast=(0.1, 0.3)):
    """Tables of both studies: intervals of epsilon of every row, and the test of the loss."""
    store = Store(folder)
    for name, p in zip(render.TITLES, p_differ, strict=True):
        found = [
            audit_line(row, epsilon, score)
            for score in ("mlp", "linear", "loss")
            for row, epsilon in enumerate(epsilons[name])
        ]
        store.write(f"cifar10_{name}_audits", pd.DataFrame(found), {})
        low, high = contrast
        test = {"score": "loss", "comparison": "unlearned", "p_differ": p}
        test |= {"contrast_low": low, "contrast_high": high}
        store.write(f"cifar10_{name}_tests", pd.DataFrame([test]), {})
        rows = {"row": range(len(epsilons[name])), "label": 3}
        store.write(f"cifar10_{name}_rows", pd.DataFrame(rows), {})
    return store


APART = [(0.9, 1.0, 1.2), (1.8, 2.0, 2.2), (2.9, 3.0, 3.2)]
WIDE = [(0.2, 1.0, 1.9), (1.0, 2.0, 3.0), (2.0, 3.0, 4.0)]  # a factor of 3, and intervals meet
NEAR = [(0.9, 1.0, 1.1), (1.2, 1.3, 1.4), (1.7, 1.8, 1.9)]


@pytest.mark.parametrize(
    ("features", "images", "verdict"),
    [
        (APART, APART, True),
        (NEAR, NEAR, False),
        (WIDE, WIDE, IN_PART),
        (APART, NEAR, IN_PART),
    ],
)
def test_epsilon_differs_substantially(tmp_path, features, images, verdict):
    store = stored(tmp_path, {"features": features, "images": images})
    assert claims.same_noise_other_privacy(store, "cifar10").theorem == verdict


@pytest.mark.parametrize("options", [{"p_differ": (0.001, 0.2)}, {"contrast": (-0.1, 0.2)}])
def test_nothing_is_decided_where_rows_are_not_told_apart(tmp_path, options):
    """By the bootstrap test in both studies, and between the two rows named beforehand."""
    for epsilons in (APART, NEAR):
        store = stored(tmp_path, {"features": epsilons, "images": epsilons}, **options)
        assert claims.same_noise_other_privacy(store, "cifar10").theorem == OPEN
        assert not page.rows_differ(store, "images")
        assert page.rows_differ(store, "features") == ("p_differ" in options)


def test_detected_rows_are_counted_with_a_correction():
    found = pd.DataFrame({"p": [0.001, 0.0071, 0.0072, 0.02, 0.9, 0.5, 0.3]})
    assert claims.above_chance(found).tolist() == [True, True, *5 * [False]]


def test_a_claim_says_what_is_only_the_most_that_runs_show(tmp_path):
    store = stored(tmp_path, {"features": APART, "images": APART})
    assert "1.00 to 3.00" in claims.same_noise_other_privacy(store, "cifar10").measured
    capped = [(0.9, 1.0, 1.2), (20.0, 24.0, 24.0)]  # mu = 6, and 5.15 is the most of 100 runs
    store = stored(tmp_path, {"features": capped, "images": APART})
    assert "(a) 1.00 to over 24.00" in claims.same_noise_other_privacy(store, "cifar10").measured


def test_controls_that_exclude_chance_are_counted(tmp_path):
    ends = {"features": [(0.4, 0.45), (0.45, 0.6)], "images": [(0.51, 0.6), (0.4, 0.6)]}
    store = Store(tmp_path)
    for name, pairs in ends.items():
        found = [
            {"score": score, "comparison": "control", "auc": 0.5, "auc_low": low, "auc_high": high}
            for score in audits.SCORES
            for low, high in pairs
        ]
        store.write(f"cifar10_{name}_audits", pd.DataFrame(found), {})
    text = tables.controls(store)
    for words in ("own loss, fixed", "linear", "non-linear (MLP)", "the mirror's loss, fixed"):
        span = "(AUC 0.500 to 0.500)"
        assert f"| {words} | 1 of 2 {span} | 1 of 2 {span} | 2 of 4 |" in text


def test_the_noise_of_a_step_is_told_beside_the_papers():
    config = FEATURES.describe()
    told = tables.of_config({"config": config, "runs_of_each_kind": 1000})
    assert told["noise of a step, sqrt(2 eta) sigma"] == "0.0049, 1.7 times the paper's"


def test_what_the_papers_runs_can_prove():
    """As auditing.md says: by Clopper and Pearson's limits for a hundred runs without an error."""
    a = binomtest(0, 100).proportion_ci(1 - 2 * 0.045, method="exact").high
    b = binomtest(0, 100).proportion_ci(1 - 2 * 0.005, method="exact").high
    assert tables.paper_provable() == pytest.approx(np.log((1 - b - DELTA) / a), rel=1e-6)


def test_over_marks_what_is_no_more_than_runs_can_show():
    """mu at which a hundred runs show half an error: 2 Phi^-1(1 - 0.005) = 5.1517."""
    line = pd.Series({"runs": 100, "auc": 0.99, "epsilon_hat": 9, "epsilon_low": 8})
    for mu, high, told in (
        (3.0, 4.0, "9.00 (8.00 to 10.00)"),
        (3.0, 5.1517, "9.00 (8.00 to over 10.00)"),
        (5.1517, 5.1517, "over 9.00"),
    ):
        some = line.copy()
        some["epsilon_high"], some["mu_hat"], some["mu_high"] = 10, mu, high
        assert tables.estimate(some, "epsilon") == told


def test_an_auc_of_one_has_no_interval(tmp_path):
    store = stored(tmp_path, {"features": APART, "images": APART})
    found = [audit_line(0, (8, 9, 10), auc=1.0), audit_line(1, (1, 2, 3), auc=0.75)]
    store.write("cifar10_features_audits", pd.DataFrame(found), {})
    rows = pd.DataFrame({"row": [0, 1], "label": 3})
    store.write("cifar10_features_rows", rows, {})
    text = tables.table_1(store)
    assert "| (a) | 0 (cat) | 1.000 | " in text
    assert "| (a) | 1 (cat) | 0.750 (0.750 to 0.750) | " in text


def test_the_study_audits_at_the_papers_delta():
    assert FEATURES.delta == DELTA
