"""Run a pipeline's program on the rows that are there, and release its parameters with noise.

A program is an unfitted estimator with options. Run on a table, it fits clones of the transformers,
chooses hyperparameters, and finds the head's minimiser to a proved radius. All but the place of the
minimiser within the radius is a function of the table, so two runs on the same table differ by at
most twice the radius, and noise hides that (docs/refit.md).
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import validate_data

from pilu._checks import LARGEST_NUMBER
from pilu.chains.problem import GaussianSource
from pilu.exceptions import NoiseBelowPrecision, WrongInput
from pilu.refit.choice import best_of_search, choose_for_head
from pilu.refit.coordinates import Coordinates
from pilu.refit.fingerprints import fingerprint
from pilu.refit.front import Front, front_of
from pilu.refit.head import HeadProblem
from pilu.refit.heads import HEADS
from pilu.refit.held_rows import Table
from pilu.refit.kept import Kept
from pilu.refit.objective import Objective
from pilu.refit.refusals import check_program, has_foreign_parts, is_search
from pilu.refit.settings import Options
from pilu.refit.shape import Shape
from pilu.refit.solve import has_exact_hessian, solve
from pilu.refit.sums_of_squares import sums_of_squares

Array = NDArray[np.float64]

_PER_OCTAVE = 8  # sizes of noise
_NOTHING = (None, "passthrough")  # steps of a pipeline that do nothing


@dataclass(frozen=True, eq=False)
class Prepared:
    """A program run on a table up to the head's solver.

    All but `kept` and a Gram matrix that was carried on are functions of the table.
    """

    estimator: Any  # the pipeline with fitted transformers, or the head itself
    head: Any  # its head, unfitted, with chosen hyperparameters
    problem: HeadProblem
    coordinates: Coordinates
    objective: Objective
    noise: float  # sigma, of each standard coordinate; for shaped noise its scale s
    radius: float  # in the metric of the noise
    used: NDArray[np.intp] = field(repr=False)  # positions of rows with weight
    kept: Kept | None = None  # for the next run; not a function of the table alone
    shape: Shape | None = None  # of shaped noise
    folded: Front | None = None  # a scaler that is folded into the coefficients

    @property
    def released_transformers(self) -> list[tuple[str, Any]]:
        """The transformers that are released with the head."""
        return [] if self.folded is not None else transformers_of(self.estimator)

    @property
    def scaler(self) -> Any:
        """The scaler in front of the head, where it is the only transformer."""
        (scaler,) = (step for _, step in transformers_of(self.estimator) if step not in _NOTHING)
        return scaler

    @property
    def within(self) -> float:
        """The radius as a distance of standard parameters."""
        return self.radius if self.shape is None else self.shape.distance(self.radius)

    @property
    def charge(self) -> float:
        """How far two runs on the same rows may end apart, in units of the noise: mu."""
        return 2 * self.radius / self.noise * (1 + 1e-12)

    def out(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients p x K and intercepts of the released head."""
        coef, intercept = self.coordinates.out(theta)
        if self.folded is None:
            return coef, intercept
        coef = coef / self.folded.scale[:, None]
        return coef, intercept - self.folded.mean @ coef

    def into(self, coef: Array, intercept: Array) -> Array:
        """Standard parameters of a released head."""
        if self.folded is not None:
            intercept = intercept + self.folded.mean @ coef
            coef = coef * self.folded.scale[:, None]
        return self.coordinates.into(coef, intercept)

    def finished(self, theta: Array) -> Any:
        """The fitted estimator with these parameters; a folded scaler is no part of it."""
        HEADS[type(self.head)].release(self.head, self.problem, *self.out(theta))
        if self.folded is None:
            return self.estimator
        if hasattr(self.scaler, "feature_names_in_"):
            self.head.feature_names_in_ = self.scaler.feature_names_in_
        return self.head

    @property
    def transformers_sha256(self) -> str:
        """Hash of the state of the transformers, of chosen hyperparameters and of class names."""
        chosen = {k: v for k, v in self.problem.released.items() if k in ("alpha_", "C_")}
        parts = [self.released_transformers, self.head.get_params(), chosen]
        return fingerprint([*parts, self.problem.classes])


@dataclass(frozen=True, eq=False)
class Release:
    """Released parameters, and what a certificate says of them."""

    estimator: Any  # a plain fitted scikit-learn estimator
    noise: float
    radius: float
    private: bool
    convexity: str
    transformers_sha256: str
    curvature: float | None  # kappa of shaped noise
    penalty_factor: float | None  # f of shaped noise


