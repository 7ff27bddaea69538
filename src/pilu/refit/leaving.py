"""How far a minimiser moves when a group of rows leaves: Newton's step with a proved rest.

At a point theta near the minimiser of F, let g_S be the gradient and H_S the curvature of the rows
S that leave, B the Hessian of F, and B' = B - H_S. The minimiser without them is theta + d,

    d = B'^-1 g_S + rest.

Squares have no rest but what the gradient of F at theta itself adds. In the metric of B':

    logistic, softmax, Tweedie    nu = |g_S|, x = r nu < 1, t = -log(1 - x)/r:
                                  |d| <= t,  |rest| <= t (x / ((1-x) (-log(1-x))) - 1)
                                  with r = max_j |z_j| of the rows that stay
    Huber, squared hinge          B has the least curvatures in the ball |delta|_A <= t, G what they
                                  can gain there. If nu < t sqrt((1-h)/c), A <= c B:
                                  |d| <= nu,  |rest| <= lambda nu,  G <= lambda B'

docs/exposure.md proves both. A group of m rows with J scores each has a leverage matrix C'B^-1 C of
size mJ, with h its largest eigenvalue; B' >= (1 - h) B.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilu.exceptions import BeyondPrecision
from pilu.refit.gram import gamma
from pilu.refit.objective import Objective, Point
from pilu.refit.score_losses import Huber, SquaredHinge
from pilu.refit.shape import Metric, Shape

Array = NDArray[np.float64]
Groups = NDArray[np.intp]  # N x m: rows of N groups of the same size

_ENTRIES = 2**22  # of an array of whitened rows
_UP = 1 + 1e-9
_QUANTILES = (0.5, 0.9, 0.99, 1.0)  # of the needed radii, each twice, as radii that are tried


@dataclass(frozen=True, eq=False)
class Moves:
    """How the parameters of some outputs move when each of N groups leaves."""

    gram: Array  # N x mJ x mJ: leverage matrices of the rows that leave
    steps: Array | None  # N x P x outputs
    rest: Array  # N: bound on |d - step| in the metric of B; infinite where nothing is proved


@dataclass(frozen=True, eq=False)
class System:
    """The Hessian B of outputs that are solved together, and what is needed to leave rows out."""

    objective: Objective
    outputs: slice
    metric: Metric
    roots: Array  # n x J x J: root of the curvature of a row's J scores
    slopes: Array  # n x J x R: weighted slopes, for R right-hand sides
    gradient: float  # bound on the gradient of F at the point, in the metric of B^-1
    rest_of: Callable[[Array, Array], Array]  # bound on the rest by nu and h
    is_shape: bool = False  # whether B is the matrix of the noise's shape

    @property
    def scores_per_row(self) -> int:
        """J: 1, or the number of outputs that share a loss."""
        return int(self.roots.shape[1])

    def solved_rows(self, z: Array) -> Array:
        """B^-1 (z x e_c) of rows, n x J x JP."""
        (n, P), J = z.shape, self.scores_per_row
        if J == 1:
            return self.metric.solve(z.T).T[:, None]
        columns = np.zeros((J, P, n, J))
        for c in range(J):
            columns[c, :, :, c] = z.T
        return self.metric.solve(columns.reshape(J * P, n * J)).T.reshape(n, J, J * P)

    def lengths(self, rows: NDArray[np.intp]) -> Array:
        """Largest squared length of each row in the metric of B^-1, over its J scores."""
        z = dense_rows(self.objective, rows)[:, None]
        return largest_eigenvalues(self._products(z, self.solved_rows(z[:, 0]), len(rows)))

    def _products(self, z: Array, solved: Array, N: int) -> Array:
        """Inner products in the metric of B^-1 of N groups of rows, mJ x mJ each."""
        J, P = self.scores_per_row, z.shape[-1]
        m = z.reshape(N, -1, P).shape[1]
        blocks = solved.reshape(N, m * J, J, P)
        Q = np.einsum("nip,nkcp->nick", z.reshape(N, m, P), blocks, optimize=m * J > 1)
        return np.asarray(Q.reshape(N, m * J, m * J))

    def moves(self, groups: Groups, *, with_steps: bool) -> Moves:
        """How the minimiser moves when each group leaves; steps only if they are asked for."""
        (N, m), J = groups.shape, self.scores_per_row
        z, solved = dense_rows(self.objective, groups.ravel()), None
        if with_steps or J > 1:
            solved = self.solved_rows(z)
            Q = self._products(z, solved, N)
        else:  # half the work
            Q = products(self.metric.whiten(z.T).T.reshape(N, m, -1))
        roots = _block_diagonal(self.roots[groups])
        slopes = self.slopes[groups].reshape(N, m * J, -1)
        gram = roots.transpose(0, 2, 1) @ Q @ roots
        leverage = largest_eigenvalues(gram) * (1 + 4 * self.metric.error + gamma(8 * m * J))
        possible = leverage < 1.0
        left: Array = np.sqrt(np.where(possible, 1.0 - leverage, 1.0))
        safe = np.where(possible[:, None, None], gram, 0.0)
        pulled = Q @ slopes
        inner = np.linalg.solve(np.eye(m * J) - safe, roots.transpose(0, 2, 1) @ pulled)
        weights = slopes + roots @ inner
        error = 2 * self.metric.error / left**2  # of B and its factor, relative to B'
        with np.errstate(all="ignore"):
            nu = np.sqrt(np.maximum((pulled * weights).sum(axis=(1, 2)), 0.0))
            nu = (nu * (1 + error) + self.gradient / left) * _UP
            rest = self.gradient / left + self.rest_of(nu, leverage) + 2 * error * nu
        rest = np.where(possible & np.isfinite(rest), rest / left * _UP, np.inf)
        steps = None
        if solved is not None:
            # The sum of the solved rows with these weights.
            steps = solved.reshape(N, m * J, -1).transpose(0, 2, 1) @ weights
            if J > 1:  # the outputs of a row one after another
                steps = steps.reshape(N, J, -1).transpose(0, 2, 1)
        return Moves(gram, steps, rest)


def products(rows: Array) -> Array:
    """Inner products of each of N groups of rows."""
    if rows.shape[1] == 1:
        return np.asarray(np.einsum("nip,nip->ni", rows, rows)[:, :, None])
    return np.asarray(rows @ rows.transpose(0, 2, 1))


def _block_diagonal(blocks: Array) -> Array:
    """N x m x J x J as N matrices of size mJ."""
    N, m, J, _ = blocks.shape
    if m == 1:
        return blocks[:, 0]
    out = np.zeros((N, m, J, m, J))
    for i in range(m):
        out[:, i, :, i, :] = blocks[:, i]
    return np.asarray(out.reshape(N, m * J, m * J))


def dense_rows(objective: Objective, rows: NDArray[np.intp]) -> Array:
    """Some rows as an array."""
    z = objective.rows[rows]
    return np.asarray(z.toarray() if hasattr(z, "toarray") else z)


def largest_eigenvalues(gram: Array) -> Array:
    """Of each of N small symmetric matrices."""
    if gram.shape[1] == 1:
        return np.array(gram[:, 0, 0])
    return np.asarray(np.maximum(np.linalg.eigvalsh(gram)[:, -1], 0.0))


def in_blocks(n: int, entries: int) -> Iterator[slice]:
    """Slices of n items with so many array entries each."""
    size = max(1, _ENTRIES // max(entries, 1))
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def systems_of(objective: Objective, point: Point, shape: Shape) -> list[list[System]]:
    """The systems of an objective, for each radius that is worth trying (one, without kinks)."""
    loss, w = objective.loss, objective.weights
    slopes = w * loss.slopes(point.scores, objective.targets)
    if loss.constant_curvature:
        return [_squares(objective, point, shape, slopes)]
    if loss.joint:
        return [[_softmax(objective, point, slopes)]]
    if isinstance(loss, Huber | SquaredHinge):
        return _kinked(objective, point, shape, slopes)
    return [[_smooth(objective, point, slopes, g.start) for g in objective.groups]]


def _no_rest(nu: Array, h: Array) -> Array:
    return np.zeros_like(nu)


def _squares(objective: Objective, point: Point, shape: Shape, slopes: Array) -> list[System]:
    w, own = objective.weights, shape.penalty_factor == 1.0
    hessian = shape if own else Shape.of(objective)
    systems, shared = [], len(hessian.metrics) == 1
    for k, metric in enumerate(hessian.metrics):
        outputs = slice(0, objective.shape[1]) if shared else slice(k, k + 1)
        roots = np.sqrt(w[:, min(k, w.shape[1] - 1)])[:, None, None]
        gradient = _gradient_in(metric, point, objective, outputs)
        systems.append(
            System(
                objective,
                outputs,
                metric,
                roots,
                slopes[:, None, outputs],
                gradient,
                _no_rest,
                is_shape=own,
            )
        )
    return systems


def _smooth(objective: Objective, point: Point, slopes: Array, k: int) -> System:
    w, outputs = objective.weights, slice(k, k + 1)
    reach = point.score_errors
    c = objective.loss.curvatures(point.scores, objective.targets)[:, outputs]
    c = c * w[:, min(k, w.shape[1] - 1)][:, None]
    metric = _hessian(objective, c, k, float(reach.max()))
    gradient = _gradient_in(metric, point, objective, outputs)
    roots, slope = np.sqrt(c)[:, :, None], slopes[:, outputs, None]
    plain = System(objective, outputs, metric, roots, slope, gradient, _no_rest)
    farthest = math.sqrt(max(_lengths(plain)))
    return System(
        objective, outputs, metric, roots, slope, gradient, _self_concordant_rest(farthest)
    )


def _hessian(objective: Objective, c: Array, k: int, relative: float) -> Metric:
    d = objective.penalty[:, min(k, objective.penalty.shape[1] - 1)]
    H = objective.gram(np.ascontiguousarray(c)) + np.diag(d)
    trace = float(np.trace(H))
    return Metric.of(H, objective.hessian_error(trace) + (1e-15 + 2 * relative) * trace)


def _softmax(objective: Objective, point: Point, slopes: Array) -> System:
    p = objective.loss.curvatures(point.scores, objective.targets)
    root, w = np.sqrt(p), objective.weights
    # diag(p) - p p' = (diag(q) (I - q q')) (...)',  q = sqrt(p)
    roots = np.sqrt(w)[:, :, None] * root[:, :, None] * _projections(root)
    ((_, H),) = objective.hessians(point, 0.0)
    trace = float(np.trace(H))
    relative = 4 * float(objective.reach(point, 0.0).max())
    metric = Metric.of(H, objective.hessian_error(trace) + (1e-15 + relative) * trace)
    outputs = slice(0, objective.shape[1])
    gradient = _gradient_in(metric, point, objective, outputs)
    plain = System(objective, outputs, metric, roots, slopes[:, :, None], gradient, _no_rest)
    # The range of a row's scores is at most sqrt(2) times their length.
    farthest = math.sqrt(2 * max(_lengths(plain)))
    return System(
        objective,
        outputs,
        metric,
        roots,
        slopes[:, :, None],
        gradient,
        _self_concordant_rest(farthest),
    )


def _projections(q: Array) -> Array:
    return np.asarray(np.eye(q.shape[1])[None] - q[:, :, None] * q[:, None, :])


def _lengths(system: System) -> Iterator[float]:
    """The largest |z_j|^2 in the metric of B^-1, block by block (over J scores at once)."""
    n, J = system.objective.rows.shape[0], system.scores_per_row
    for part in in_blocks(n, len(system.metric.matrix) * J):
        top = float(system.lengths(np.arange(part.start, part.stop)).max())
        yield top * (1 + 4 * system.metric.error) * _UP


def _self_concordant_rest(farthest: float) -> Callable[[Array, Array], Array]:
    def rest(nu: Array, h: Array) -> Array:
        r = farthest / np.sqrt(1.0 - h) * _UP
        x = r * nu
        t = -np.log1p(-x) / r * _UP
        # -log(1-x) >= x + x^2/2, so the factor is at most 1/((1-x)(1+x/2)) - 1.
        return np.where(x < 1.0, t * (x / 2 + x * x / 2) / ((1 - x) * (1 + x / 2)), np.inf)

    return rest


def _gradient_in(metric: Metric, point: Point, objective: Objective, outputs: slice) -> float:
    """|g| in the metric of B^-1, for the gradient of F at the point, its rounding included."""
    g = point.gradient[:, outputs]
    errors = point.errors if objective.loss.joint else point.errors[outputs]
    columns = g.T.reshape(-1, 1) if objective.loss.joint else g
    length = float(np.linalg.norm(metric.whiten(np.ascontiguousarray(columns))))
    error = float(np.linalg.norm(errors)) / math.sqrt(metric.least)
    return (length * (1 + metric.error) + error) * _UP


def _kinked(objective: Objective, point: Point, shape: Shape, slopes: Array) -> list[list[System]]:
    """Systems for several radii of the ball in which curvatures are bounded."""
    lengths = _lengths_in_shape(objective, shape)
    first = _systems_within(objective, point, shape, slopes, lengths, 0.0)
    needed = np.concatenate([_needed_radii(system, shape) for system in first])
    known = needed[np.isfinite(needed)]
    if not len(known):
        return [first]
    radii = {2.0 * float(np.quantile(known, q)) for q in _QUANTILES}
    radii |= {8.0 * max(radii), 64.0 * max(radii)}
    systems = []
    for t in sorted(radii):
        try:
            systems.append(_systems_within(objective, point, shape, slopes, lengths, t))
        except BeyondPrecision:  # in a larger ball even less curvature is certain
            break
    return systems or [first]


def _lengths_in_shape(objective: Objective, shape: Shape) -> list[Array]:
    """|z_j| in the metric of A^-1, n x 1, for each matrix A."""
    n, P = objective.rows.shape
    out = []
    for metric in shape.metrics:
        squares = [
            (metric.whiten(dense_rows(objective, np.arange(part.start, part.stop)).T) ** 2).sum(0)
            for part in in_blocks(n, P)
        ]
        out.append(np.sqrt(np.concatenate(squares))[:, None] * (1 + 4 * metric.error) * _UP)
    return out


def _systems_within(
    objective: Objective,
    point: Point,
    shape: Shape,
    slopes: Array,
    lengths: list[Array],
    t: float,
) -> list[System]:
    systems = []
    for group in objective.groups:
        k = group.start
        w = objective.weights[:, min(k, objective.weights.shape[1] - 1)][:, None]
        reach = t * lengths[min(k, len(lengths) - 1)] + point.score_errors
        low, high = (
            w * c[:, k : k + 1]
            for c in objective.loss.curvature_range(point.scores, objective.targets, reach)
        )
        metric = _hessian(objective, low, k, 0.0)
        gain = metric.ratio(objective.gram(np.ascontiguousarray(high - low)))
        wide = metric.ratio(shape.metric(k).matrix) * (1 + shape.metric(k).error)
        systems.append(
            System(
                objective,
                group,
                metric,
                np.sqrt(low)[:, :, None],
                slopes[:, group, None],
                _gradient_in(metric, point, objective, group),
                _kinked_rest(t, gain, wide),
            )
        )
    return systems


def _kinked_rest(t: float, gain: float, wide: float) -> Callable[[Array, Array], Array]:
    def rest(nu: Array, h: Array) -> Array:
        inside = nu * _UP < t * np.sqrt((1.0 - h) / wide)
        return np.where(inside, gain / (1.0 - h) * nu, np.inf)

    return rest


def _needed_radii(system: System, shape: Shape) -> Array:
    """Rough radii that single rows need, to choose the radii that are tried."""
    n = system.objective.rows.shape[0]
    wide = system.metric.ratio(shape.metric(system.outputs.start).matrix)
    parts = []
    for part in in_blocks(n, len(system.metric.matrix)):
        rows = np.arange(part.start, part.stop)
        q = system.lengths(rows)
        h = np.minimum(system.roots[rows, 0, 0] ** 2 * q, 0.99)
        parts.append(np.abs(system.slopes[rows, 0, 0]) * np.sqrt(q * wide) / (1 - h))
    return np.concatenate(parts)
