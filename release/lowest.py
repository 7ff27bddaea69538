"""The lowest version that pyproject.toml allows of each direct dependency."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_REQUIREMENT = re.compile(r"(?P<name>[\w-]+)(\[[\w,-]+\])?>=(?P<bound>[\w.]+)\s*(;.*)?")


def lowest_versions() -> dict[str, str]:
    """Name of each direct dependency of pilu and of its extras but `dev`, and its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    found: dict[str, str] = {}
    for line in [*project["dependencies"], *(o for e in extras if e != "dev" for o in extras[e])]:
        if line.startswith("pilu["):
            continue
        match = _REQUIREMENT.fullmatch(line)
        if match is None:
            raise ValueError(f"a requirement must be <name>>=<version>, got {line!r}.")
        name, bound = match["name"], match["bound"]
        if found.setdefault(name, bound) != bound:
            raise ValueError(f"the bounds of {name} must agree, got {found[name]} and {bound}.")
    return dict(sorted(found.items()))
