"""One table over methods and requests, and the methods by name."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from pilu._checks import complaint
from pilu._extras import need
from pilu._progress import progress_bar
from pilu.baselines.descent import DescentToDelete
from pilu.baselines.dp_gd import DPGD
from pilu.baselines.interface import Answer, Learned, Method, Rows, Task, point_mass
from pilu.baselines.langevin import Langevin, Redraw, Retraining
from pilu.baselines.leave_one_out import LeaveOneOut, ProjectiveResidual
from pilu.baselines.newton import NewtonStep
from pilu.baselines.refit import Refit
from pilu.baselines.uniform import UniformLangevin
from pilu.chains.predictions import Predictions
from pilu.data.targets import ClassTargets
from pilu.estimators.base import LangevinEstimator
from pilu.estimators.requests import separate
from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
from pilu.estimators.utility import Validation
from pilu.exceptions import PiluError, WrongInput

if TYPE_CHECKING:
    import pandas as pd
    from tqdm import tqdm

Array = NDArray[np.float64]
Argument = TypeVar("Argument")
Result = TypeVar("Result")

METHODS: dict[str, Method] = {
    "refit": Refit(),
    "pilu-exact": Langevin("exact"),
    "pilu-theorem": Langevin("theorem"),
    "redraw": Redraw(),
    "retraining": Retraining(),
    "uniform-gdp": UniformLangevin("gdp"),
    "uniform-renyi": UniformLangevin("renyi"),
    "dp-gd": DPGD(accounting="gdp"),
    "dp-gd-renyi": DPGD(accounting="renyi"),
    "descent-to-delete": DescentToDelete(),
    "leave-one-out": LeaveOneOut(),
    "leave-one-out-early": LeaveOneOut(converged=False),
    "newton": NewtonStep(),
    "newton-bound": NewtonStep(converged=False, accounting="bound"),
    "newton-measured": NewtonStep(converged=False, accounting="measured"),
    "projective-residual": ProjectiveResidual(),
}

_COLUMNS = (
    "method",
    "request",
    "epsilon",
    "delta",
    "certified",
    "test_error",
    "seconds",
    "rows_touched",
    "expected_error",
    "learned_error",
    "metric",
    "fit_seconds",
    "n_rows",
    "noise",
    "guarantee",
)

_QUICK, _REPEATS = 1.0, 2  # seconds up to which an answer is timed again, and how often


def compare(
    X: Any,
    y: Any,
    requests: Iterable[int | Sequence[int]] | int,
    *,
    epsilon: float,
    delta: float | None = None,
    methods: "Iterable[str | Method] | None" = None,
    X_test: Any = None,
    y_test: Any = None,
    model: LangevinEstimator | None = None,
    n_unlearn_steps: int = 80,
) -> "pd.DataFrame":
    """How each method answers each request: claim, error, time, rows read.

    Every method learns once from all rows and answers every request as if it were the only one.

    Parameters
    ----------
    X, y : array-like
        Training data. Floats in y are targets; anything else (integers, text) is labels.
    requests : row number, or iterable of row numbers and groups of them
    epsilon : float > 0
    delta : float in (0, 1), optional
        None is 1/n.
    methods : iterable of names and method objects, optional
        None is every entry of `pilu.baselines.METHODS`.
    X_test, y_test : array-like, optional
        Data to measure errors on; without them they are NaN.
    model : LangevinRidge, LangevinRidgeClassifier, LangevinLogistic or LangevinHuber, optional
        Defines what is learned and how (the loss, `alpha`, `n_steps`, `noise`, `fit_intercept`,
        `random_state`), and whether y holds labels. None is ridge with its defaults. Every method
        learns with the model's loss, and refuses it if its proof does not cover it.
    n_unlearn_steps : int
        K, for the methods that take steps.

    Returns
    -------
    frame : pandas.DataFrame
        One line for each method and request:

        - `method`, `request` (a tuple of rows), `n_rows`
        - `epsilon`, `delta`, `certified`, `guarantee` (in words): epsilon is inf if nothing is
          claimed, and certified is False if the claim is not proved
        - `test_error` of the parameters drawn, `expected_error` under the method's law if it has a
          closed form (ridge), `learned_error` before the request; `metric` is "rmse" or "error
          rate"
        - `seconds` of the answer (the least of three if it is quick), `fit_seconds` of learning,
          `rows_touched` (each as often as it was read)
        - `noise`, in the method's own units
        - `residual`, `distance`, ...: further numbers of single methods

        A method that refuses a request has NaN for its numbers and the reason in `guarantee`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import pilu
    >>> X, y = load_diabetes(return_X_y=True)
    >>> frame = pilu.compare(X, y, [3], epsilon=1.0, methods=["redraw", "projective-residual"])
    >>> frame[["method", "epsilon", "certified"]].to_string(index=False).split()[3:]
    ['redraw', '0.0', 'True', 'projective', 'residual', 'inf', 'False']
    """
    need("pandas", for_="compare", extra="pandas")
    import pandas as pd

    chosen = _resolved(methods)
    if model is None:
        floats = np.asarray(y).dtype.kind == "f"
        model = LangevinRidge() if floats else LangevinRidgeClassifier()
    task = Task.of(model, X, y, epsilon=epsilon, delta=delta, n_unlearn_steps=n_unlearn_steps)
    groups, errors = _listed(requests, task), _TestErrors(task, X_test, y_test)
    lines = []
    with progress_bar(len(chosen) * (1 + len(groups)), what="comparing", unit="answer") as bar:
        for method in chosen:
            bar.set_description(method.name)
            lines += _lines(method, task, groups, errors, bar)
    frame = pd.DataFrame(lines)
    further = [name for name in frame.columns if name not in _COLUMNS]
    return frame.reindex(columns=[*_COLUMNS, *further])


def _lines(
    method: Method, task: Task, requests: list[Rows], errors: "_TestErrors", bar: "tqdm[NoReturn]"
) -> list[dict[str, Any]]:
    # A new task: what one method has computed must not save time for another.
    learned, fit_seconds = _timed(method.fit, replace(task))
    bar.update()
    lines = []
    for rows in requests:
        line: dict[str, Any] = {"method": method.name, "request": tuple(rows.tolist())}
        if isinstance(learned, Learned):
            answer, seconds = _timed(learned.respond, rows)
            for _ in range(_REPEATS if seconds < _QUICK else 0):  # tables are built by the first
                seconds = min(seconds, _timed(learned.respond, rows)[1])
            line |= _refused(answer) if isinstance(answer, str) else _filled(answer, errors)
            line |= {"seconds": seconds, "learned_error": errors.of(learned.theta)}
        else:
            line |= _refused(learned)
        line |= {"fit_seconds": fit_seconds, "n_rows": len(rows), "metric": errors.metric}
        lines.append(line)
        bar.update()
    return lines


def _filled(answer: Answer, errors: "_TestErrors") -> dict[str, Any]:
    return {
        "epsilon": answer.epsilon,
        "delta": answer.delta,
        "certified": answer.certified,
        "test_error": errors.of(answer.theta),
        "rows_touched": answer.rows_touched,
        "expected_error": errors.expected(answer),
        "noise": answer.noise,
        "guarantee": answer.guarantee,
        **answer.details(),
    }


def _refused(reason: str) -> dict[str, Any]:
    return {"certified": False, "rows_touched": 0, "guarantee": f"refused: {reason}"}


def _timed(call: Callable[[Argument], Result], argument: Argument) -> tuple[Result | str, float]:
    """The result of a call, or the reason of its refusal, and the seconds that it took."""
    started = time.perf_counter()
    try:
        return call(argument), time.perf_counter() - started
    except (ValueError, ArithmeticError, PiluError) as refusal:
        return str(refusal), time.perf_counter() - started


def _resolved(methods: Iterable[str | Method] | None) -> list[Method]:
    """Methods given by name or as objects; None is all of them."""
    if methods is None:
        return list(METHODS.values())
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        methods = [methods]
    resolved = [_resolve_one(method) for method in methods]
    names = [method.name for method in resolved]
    twice = {name for name in names if names.count(name) > 1}
    if not resolved or twice:
        raise complaint("methods", "at least one, with distinct names", sorted(twice) or resolved)
    return resolved


def _resolve_one(method: str | Method) -> Method:
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]
    if not isinstance(method, str | type) and hasattr(method, "fit") and hasattr(method, "name"):
        return method
    names = ", ".join(map(repr, METHODS))
    raise complaint("methods", f"among {names}, or method objects", method)


def _listed(requests: Any, task: Task) -> list[Rows]:
    listed = separate(requests)
    if not listed:
        raise complaint("requests", "at least one row number or group", requests)
    return [task.rows(request) for request in listed]


class _TestErrors:
    """Errors on test data: RMSE of targets, or the share of labels that are wrong."""

    def __init__(self, task: Task, X_test: Any, y_test: Any) -> None:
        model = task.model
        self.metric = "error rate" if is_classifier(model) else "rmse"
        self._has_closed_forms = task.closed_forms is not None
        # Two classes may have one score, that of the second; Validation compares two.
        self._one_score = is_classifier(model) and task.Y.shape[1] == 1
        self._held_out: Validation | None = None
        if (X_test is None) != (y_test is None):
            given = "X_test" if y_test is None else "y_test"
            raise WrongInput(f"X_test and y_test must be given together, got only {given}.")
        if X_test is None:
            return
        held_out = Validation.of(
            (X_test, y_test),
            model.read_rows,
            n_targets=task.Y.shape[1],
            fit_intercept=bool(model.fit_intercept),
            is_classifier=is_classifier(model),
            name="(X_test, y_test)",
        )
        if isinstance(model.targets_, ClassTargets):
            held_out = replace(held_out, Y=model.targets_.members(held_out.Y))
        self._held_out = held_out

    def of(self, theta: Array) -> float:
        """The error of given parameters."""
        if self._one_score:
            theta = np.hstack([np.zeros_like(theta), theta])
        return self._error(point_mass(theta))

    def expected(self, answer: Answer) -> float:
        """The expected error under a method's law, which is known for squares only."""
        return self._error(answer.predictions if self._has_closed_forms else None)

    def _error(self, predictions: Callable[[Array], Predictions] | None) -> float:
        if self._held_out is None or predictions is None:
            return np.nan
        score = self._held_out.score(predictions(self._held_out.X))
        return 1 - score if self._held_out.is_classifier else score
