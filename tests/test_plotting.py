"""Pictures of audits and exposures; that of a comparison is tested with `compare`."""

import numpy as np
import pytest
from scipy.stats import norm

import pilu
from pilu.accounting import GaussianPair
from pilu.auditing import audit
from pilu.estimators.exposure import Exposure
from pilu.estimators.refit_exposure import ExposurePlan
from pilu.exceptions import WrongInput
from pilu.plotting import plot_audit, plot_exposure, plot_exposure_plan


@pytest.fixture
def found():
    rng = np.random.default_rng(0)
    return audit(rng.normal(1, 1, (200, 1)), rng.normal(0, 1, (200, 1)), delta=1e-2, seed=0)


def lines_of(figure):
    return {line.get_label(): line.get_data() for line in figure.axes[0].get_lines()}


def test_the_best_curve_is_that_of_two_gaussians(found):
    figure = plot_audit(found, exact=GaussianPair([0.0], [1.0], 1))
    alpha, beta = lines_of(figure)["best test, exactly"]
    inside = (alpha > 0) & (alpha < 1)
    expected = norm.cdf(norm.isf(alpha[inside]) - 1)
    assert (beta[inside] <= expected + 1e-9).all()  # tangents lie below a convex curve
    np.testing.assert_allclose(beta[inside], expected, atol=2e-3)


def test_the_certificates_region(found, diabetes):
    model = pilu.LangevinRidge(alpha=0.1).fit(*diabetes)
    certificate = model.unlearn(3, epsilon=1.0)
    figure = plot_audit(found, certificate=certificate, title="diabetes")
    label = next(name for name in lines_of(figure) if name.startswith("certified"))
    alpha, beta = lines_of(figure)[label]
    forward = 1 - certificate.delta - np.exp(1.0) * alpha
    backward = np.exp(-1.0) * (1 - certificate.scope["reverse_delta"] - alpha)
    np.testing.assert_allclose(beta, np.maximum(np.maximum(forward, backward), 0), atol=1e-9)


def test_what_was_proved_is_written(found):
    texts = [text.get_text() for text in plot_audit(found).axes[0].get_legend().get_texts()]
    assert f"proved: mu >= {found.mu_lower:.2f}" in texts[-1]
    assert "confidence 0.95" in texts[-1]
    assert "audit by logistic, 200 + 200 runs" in texts


def exposure_of(epsilon, covers_preprocessing=True):
    epsilon = np.array(epsilon, dtype=float)
    n = len(epsilon)
    rows = tuple((i,) for i in range(n))
    return Exposure(tuple(range(n)), rows, epsilon, 1e-6, covers_preprocessing)


