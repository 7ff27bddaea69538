"""What a pipeline must not contain, with the reason and the remedy for each.

A certificate compares two runs of the same program on the same rows. So every part but the solver's
start and the noise must be a function of the rows: no state from an earlier fit, no clock, no
unseeded random numbers.
"""

import collections
import copy
import dis
import functools
import logging
import re
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import PredefinedSplit
from sklearn.pipeline import Pipeline

from pilu.exceptions import WrongInput
from pilu.refit.heads import HEADS

_CONSTANTS = (
    *(bool, int, float, complex, str, bytes, tuple, frozenset, range, slice, type, type(None)),
    np.generic,
    np.dtype,
)
_BOOKKEEPING = ("__", "_sklearn", "_parameter_constraints", "_abc")  # of scikit-learn, on classes
_CHANGING = (
    *(list, dict, set, bytearray, collections.deque, np.ndarray),
    *(np.random.Generator, np.random.RandomState),
)
_PLAIN_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    np.ufunc,
    make_column_selector,
)


def is_search(estimator: Any) -> bool:
    """Whether it is GridSearchCV or one like it."""
    names = {"estimator", "refit", "cv"}
    return isinstance(estimator, BaseEstimator) and names <= set(estimator.get_params(deep=False))


def check_program(estimator: Any) -> None:
    """Refuse an estimator that cannot be certified; all reasons at once."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise WrongInput(
            "estimator must be an unfitted scikit-learn estimator, such as "
            f"make_pipeline(StandardScaler(), LogisticRegression()), got {estimator!r}."
        )
    reasons = [*_structure(estimator, "estimator", searched=False)]
    if reasons:
        listed = "\n".join(f"- {reason}" for reason in reasons)
        raise WrongInput(f"this estimator cannot be certified:\n{listed}")


def _structure(estimator: Any, path: str, *, searched: bool) -> Iterator[str]:
    """Reasons in a pipeline, a search or a head; `searched` if scikit-learn's solver is used."""
    if is_search(estimator):
        yield from _own_reasons(estimator, path)
        if estimator.refit is False:
            yield f"{path}: refit=False leaves nothing to release. Set refit=True."
        grids = getattr(estimator, "param_grid", None) or getattr(
            estimator, "param_distributions", {}
        )
        for grid in grids if isinstance(grids, list | tuple) else [grids]:
            if any(name.split("__")[-1] == "memory" for name in grid):
                yield f"{path}: memory= in a grid keeps transformed rows on disk. Leave it out."
        yield from _values(estimator, path, skip=("estimator",))
        yield from _structure(estimator.estimator, f"{path}.estimator", searched=True)
    elif isinstance(estimator, Pipeline):
        yield from _own_reasons(estimator, path)
        for name, step in estimator.steps[:-1]:
            yield from _parts(step, f"step {name!r}")
        name, last = estimator.steps[-1]
        yield from _structure(last, f"step {name!r}", searched=searched)
    elif type(estimator) in HEADS:
        yield from _own_reasons(estimator, path, is_head=True)
        yield from (f"{path}: {r}" for r in HEADS[type(estimator)].refusals(estimator))
        yield from _head_values(estimator, path, searched)
    else:
        known = ", ".join(kind.__name__ for kind in HEADS)
        yield (
            f"{path}: {type(estimator).__name__} is not a head whose minimiser can be certified. "
            f"Use one of {known}, alone or at the end of a Pipeline or inside GridSearchCV."
        )


def _head_values(head: Any, path: str, searched: bool) -> Iterator[str]:
    chooses = "cv" in head.get_params(deep=False)
    random = getattr(head, "solver", None) in ("sag", "saga", "liblinear")
    random = random or type(head).__name__ == "LinearSVC"
    if (searched or chooses) and random and not _is_seed(head.get_params()["random_state"]):
        yield (
            f"{path}: this solver draws random numbers while hyperparameters are chosen. Set "
            "random_state to an integer."
        )
    yield from _values(head, path, skip=("random_state",))


