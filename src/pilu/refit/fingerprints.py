"""Hashes of fitted objects by their content, the same in every process."""

import functools
import hashlib
import pickle
import types
from typing import Any

import numpy as np
import scipy.sparse as sp

_PLACES_IN_MEMORY = {"_stop_words_id"}  # a text vectoriser keeps id(stop_words)


def fingerprint(value: Any) -> str:
    """SHA-256 of a fitted transformer, or of anything that one is made of."""
    digest = hashlib.sha256()
    _add(digest, value, [])
    return digest.hexdigest()


def _add(digest: Any, value: Any, above: list[int]) -> None:
    """Feed a value to the hash: its type, then its content; every item with its length."""
    if id(value) in above:
        digest.update(b"<the same again>")
        return
    above = [*above, id(value)]
    if isinstance(value, np.generic):
        value = value.item()
    _text(digest, f"{type(value).__module__}.{type(value).__qualname__}")
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        _text(digest, repr(value))
    elif isinstance(
        value, np.dtype | type | types.FunctionType | types.BuiltinFunctionType | np.ufunc
    ):
        _text(digest, f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', value)}")
        if isinstance(value, types.FunctionType):
            _add_code(digest, value.__code__)
            _add_items(digest, [value.__defaults__, value.__kwdefaults__], above)
    elif isinstance(value, np.ma.MaskedArray):
        _add_items(digest, [value.data, np.ma.getmaskarray(value)], above)
    elif isinstance(value, np.ndarray):
        _add_array(digest, value, above)
    elif sp.issparse(value):
        _add(digest, _triplets(value), above)
    elif isinstance(value, list | tuple):
        _add_items(digest, value, above)
    elif isinstance(value, dict):
        _add_items(digest, sorted(value.items(), key=lambda item: repr(item[0])), above)
    elif isinstance(value, set | frozenset):
        _add_items(digest, sorted(value, key=repr), above)
    elif hasattr(value, "to_numpy") and hasattr(value, "equals"):  # pandas
        names = [list(axis) for axis in getattr(value, "axes", ())]
        kinds = str(getattr(value, "dtypes", value.dtype if hasattr(value, "dtype") else ""))
        _add_items(digest, [names, kinds, np.asarray(value.to_numpy(), dtype=object)], above)
    elif isinstance(value, functools.partial):
        _add_items(digest, [value.func, value.args, value.keywords], above)
    elif isinstance(value, np.random.RandomState):
        _add(digest, value.get_state(legacy=False), above)
    elif getattr(value, "__dict__", None):
        kept = {k: v for k, v in vars(value).items() if k not in _PLACES_IN_MEMORY}
        _add(digest, kept, above)
    else:
        _bytes(digest, pickle.dumps(value, protocol=4))


def _add_code(digest: Any, code: types.CodeType) -> None:
    """What a function does, as bytecode: the same for the same version of Python."""
    _bytes(digest, code.co_code)
    _text(digest, repr(code.co_names))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(digest, constant)
        elif isinstance(constant, frozenset):  # its order differs from process to process
            _text(digest, repr(sorted(map(repr, constant))))
        else:
            _text(digest, repr(constant))


def _add_array(digest: Any, array: np.ndarray[Any, Any], above: list[int]) -> None:
    _text(digest, f"{array.shape}")
    if array.dtype.hasobject:
        _add_items(digest, array.ravel().tolist(), above)
    else:
        kind = array.dtype.newbyteorder("<")
        _text(digest, "text" if kind.kind == "U" else kind.str)
        flat = array.ravel().tolist() if kind.kind == "U" else None
        if flat is not None:  # by content: the width of a text column may come from another row
            _add_items(digest, flat, above)
        else:
            _bytes(digest, np.ascontiguousarray(array, dtype=kind).tobytes())


def _add_items(digest: Any, items: Any, above: list[int]) -> None:
    _text(digest, str(len(items)))
    for item in items:
        _add(digest, item, above)


def _triplets(matrix: Any) -> Any:
    """Rows, columns and values of what a sparse matrix holds; zeros alone as an array."""
    if matrix.nnz == 0:
        return matrix.tocoo().toarray()
    coo = matrix.tocsr().sorted_indices().tocoo()
    return matrix.shape, coo.row, coo.col, coo.data


def _text(digest: Any, text: str) -> None:
    _bytes(digest, text.encode("utf-8", "surrogatepass"))


def _bytes(digest: Any, raw: bytes) -> None:
    digest.update(f"{len(raw)}:".encode())
    digest.update(raw)
