"""What a refit store hands out: the pipeline itself, or its numbers as JSON.

Both are what was released, noise included, so they are covered by the certificate that they name.
The JSON of the default pipeline is enough to predict without scikit-learn: docs/desk.md says how.
"""

import hashlib
import json
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from pilu.certify.certificate import sha256_of
from pilu.desk.refit_snapshot import RefitSnapshot
from pilu.desk.skops_files import skops_file
from pilu.refit.evidence import hash_of_release
from pilu.refit.program import head_of, transformers_of

SCHEMA = "pilu.release/3"


def skops_release(held: RefitSnapshot) -> tuple[bytes, dict[str, Any]]:
    """The fitted pipeline as a skops file, and what the log keeps of it."""
    content = skops_file(held.released)
    return content, {**_bound(held), "sha256": hashlib.sha256(content).hexdigest()}


def json_release(held: RefitSnapshot) -> tuple[bytes, dict[str, Any]]:
    """Coefficients and preprocessing as JSON, with a hash of all of it."""
    model, layout = held.released, held.layout
    head = head_of(model)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "target": layout.target,
        "columns": [list(pair) for pair in layout.kinds.items()],
        "head": type(head).__name__,
        "features": _names_after(model),
        "coefficients": np.atleast_2d(head.coef_).tolist(),
        "intercept": np.atleast_1d(head.intercept_).tolist(),
        "classes": head.classes_.tolist() if hasattr(head, "classes_") else None,
        "preprocessing": _numbers_of(model) if held.state["program"]["kind"] == "default" else None,
        **_bound(held),
    }
    record = {**record, "sha256": sha256_of(record)}
    return (json.dumps(record, indent=1, allow_nan=False) + "\n").encode(), record


def _bound(held: RefitSnapshot) -> dict[str, Any]:
    last = held.log.certified
    return {
        "certificate_sha256": None if last is None else last.certificate_sha256,
        "parameters_sha256": hash_of_release(held.released),
    }


def _names_after(model: Any) -> list[str] | None:
    """Names of the columns that reach the head, where the transformers know them."""
    steps = transformers_of(model)
    if not steps:
        return None
    try:
        return [str(name) for name in Pipeline(steps).get_feature_names_out()]
    except (AttributeError, ValueError):
        return None


def _numbers_of(model: Any) -> dict[str, Any]:
    """What the steps of the default pipeline learned, by step."""
    ((_, columns),) = transformers_of(model)
    learned: dict[str, Any] = {}
    for name, step, given in columns.transformers_:
        if step == "drop":
            continue
        listed = [given] if isinstance(given, str) else [str(column) for column in given]
        parts = [one for _, one in step.steps] if isinstance(step, Pipeline) else [step]
        numbers = {type(one).__name__: _attributes(one) for one in parts}
        learned[name] = {"columns": listed, **numbers}
    return learned


_LEARNED = (
    "statistics_",
    "mean_",
    "scale_",
    "categories_",
    "infrequent_categories_",
    "vocabulary_",
    "idf_",
)


def _attributes(step: Any) -> dict[str, Any]:
    """The fitted numbers and levels of a transformer."""
    found = {name: _plain(getattr(step, name)) for name in _LEARNED if hasattr(step, name)}
    if getattr(step, "indicator_", None) is not None:
        found["flags_of"] = _plain(step.indicator_.features_)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.tolist()]
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value
