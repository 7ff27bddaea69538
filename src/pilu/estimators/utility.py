"""Predicted utility: the score on validation data after a request, and the time it takes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from pilu._checks import complaint
from pilu.chains.chain import Chain, SystemGaussian
from pilu.chains.predictions import Predictions, Prospect, expected_accuracy, expected_rmse
from pilu.chains.problem import Law
from pilu.chains.schedule import Segment
from pilu.data.rows import Request
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]


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
            has_length = hasattr(pair, "__len__") and not isinstance(pair, str)
            given = f"{type(pair).__name__} of length {len(pair)}" if has_length else pair
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


def read_validation(model: Any, pair: Any) -> Validation:
    """Validation data of a fitted estimator, checked."""
    fitted = model.fitted_
    if not fitted.chain.law(corrected=True).is_gaussian:
        raise WrongInput(
            "validation must be None for losses other than ridge: the score after a request has no "
            "closed form. Score a copy of the model before and after."
        )
    return Validation.of(
        pair,
        model.read_rows,
        n_targets=fitted.chain.theta.shape[1],
        fit_intercept=fitted.source.fit_intercept,
        is_classifier=is_classifier(model),
    )


class Appraiser:
    """Expected scores under a law on validation data, for requests of at most K steps."""

    def __init__(self, validation: Validation, law: Law, n_unlearn_steps: int) -> None:
        self.validation = validation
        self._forecast = law.forecast(validation.X, n_unlearn_steps)
        self.before = validation.score(self._forecast.before)

    def scores(self, request: Request, noise: float, n_unlearn_steps: int) -> tuple[float, float]:
        """Scores after the Langevin request with this noise, and after a redraw."""
        (prospect,), redraw = self.prospects(request, (n_unlearn_steps,))
        return self.validation.score(prospect.at(noise)), redraw

    def prospects(
        self, request: Request, steps: tuple[int, ...]
    ) -> tuple[tuple[Prospect, ...], float]:
        """The predictions for every K as a function of the noise, and the score of a redraw."""
        forecast = self._forecast.without(*request)
        return tuple(forecast.after(k) for k in steps), self.validation.score(forecast.redraw)


def predict_utility(
    validation: Validation,
    chain: Chain,
    groups: Sequence[NDArray[np.intp]],
    noise: Array,
    seconds: Array,
    n_unlearn_steps: int,
) -> Utility:
    """The utility of quoted requests; `seconds` are the calibration times."""
    law = chain.law()
    appraiser = Appraiser(validation, law, n_unlearn_steps)
    scores = np.empty((len(groups), 2))
    with law.threads():
        for i, rows in enumerate(groups):
            request = Request.read(chain.problem.source, rows)
            scores[i] = appraiser.scores(request, float(noise[i]), n_unlearn_steps)
    if len(groups):
        request = Request.read(chain.problem.source, groups[0])
        started = time.perf_counter()
        # Everything that `unlearn` does after the calibration, on objects that are discarded.
        problem = chain.problem.without(groups[0], request.X, request.Y)
        chain.forgetting(problem, Segment(n_unlearn_steps, float(noise[0])), SystemGaussian())
        seconds = seconds + (time.perf_counter() - started)
    return Utility(
        validation.metric,
        appraiser.before,
        scores[:, 0].copy(),
        scores[:, 1].copy(),
        seconds,
        _redraw_seconds(chain),
    )


def utility_record(
    validation: Validation, chain: Chain, request: Request, segment: Segment | None, seconds: float
) -> dict[str, Any]:
    """The utility of a request that was just forgotten, as a certificate records it.

    `chain` is the one before the request. Without a segment, the request was a redraw.
    """
    steps, noise = segment or Segment(1, 0.0)
    appraiser = Appraiser(validation, chain.law(), steps)
    after, redraw = appraiser.scores(request, noise, steps)
    return {
        "metric": validation.metric,
        "before": appraiser.before,
        "after": redraw if segment is None else after,
        "redraw": redraw,
        "seconds": seconds,
        "redraw_seconds": seconds if segment is None else _redraw_seconds(chain),
    }


def _redraw_seconds(chain: Chain) -> float:
    """Time of a redraw, measured by some of its steps, which are discarded."""
    steps, noise = chain.schedule.segments[0]
    some, eigenbasis = chain.problem.timing_sample(steps)  # none at stationarity: one draw
    started = time.perf_counter()
    chain.forgetting(chain.problem, Segment(some, noise), SystemGaussian())
    return eigenbasis + (time.perf_counter() - started) * (steps / some if some else 1.0)
