"""The figures of docs/officers.md and docs/explanation are those of pilu and of plain arithmetic.

The arithmetic here shares no code with pilu: `math.erfc` and bisection. A page may round a bound
up, and only to its last digit.
"""

import math
from pathlib import Path

import pytest

from pilu import Forgetful
from pilu.accounting.gdp import mu_from_epsilon
from pilu.certify.guessing import guess_from_mu, guess_from_point
from pilu.service.configuration import Configuration

DOCS = Path(__file__).parent.parent / "docs"
OFFICERS = (DOCS / "officers.md").read_text()
PROSE = " ".join(OFFICERS.split())  # lines may break anywhere
CERTIFICATES = " ".join((DOCS / "explanation" / "certificates.md").read_text().split())
EXPOSURE = (DOCS / "explanation" / "exposure_in_words.md").read_text()

DEFAULTS = Forgetful(None)
EPSILON, DELTA = DEFAULTS.epsilon, DEFAULTS.delta


def below(x):
    """The standard normal distribution function."""
    return math.erfc(-x / math.sqrt(2)) / 2


def bisect(f, low, high):
    """Where the rising function f crosses zero."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return high


def extra(mu):  # delta of two Gaussians mu apart, at EPSILON
    x = EPSILON / mu
    return below(-x + mu / 2) - math.exp(EPSILON) * below(-x - mu / 2)


MU = bisect(lambda mu: extra(mu) - DELTA, 0.001, 1.0)


def shown_as(bound, digits):
    """A bound in per cent, rounded up to so many digits after the point."""
    return f"{math.ceil(100 * bound * 10**digits - 1e-6) / 10**digits:.{digits}f}"


def table_below(page, heading):
    """First and last cells of the rows of the first table with this heading."""
    rows = page.split(heading, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: row[1:] for row in cells}


def test_defaults_are_those_of_the_page():
    assert (EPSILON, DELTA) == (0.1, 1e-9)
    assert f"epsilon = {EPSILON} and delta = 1e-9" in PROSE
    assert mu_from_epsilon(EPSILON, DELTA) == pytest.approx(MU, rel=1e-6)


def test_best_guess():
    bound = below(MU / 2)
    assert guess_from_mu(mu_from_epsilon(EPSILON, DELTA)) == pytest.approx(bound, rel=1e-9)
    for page in (PROSE, CERTIFICATES):
        assert f"at most **{shown_as(bound, 1)} %** of the time" in page


def test_false_accusations():
    threshold = bisect(lambda x: below(x) - 0.01, -9.0, 0.0)
    assert f"at most {shown_as(below(threshold + MU), 2)} % of the models" in PROSE


def test_odds():
    factor = math.exp(EPSILON)
    assert f"at most a factor of {math.ceil(1000 * factor) / 1000}," in PROSE
    table = table_below(OFFICERS, "| belief before")
    assert len(table) == 4
    for before, (after,) in table.items():
        odds = factor / (100 / float(before.removesuffix(" %")) - 1)
        assert after == f"{shown_as(odds / (1 + odds), 2)} %"
    # log-odds move by N(mu^2/2, mu^2), so by more than epsilon with this probability
    missed = below(-EPSILON / MU + MU / 2) + below(-EPSILON / MU - MU / 2)
    assert 1e-7 < missed < 1e-6
    assert "fewer than one release in a million" in PROSE


def test_guesses_by_exposure():
    delta = DEFAULTS.exposure_delta
    table = table_below(EXPOSURE, "| exposure |")
    assert list(table) == ["0.1", "0.5", "1", "3", "10"]
    for exposure, (right,) in table.items():
        epsilon = float(exposure)
        bound = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
        assert guess_from_point(epsilon, delta, both=True) == pytest.approx(bound, rel=1e-9)
        assert right == f"{shown_as(bound, 1 if epsilon < 10 else 3)} %"


def test_the_period_of_receipts_is_the_default():
    days = Configuration.__dataclass_fields__["keep_receipts"].default
    assert f"receipts for {days} days (`--keep-receipts`)" in PROSE
    assert f"after {days} days by default" in PROSE
