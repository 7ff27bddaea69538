"""The program of a store: the default pipeline of its columns, or a function of the user's file.

A store keeps how to make the program, never the program itself. It is made again for every refit
and must have the fingerprint that it had at the fit. A fingerprint knows parameters and functions,
but not the methods of the user's own classes, so the user's file must be the same, too. Modules
that this file imports are not looked at.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator, clone

from pilu.exceptions import WrongInput
from pilu.refit.fingerprints import fingerprint
from pilu.tabular.layout import Layout
from pilu.tabular.pipelines import make_program


def describe_default(model: str, alpha: float | str) -> dict[str, Any]:
    """How to make the default pipeline."""
    return {"kind": "default", "model": model, "alpha": alpha}


def describe_file(pipeline: str) -> dict[str, Any]:
    """How to make a pipeline by a function of a file, given as "mine.py:make"."""
    path, colon, function = pipeline.rpartition(":")
    if not colon or not path.endswith(".py") or not function.isidentifier():
        raise WrongInput(
            f"pipeline must be a file and a function, such as mine.py:make, got {pipeline}."
        )
    where = Path(path).resolve()
    return {"kind": "file", "path": str(where), "function": function, "sha256": _hash_of(where)}


def program_of(record: Mapping[str, Any], layout: Layout, expected: str | None = None) -> Any:
    """The unfitted estimator; with `expected`, it must have this fingerprint."""
    if record["kind"] == "default":
        program = make_program(layout, model=record["model"], alpha=record["alpha"])
    else:
        path = Path(record["path"])
        if _hash_of(path) != record["sha256"]:
            raise _changed(str(path))
        program = _made_by(path, record["function"])
    if expected is not None and fingerprint(clone(program)) != expected:
        raise _changed(record.get("path", "pilu or scikit-learn"))
    return program


def _changed(what: str) -> WrongInput:
    return WrongInput(
        f"the pipeline is not the one of the fit: {what} was changed since. Restore it, or fit a "
        "new store with --successor-of."
    )


def _hash_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise WrongInput(
            f"pipeline must be in a Python file, got {path}: {error.strerror}."
        ) from None


def _made_by(path: Path, function: str) -> Any:
    module = _module(path)
    make = getattr(module, function, None)
    if not callable(make):
        raise WrongInput(f"pipeline must name a function of {path.name}, got {function!r}.")
    try:
        program = make()
    except Exception as error:
        raise WrongInput(
            f"{path.name}:{function} failed: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(program, BaseEstimator):
        raise WrongInput(
            f"{path.name}:{function} must return an unfitted scikit-learn estimator, got "
            f"{type(program).__name__}."
        )
    return program


def _module(path: Path) -> Any:
    """The file as a module under its own name, by which released transformers find their class."""
    name = path.stem
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(path):
            return known
        raise WrongInput(
            f"pipeline must be in a file with a name of its own, got {path.name}: there is a "
            f"module {name!r} already. Rename the file."
        )
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise WrongInput(f"pipeline must be in a Python file, got {path}: there is none.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise WrongInput(f"{path} cannot be run: {type(error).__name__}: {error}.") from error
    return module
