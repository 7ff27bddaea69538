"""Learning, and the argument checks that all estimators share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

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

__all__ = [
    "Parameters",
    "check_batch_size",
    "check_parameters",
    "check_rows",
    "learn",
    "read_start",
    "resolve_step_size",
    "unchanged_on_error",
]

Array = NDArray[np.float64]


class Parameters(Protocol):
    """Parameters of every Langevin estimator, documented in `LangevinRidge`."""

    alpha: float
    n_steps: int
    noise: float
    step_size: float | str
    batch_size: int | None
    fit_intercept: bool
    random_state: int | None


def check_parameters(given: Parameters) -> None:
    """Refuse parameters that no estimator accepts."""
    check_real("alpha", given.alpha, least=0.0, most=LARGEST_SQUARE)
    check_steps("n_steps", given.n_steps)
    check_real(
        "noise",
        given.noise,
        above=0.0,
        remedy="Without learning noise the laws with and without a row are point masses, and no "
        "later noise can hide which one the model came from.",
    )
    check_scale("noise", given.noise)
    if not (isinstance(given.step_size, str) and given.step_size == "auto"):
        check_real(
            "step_size",
            given.step_size,
            least=1 / LARGEST_SQUARE,
            remedy="Use step_size='auto' for 1/L.",
        )
    if given.batch_size is not None:
        check_integer(
            "batch_size",
            given.batch_size,
            least=1,
            remedy="Use batch_size=None for all rows at every step.",
        )
    check_flag("fit_intercept", given.fit_intercept)
    if given.random_state is not None:
        check_integer(
            "random_state",
            given.random_state,
            least=0,
            remedy="Use None for private noise from the operating system.",
        )


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


def read_start(coef_init: ArrayLike | None, n_features: int, p: int, d: int) -> Array:
    """The start of the chain, p x d; zeros by default."""
    start = np.zeros((p, d))
    if coef_init is None:
        return start
    given = np.atleast_2d(as_numbers("coef_init", coef_init))
    if given.shape not in ((d, n_features), (d, p)) or not np.isfinite(given).all():
        raise complaint(
            "coef_init",
            f"finite, of shape {(d, n_features)} or, with the intercept last, {(d, p)}",
            given.shape,
        )
    start[: given.shape[1]] = given.T
    return start


def learn(
    given: Parameters,
    problem: Problem,
    step_size: float,
    start: Array,
    book: RowBook,
    class_counts: Array | None = None,
) -> Fitted:
    """Run Algorithm A on a problem."""
    chain = Chain.learn(
        problem.for_steps(step_size),
        step_size=step_size,
        start=start,
        segment=Segment(int(given.n_steps), float(given.noise)),
        gaussian=gaussian_source(given.random_state, stream=0),
    )
    if chain.problem.keeps_law:
        chain.law().prepare_after_learning()
    return Fitted(chain, book, class_counts=class_counts)


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
