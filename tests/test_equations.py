"""docs/equations.md: every function, test and section that it names exists."""

import ast
import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "pilu"
LINES = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs" / "equations.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| equation |", "| --- |"))
]


def names_in(column):
    """What stands in backquotes in a column; `make` targets and other packages' names left out."""
    cells = (re.findall(r"`([^`]+)`", line[column]) for line in LINES)
    return sorted({name for cell in cells for name in cell if re.search(r"[./]", name)})


def resolve(name):
    """The file of pilu with this dotted name, or the object that it names within a file."""
    parts = name.split(".")
    if parts[0] == "experiments":
        return ROOT.joinpath(*parts).with_suffix(".py").read_text()
    for n in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:n])
        if path.is_dir() or path.with_suffix(".py").exists():
            if n == len(parts):
                return path
            return reduce(getattr, parts[n:], import_module(".".join(["pilu", *parts[:n]])))
    raise AttributeError(f"src/pilu has no {name}.")


def test_every_line_names_code_and_a_test():
    assert len(LINES) > 40
    for equation, code, test in LINES:
        assert equation
        assert "`" in code, equation
        assert ".py`" in test, equation


@pytest.mark.parametrize("name", names_in(1))
def test_code_exists(name):
    assert resolve(name)


@pytest.mark.parametrize("name", names_in(2))
def test_tests_exist(name):
    tree = ast.parse((ROOT / "tests" / name).read_text())
    functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    is_reference = name.startswith("oracles/")
    assert functions if is_reference else any(f.startswith("test_") for f in functions)


def test_pages_and_sections_exist():
    for equation, *_ in LINES:
        for page in re.findall(r"(\w+\.md)", equation):
            text = (ROOT / "docs" / page).read_text()
            headings = [line for line in text.splitlines() if line.startswith("#")]
            for section in re.findall(r'"([^"]+)"', equation):
                assert any(section in heading for heading in headings), f"{page}: {section}"


@pytest.mark.parametrize("wrong", ["ridge.spectral.decays_not", "laws.iterates", "ridge.nothing"])
def test_a_wrong_name_would_be_noticed(wrong):
    with pytest.raises(AttributeError):
        resolve(wrong)
