"""A fitted pipeline as JSON, and back: data only, so that reading it runs no code.

An object is its class and its attributes. Classes are scikit-learn's, and those of the user's own
transformers, which the store names. Nothing is called but scikit-learn's losses: objects are made
without `__init__`, and their attributes are set. A class that does something when its objects are
thrown away is refused, and so is one that goes by another name than its own.

A store uses this format because importing skops takes a second; what is handed out is a skops file
(`desk.skops_files`).
"""

import base64
import json
from collections.abc import Sequence
from importlib import import_module
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from pilu.exceptions import StoreDamaged, WrongInput
from pilu.refit.evidence import hash_of_release

_OURS = ("sklearn", "numpy", "scipy", "builtins", "pilu")  # packages whose names need no trust
_PLAIN = (bool, int, float, str, type(None))
_REMEDY = "Use transformers whose attributes are numbers, texts, arrays and estimators."
_LOSSES = (
    "sklearn._loss._loss"  # compiled classes, of no or a few numbers, in regressors for counts
)
_SPARSE = (sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array)


def dump_model(model: Any) -> bytes:
    """A fitted estimator as bytes; an error says what in it cannot be kept."""
    content = json.dumps(_packed(model, "the pipeline"), separators=(",", ":")).encode()
    try:
        again = hash_of_release(load_model(content, foreign_names(content)))
    except StoreDamaged as error:
        raise WrongInput(
            f"the fitted pipeline cannot be kept in a store: {error} {_REMEDY}"
        ) from None
    if again != hash_of_release(model):
        raise WrongInput(
            "the fitted pipeline cannot be kept in a store: read again, it would be another one. "
            + _REMEDY
        )
    return content


def load_model(content: bytes, trusted: Sequence[str] = ()) -> Any:
    """The estimator in bytes; other classes than scikit-learn's must be among those trusted."""
    try:
        return _unpacked(json.loads(content), frozenset(trusted))
    except (KeyError, TypeError, ValueError, AttributeError, ImportError) as error:
        raise StoreDamaged(f"the model of the store cannot be read: {error!r}.") from None


def foreign_names(content: bytes) -> list[str]:
    """Classes and functions in a dumped model that belong to none of the known packages."""
    found: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            name = value.get("name")
            called = value.get("kind") == "function"  # a transformer calls it
            if isinstance(name, str) and (called or _package(name) not in _OURS):
                found.add(name)
            value = list(value.values())
        if isinstance(value, list):
            for one in value:
                look(one)

    look(json.loads(content))
    return sorted(found)


def _packed(value: Any, where: str) -> Any:
    """A value as JSON: plain ones as they are, all others as an object with a "kind"."""
    if type(value) is float and not np.isfinite(value):
        return {"kind": "float", "text": repr(value)}
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _packed_array(value, where)
    if type(value) in _SPARSE:
        parts = [getattr(value, name) for name in ("data", "indices", "indptr")]
        form = {"shape": list(value.shape), "parts": _packed(parts, where)}
        return {"kind": "sparse", "name": _name_of(type(value)), **form}
    if isinstance(value, np.dtype):
        return {"kind": "dtype", "text": value.str}
    if isinstance(value, slice):
        ends = [value.start, value.stop, value.step]
        return {"kind": "slice", "items": _packed(ends, where)}
    if type(value) is list:
        return [_packed(one, where) for one in value]
    if type(value) in (tuple, set, frozenset):
        items = sorted(value, key=repr) if type(value) is not tuple else value
        packed = [_packed(one, where) for one in items]
        return {"kind": type(value).__name__, "items": packed}
    if type(value) in (dict, Bunch):
        pairs = [[_packed(k, where), _packed(v, where)] for k, v in value.items()]
        return {"kind": "dict", "name": _name_of(type(value)), "pairs": pairs}
    if isinstance(value, type | np.ufunc):
        return {"kind": "named", "name": _name_of(value)}
    if isinstance(value, FunctionType | BuiltinFunctionType):
        return {"kind": "function", "name": _name_of(value)}
    if type(value).__module__ == _LOSSES:
        _, numbers, *_ = value.__reduce__()
        return {"kind": "loss", "name": _name_of(type(value)), "items": _packed([*numbers], where)}
    if type(value).__module__ == "builtins" or not hasattr(value, "__dict__"):
        raise WrongInput(
            f"the fitted pipeline cannot be kept in a store: {where} holds a "
            f"{type(value).__name__}. {_REMEDY}"
        )
    name = _name_of(type(value))
    pairs = [[k, _packed(v, f"{type(value).__name__}.{k}")] for k, v in vars(value).items()]
    return {"kind": "object", "name": name, "pairs": pairs}