def texts_of(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_exposures_are_sorted_and_their_quantiles_are_named():
    epsilon = np.random.default_rng(0).permutation(np.geomspace(0.01, 1.0, 200))
    figure = plot_exposure(exposure_of(epsilon), title="people")
    share, level = lines_of(figure)["people"]
    np.testing.assert_allclose(level, np.geomspace(0.01, 1.0, 200))
    np.testing.assert_allclose(share, np.arange(1, 201) / 2)
    assert figure.axes[0].get_yscale() == "log"
    *named, largest = texts_of(figure)
    assert largest == "largest: 1"
    for q, text in zip((50, 90, 99), named, strict=True):
        words, value = text.rsplit(" ", 1)
        assert words == f"{q} % are at most"
        assert 1 <= float(value) / np.sort(epsilon)[2 * q - 1] < 1.01  # rounded up


def test_people_above_a_line_are_counted_and_coloured():
    figure = plot_exposure(exposure_of([0.5, 2.0, 1.0, 3.0, np.inf]), line=1.0)
    lines = lines_of(figure)
    assert lines["people"][1].tolist() == [0.5, 1.0]  # on the line is not above it
    assert lines["people above"][1].tolist() == [2.0, 3.0]
    colours = {line.get_label(): line.get_color() for line in figure.axes[0].get_lines()}
    assert colours["people"] != colours["people above"]
    assert "3 of 5 people are above 1" in texts_of(figure)
    assert [1.0, 1.0] in [list(y) for _, y in lines.values()]


def test_infinite_exposures_are_at_the_top_edge_and_counted():
    axes = plot_exposure(exposure_of([0.2, np.inf, 0.3, np.inf])).axes[0]
    (top,) = (line for line in axes.get_lines() if line.get_marker() == "^")
    assert top.get_xdata().tolist() == [75, 100]
    assert top.get_ydata().tolist() == [axes.get_ylim()[1]] * 2
    texts = [text.get_text() for text in axes.texts]
    assert "2 of 4 people are above 10,000, or without a bound" in texts
    assert "largest: no bound" in texts


@pytest.mark.parametrize(
    ("epsilon", "scale"),
    [([0.5], "linear"), ([0.0, 0.0], "linear"), ([np.inf], "linear"), ([0.0, 0.01, 1.0], "log")],
)
def test_few_and_odd_exposures(epsilon, scale):
    axes = plot_exposure(exposure_of(epsilon), line=0.7 if len(epsilon) == 1 else None).axes[0]
    assert axes.get_yscale() == scale
    low, high = axes.get_ylim()
    shown = np.concatenate([line.get_ydata() for line in axes.get_lines()])
    assert ((shown >= low) & (shown <= high)).all()
    axes.figure.canvas.draw()


def test_an_exposure_says_whether_preprocessing_is_given():
    for covers in (True, False):
        label = plot_exposure(exposure_of([1.0], covers)).axes[0].get_ylabel()
        assert ("preprocessing given" in label) is not covers
        assert "delta 1e-06" in label


def test_exposures_that_cannot_be_drawn():
    with pytest.raises(WrongInput, match="exposure must be that of at least one person, got"):
        plot_exposure(exposure_of([]))
    with pytest.raises(WrongInput, match="line must be"):
        plot_exposure(exposure_of([1.0]), line=0.0)


def plan_of(caps, score, sd=0.01, quantile=1.0):
    caps, score = np.array(caps), np.array(score, dtype=float)
    return ExposurePlan(caps, caps, score, np.full(len(caps), sd), 0.9, 1e-6, quantile)


def test_a_plan_shows_scores_their_spread_and_the_score_without_noise():
    figure = plot_exposure_plan(plan_of([3.0, 1.0], [0.85, 0.8], sd=0.02, quantile=0.99))
    axes = figure.axes[0]
    lines = lines_of(figure)
    caps, score = lines["mean over draws of the noise"]
    assert caps.tolist() == [1.0, 3.0]
    assert score.tolist() == [0.8, 0.85]
    assert lines["without this noise: 0.9"][1] == [0.9, 0.9]
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    np.testing.assert_allclose(sorted(set(corners[:, 1].round(9))), [0.78, 0.82, 0.83, 0.87])
    assert "99 % of the people" in axes.get_xlabel()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "3"]


def test_caps_out_of_reach_are_named():
    figure = plot_exposure_plan(plan_of([0.1, 0.3, 1.0], [np.nan, np.nan, 0.8]))
    assert lines_of(figure)["out of reach: 0.1, 0.3"][0].tolist() == [0.1, 0.3]
    assert lines_of(figure)["mean over draws of the noise"][0].tolist() == [1.0]
    figure = plot_exposure_plan(plan_of([0.1], [np.nan]))
    assert "out of reach: 0.1" in lines_of(figure)
    figure.canvas.draw()


def test_scores_far_below_zero_do_not_hide_the_others():
    figure = plot_exposure_plan(plan_of([0.1, 1.0, 3.0], [-188.0, 0.2, 0.3]))
    assert figure.axes[0].get_ylim()[0] == -0.5
    assert texts_of(figure) == ["-188"]
