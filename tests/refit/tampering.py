"""Ways to tamper with a certificate, a released model or its rows.

Generators of (name, tampered object). The originals are not changed. Certificates come in two
kinds: `careless` ones contradict themselves, and `pilu.verify(certificate)` must notice; `careful`
ones are consistent again, hashes and all, and only the model or the rows can tell.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from pilu import Certificate

HASHES = ("transformers_sha256", "rows_sha256", "program_sha256")


def careless_certificates(certificate: Any) -> Iterator[tuple[str, Any]]:
    """Certificates, or texts of some, that `pilu.verify` must not accept."""
    record = json.loads(certificate.to_json())

    def changed(name: str, value: Any) -> tuple[str, str]:
        return name, json.dumps({**record, name: value})

    for name in ("epsilon", "epsilon_target", "delta", "noise", "mu"):
        for factor in (0.5, 2.0, 0.0, -1.0):
            yield changed(name, record[name] * factor)
    for name in ("total_epsilon", "total_delta"):
        yield changed(name, record[name] * 0.5)
    yield changed("rows", [*record["rows"], 7])
    yield changed("rows", record["rows"][1:])
    yield changed("rows", record["rows"] * 2)
    yield changed("method", "redraw")
    yield changed("n_unlearn_steps", 3)
    yield changed("schedule", [[1, 0.5]])
    yield changed("batch_size", 8)
    yield changed("parameters_sha256", "0" * 64)
    yield changed("evidence_sha256", "0" * 64)
    yield changed("conditional_on", ["0" * 64])
    yield changed("accountant", {"name": "theorem"})
    yield changed("versions", {**record["versions"], "pilu": "9.9"})
    for name, value in record["scope"].items():
        if isinstance(value, bool):
            yield changed("scope", {**record["scope"], name: not value})
    yield changed("scope", {})
    for name, value in tampered_evidence(record["evidence"]):
        yield f"evidence: {name}", json.dumps({**record, "evidence": value})


def tampered_evidence(evidence: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("radius", "score_noise"):
        for factor in (0.5, 2.0):
            yield f"{name} times {factor}", {**evidence, name: evidence[name] * factor}
    yield "n_rows", {**evidence, "n_rows": evidence["n_rows"] + 1}
    yield "strong_convexity", {**evidence, "strong_convexity": "penalty "}
    yield "strong_convexity unproved", {**evidence, "strong_convexity": "none"}
    for name in HASHES:
        yield name, {**evidence, name: "0" * 64}
    for name in evidence:
        yield f"without {name}", {k: v for k, v in evidence.items() if k != name}


def careful_certificates(certificate: Any) -> Iterator[tuple[str, Any]]:
    """Consistent certificates of something else; `pilu.verify(certificate)` alone cannot tell."""
    evidence = dict(certificate.evidence)
    for name, value in tampered_evidence(evidence):
        if name in (*HASHES, "n_rows") or name.startswith("score_noise"):
            yield name, certificate.resting_on(value)
    record = json.loads(certificate.to_json())
    for name, value in (("parameters_sha256", "0" * 64), ("rows", [*record["rows"], 7])):
        other = Certificate.from_json(json.dumps({**record, name: value}))
        yield name, other.resting_on(evidence)
    doubled = {**record, "noise": record["noise"] * 2}
    other = Certificate.from_json(json.dumps(doubled))
    yield "noise and radius", other.resting_on({**evidence, "radius": evidence["radius"] * 2})


def _arrays(step: Any) -> Iterator[str]:
    for name, value in vars(step).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            yield name


def _parts(step: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Fitted objects inside a step, itself included."""
    yield path, step
    for name in ("transformers_", "transformer_list", "steps"):
        for item in getattr(step, name, ()):
            if hasattr(item[1], "get_params"):
                yield from _parts(item[1], f"{path}.{item[0]}")


def tampered_models(released: Any) -> Iterator[tuple[str, Any]]:
    """Copies of a released estimator with one fitted attribute changed."""
    steps = getattr(released, "steps", [("head", released)])
    for index, (step_name, step) in enumerate(steps):
        for number, (path, part) in enumerate(_parts(step, step_name)):

            def fresh(index: int = index, number: int = number, name: str = step_name) -> Any:
                model = copy.deepcopy(released)
                inner = model.steps[index][1] if hasattr(model, "steps") else model
                return model, list(_parts(inner, name))[number][1]

            for attribute in _arrays(part):
                for what in ("last digit", "sign", "one more"):
                    model, target = fresh()
                    value = getattr(target, attribute).copy()
                    if not value.size or (what == "sign" and not value.flat[0]):
                        continue
                    if what == "last digit":
                        value.flat[0] = np.nextafter(value.flat[0], np.inf)
                    elif what == "sign":
                        value.flat[0] = -value.flat[0]
                    else:
                        value = np.append(value, 0.0)
                    setattr(target, attribute, value)
                    yield f"{path}.{attribute}: {what}", model
            if isinstance(getattr(part, "intercept_", None), float):
                model, target = fresh()
                target.intercept_ = np.nextafter(target.intercept_, np.inf)
                yield f"{path}.intercept_: last digit", model
            if hasattr(part, "categories_"):
                model, target = fresh()
                target.categories_ = [v[::-1] for v in target.categories_]
                yield f"{path}.categories_: reversed", model
            if hasattr(part, "classes_"):
                model, target = fresh()
                target.classes_ = target.classes_[::-1]
                yield f"{path}.classes_: reversed", model
    if len(steps) > 1:
        model = copy.deepcopy(released)
        model.steps[0] = (model.steps[0][0], "passthrough")
        yield "first step: passthrough", model
        model = copy.deepcopy(released)
        model.steps.insert(0, ("more", copy.deepcopy(model.steps[0][1])))
        yield "first step: twice", model


def tampered_tables(X: Any, y: Any) -> Iterator[tuple[str, Any, Any]]:
    """(name, X, y): rows changed, dropped, doubled, made up; the order of rows is kept."""
    X, y = (X.copy() if isinstance(X, pd.DataFrame) else np.array(X)), np.array(y)

    def take(rows: Any) -> tuple[Any, Any]:
        return (X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]), y[rows]

    every = np.arange(len(y))
    yield "a row dropped", *take(every[1:])
    yield "a row twice", *take(np.append(every, 0))
    yield "a row instead of another", *take(np.append(every[1:], 1))
    yield "no rows", *take(every[:0])
    other = y.copy()
    other[0] = y[y != y[0]][0]
    yield "a target changed", X, other
    changed = X.copy()
    if isinstance(X, pd.DataFrame):
        numeric = X.select_dtypes("number").columns
        changed.loc[changed.index[0], numeric[0]] = np.nextafter(X[numeric[0]].iloc[0], np.inf)
        yield "a number changed", changed, y
        yield "two columns' values swapped", X.assign(**{numeric[0]: X[numeric[1]].to_numpy()}), y
        yield "a column dropped", X.drop(columns=numeric[0]), y
        yield "names of columns", X.rename(columns={a: f"{a}?" for a in numeric}), y
    else:
        changed[0, 0] = np.nextafter(X[0, 0], np.inf)
        yield "a number changed", changed, y
        yield "two columns swapped", X[:, ::-1], y
        yield "a column dropped", X[:, 1:], y
