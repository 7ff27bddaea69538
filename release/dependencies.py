"""Writes the table of licences in docs/dependencies.md, from the metadata of installed packages.

`python -m release.dependencies FOLDER...` looks into these folders of installed packages. What is
not installed there keeps its line.
"""

import re
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions

from release.lowest import ROOT

PAGE = ROOT / "docs" / "dependencies.md"
HEAD = "| package | licence |\n| --- | --- |\n"
# How packages without a licence expression state what they have.
_STATED = {
    "Apache": "Apache-2.0",
    "BSD": "BSD",
    "ISC": "ISC",
    "Lesser General Public License v3": "LGPL-3.0",
    "MIT": "MIT",
    "MPL|Mozilla": "MPL-2.0",
    "Python Software Foundation": "PSF-2.0",
}
# Read in their licence files; the second carries axe-core.
_READ = {"skops": "MIT", "axe-playwright-python": "MIT, MPL-2.0"}


def canonical(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> list[str]:
    """Every package of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return sorted(canonical(line.partition("==")[0]) for line in lines if "==" in line)


def licence_of(package: Distribution) -> str:
    """The licence that a package states: an SPDX expression if it has one."""
    said = package.metadata
    if "License-Expression" in said:
        return str(said.get("License-Expression"))
    classifiers = [one for one in said.get_all("Classifier") or () if one.startswith("License ::")]
    for text in (" ".join(classifiers), str(said.get("License") or "").partition("\n")[0]):
        found = [name for pattern, name in _STATED.items() if re.search(pattern, text)]
        if found:
            return ", ".join(found)
    return _READ.get(canonical(said.get("Name")), "unknown")


def installed(path: Sequence[str] = sys.path) -> dict[str, str]:
    """Licence of each pinned package that is installed."""
    found: dict[str, str] = {}
    for package in distributions(path=[*path]):
        found.setdefault(canonical(package.metadata["Name"]), licence_of(package))
    return {name: found[name] for name in pinned() if name in found}


def written() -> dict[str, str]:
    """Licence of each package in the page."""
    table = PAGE.read_text().partition(HEAD)[2]
    return dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", table, re.M))


if __name__ == "__main__":
    known = written() | installed(sys.argv[1:])
    rows = [f"| {name} | {known.get(name, 'unknown')} |\n" for name in pinned()]
    PAGE.write_text(PAGE.read_text().partition(HEAD)[0] + HEAD + "".join(rows))