def prepare(estimator: Any, table: Table, options: Options, before: Kept | None = None) -> Prepared:
    """Fit transformers, choose hyperparameters and set up the head on a table.

    `before` is what an earlier run kept. It can save time and move the solution within the radius,
    nothing else.
    """
    table.check_weights()
    X, y, w, groups = table.for_transformers(), table.y, table.weights, table.groups
    estimator = part = _best(clone(estimator), X, y, w, groups)
    while isinstance(part, Pipeline):
        X = _fit_transformers(part, X, y, w)
        name, last = part.steps[-1]
        last = _best(last, X, y, w, groups)
        part.steps[-1] = (name, last)
        part = last
    return _set_up(estimator, part, X, table, options, before)


def check_repeatable(estimator: Any, prepared: Prepared, table: Table) -> None:
    """Refuse a program whose second run on the same rows differs from the first.

    Transformers are fitted again: what they learned and the rows that reach the head must be equal.
    Where parts are not scikit-learn's own, searches are run again, too.
    """
    part, X = clone(prepared.estimator), table.for_transformers()
    fitted = prepared.estimator
    if has_foreign_parts(estimator):
        part = _best(clone(estimator), X, table.y, table.weights, table.groups)
    while isinstance(part, Pipeline) and isinstance(fitted, Pipeline):
        X = _fit_transformers(part, X, table.y, table.weights)
        for (name, one), (_, other) in zip(fitted.steps[:-1], part.steps[:-1], strict=True):
            if fingerprint(one) != fingerprint(other):
                raise _not_repeatable(f"step {name!r}")
        part, fitted = part.steps[-1][1], fitted.steps[-1][1]
        part = _best(part, X, table.y, table.weights, table.groups)
    if fingerprint(part.get_params()) != fingerprint(prepared.head.get_params()):
        raise _not_repeatable("a search")
    again = prepared.coordinates.rows(_checked_rows(clone(prepared.head), X)[prepared.used])
    rows = prepared.objective.rows
    same = not (again != rows).nnz if sp.issparse(rows) else np.array_equal(again, rows)
    if not same:
        raise _not_repeatable("a transformer")


def _not_repeatable(what: str) -> WrongInput:
    return WrongInput(
        f"{what} gave two different results on the same rows, so no two runs could be compared. "
        "Give it an integer random_state, or leave it out."
    )


def _best(estimator: Any, X: Any, y: NDArray[Any], w: Array | None, groups: Any) -> Any:
    while is_search(estimator):
        estimator = best_of_search(estimator, X, y, w, groups)
        check_program(estimator)  # a grid may have set what is refused
    return estimator


def _fit_transformers(pipeline: Pipeline, X: Any, y: NDArray[Any], w: Array | None) -> Any:
    """Fit all steps but the last, in place, and return the transformed rows."""
    for _, step in pipeline.steps[:-1]:
        if step not in _NOTHING:
            X = step.fit_transform(X, y, **requested_weights(step, w))
    return X


def requested_weights(step: Any, weights: Array | None) -> dict[str, Array]:
    """Weights for a transformer that asks for them, or has parts that do, by metadata routing."""
    if weights is None or not get_config()["enable_metadata_routing"]:
        return {}
    wanted = get_routing_for_object(step).consumes("fit", ["sample_weight"])
    return {"sample_weight": weights} if wanted else {}


def _weights_of_head(head: Any, weights: Array | None) -> Array | None:
    """Weights for the head, unless it declines them by metadata routing."""
    request = getattr(head, "_metadata_request", None)
    if request is None or not get_config()["enable_metadata_routing"]:
        return weights
    return None if request.fit.requests.get("sample_weight") is False else weights


