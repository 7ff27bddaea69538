"""Learning, and the argument checks that all estimators share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pilu._checks import (
    LARGEST_SQUARE,
    as_numbers,
    check_flag,
    check_integer,
    check_real,
    check_scale,
    check_steps,
    complaint,
)
from pilu.chains.chain import Chain, gaussian_source
from pilu.chains.problem import Problem
from pilu.chains.schedule import Segment
from pilu.estimators.fitted import Fitted
from pilu.estimators.requests import RowBook
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]


class Parameters:
    """Parameters of every Langevin estimator, documented in `LangevinRidge`."""

    alpha: float
    n_steps: int | None
    noise: float
    step_size: float | str
    batch_size: int | None
    fit_intercept: bool
    random_state: int | None

    def check_parameters(self) -> None:
        """Refuse parameters that are out of range."""
        check_real("alpha", self.alpha, least=0.0, most=LARGEST_SQUARE)
        self.check_n_steps()
        check_real(
            "noise",
            self.noise,
            above=0.0,
            remedy="Without learning noise the laws with and without a row are point masses, and "
            "no later noise can hide which one the model came from.",
        )
        check_scale("noise", self.noise)
        if not (isinstance(self.step_size, str) and self.step_size == "auto"):
            remedy = "Use step_size='auto' for 1/L."
            check_real("step_size", self.step_size, least=1 / LARGEST_SQUARE, remedy=remedy)
        if self.batch_size is not None:
            remedy = "Use batch_size=None for all rows at every step."
            check_integer("batch_size", self.batch_size, least=1, remedy=remedy)
        check_flag("fit_intercept", self.fit_intercept)
        if self.random_state is not None:
            remedy = "Use None for private noise from the operating system."
            check_integer("random_state", self.random_state, least=0, remedy=remedy)

    def check_n_steps(self) -> None:
        """Refuse numbers of learning steps that are out of range."""
        if self.n_steps is None:
            raise complaint(
                "n_steps",
                "an integer for losses other than ridge",
                None,
                "Only ridge on all rows has a stationary law that is known.",
            )
        check_steps("n_steps", self.n_steps)


def check_rows(X: NDArray[Any], Y: Array) -> None:
    """Refuse a single row, and numbers whose squares would overflow."""
    if len(X) < 2:
        raise WrongInput(
            f"X must have at least 2 rows, got n_samples={len(X)}. Forgetting a single row would "
            "leave none."
        )
    for name, values in (("X", X), ("y", Y)):
        check_scale(name, values)


def check_batch_size(batch_size: int, n_rows: int) -> None:
    """Refuse a batch size above the number of rows."""
    if batch_size > n_rows:
        raise complaint(
            "batch_size",
            f"at most the number of rows, {n_rows}",
            batch_size,
            "Use batch_size=None for all rows at every step.",
        )


def resolve_step_size(step_size: float | str, largest: float) -> float:
    """The step size in use, given the largest curvature L of any step."""
    if largest <= 0.0:
        raise WrongInput(
            "alpha must be > 0 if X is all zero, got alpha=0.0. Without curvature there is no step "
            "size."
        )
    if isinstance(step_size, str):
        return 1.0 / largest
    step = float(step_size)
    if step * largest * (1 + 1e-12) >= 2.0:
        raise complaint(
            "step_size",
            f"< 2/L = {2.0 / largest:.6g} for the steps to contract",
            step,
            "Use step_size='auto' for 1/L.",
        )
    return step


def learn(
    given: Parameters,
    problem: Problem,
    book: RowBook,
    *,
    coef_init: ArrayLike | None = None,
    class_counts: Array | None = None,
    step_size: float | None = None,
) -> Fitted:
    """Run Algorithm A on a problem; `step_size` replaces the one that is given."""
    start = _read_start(coef_init, problem)
    if given.n_steps is None and coef_init is not None:
        raise WrongInput(
            "coef_init must be None for n_steps=None: at stationarity the start is forgotten."
        )
    if step_size is None:
        step_size = resolve_step_size(given.step_size, problem.largest)
    chain = Chain.learn(
        problem.for_steps(step_size),
        step_size=step_size,
        start=start,
        segment=Segment(0 if given.n_steps is None else int(given.n_steps), float(given.noise)),
        gaussian=gaussian_source(given.random_state, stream=0),
    )
    if chain.problem.keeps_law:
        chain.law().prepare_after_learning()
    return Fitted(chain, book, class_counts=class_counts)


def _read_start(coef_init: ArrayLike | None, problem: Problem) -> Array:
    """The start of the chain, p x d; zeros by default."""
    source, d = problem.source, problem.n_outputs
    start = np.zeros((source.n_columns, d))
    if coef_init is None:
        return start
    given = np.atleast_2d(as_numbers("coef_init", coef_init))
    bare, whole = (d, source.n_features), (d, source.n_columns)
    if given.shape not in (bare, whole) or not np.isfinite(given).all():
        allowed = f"finite, of shape {bare} or, with the intercept last, {whole}"
        raise complaint("coef_init", allowed, given.shape)
    start[: given.shape[1]] = given.T
    return start


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore an estimator's attributes if the block raises, interrupts included."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
