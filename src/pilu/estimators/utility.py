"""Predicted utility: the score on validation data after a request, and the time it takes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from pilu._checks import complaint
from pilu._processes import blas_threads
from pilu.certify.accountant import Law
from pilu.chains.chain import Chain, SystemGaussian
from pilu.chains.predictions import Predictions, Prospect, expected_accuracy, expected_rmse
from pilu.chains.schedule import Segment
from pilu.data.rows import Request
from pilu.exceptions import WrongInput

__all__ = [
    "Appraiser",
    "Utility",
    "Validation",
    "langevin_record",
    "predict_utility",
    "read_validation",
    "redraw_record",
    "timed",
]

Array = NDArray[np.float64]
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True, eq=False)
class Utility:
    """Predicted score and time of every request of a quote, in the order of its requests.

    The scores are expectations under the chain's law, not those of realised parameters. They depend
    on the rows and on the validation data (docs/utility.md).

    Attributes
    ----------
    metric : {"rmse", "accuracy"}
        "rmse" is the root of the expected mean squared error over validation rows and targets.
        "accuracy" is the expected share of validation rows that are classified correctly.
    before : float
        Score of the current model.
    after : array
        Score after the request, by Langevin steps with the quoted noise.
    redraw : array
        Score after the request, by a redraw.
    seconds : array
        Time of the request by Langevin steps: the calibration, measured for each request, and a
        deletion with its steps, measured once.
    redraw_seconds : float
        Time of a redraw: the eigenbasis, measured when it was last computed, and a draw. On
        mini-batches, one cycle is measured and scaled to all steps.
    """

    metric: str
    before: float
    after: Array
    redraw: Array
    seconds: Array
    redraw_seconds: float

    def __post_init__(self) -> None:
        for array in (self.after, self.redraw, self.seconds):
            array.setflags(write=False)


@dataclass(frozen=True, eq=False)
class Validation:
    """Validation rows with the column of ones, and targets, n x d; one-hot for a classifier."""

    X: Array
    Y: Array
    is_classifier: bool

    @classmethod
    def of(
        cls,
        pair: Any,
        read: Callable[[Any, Any], tuple[NDArray[Any], Array]],
        *,
        n_targets: int,
        fit_intercept: bool,
        is_classifier: bool,
        name: str = "validation",
    ) -> "Validation":
        """Check a pair (X, y), which the estimator's `read` turns into arrays.

        `name` is what errors call the pair.
        """
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            given = f"{type(pair).__name__} of length {len(pair)}" if _has_length(pair) else pair
            raise complaint(name, "a pair (X, y)", given, "Pass validation=(X_val, y_val).")
        try:
            X, Y = read(*pair)
            X = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise WrongInput(
                f"{name} must be a pair (X, y) that the model can score: {error}"
            ) from None
        if len(X) != len(Y):
            raise complaint(name, "X and y with the same number of rows", (len(X), len(Y)))
        if Y.shape[1] != n_targets:
            raise complaint(name, f"a y with {n_targets} target(s)", Y.shape[1])
        for part, values in (("X", X), ("y", Y)):
            if not np.isfinite(values).all():
                wrong = float(values[~np.isfinite(values)][0])
                raise complaint(name, f"finite in {part}", wrong, "Drop or impute these rows.")
        if fit_intercept:
            X = np.hstack([X, np.ones((len(X), 1))])
        return cls(X, Y, is_classifier)

    @property
    def metric(self) -> str:
        """Name of the score."""
        return "accuracy" if self.is_classifier else "rmse"

    def score(self, predictions: Predictions) -> float:
        """The expected score of Gaussian predictions at the rows."""
        if not self.is_classifier:
            return expected_rmse(predictions, self.Y)
        # A label unknown to the model has no column.
        labels = np.where(self.Y.any(axis=1), np.argmax(self.Y, axis=1), -1)
        return expected_accuracy(predictions, labels)


def read_validation(model: Any, pair: Any, name: str = "validation") -> Validation | None:
    """Validation data of a fitted estimator, checked; None if there is none.

    `name` is what errors call the pair.
    """
    if pair is None:
        return None
    fitted = model.fitted_
    if not fitted.chain.law(corrected=True).is_gaussian:
        raise WrongInput(
            f"{name} must be None for losses other than ridge: the score after a request has no "
            "closed form. Score a copy of the model before and after."
        )
    return Validation.of(
        pair,
        model.read_rows,
        n_targets=fitted.chain.theta.shape[1],
        fit_intercept=fitted.source.fit_intercept,
        is_classifier=is_classifier(model),
        name=name,
    )


class Appraiser:
    """Expected scores under a law on validation data, for requests of at most K steps."""

    def __init__(self, validation: Validation, law: Law, n_unlearn_steps: int) -> None:
        self.validation = validation
        self._forecast = law.forecast(validation.X, n_unlearn_steps)
        self.before = validation.score(self._forecast.before)

    def scores(self, request: Request, noise: float, n_unlearn_steps: int) -> tuple[float, float]:
        """Scores after the Langevin request with this noise, and after a redraw."""
        forecast = self._forecast.without(*request)
        after = self.validation.score(forecast.after(n_unlearn_steps).at(noise))
        return after, self.validation.score(forecast.redraw)

    def prospects(
        self, request: Request, steps: tuple[int, ...]
    ) -> tuple[tuple[Prospect, ...], float]:
        """The predictions for every K as a function of the noise, and the score of a redraw."""
        forecast = self._forecast.without(*request)
        return tuple(forecast.after(k) for k in steps), self.validation.score(forecast.redraw)

    def record(
        self, after: float, redraw: float, seconds: float, redraw_seconds: float
    ) -> dict[str, Any]:
        """The predicted utility of one request, as a certificate records it."""
        return {
            "metric": self.validation.metric,
            "before": self.before,
            "after": after,
            "redraw": redraw,
            "seconds": seconds,
            "redraw_seconds": redraw_seconds,
        }


def predict_utility(
    validation: Validation,
    law: Law,
    chain: Chain,
    groups: Sequence[NDArray[np.intp]],
    noise: Array,
    seconds: Array,
    n_unlearn_steps: int,
) -> Utility:
    """The utility of quoted requests; `seconds` are the calibration times."""
    appraiser = Appraiser(validation, law, n_unlearn_steps)
    scores = np.empty((len(groups), 2))
    with blas_threads(law.blas_threads):
        for i, rows in enumerate(groups):
            request = Request.read(chain.problem.source, rows)
            scores[i] = appraiser.scores(request, float(noise[i]), n_unlearn_steps)
    if len(groups):
        request = Request.read(chain.problem.source, groups[0])
        segment = Segment(n_unlearn_steps, float(noise[0]))
        _, deletion = timed(_delete_and_discard, chain, groups[0], request, segment)
        seconds = seconds + deletion
    return Utility(
        validation.metric,
        appraiser.before,
        scores[:, 0].copy(),
        scores[:, 1].copy(),
        seconds,
        _redraw_seconds(chain),
    )


def langevin_record(
    validation: Validation,
    law: Law,
    chain: Chain,
    request: Request,
    segment: Segment,
    seconds: float,
) -> dict[str, Any]:
    """The utility of a request that was just forgotten by `segment`, from the law before it."""
    appraiser = Appraiser(validation, law, segment.steps)
    scores = appraiser.scores(request, segment.noise, segment.steps)
    return appraiser.record(*scores, seconds, _redraw_seconds(chain))


def redraw_record(
    validation: Validation, law: Law, request: Request, seconds: float
) -> dict[str, Any]:
    """The utility of a request that was just forgotten by a redraw, from the law before it."""
    appraiser = Appraiser(validation, law, 1)
    _, score = appraiser.scores(request, 0.0, 1)
    return appraiser.record(score, score, seconds, seconds)


def timed(
    call: Callable[Arguments, Result], *args: Arguments.args, **options: Arguments.kwargs
) -> tuple[Result, float]:
    """The result of a call and the seconds that it took."""
    started = time.perf_counter()
    result = call(*args, **options)
    return result, time.perf_counter() - started


def _redraw_seconds(chain: Chain) -> float:
    """Time of a redraw, measured by some of its steps, which are discarded."""
    steps, noise = chain.schedule.segments[0]
    some, eigenbasis = chain.problem.timing_sample(steps)
    _, seconds = timed(chain.forgetting, chain.problem, Segment(some, noise), SystemGaussian())
    return eigenbasis + seconds * steps / some


def _delete_and_discard(
    chain: Chain, rows: NDArray[np.intp], request: Request, segment: Segment
) -> None:
    # Everything that `unlearn` does after the calibration, on objects that are discarded.
    chain.forgetting(chain.problem.without(rows, request.X, request.Y), segment, SystemGaussian())


def _has_length(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str)