def _parts(part: Any, path: str) -> Iterator[str]:
    """Reasons in a transformer and in all that it contains."""
    if part in (None, "passthrough", "drop"):
        return
    yield from _own_reasons(part, path)
    yield from _values(part, path)


def _own_reasons(part: Any, path: str, *, is_head: bool = False) -> Iterator[str]:
    """Reasons in the parameters of one object."""
    if isinstance(part, FrozenEstimator):
        yield (
            f"{path}: FrozenEstimator keeps what was fitted before. Put the unfitted estimator in "
            "its place, or scale by fixed constants before fit (docs/how-to/keep_a_scaler.md)."
        )
    elif _keeps_state(part) or _has_state_on_class(part):
        yield f"{path}: {type(part).__name__} keeps state when it is cloned. Leave it out."
    parameters = part.get_params(deep=False) if hasattr(part, "get_params") else vars(part)
    if parameters.get("warm_start"):
        yield f"{path}: warm_start=True starts from an earlier fit. Set warm_start=False."
    if parameters.get("copy") is False:
        yield f"{path}: copy=False may overwrite the rows that are held. Set copy=True."
    if parameters.get("memory") is not None:
        yield f"{path}: memory= keeps fitted transformers on disk. Set memory=None."
    if parameters.get("prefit") or parameters.get("cv") == "prefit":
        yield f"{path}: a prefit estimator was fitted with the rows. Set prefit=False."
    if isinstance(parameters.get("cv"), PredefinedSplit) or not _is_splitter(parameters.get("cv")):
        yield (
            f"{path}: fixed splits do not fit rows that come and go. Pass a number of folds or a "
            "splitter such as KFold."
        )
    if parameters.get("transform_input") is not None:
        yield f"{path}: transform_input is not supported. Set transform_input=None."
    if not is_head and "random_state" in parameters and not _harmless(parameters):
        yield (
            f"{path}: random_state={parameters['random_state']!r} would differ between two runs. "
            "Set random_state to an integer."
        )


def _harmless(parameters: dict[str, Any]) -> bool:
    seed = parameters["random_state"]
    split_apart = seed == "deprecated" and hasattr(parameters.get("cv"), "split")
    return _is_seed(seed) or split_apart or parameters.get("shuffle") is False


