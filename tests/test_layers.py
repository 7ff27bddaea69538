"""Data flows one way: a module imports only from its own room and from rooms before it."""

import ast
from pathlib import Path

import pilu

ROOMS = [
    "data",
    "accounting",
    "chains",
    "ridge",
    "minibatch",
    "losses",
    "certify",
    "estimators",
    "baselines",
    "auditing",
    "deletion",
    "datasets",
    "report",
    "cli",
]
FOUNDATION = {"_checks", "_digits", "_extras", "_processes", "_progress", "exceptions"}
# Knows nothing of data, though it stands after it.
PURE = {"accounting"}

PACKAGE = Path(pilu.__file__).parent


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pilu."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module != "pilu", f"{path}: imports the top of the package"
        elif isinstance(node, ast.Import):
            assert not any(a.name.split(".")[0] == "pilu" for a in node.names), path


def test_every_module_stands_in_a_known_room():
    rooms = {p.parent.name for p in PACKAGE.glob("*/*.py")}
    assert rooms == set(ROOMS)


def test_rooms_import_only_from_rooms_before_them():
    seen = 0
    for path in PACKAGE.glob("*/*.py"):
        room = path.parent.name
        allowed = FOUNDATION | {room}
        if room not in PURE:
            allowed |= set(ROOMS[: ROOMS.index(room)])
        for target in imported_rooms(path):
            seen += 1
            assert target in allowed, f"{path.relative_to(PACKAGE)} imports from {target}"
    assert seen > 50


def test_foundation_imports_no_room():
    for name in FOUNDATION:
        assert not set(imported_rooms(PACKAGE / f"{name}.py")) - FOUNDATION


def test_modules_stay_small():
    long = {
        p.name: n for p in PACKAGE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 400
    }
    assert not long


def test_the_map_of_the_house_names_every_module():
    told = (PACKAGE.parents[1] / "docs" / "design.md").read_text()
    lines = {line.split("`")[1].strip("/"): line for line in told.splitlines() if line[:3] == "| `"}
    for room in ROOMS:
        modules = {path.stem for path in (PACKAGE / room).glob("*.py")} - {"__init__"}
        assert not {name for name in modules if f"`{name}`" not in lines[room]}, room
