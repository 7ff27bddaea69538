"""Put a mutant into modules that are imported already, in a process of its own."""

import ast
import functools
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
from tools.mutants.mutate import Mutant, mutations

PACKAGE = Path(__file__).parent.parent.parent / "src" / "pilu"
_PLAIN = (int, float, tuple, np.ndarray, str, type(None))


def install(mutant: Mutant) -> bool:
    """Change the living functions and constants of the mutant's module; whether any changed.

    The mutated module is executed in a namespace of its own, and only what differs is taken over,
    so that there are never two classes of one name.
    """
    path = PACKAGE / mutant.module
    tree = ast.parse(path.read_text())
    for each in mutations(tree, mutant.module):
        if each == mutant:
            break
    else:
        raise LookupError(mutant.key)
    name = ".".join(("pilu", *Path(mutant.module).with_suffix("").parts))
    module = sys.modules[name]
    fresh = types.ModuleType(name)
    fresh.__dict__.update(__file__=str(path), __package__=module.__package__)
    exec(compile(tree, str(path), "exec"), fresh.__dict__)
    clear_caches()
    if not mutant.at_import:
        old, new = _function(module, mutant.function), _function(fresh, mutant.function)
        old.__code__ = new.__code__
        return True
    return _take_values(module, fresh)


def clear_caches(test_module: Any = None) -> None:
    """Forget what functions of the package, and of a module with tests, remember."""
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("pilu.")]
    for module in [*modules, test_module] if test_module else modules:
        for cached in list(vars(module).values()):
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()


def _function(container: Any, qualified: str) -> Any:
    """The outermost function, or method, on the way to a qualified name."""
    for part in qualified.split("."):
        container = vars(container)[part]
        if not isinstance(container, type):
            return _bare(container)
    raise LookupError(qualified)


def _bare(value: Any) -> Any:
    """The function within a property, a class method, or a cache."""
    if isinstance(value, staticmethod | classmethod):
        return _bare(value.__func__)
    if isinstance(value, property):
        return value.fget
    if isinstance(value, functools.cached_property):
        return value.func
    return getattr(value, "__wrapped__", value)


def _take_values(module: Any, fresh: Any) -> bool:
    """Take over plain values that differ: constants, defaults of functions, of fields."""
    changed = False
    for name, new in list(vars(fresh).items()):
        old = vars(module).get(name)
        if isinstance(new, type) and new.__module__ == module.__name__:
            changed |= _take_values_of_class(old, new)
        elif isinstance(_bare(new), types.FunctionType):
            if new.__module__ == module.__name__:
                changed |= _take_defaults(_bare(old), _bare(new))
        elif isinstance(new, _PLAIN) and not name.startswith("__") and _differs(old, new):
            for other in list(sys.modules.values()):
                if getattr(other, "__name__", "").startswith("pilu.") and (
                    vars(other).get(name) is old
                ):
                    setattr(other, name, new)
            changed = True
    return changed


def _take_values_of_class(old: type, new: type) -> bool:
    changed = False
    for name, value in list(vars(new).items()):
        before = vars(old).get(name)
        if isinstance(_bare(value), types.FunctionType):
            changed |= _take_defaults(_bare(before), _bare(value))
        elif isinstance(value, _PLAIN) and not name.startswith("__") and _differs(before, value):
            setattr(old, name, value)
            changed = True
    return changed


def _take_defaults(old: Any, new: Any) -> bool:
    changed = False
    pairs = list(zip(old.__defaults__ or (), new.__defaults__ or (), strict=True))
    if any(_differs(a, b) for a, b in pairs):
        old.__defaults__ = tuple(b if isinstance(b, _PLAIN) else a for a, b in pairs)
        changed = True
    for name, value in (new.__kwdefaults__ or {}).items():
        if _differs(old.__kwdefaults__[name], value):
            old.__kwdefaults__[name] = value
            changed = True
    return changed


def _differs(old: Any, new: Any) -> bool:
    if not isinstance(new, _PLAIN):
        return False
    if isinstance(new, np.ndarray):
        return not np.array_equal(old, new)
    return repr(old) != repr(new)
