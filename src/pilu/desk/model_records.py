"""A fitted estimator as plain numbers and arrays, and back: what a store keeps of it.

It keeps what the problem supplies (`Problem.record` and `Problem.arrays`), the parameters, keyed
digests of the rows that are left, the schedule and the running total. It keeps no rows, names,
seeds of the chain's noise, evidence or auxiliary runs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.curves import Spent
from pilu.chains.chain import Chain
from pilu.chains.schedule import Schedule
from pilu.data.rows import RowSource
from pilu.data.targets import NumericTargets
from pilu.estimators.fitted import Fitted
from pilu.estimators.outputs import LangevinClassifier, read_classes
from pilu.estimators.requests import RowBook
from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
from pilu.estimators.smooth import LangevinHuber, LangevinLogistic

Model = LangevinRidge | LangevinRidgeClassifier | LangevinLogistic | LangevinHuber
Arrays = Mapping[str, NDArray[Any]]

KINDS: dict[str, type[Model]] = {
    "regression": LangevinRidge,
    "classification": LangevinRidgeClassifier,
    "logistic": LangevinLogistic,
    "huber": LangevinHuber,
}


def arrays_of(model: Model) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays by name. The eigenbasis comes last: the others are written while it is computed."""
    chain, source = model.fitted_.chain, model.fitted_.source
    yield "theta", chain.theta
    yield "start", chain.start
    yield "live", source.live
    yield "digests", source.digests
    yield from chain.problem.arrays()


def record_of(model: Model) -> dict[str, Any]:
    """Everything else that a store keeps of a model, as plain numbers."""
    fitted = model.fitted_
    chain, problem = fitted.chain, fitted.chain.problem
    kind = next(name for name, kind in KINDS.items() if type(model) is kind)
    return {
        "kind": kind,
        "parameters": {**model.get_params(), "random_state": None},
        "n_features": int(model.n_features_in_),
        "step_size": chain.step_size,
        "schedule": model.schedule_,
        "private": chain.private,
        "fit_intercept": fitted.source.fit_intercept,
        "alpha": problem.alpha,
        "auxiliary_seed": None,
        **problem.record(),
        "spent": fitted.spent.record(),
        "certificates": list(fitted.certificates),
        "n_requests": fitted.n_requests,
        "classes": model.classes_.tolist() if isinstance(model, LangevinClassifier) else None,
    }


def restore_model(
    record: Mapping[str, Any],
    arrays: Arrays,
    key: bytes,
    class_counts: list[int] | None = None,
    *,
    latest: str | None,
) -> Model:
    """The model, without its rows; `latest` is the hash of its last certificate."""
    model, n_features = KINDS[record["kind"]](**record["parameters"]), int(record["n_features"])
    fit_intercept, live = bool(record["fit_intercept"]), arrays["live"]
    source = RowSource(None, n_features, fit_intercept, live, arrays["digests"], key)
    chain = Chain(
        model.restore_problem(record, arrays, source),
        float(record["step_size"]),
        arrays["start"],
        Schedule.from_record(record["schedule"]),
        arrays["theta"],
        bool(record["private"]),
    )
    fitted = Fitted(
        chain,
        RowBook(None, None, key),
        Spent.from_record(record["spent"]),
        tuple(record["certificates"]),
        int(record["n_requests"]),
        latest=latest,
        class_counts=None if class_counts is None else np.array(class_counts, dtype=np.float64),
    )
    if isinstance(model, LangevinClassifier):
        classes = np.array(record["classes"])
        return model.adopt(fitted, read_classes(classes, signed=model.signed), n_features)
    return model.adopt(fitted, NumericTargets(int(chain.theta.shape[1])), n_features)