def _packed_array(value: Any, where: str) -> dict[str, Any]:
    array = np.asarray(value)
    form = {"shape": list(array.shape), "scalar": isinstance(value, np.generic)}
    if array.dtype.hasobject:
        items = [_packed(one, where) for one in array.ravel().tolist()]
        return {"kind": "objects", **form, "items": items}
    raw = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"kind": "array", **form, "dtype": array.dtype.str, "raw": raw}


def _unpacked(value: Any, trusted: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_unpacked(one, trusted) for one in value]
    if not isinstance(value, dict):
        return value
    kind = value["kind"]
    if kind == "float":
        return float(value["text"])
    if kind in ("array", "objects"):
        return _unpacked_array(value, trusted)
    if kind == "dtype":
        return np.dtype(value["text"])
    if kind in ("tuple", "set", "frozenset", "slice"):
        items = _unpacked(value["items"], trusted)
        made = {"tuple": tuple, "set": set, "frozenset": frozenset}
        return slice(*items) if kind == "slice" else made[kind](items)
    named = _found(value["name"], trusted)
    if kind == "function" and value["name"] in trusted:
        return named
    if kind == "named" and isinstance(named, type | np.ufunc):
        return named
    if kind == "sparse" and named in _SPARSE:
        parts = tuple(_unpacked(value["parts"], trusted))
        return named(parts, shape=tuple(value["shape"]))
    if kind == "loss" and isinstance(named, type) and named.__module__ == _LOSSES:
        return named(*map(float, value["items"]))
    if kind not in ("dict", "object"):
        raise ValueError(f"{value['name']} must not be used as {kind!r}")
    pairs = {_unpacked(k, trusted): _unpacked(v, trusted) for k, v in value["pairs"]}
    if kind == "dict" and named in (dict, Bunch):
        return named(pairs)
    if kind != "object" or not isinstance(named, type) or hasattr(named, "__del__"):
        raise ValueError(f"{value['name']} must not be used as {kind!r}")
    made_of: Any = object.__new__(named)
    vars(made_of).update(pairs)
    return made_of


def _unpacked_array(value: dict[str, Any], trusted: frozenset[str]) -> Any:
    shape = tuple(value["shape"])
    if value["kind"] == "objects":
        array = np.empty(int(np.prod(shape)), dtype=object)
        array[:] = _unpacked(value["items"], trusted)
        return array.reshape(shape)
    flat = np.frombuffer(base64.b64decode(value["raw"]), dtype=np.dtype(value["dtype"]))
    array = flat.reshape(shape).copy()
    return array[()] if value["scalar"] else array


def _name_of(thing: Any) -> str:
    module = getattr(thing, "__module__", None) or "numpy"  # ufuncs have none
    return f"{module}:{getattr(thing, '__qualname__', thing.__name__)}"


def _found(name: str, trusted: frozenset[str]) -> Any:
    """The class or function of a name, if it may be used."""
    module, _, path = name.partition(":")
    if _package(name) not in _OURS and name not in trusted:
        raise ValueError(f"{name} is not among the names that the store trusts")
    thing: Any = import_module(module)
    for part in path.split("."):
        thing = getattr(thing, part)
    if _name_of(thing) != name:  # a module's import of something else
        raise ValueError(f"{name} is {_name_of(thing)}")
    return thing


def _package(name: str) -> str:
    return name.partition(":")[0].partition(".")[0]
