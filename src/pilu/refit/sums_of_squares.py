"""The Gram matrix and the alpha of squared error: from the run before, or from scratch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.refit.coordinates import Coordinates
from pilu.refit.front import Front
from pilu.refit.gram import Gram
from pilu.refit.head import HeadProblem
from pilu.refit.held_rows import Table
from pilu.refit.kept import Kept, Leverages, deletion
from pilu.refit.loo_errors import Sizes
from pilu.refit.ridge_alpha import leave_one_out
from pilu.refit.solve import MOST_PARAMETERS
from pilu.refit.warm_alpha import cold_leverages, warm_alpha

Array = NDArray[np.float64]
Positions = NDArray[np.intp]


def sums_of_squares(
    problem: HeadProblem,
    coordinates: Coordinates,
    rows: Any,
    front: Front | None,
    table: Table,
    used: Positions,
    before: Kept | None,
) -> tuple[HeadProblem, Gram | None, Kept | None]:
    """The problem with its alpha, the Gram matrix of its rows, and what to keep for the next run.

    `used` are the positions in the table of the rows. Which alpha is chosen is a function of the
    rows, whatever `before` is.
    """
    if not _wants_gram(problem, *rows.shape):
        if problem.candidates is not None:
            problem = problem.choosing(leave_one_out(problem, coordinates, rows, None).best)
        return problem, None, None
    if front is not None and isinstance(rows, np.ndarray):
        if before is not None:
            warm = _warm(problem, coordinates, rows, front, table, used, before)
            if warm is not None:
                return warm
        return _cold(problem, coordinates, rows, front, table, used)
    gram = Gram.of(rows, problem.weights)
    if problem.candidates is not None:
        problem = problem.choosing(leave_one_out(problem, coordinates, rows, gram).best)
    return problem, gram, None


def _wants_gram(problem: HeadProblem, n: int, P: int) -> bool:
    """Whether the Gram matrix of squared error is small enough, or is needed to choose alpha."""
    small = P <= MOST_PARAMETERS or (problem.candidates is not None and n >= P)
    return small and problem.loss.constant_curvature and problem.weights.shape[1] == 1


def _cold(
    problem: HeadProblem,
    coordinates: Coordinates,
    rows: Array,
    front: Front,
    table: Table,
    used: Positions,
) -> tuple[HeadProblem, Gram, Kept]:
    gram, leverages, weights = Gram.of(rows, problem.weights), None, problem.weights
    if problem.candidates is not None:
        done = leave_one_out(problem, coordinates, rows, gram)
        if len(rows) >= len(coordinates.scale):
            sizes = _sizes(problem, coordinates, rows, front)
            leverages = cold_leverages(
                problem.candidates, front, sizes, done.leverages, done.slopes
            )
        problem = problem.choosing(done.best)
    return problem, gram, Kept.of(table, used, weights, front, gram, leverages)


def _warm(
    problem: HeadProblem,
    coordinates: Coordinates,
    rows: Array,
    front: Front,
    table: Table,
    used: Positions,
    before: Kept,
) -> tuple[HeadProblem, Gram, Kept] | None:
    weights = problem.weights
    change = deletion(before, table, used, weights, front)
    if change is None:
        return None
    leverages: Leverages | None = None
    if problem.candidates is not None:
        known = before.leverages
        if known is None or not np.array_equal(known.candidates, problem.candidates):
            return None
        sizes = _sizes(problem, coordinates, rows, front)
        warm = warm_alpha(known, change, problem, coordinates, front, rows, sizes)
        if warm is None:
            return None
        leverages, problem = warm.leverages, problem.choosing(warm.alpha)
    kept = Kept(table, used, weights, before.front, change.before, leverages)
    return problem, change.after, kept


def _sizes(problem: HeadProblem, coordinates: Coordinates, rows: Array, front: Front) -> Sizes:
    w, scale = problem.weights, coordinates.scale
    mean = np.zeros(len(scale))
    if coordinates.free_intercept:
        mean = w[:, 0] @ rows[:, : len(scale)] / w.sum()
    return Sizes.of(rows, w, scale, mean, front.left_over)
