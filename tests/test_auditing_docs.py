"""docs/auditing.md: its numbers are what the code gives."""

from pathlib import Path

from pilu.auditing import most_provable

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "auditing.md").read_text()
PROSE = " ".join(PAGE.split())  # lines may break anywhere


def test_what_runs_can_prove():
    mu, epsilon = most_provable(100, 1 / 500)
    assert f"prove mu >= {mu:.1f} and epsilon >= {epsilon:.1f} (delta = 1/500)" in PROSE
    assert f"10,000 runs reach epsilon {most_provable(10_000, 1 / 500)[1]:.0f}" in PROSE
