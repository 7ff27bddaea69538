"""docs/margins.md: every name and test that it lists exists, and no margin is left out."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "pilu"
LINES = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs" / "margins.md").read_text().splitlines()
    if re.match(r"\| `(accounting|certify)/", line)
]


def names_of(line):
    """The files and the names in a line's first column."""
    words = re.findall(r"`([^`]+)`", line[0])
    first = words[0].split("/")[0]
    files = [w if "/" in w else f"{first}/{w}" for w in words if w.endswith(".py")]
    return files, [w for w in words if not w.endswith(".py")]


def test_every_name_and_test_exists():
    assert len(LINES) > 30
    for line in LINES:
        files, names = names_of(line)
        source = "".join((PACKAGE / file).read_text() for file in files)
        for name in names:
            assert re.search(rf"\b{re.escape(name)}\b", source), (files, name)
        for test in re.findall(r"`([^`]+\.py)`", line[-1]):
            assert (ROOT / "tests" / test).exists(), test


# Rounding units, constants of mathematics, words, and files without numerical margins.
NOT_MARGINS = {"UNIT", "_UNIT", "_PI", "_LOG_ROOT_TWO_PI", "_TOO_WIDE"}
NO_MARGINS = {"certificate.py", "verify.py", "promises.py"}


def test_every_number_that_a_module_names_is_listed():
    listed = set()
    for line in LINES:
        files, names = names_of(line)
        listed |= {(file, name) for file in files for name in names}
    for path in (*(PACKAGE / "accounting").glob("*.py"), *(PACKAGE / "certify").glob("*.py")):
        named = re.findall(r"^(_?[A-Z][A-Z_0-9]+)\b.* = ", path.read_text(), re.MULTILINE)
        for name in set(named) - NOT_MARGINS if path.name not in NO_MARGINS else ():
            assert (f"{path.parent.name}/{path.name}", name) in listed