def _is_seed(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_splitter(cv: Any) -> bool:
    return cv is None or isinstance(cv, int | str | np.integer) or hasattr(cv, "split")


def _has_state_on_class(part: Any) -> bool:
    """Whether a class of the user's own has attributes that can change, shared by all clones."""
    own = [c for c in type(part).__mro__ if not _is_library(c.__module__)]
    values = [v for c in own for k, v in vars(c).items() if not k.startswith(_BOOKKEEPING)]
    methods = [v for c in own for v in vars(c).values() if isinstance(v, types.FunctionType)]
    return any(_can_change(v) for v in values) or any(_uses_what_can_change(m) for m in methods)


def _can_change(value: Any) -> bool:
    return isinstance(value, _CHANGING)


def _is_library(module: str | None) -> bool:
    root = (module or "").split(".")[0]
    return root in ("builtins", "numpy", "pandas", "pilu", "scipy", "sklearn", "abc", "typing")


def _keeps_state(part: Any) -> bool:
    if "__sklearn_clone__" in getattr(part, "__dict__", {}):
        return True
    own = getattr(type(part), "__sklearn_clone__", None)
    return own is not None and own is not BaseEstimator.__sklearn_clone__


def _values(part: Any, path: str, skip: tuple[str, ...] = ()) -> Iterator[str]:
    """Reasons in the values of an object's parameters: nested estimators, functions, splitters."""
    if not hasattr(part, "get_params"):
        return
    for name, value in part.get_params(deep=False).items():
        if name not in skip:
            yield from _value(value, f"{path}, {name}")


def _value(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list | tuple):
        named = len(value) > 1 and isinstance(value[0], str) and hasattr(value[1], "get_params")
        for item in value:
            yield from _value(item, f"{path} {value[0]!r}" if named else path)
    elif isinstance(value, dict):
        yield from _value(list(value.values()), path)
    elif isinstance(value, np.random.RandomState | np.random.Generator):
        yield f"{path}: a random generator moves on with every use. Pass an integer."
    elif hasattr(value, "get_params") and not isinstance(value, type):
        yield from _parts(value, path)
    elif hasattr(value, "split") and hasattr(value, "get_n_splits"):
        yield from _own_reasons(value, path)
    elif hasattr(value, "_score_func"):
        yield from _function(value._score_func, path)  # noqa: SLF001
    elif callable(value) and not isinstance(value, type):
        yield from _function(value, path)
    elif not isinstance(value, _CONSTANTS) and copy.deepcopy(value) is value:
        yield f"{path}: {value!r} would be the same object in every clone. Leave it out."


def _is_bound(value: Any) -> bool:
    """Whether a function belongs to an object other than its module."""
    owner = getattr(value, "__self__", None)
    return owner is not None and not isinstance(owner, types.ModuleType)


def _uses_what_can_change(
    function: types.FunctionType, seen: frozenset[types.CodeType] = frozenset()
) -> bool:
    """Whether a function sets a global, or uses a default or a global that can change.

    It follows the functions that it calls by name. State that is better hidden is not noticed.
    """
    code, known = function.__code__, function.__globals__
    if code in seen:
        return False
    seen = seen | {code}
    used = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    names, sets_a_global = _names_in(code)
    used += [known[name] for name in names if name in known]
    return sets_a_global or any(_may_change(value, seen) for value in used)


def _may_change(value: Any, seen: frozenset[types.CodeType]) -> bool:
    if isinstance(value, types.FunctionType):
        own = not _is_library(value.__module__)
        return (bool(vars(value)) and own) or (own and _uses_what_can_change(value, seen))
    harmless = (*_CONSTANTS, types.ModuleType, re.Pattern, logging.Logger, *_PLAIN_FUNCTIONS)
    return not isinstance(value, harmless)


def _names_in(code: types.CodeType) -> tuple[set[str], bool]:
    """Global names that code uses, and whether it sets one."""
    names, sets = (
        set(code.co_names),
        any(i.opname == "STORE_GLOBAL" for i in dis.get_instructions(code)),
    )
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more, also = _names_in(inner)
            names, sets = names | more, sets or also
    return names, sets


def has_foreign_parts(estimator: Any) -> bool:
    """Whether an estimator contains classes or functions that no known library defines."""
    values = [estimator, *estimator.get_params(deep=True).values()]
    return any(_is_foreign(v) for v in values)


def _is_foreign(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_is_foreign(v) for v in value)
    if isinstance(value, dict):
        return any(_is_foreign(v) for v in value.values())
    value = getattr(value, "_score_func", value)
    named = value if callable(value) and hasattr(value, "__name__") else type(value)
    return not _is_library(named.__module__)


def _function(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, functools.partial):
        yield from _function(value.func, path)
        yield from _value([*value.args, *value.keywords.values()], path)
    elif _is_bound(value):
        yield f"{path}: a bound method may carry fitted state. Pass a plain function."
    elif isinstance(value, _PLAIN_FUNCTIONS) and _is_library(getattr(value, "__module__", "numpy")):
        return
    elif getattr(value, "__closure__", None):
        yield (
            f"{path}: a function that refers to variables around it may carry fitted state. Pass "
            "constants by kw_args= or functools.partial."
        )
    elif isinstance(value, types.FunctionType) and _uses_what_can_change(value):
        yield (
            f"{path}: {value.__name__} uses a global variable or a default that can change, and so "
            "may carry state from one fit to the next. Make it a function of its rows."
        )
    elif not isinstance(value, _PLAIN_FUNCTIONS):
        yield f"{path}: {value!r} is an object with state. Pass a plain function."
