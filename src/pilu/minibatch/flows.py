"""Many steps on mini-batches as one linear map with Gaussian noise, a whole cycle at a time.

Steps k, k+1, ... map theta to F theta + a drift + N(0, sigma^2 S). One cycle costs O(n p^2); any
number of cycles is then a few products of p x p matrices, by repeated squaring. Means go forwards
and single rows go backwards through the batches, without p x p matrices.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pilu._progress import progress_bar
from pilu.chains.batches import Batch
from pilu.chains.schedule import Schedule

if TYPE_CHECKING:
    from pilu.minibatch.problem import MinibatchProblem

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

MOST_LENGTHS = 2**23  # numbers held at a time


@dataclass(frozen=True, eq=False)
class Flow:
    """The map of some steps: F, and S for noise 1."""

    matrix: Array
    spread: Array

    def then(self, other: "Flow") -> "Flow":
        """These steps followed by others."""
        return Flow(other.matrix @ self.matrix, other.moved(self.spread) + other.spread)

    def moved(self, covariance: Array) -> Array:
        """F Sigma F', symmetric to the last digit."""
        product = self.matrix @ covariance @ self.matrix.T
        return (product + product.T) / 2


def flow_of(problem: "MinibatchProblem", step_size: float, first: int, steps: int) -> Flow:
    """The flow of `steps` steps from step `first` on."""
    cycles, rest = divmod(steps, problem.n_batches)
    if cycles < 2:
        return _stepwise(problem, step_size, first, steps, 0)[1]
    begun, cycle = _stepwise(problem, step_size, first, problem.n_batches, rest)
    whole = _power(cycle, cycles)
    return whole.then(begun) if rest else whole


def covariance_after(
    problem: "MinibatchProblem", step_size: float, schedule: Schedule
) -> tuple[Array, float]:
    """Sigma after all steps of a schedule from a fixed start, and what its rounding is relative to.

    The rounding of F Sigma F' is relative to |F|^2 |Sigma|, also in directions that F removes.
    Segments that remove different directions may leave a Sigma far smaller than earlier rounding.
    """
    p, done = problem.n_parameters, 0
    sigma, scale = np.zeros((p, p)), 0.0
    for steps, noise in schedule.segments:
        flow = flow_of(problem, step_size, done, steps)
        added, kept = noise**2 * flow.spread, float(np.linalg.norm(flow.matrix, 2)) ** 2
        scale = kept * (scale + float(np.linalg.norm(sigma))) + float(np.linalg.norm(added))
        sigma = flow.moved(sigma) + added
        done += steps
    return sigma, scale


def _stepwise(
    problem: "MinibatchProblem", step_size: float, first: int, steps: int, early: int
) -> tuple[Flow, Flow]:
    """The flow of the first `early` steps, and that of all."""
    p, alpha = problem.n_parameters, problem.alpha
    begun = whole = Flow(np.eye(p), np.zeros((p, p)))
    with progress_bar(steps, what="covariances", unit="step") as bar:
        for k, batch in problem.batches_at(range(first, first + steps)):
            spread, _ = propagated(whole.spread, batch, step_size, alpha)
            spread[np.diag_indices(p)] += 2 * step_size
            whole = Flow(batch.step(whole.matrix, step_size, alpha), spread)
            if k - first + 1 == early:
                begun = whole
            bar.update()
    return begun, whole


def _power(flow: Flow, count: int) -> Flow:
    result = None
    while True:
        if count % 2:
            result = flow if result is None else result.then(flow)
        count //= 2
        if not count:
            assert result is not None
            return result
        flow = flow.then(flow)


def propagated(sigma: Array, batch: Batch, step_size: float, alpha: float) -> tuple[Array, Array]:
    """A_t Sigma A_t, and x'Sigma x of the rows of the batch."""
    shrink = 1.0 - step_size * alpha
    seen = batch.times(sigma)  # X Sigma
    square = batch.times(np.ascontiguousarray(seen.T))  # X Sigma X'
    # A Sigma A = c^2 Sigma + X'F + F'X with F = eta^2/2 (X Sigma X') X - eta c X Sigma
    factor = (step_size**2 / 2) * batch.back(square).T - (step_size * shrink) * seen
    change = batch.back(factor)
    moved = shrink**2 * sigma
    moved += change
    moved += change.T
    return moved, np.diag(square).copy()


def mean_after(problem: "MinibatchProblem", step_size: float, mean: Array, steps: range) -> Array:
    """The mean after further steps."""
    shrink = 1.0 - step_size * problem.alpha
    for _, batch in problem.batches_at(steps):
        mean = shrink * mean - step_size * batch.back(batch.times(mean) - batch.targets)
    return mean


def lengths_back(
    problem: "MinibatchProblem",
    step_size: float,
    X: Array,
    last: int | Rows,
    n_steps: int | None = None,
) -> tuple[Array, Array]:
    """|a_j|^2 of every row of X, swept backwards from step `last`, and the last a_j.

    Each row has its own `last` and is swept to step 0, or all rows take `n_steps` steps.
    """
    ends = np.broadcast_to(last, len(X))
    first = 0 if n_steps is None else int(np.max(ends)) - n_steps
    lengths = np.zeros((len(X), int(np.max(ends, initial=0)) - first))
    order = np.argsort(-ends, kind="stable")  # rows that start at later steps come first
    walkers, ends = np.ascontiguousarray(X[order].T), ends[order]
    for k, batch in batches_back(problem, first + lengths.shape[1], first):
        active = int(np.searchsorted(-ends, -k, side="left"))  # ends > k
        a = walkers[:, :active]
        lengths[order[:active], ends[:active] - 1 - k] = np.einsum("ij,ij->j", a, a)
        walkers[:, :active] = batch.step(a, step_size, problem.alpha)
    return lengths, walkers.T[np.argsort(order)]


def variances_back(
    problem: "MinibatchProblem", step_size: float, X: Array, last: int, variances: Array
) -> tuple[Array, Array]:
    """x'Sigma x of every row from the noise of the steps before `last`, and the last a_j."""
    n_steps, results, ends = len(variances), np.empty(len(X)), np.empty_like(X)
    some = max(1, MOST_LENGTHS // n_steps)
    for i in range(0, len(X), some):
        part = slice(i, i + some)
        lengths, ends[part] = lengths_back(problem, step_size, X[part], last, n_steps)
        results[part] = lengths @ variances[::-1]
    return results, ends


def batches_back(
    problem: "MinibatchProblem", last: int, first: int = 0
) -> Iterator[tuple[int, Batch]]:
    """(step, batch) from the step before `last` back to `first`."""
    with progress_bar(last - first, what="sweeping back", unit="step") as bar:
        for visit in problem.batches_at(range(last - 1, first - 1, -1)):
            yield visit
            bar.update()
