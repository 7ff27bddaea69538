"""Data flows one way: a module imports only from its own room and from rooms before it."""

import ast
from pathlib import Path

import pilu

ROOMS = [
    "data",
    "tabular",
    "accounting",
    "chains",
    "ridge",
    "minibatch",
    "losses",
    "certify",
    "refit",
    "estimators",
    "baselines",
    "auditing",
    "store",
    "report",
    "desk",
    "datasets",
    "client",
    "service",
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


def test_the_map_names_every_room_in_order_and_only_modules_that_exist():
    text = (PACKAGE.parents[1] / "docs" / "design.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| `") and "/` |" in line]
    assert [line.split("`")[1].strip("/") for line in lines] == ROOMS
    for room, line in zip(ROOMS, lines, strict=True):
        for module in line.rsplit("|", 2)[1].replace("`", "").split(","):
            assert (PACKAGE / room / f"{module.strip()}.py").is_file(), (room, module)


def test_modules_share_a_name_only_where_they_do_the_same_job():
    rooms_of = {}
    for path in PACKAGE.glob("*/*.py"):
        if path.stem != "__init__":
            rooms_of.setdefault(path.stem, set()).add(path.parent.name)
    kinds = {"ridge", "minibatch", "losses"}
    shared = {name: rooms for name, rooms in rooms_of.items() if len(rooms) > 1}
    other = {name: rooms for name, rooms in shared.items() if not rooms <= kinds}
    assert set(other) == {"objective", "problem", "sensitivities"}
