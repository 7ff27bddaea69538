"""Small changes of a module's syntax tree, one at a time.

A mutant changes one operator, comparison, condition, number or call. Not mutated are texts, type
hints, decorators, `raise` and `assert` statements, error texts and `__repr__`.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_SWAPS: dict[type, list[type]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Div],
    ast.Mod: [ast.Mult],
    ast.Pow: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
_PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("any", "all"),
    ("floor", "ceil"),
    ("expm1", "exp"),
    ("log1p", "log"),
    ("up", "down"),
    ("log_up", "log_down"),
)
_CALLS = dict(_PAIRS) | {second: first for first, second in _PAIRS}
_TEXTS = {"complaint", "warn"}  # calls that only make messages
_HINTS = {"annotation", "returns", "decorator_list", "bases", "ctx"}
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_LEAST_FACTOR = 1e-3  # a smaller number is a margin or a tolerance: it becomes 0


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, and what stands there before and after it."""

    module: str
    function: str  # empty: outside functions
    change: str
    lines: tuple[int, int]
    names: tuple[str, ...]  # what the statement assigns
    at_import: bool  # not within a function

    @property
    def key(self) -> str:
        """How a list of mutants names it."""
        return f"{self.module} {self.function or '(module)'}: {self.change}"


def mutations(tree: ast.Module, module: str) -> Iterator[Mutant]:
    """Every mutant of a module; `tree` holds the mutation until the next one is asked for."""
    seen: Counter[str] = Counter()
    for block, index, function, at_import in _statements(tree, "", True):
        statement = block[index]
        before = _header(statement)
        lines = (statement.lineno, _last_line(statement))
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        names = tuple(t.id for t in targets if isinstance(t, ast.Name))
        for _ in _changes(block, index):
            change = _difference(before, _header(block[index]))
            seen[f"{function}: {change}"] += 1
            if (times := seen[f"{function}: {change}"]) > 1:
                change += f" (no. {times})"
            yield Mutant(module, function, change, lines, names, at_import)


def _statements(
    node: ast.AST, function: str, at_import: bool
) -> Iterator[tuple[list, int, str, bool]]:
    """Every statement as (block, index, qualified name of the function, run at import?)."""
    for field in _BLOCKS:
        block = getattr(node, field, None)
        for index, child in enumerate(block if isinstance(block, list) else []):
            inner = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                if child.name == "__repr__":
                    continue
                inner = f"{function}.{child.name}".lstrip(".")
            if isinstance(child, ast.stmt):
                yield block, index, inner, at_import
            inside = at_import and not isinstance(child, ast.FunctionDef)
            yield from _statements(child, inner, inside)


def _changes(block: list, index: int) -> Iterator[None]:
    statement = block[index]
    if isinstance(statement, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return
    new: ast.stmt
    if isinstance(statement, ast.Break | ast.Continue):
        new = ast.Continue() if isinstance(statement, ast.Break) else ast.Break()
        yield from _put(block, index, new)
    if isinstance(statement, ast.Expr):
        if not isinstance(statement.value, ast.Call):
            return  # a docstring, or the dots of a protocol
        yield from _put(block, index, ast.Pass())
    if isinstance(statement, ast.AugAssign):
        for op in _SWAPS.get(type(statement.op), []):
            yield from _put(statement, "op", op())
    yield from _inside(statement)


def _inside(node: ast.AST) -> Iterator[None]:
    """The changes of expressions in `node`, without statements in its blocks."""
    for field, value in ast.iter_fields(node):
        if field in _HINTS or (isinstance(node, ast.ClassDef) and field == "keywords"):
            continue
        if isinstance(value, list):
            if value and isinstance(value[0], ast.stmt | ast.ExceptHandler | ast.match_case):
                continue
            slots = [(value, i, child) for i, child in enumerate(value)]
        else:
            slots = [(node, field, value)]
        for holder, place, child in slots:
            if not isinstance(child, ast.AST) or _is_text(child):
                continue
            conditional = field == "ifs" or (
                field == "test" and isinstance(node, ast.If | ast.While | ast.IfExp)
            )
            if conditional:
                for truth in (True, False):
                    if truth is False or not isinstance(node, ast.While):
                        yield from _put(holder, place, ast.Constant(truth))
            signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
            for new in _replacements(child, signed):
                yield from _put(holder, place, new)
            yield from _inside(child)


def _replacements(node: ast.AST, signed: bool) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp | ast.BoolOp):
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
        if not any(map(_is_text, sides)):
            for op in _SWAPS.get(type(node.op), []):
                yield _with(node, op=op())
    elif isinstance(node, ast.Compare):
        for i, old in enumerate(node.ops):
            for op in _SWAPS[type(old)]:
                yield _with(node, ops=[*node.ops[:i], op(), *node.ops[i + 1 :]])
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield copy.copy(node.operand)
    elif isinstance(node, ast.Attribute) and node.attr == "inf" and not signed:
        yield ast.UnaryOp(ast.USub(), node)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            yield _with(node, func=ast.Name(_CALLS[node.func.id], ast.Load()))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS:
            yield _with(node, func=_with(node.func, attr=_CALLS[node.func.attr]))
    elif isinstance(node, ast.Constant):
        for number in _numbers(node.value, signed):
            yield ast.Constant(number)


def _numbers(value: object, signed: bool) -> list[float]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1] if value == 0 or signed else [value + 1, value - 1]
    if isinstance(value, float):
        if value == 0:
            return [1.0]
        return [0.0] if abs(value) < _LEAST_FACTOR else [2 * value, value / 2]
    return []


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", getattr(node.func, "attr", "")) in _TEXTS
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _put(holder: object, place: int | str, new: ast.AST) -> Iterator[None]:
    """Put `new` in its place, and the old node back afterwards."""
    old = holder[place] if isinstance(holder, list) else getattr(holder, place)
    if hasattr(old, "lineno"):
        ast.copy_location(new, old)
    ast.fix_missing_locations(new)
    for node in (new, old):
        if isinstance(holder, list):
            holder[place] = node
        else:
            setattr(holder, place, node)
        if node is new:
            yield


def _header(statement: ast.stmt) -> str:
    """A statement in one line, without decorators and the statements inside it."""
    shallow = copy.copy(statement)
    for field in (*_BLOCKS, "decorator_list"):
        if isinstance(getattr(shallow, field, None), list):
            setattr(shallow, field, [])
    return " ".join(ast.unparse(shallow).split())


def _last_line(statement: ast.stmt) -> int:
    inner = [
        child.lineno
        for field in _BLOCKS
        if isinstance(getattr(statement, field, None), list)
        for child in getattr(statement, field)
        if hasattr(child, "lineno")
    ]
    last = statement.end_lineno or statement.lineno
    return max(statement.lineno, min([*inner, last + 1]) - 1)


def _difference(before: str, after: str) -> str:
    """`before -> after`, with 40 characters on both sides of what differs."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1

    def cut(text: str) -> str:
        stop = len(text) - end
        left, right = max(0, start - 40), min(len(text), stop + 40)
        return ("..." if left else "") + text[left:right] + ("..." if right < len(text) else "")

    return f"`{cut(before)}` -> `{cut(after)}`"
