"""The picture of an audit; that of a comparison is tested with `compare`."""

import numpy as np
import pytest
from scipy.stats import norm

import pilu
from pilu.accounting import GaussianPair
from pilu.auditing import audit
from pilu.plotting import plot_audit


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
