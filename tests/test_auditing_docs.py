"""docs/auditing.md: its example runs, and its numbers are what the code gives."""

import re
from pathlib import Path

from pilu.auditing import most_provable

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "auditing.md").read_text()
PROSE = " ".join(PAGE.split())  # lines may break anywhere


def test_the_example_runs(capsys):
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(block, "auditing.md", "exec"), names)
    found = names["found"]
    assert 1.5 < found.mu_lower <= 5**0.5  # a shift of 1 in each of five outputs
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_what_runs_can_prove():
    mu, epsilon = most_provable(100, 1 / 500)
    assert f"prove mu >= {mu:.1f} and epsilon >= {epsilon:.1f} (delta = 1/500)" in PROSE
    assert f"10,000 runs reach epsilon {most_provable(10_000, 1 / 500)[1]:.0f}" in PROSE