def _set_up(
    estimator: Any,
    head: Any,
    X: Any,
    table: Table,
    options: Options,
    before: Kept | None,
) -> Prepared:
    y, w = table.y, table.weights
    X = _checked_rows(head, X)
    if X.shape[0] != len(y):
        raise WrongInput(
            f"transformed rows must be one for each of the {len(y)} rows, got {X.shape[0]}. A "
            "vectorizer of texts takes one column, such as frame['text'], and not a frame."
        )
    _check_size(X)
    w = _weights_of_head(head, w)
    chosen = choose_for_head(head, X, y, w, table.groups)
    weights = np.ones((len(y), 1)) if w is None else w[:, None]
    problem = HEADS[type(head)].problem(head, y, weights, chosen)
    weighted: NDArray[np.bool_] = np.asarray(problem.weights.any(axis=1))
    if not weighted.all():  # rows without weight count for classes and class weights only
        X, problem = X[weighted], problem.take(weighted)
    coordinates = Coordinates.of(
        X,
        problem.weights,
        fit_intercept=bool(head.fit_intercept),
        penalised_scaling=problem.penalised_scaling,
    )
    rows = coordinates.rows(X)
    front = front_of(transformers_of(estimator), table, coordinates)
    folded = _check_folds(front) if options.fold_scaler else None
    used = np.flatnonzero(weighted)
    problem, gram, kept = sums_of_squares(problem, coordinates, rows, front, table, used, before)
    objective = Objective(
        problem.loss,
        rows,
        problem.targets,
        problem.weights,
        coordinates.penalty(problem.alpha),
        coordinates.free_intercept,
        gram,
    )
    if gram is not None and not gram.carried:
        objective.count(1)
    noise = _coarse(options.score_noise * problem.unit / _typical_norm(objective))
    radius = 0.5 * options.mu * noise * (1 - 1e-12)
    return Prepared(
        estimator,
        head,
        problem,
        coordinates,
        objective,
        noise,
        radius,
        used,
        kept,
        folded=folded,
    )


def _check_folds(front: Front | None) -> Front:
    if front is None or not front.scaled:
        raise WrongInput(
            "fold_scaler must be False unless the pipeline is a StandardScaler and a head with an "
            "intercept, on columns of doubles. Leave other transformers out, or set "
            "fold_scaler=False."
        )
    return front


def _checked_rows(head: Any, X: Any) -> Any:
    return validate_data(
        head, X, accept_sparse="csr", dtype=np.float64, order="C", ensure_min_samples=1
    )


def _typical_norm(objective: Objective) -> float:
    """Root of the mean square norm of a row, by weight."""
    each = objective.weights.mean(axis=1)
    norm = float(np.sqrt(each @ objective.row_norms[:, 0] ** 2 / each.sum()))
    if not norm > 0.0:
        raise WrongInput("transformed rows must not all be zero. Set fit_intercept=True.")
    return norm


def _coarse(noise: float) -> float:
    """The noise, rounded down to an eighth of an octave.

    Certificates state it and are kept for good. In full it would be an equation for rows that are
    forgotten later, to be solved by anybody who has the others.
    """
    return float(2.0 ** (math.floor(_PER_OCTAVE * math.log2(noise)) / _PER_OCTAVE))


def _check_size(X: Any) -> None:
    values = X.data if isinstance(X, sp.csr_array | sp.csr_matrix) else X
    size = max(values.max(), -values.min()) if values.size else 0.0
    if not size <= LARGEST_NUMBER:
        raise WrongInput(
            f"transformed rows must be at most {LARGEST_NUMBER:g} in size, got {size:g}. Put "
            "a scaler in front of the head."
        )


def release(prepared: Prepared, start: Array | None, source: GaussianSource) -> Release:
    """Solve the head from a start, add noise, and build the fitted estimator.

    `start` are standard parameters or None. Only released parameters may be a start. The parameters
    are written into the estimator of `prepared`, which can be released once.
    """
    p = prepared
    theta = solve(p.objective, start, p.within)
    normal = source.normal(theta.shape)
    least = p.noise if p.shape is None else p.noise / math.sqrt(p.shape.largest)
    if least < 2.0**-30 * float(np.abs(theta).max()):
        raise NoiseBelowPrecision(
            f"the noise, {least:.2g}, would be lost in the rounding of the parameters. Raise "
            f"{'score_noise' if p.shape is None else 'noise_scale'} or regularise more."
        )
    theta = theta + p.noise * (normal if p.shape is None else p.shape.noise(normal))
    convexity = "factorisation or penalty" if has_exact_hessian(p.objective) else "penalty"
    return Release(
        p.finished(theta),
        p.noise,
        p.radius,
        source.private,
        convexity,
        p.transformers_sha256,
        None if p.shape is None else p.shape.curvature,
        None if p.shape is None else p.shape.penalty_factor,
    )


def standard_parameters(p: Prepared, head: Any) -> Array | None:
    """Parameters of a fitted head in standard coordinates; None without a head of this shape."""
    if head is None:
        return None
    coef, intercept = HEADS[type(p.head)].read(head)
    if coef.shape != (len(p.coordinates.scale), p.objective.shape[1]):
        return None
    return p.into(coef, intercept)


def head_of(estimator: Any) -> Any:
    """The head of a fitted estimator."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def transformers_of(estimator: Any) -> list[tuple[str, Any]]:
    """The steps of a pipeline without its head."""
    steps: list[tuple[str, Any]] = []
    while isinstance(estimator, Pipeline):
        steps += estimator.steps[:-1]
        estimator = estimator.steps[-1][1]
    return steps
