"""pyproject.toml, constraints.txt, the conda recipe and docs/dependencies.md say the same."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from release.dependencies import canonical, installed, pinned, written
from release.lowest import lowest_versions

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CNRI-Python",
    "ISC",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "MPL-2.0",
    "PSF-2.0",
    "Unlicense",
    "Zlib",
}
LESSER = {"psycopg", "psycopg-binary", "psycopg-pool"}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def direct(project):
    """Each direct requirement with the extra that has it, without pilu's own extras."""
    extras = project["project"]["optional-dependencies"]
    lists = {"none": project["project"]["dependencies"], **extras}
    for extra, lines in lists.items():
        for line in lines:
            requirement = Requirement(line)
            if extra != "dev" and requirement.name != "pilu":
                yield extra, requirement


def test_the_lowest_versions_are_the_bounds_of_pyproject(project):
    bounds = {one.name: str(one.specifier) for _, one in direct(project)}
    assert {name: f">={bound}" for name, bound in lowest_versions().items()} == bounds
    assert len(bounds) > 30


def test_pinned_versions_are_allowed_by_pyproject(project):
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {canonical(Requirement(one).name): Requirement(one) for one in lines if "==" in one}
    assert len(pins) == len([line for line in lines if "==" in line])
    for _, requirement in direct(project):
        (pin,) = pins[canonical(requirement.name)].specifier
        assert requirement.specifier.contains(Version(pin.version)), requirement


def test_every_direct_dependency_has_a_line_that_says_why(project):
    text = (ROOT / "docs" / "dependencies.md").read_text()
    table = text.partition("## Direct dependencies")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| ([\w-]+) \| ([\w, -]+) \| (.{5,}) \|$", table, re.M)[1:]
    extras = {}
    for extra, requirement in direct(project):
        extras.setdefault(requirement.name, set()).add(extra)
    assert {name: set(named.split(", ")) for name, named, _ in lines} == extras


def test_every_pinned_package_has_its_licence():
    assert sorted(written()) == pinned()
    found = installed()
    assert len(found) > 100
    assert {name: written()[name] for name in found} == found


@pytest.mark.parametrize("name", pinned())
def test_licences_are_allowed(name):
    licence = written()[name]
    terms = set(re.split(r", | AND | OR ", licence))
    if name in LESSER:
        assert terms <= {"LGPL-3.0", "LGPL-3.0-only"}
    elif " OR " in licence:  # the user of the package chooses
        assert terms & ALLOWED
    else:
        assert terms <= ALLOWED


def test_the_recipe_has_the_dependencies_of_pyproject(project):
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    assert recipe["schema_version"] == 1
    low = recipe["context"]["python_min"]
    assert project["project"]["requires-python"] == f">={low}"
    needed = recipe["requirements"]

    def plain(lines):
        return {line.replace(" ", "") for line in lines}

    run = plain(needed["run"]) - {"python>=${{python_min}}"}
    assert run == plain(project["project"]["dependencies"])
    host = plain(needed["host"]) - {"python${{python_min}}.*", "pip"}
    assert host == plain(project["build-system"]["requires"])
    scripts = project["project"]["scripts"]
    assert recipe["build"]["python"]["entry_points"] == [f"{k} = {v}" for k, v in scripts.items()]
    about = recipe["about"]
    assert about["summary"] == project["project"]["description"]
    assert about["license"] == project["project"]["license"]
    assert [about["license_file"]] == project["project"]["license-files"]
