"""Exposure of a fitted `Forgetful`: who is asked about, what is measured, what a cap would cost."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_flag, check_integer, check_probability, check_real, complaint
from pilu._extras import need
from pilu.estimators.exposure import Exposure
from pilu.estimators.refitted import Refitted
from pilu.estimators.requests import RowBook
from pilu.exceptions import AlreadyForgotten, BeyondPrecision
from pilu.refit.fixed import covers_transformers
from pilu.refit.held_rows import Table
from pilu.refit.noise_scale import CapOutOfReach, best_noise, measure_people, with_noise
from pilu.refit.people import People
from pilu.refit.program import Prepared, head_of, prepare, standard_parameters
from pilu.refit.settings import Options
from pilu.refit.shape import Shape
from pilu.refit.shifts import Measured
from pilu.refit.solve import solve

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


def people_of(
    book: RowBook,
    live: NDArray[np.bool_],
    table: Table,
    *,
    requests: Any = None,
    subject: Any = None,
    subjects: Any = None,
) -> People:
    """The people who are asked about; by default everybody who is in the table."""
    try:
        names, groups = book.find_named(live, requests, subject=subject, subjects=subjects)
    except AlreadyForgotten as error:
        raise AlreadyForgotten(
            f"{str(error).removesuffix('; nothing was changed.')}. What earlier releases told is "
            "in `earlier_releases` of the certificate of that request, where it is known."
        ) from None
    return People(names, tuple(tuple(rows.tolist()) for rows in groups), table)


def expose(fitted: Refitted, table: Table, people: People, delta: float, exact: bool) -> Exposure:
    """Exposure of people by the present release, with the settings that it was made with."""
    delta = check_probability("delta", delta)
    exact = check_flag("exact", exact)
    prepared, theta, within = _solved(fitted, table)
    measured = measure_people(prepared, theta, within, people, prepared.shape, exact=exact)
    asked = (prepared.noise, prepared.charge, delta)
    return Exposure(
        people.names,
        people.numbers,
        measured.epsilons(*asked),
        delta,
        covers_transformers(prepared),
        fitted.noise_scale,
        partial(measured.epsilons, *asked, least=True),
    )


def _solved(fitted: Refitted, table: Table) -> tuple[Prepared, Array, float]:
    """The program of the present release, its minimiser, and the distance to which it is proved."""
    options = fitted.options
    prepared = prepare(fitted.program, table, options, fitted.kept)  # its Gram matrix will do
    if fitted.noise_scale is not None:
        shape = Shape.of(prepared.objective, penalty_factor=fitted.penalty_factor)
        prepared = with_noise(prepared, options, fitted.noise_scale, shape)
    start = standard_parameters(prepared, head_of(fitted.released))
    theta = solve(prepared.objective, start, prepared.within)
    if prepared.shape is not None:  # its radius is small against the noise
        return prepared, theta, prepared.within
    closer = prepared.within / 64  # so that little is charged for it
    try:
        return prepared, solve(prepared.objective, theta, closer), closer
    except BeyondPrecision:
        return prepared, theta, prepared.within


@dataclass(frozen=True, eq=False)
class ExposurePlan:
    """What caps on exposure would cost; the arrays are in the order of `max_exposure`.

    Attributes
    ----------
    max_exposure : array
    noise_scale : array
        The scale that would be chosen; NaN where the cap cannot be reached.
    score, score_sd : array
        Mean and standard deviation of the score over draws of the noise; NaN where the cap cannot
        be reached. The score is that of the estimator: R2, accuracy or D2.
    score_without : float
        The score without this noise.
    delta, quantile : float
    """

    max_exposure: Array
    noise_scale: Array
    score: Array
    score_sd: Array
    score_without: float
    delta: float
    quantile: float

    def to_frame(self) -> "pd.DataFrame":
        """A pandas DataFrame with one line per cap (needs the extra ``pilu[pandas]``)."""
        need("pandas", for_="ExposurePlan.to_frame", extra="pandas")
        import pandas as pd

        columns = {
            "max_exposure": np.array(self.max_exposure),
            "noise_scale": np.array(self.noise_scale),
            "score": np.array(self.score),
            "score_sd": np.array(self.score_sd),
            "loss_of_score": self.score_without - np.array(self.score),
        }
        return pd.DataFrame(columns)


def plan_caps(
    fitted: Refitted,
    table: Table,
    options: Options,
    people: People,
    validation: Any,
    caps: Any,
    n_draws: int,
) -> ExposurePlan:
    """What each cap on exposure would cost."""
    check_integer("n_draws", n_draws, least=2)
    listed = [check_real("max_exposure", c, least=1e-6, most=1e3) for c in np.atleast_1d(caps)]
    if not (isinstance(validation, tuple | list) and len(validation) == 2):
        raise complaint("validation", "a pair (X, y)", validation)
    prepared, theta, _ = _solved(replace(fitted, noise_scale=None), table)
    scorer = _Scorer(prepared, *validation)
    normal = np.random.default_rng(0).standard_normal((n_draws, *theta.shape))
    scales, scores, spreads = [], [], []
    tried: dict[int, tuple[Shape, Measured]] = {}
    for cap in listed:
        wanted = replace(options, noise_scale=None, max_exposure=cap)
        try:
            scale, shape = best_noise(prepared, theta, people, wanted, tried)
            draws = [scorer(theta + scale * shape.noise(draw)) for draw in normal]
        except CapOutOfReach:
            scale, draws = np.nan, [np.nan]
        scales.append(scale)
        scores.append(float(np.mean(draws)))
        spreads.append(float(np.std(draws)))
    return ExposurePlan(
        np.array(listed),
        np.array(scales),
        np.array(scores),
        np.array(spreads),
        scorer(theta),
        options.exposure_delta,
        options.exposure_quantile,
    )


class _Scorer:
    """The score of a head with given standard parameters on validation rows."""

    def __init__(self, prepared: Prepared, X: Any, y: Any) -> None:
        for _, step in prepared.released_transformers:
            if step not in (None, "passthrough"):
                X = step.transform(X)
        self._prepared, self._X, self._y = prepared, X, y

    def __call__(self, theta: Array) -> float:
        return float(head_of(self._prepared.finished(theta)).score(self._X, self._y))
