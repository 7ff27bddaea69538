"""The exact hockey-stick divergences of unlearning by noisy gradient descent, in high precision.

Ridge regression on rows X (n x p) with targets Y (n x d): with A = X'X + alpha I and B = X'Y, one
step is theta <- theta - eta (A theta - B) + sqrt(2 eta) sigma N(0, I). Run P takes the steps of a
schedule on all rows, run Q the same steps on the rows without `forget`; both then take K more steps
with noise sigma_u on the rows without `forget`. `log_deltas` gives

    delta_forward(eps) = sup_S P(S) - e^eps Q(S)  and  delta_reverse(eps) = sup_S Q(S) - e^eps P(S)

of the two ends. Every input is a double taken as the rational number that it is: I - eta A, eta B
and 2 eta sigma^2 are exact fractions, rounded once to the working precision of BITS bits or more.

How. In coordinates where Q is N(0, I), with P's covariance diagonal, the pair is a list of
(x, m2): P has variance 1 + x and squared mean m2 in all of d coordinates, x being an excess. With
l = log dP/dQ and K(s) = log E_Q exp(s l),

    delta = E_Q (e^l - e^eps)_+ = (1 / 2 pi i) int exp(K(s) + (1 - s) eps) / (s (s - 1)) ds

over a line Re s = c > 1 where K is finite. It is taken through the saddle point, so nothing
cancels, and along two rays bent towards the side where the integrand dies. For p = d = 1 the set
{l > eps} is an interval or the complement of one, and delta is a sum of normal tails.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from operator import mul
from typing import Any

import numpy as np
from mpmath import mp, mpf

Vector = list[Any]  # of mpf
Matrix = list[Vector]
Pair = list[tuple[Any, Any]]  # of (x, m2)

BITS = 512  # the least working precision
MAX_BITS = 40_000  # beyond this a covariance is called singular
GOOD_BITS = 200  # the excesses and shifts are right to 2^-GOOD_BITS, absolute
NODE_BITS = 120  # of the integrand, relative to its value at the saddle point
ROUNDING_TOLERANCE = 1e-12  # of the integral, where it is summed in long doubles
LEAST = -1000.0  # a log delta below this is given as -inf
FIRST, LAST = -3.7, 120.0  # the range of t in the quadrature
SECTOR = (0.0, 0.25, 0.5, 0.75)  # parts of the angle at which an arc is looked at
QUADRATURE_TOLERANCE = 1e-11  # between two refinements; the finer one is far better than that


class _TooCoarse(Exception):
    """The working precision was too low; `bits` more bits are needed."""

    def __init__(self, bits: int) -> None:
        super().__init__(bits)
        self.bits = bits


def log_deltas(
    X: Any,
    Y: Any,
    forget: Sequence[int],
    *,
    alpha: float,
    step_size: float,
    schedule: Sequence[tuple[int | None, float]],
    n_unlearn_steps: int,
    noise: float,
    epsilon: float,
    start: Any = None,
) -> tuple[float, float]:
    """(log delta_forward, log delta_reverse) at `epsilon`; -inf where delta is zero.

    `schedule` lists (steps, sigma) in the order run, `noise` is sigma_u and `start` is theta_0
    (p x d, zero if None). The first steps may be None: the law that they converge to. Raises
    ValueError if the covariance of an end is singular, or so close to it that MAX_BITS bits do not
    tell. Deltas far below 1e-50 may come out as zero.
    """
    pair, d = standard_pair(
        X,
        Y,
        forget,
        alpha=alpha,
        step_size=step_size,
        schedule=schedule,
        n_unlearn_steps=n_unlearn_steps,
        noise=noise,
        start=start,
    )
    backward = reversed_pair(pair)
    if len(pair) == d == 1:
        return log_delta_scalar(pair, epsilon), log_delta_scalar(backward, epsilon)
    return log_delta_contour(pair, d, epsilon), log_delta_contour(backward, d, epsilon)


# ------------------------------------------------------------------------------ the two Gaussians


def true_log_delta(
    model: Any, X: Any, Y: Any, rows: Any, left: Any, noise: float, K: int, epsilon: float
) -> float:
    """The larger direction for a fitted model; `left` are the rows that its run had."""
    here = [int(np.flatnonzero(left == row)[0]) for row in rows]
    ones = np.ones((len(left), int(bool(model.fit_intercept))))
    return max(
        log_deltas(
            np.hstack([X[left], ones]),
            Y[left],
            here,
            alpha=model.alpha,
            step_size=model.step_size_,
            schedule=list(model.schedule_),
            n_unlearn_steps=K,
            noise=noise,
            epsilon=epsilon,
        )
    )


def standard_pair(
    X: Any,
    Y: Any,
    forget: Sequence[int],
    *,
    alpha: float,
    step_size: float,
    schedule: Sequence[tuple[int | None, float]],
    n_unlearn_steps: int,
    noise: float,
    start: Any = None,
    min_bits: int = BITS,
) -> tuple[Pair, int]:
    """The p pairs (x, m2) of excess and squared shift of P where Q is N(0, I), and d."""
    rows = _table(X)
    targets = _table(Y)
    p, d = len(rows[0]), len(targets[0])
    begin = [[0.0] * d for _ in range(p)] if start is None else _table(start)
    eta = Fraction(step_size)
    gone = set(forget)
    kept = [i for i in range(len(rows)) if i not in gone]
    full = _step(rows, targets, Fraction(alpha), eta)
    less = _step([rows[i] for i in kept], [targets[i] for i in kept], Fraction(alpha), eta, p, d)
    plan = [(steps, 2 * eta * Fraction(sigma) ** 2) for steps, sigma in schedule]
    variance = 2 * eta * Fraction(noise) ** 2
    endless = plan[0][0] is None
    bits = min_bits + 1024 * endless  # solving loses as many bits as the condition number has
    while bits <= MAX_BITS:
        with mp.workprec(bits):
            try:
                law = _scalar_pair if p == 1 and not endless else _pair
                return law(full, less, plan, int(n_unlearn_steps), variance, begin), d
            except _TooCoarse as error:
                bits += max(bits, error.bits)
    raise ValueError("the covariance of one of the two runs is singular")


def reversed_pair(pair: Pair) -> Pair:
    """The same pair of Gaussians with P and Q in each other's place."""
    with mp.workprec(_bits(pair)):
        return [(-x / (1 + x), m2 / (1 + x)) for x, m2 in pair]


def _bits(pair: Pair) -> int:
    """The precision at which neither 1 + x nor its inverse less 1 loses too much."""
    with mp.workprec(max(x.bc for x, _ in pair) + 10):
        return BITS + 2 * max(abs(mp.mag(1 + x)) for x, _ in pair)


def _table(values: Any) -> list[list[float]]:
    """A list of rows of Python floats; a one-dimensional input is one column."""
    array = np.asarray(values, dtype=float)
    return (array[:, None] if array.ndim == 1 else array).tolist()


def _step(
    rows: list[list[float]],
    targets: list[list[float]],
    alpha: Fraction,
    eta: Fraction,
    p: int = 0,
    d: int = 0,
) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """I - eta (X'X + alpha I), p x p, and the columns of eta X'Y, d x p; both exact."""
    p, d = (len(rows[0]), len(targets[0])) if rows else (p, d)
    x, x_bits = _integers(rows)
    y, y_bits = _integers(targets)
    columns = list(zip(*x, strict=True)) or [()] * p
    wanted = list(zip(*y, strict=True)) or [()] * d
    slope = eta / (1 << 2 * x_bits)
    M = [[Fraction(0)] * p for _ in range(p)]
    for i in range(p):
        for j in range(i + 1):
            M[i][j] = M[j][i] = -slope * _dot(columns[i], columns[j])
        M[i][i] += 1 - eta * alpha
    slope = eta / (1 << (x_bits + y_bits))
    return M, [[slope * _dot(column, target) for column in columns] for target in wanted]


def _integers(table: list[list[float]]) -> tuple[list[list[int]], int]:
    """Integers and a number of bits b with table = integers / 2^b, exactly."""
    ratios = [[value.as_integer_ratio() for value in row] for row in table]
    bits = max((den.bit_length() - 1 for row in ratios for _, den in row), default=0)
    return [[num << (bits + 1 - den.bit_length()) for num, den in row] for row in ratios], bits


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(i * j for i, j in zip(a, b, strict=True))


def _mpf(value: Fraction) -> Any:
    return mpf(value.numerator) / value.denominator


def _pair(
    full: tuple[list[list[Fraction]], list[list[Fraction]]],
    less: tuple[list[list[Fraction]], list[list[Fraction]]],
    plan: list[tuple[int | None, Fraction]],
    K: int,
    variance: Fraction,
    begin: list[list[float]],
) -> Pair:
    """`standard_pair` at the current precision; raises _TooCoarse if that is too low."""
    p, d = len(begin), len(begin[0])
    columns = [[mpf(begin[i][k]) for i in range(p)] for k in range(d)]
    mean_p, S_p, size_p = _run(full, plan, columns)
    mean_q, S_q, size_q = _run(less, plan, columns)
    M = [[_mpf(value) for value in row] for row in less[0]]
    W = _power_and_sum(M, K)[0]  # K steps multiply a difference of means by W = M^K
    squares, total = _power_and_sum(_commuting(M, M), K)
    added = _mpf(variance)
    C_q = _combine(_commuting(squares, S_q), total, added)
    # K steps on the same rows make a difference of covariances W (S_p - S_q) W
    gap = _dots(W, _dots(W, _combine(S_p, S_q, -1)))
    shift = _dots(_combine(mean_p, mean_q, -1), W)
    inverse = _inverse_cholesky(C_q)
    ratio = _dots(inverse, _dots(inverse, gap), symmetric=True)  # P's covariance where Q's is I
    for i in range(p):
        ratio[i][i] += 1
    z = _dots(shift, inverse)
    values, vectors = mp.eigsy(mp.matrix(ratio))
    m2 = [sum(v**2 for v in column) for column in _dots(vectors.T.tolist(), z)]

    # Rounding errors are 2^-prec relative to the largest numbers met.
    if min(values) <= 0:
        raise _TooCoarse(0)
    scale, spread = _norm(inverse), _norm(W)
    lost = scale**2 * ((_norm(S_p) + _norm(S_q)) * spread**2 + _norm(C_q))
    _check(max(lost, scale * spread * (size_p + size_q) * p), values)
    return [(value - 1, m) for value, m in zip(values, m2, strict=True)]


def _check(lost: Any, values: Vector) -> None:
    """Raise _TooCoarse if numbers `lost` times too large were met on the way to `values`."""
    lost = max(lost, 1) * max(*values, 1) / min(*values, 1)
    need = GOOD_BITS + 40 + int(mp.ceil(mp.log(lost, 2)))
    if need > mp.prec:
        raise _TooCoarse(need - mp.prec)


def _scalar_pair(
    full: tuple[list[list[Fraction]], list[list[Fraction]]],
    less: tuple[list[list[Fraction]], list[list[Fraction]]],
    plan: list[tuple[int | None, Fraction]],
    K: int,
    variance: Fraction,
    begin: list[list[float]],
) -> Pair:
    """`_pair` for p = 1, step by step."""
    variances = [(steps, _mpf(added)) for steps, added in plan]
    runs = []
    for [[step]], push in (full, less):
        M, columns = _mpf(step), [mpf(value) for value in begin[0]]
        pushes = [_mpf(value) for [value] in push]
        square, S = M * M, mpf(0)
        for steps, added in variances:
            for _ in range(steps):
                S = square * S + added
                columns = [M * c + b for c, b in zip(columns, pushes, strict=True)]
        runs.append((columns, S))
    (mean_p, S_p), (mean_q, S_q) = runs
    W, added, total = mpf(1), _mpf(variance), mpf(0)
    for _ in range(K):
        W *= M
        total = square * total + added
    C_q = W * W * S_q + total
    if C_q == 0:
        raise ValueError("the variance of the run without the forgotten rows is 0")
    ratio = (W * W * S_p + total) / C_q
    if ratio == 0:
        raise ValueError("the variance of the run with the forgotten rows is 0")
    scale = W * W / C_q
    m2 = scale * sum((a - b) ** 2 for a, b in zip(mean_p, mean_q, strict=True))
    size = sum(abs(a) + abs(b) for a, b in zip(mean_p, mean_q, strict=True))
    # Nothing cancels but the difference of the means, and the steps that led to them.
    for [[step]], push in (full, less):
        size += _largest(abs(_mpf(step)), push, variances, begin)
    _check(mp.sqrt(scale) * size, [ratio])
    return [(ratio - 1, m2)]


def _largest(
    M: Any,
    push: list[list[Fraction]],
    variances: list[tuple[int, Any]],
    begin: list[list[float]],
) -> Any:
    """What the means could at most have been, had every term been added up without its sign."""
    size = mpf(sum(abs(value) for value in begin[0]))
    added = _mpf(sum(abs(value) for [value] in push))
    steps = sum(steps for steps, _ in variances)
    return (size + steps * added) * max(M, 1) ** steps


def _run(
    step: tuple[list[list[Fraction]], list[list[Fraction]]],
    plan: list[tuple[int | None, Fraction]],
    columns: list[Vector],
) -> tuple[list[Vector], Matrix, Any]:
    """Columns of the mean, covariance of a column, and the largest entry of a mean, after `plan`.

    The covariances are polynomials in the symmetric step matrix M, so they commute with it.
    """
    M = [[_mpf(value) for value in row] for row in step[0]]
    push = [[_mpf(value) for value in column] for column in step[1]]
    p = len(M)
    squared = _commuting(M, M)
    S = [[mpf(0)] * p for _ in range(p)]
    largest = mpf(0)
    if plan[0][0] is None:  # m = M m + push, S = M S M + variance
        gap = [[(i == j) - M[i][j] for j in range(p)] for i in range(p)]
        columns = [list(mp.lu_solve(mp.matrix(gap), mp.matrix(column))) for column in push]
        largest = max(abs(value) for column in columns for value in column)
        gap = [[(i == j) - squared[i][j] for j in range(p)] for i in range(p)]
        S = (mp.inverse(mp.matrix(gap)) * _mpf(plan[0][1])).tolist()
        plan = plan[1:]
    for steps, variance in plan:
        squares, total = _power_and_sum(squared, steps)
        S = _combine(_commuting(squares, S), total, _mpf(variance))
        for _ in range(steps):
            columns = _combine(_dots(columns, M), push, 1)
            largest = max(largest, *(abs(value) for column in columns for value in column))
    return columns, S, largest


def _power_and_sum(N: Matrix, k: int) -> tuple[Matrix, Matrix]:
    """N^k and I + N + ... + N^(k-1), for a symmetric N."""
    p = len(N)
    eye = [[mpf(i == j) for j in range(p)] for i in range(p)]
    power, total = eye, [[mpf(0)] * p for _ in range(p)]
    for bit in bin(k)[2:]:
        if power is not eye:
            total = _combine(total, _commuting(power, total), 1)
            power = _commuting(power, power)
        if bit == "1":
            total = _combine(eye, _commuting(N, total), 1) if power is not eye else eye
            power = _commuting(N, power) if power is not eye else N
    return power, total


def _commuting(A: Matrix, B: Matrix) -> Matrix:
    """The product of two symmetric matrices that commute, which is symmetric too."""
    return _dots(A, B, symmetric=True)


def _dots(A: Matrix, B: Matrix, symmetric: bool = False) -> Matrix:
    """All dot products of the rows of A with those of B: the matrix A B'.

    A row is held as integers times a power of two, which is right to 2^-prec relative to the
    largest of the row; only the lower triangle is worked out where the result is symmetric.
    """
    left, right = [_block(row) for row in A], [_block(row) for row in B]
    C = [[None] * len(B) for _ in A]
    for i, (a, a_exponent) in enumerate(left):
        for j, (b, b_exponent) in enumerate(right[: i + 1] if symmetric else right):
            C[i][j] = mpf((sum(map(mul, a, b)), a_exponent + b_exponent))
            if symmetric:
                C[j][i] = C[i][j]
    return C


def _block(row: Vector) -> tuple[list[int], int]:
    """Integers and an exponent e with row = integers 2^e."""
    parts = [(value.man if value >= 0 else -value.man, value.exp) for value in row]
    top = max((man.bit_length() + exp for man, exp in parts if man), default=0)
    low = top - mp.prec - 30
    return [man << exp - low if exp >= low else man >> low - exp for man, exp in parts], low


def _combine(A: Matrix, B: Matrix, factor: Any) -> Matrix:
    """A + factor B."""
    return [[a + factor * b for a, b in zip(*rows, strict=True)] for rows in zip(A, B, strict=True)]


def _norm(A: Matrix) -> Any:
    return mp.sqrt(mp.fdot((value, value) for row in A for value in row))


def _inverse_cholesky(C: Matrix) -> Matrix:
    """The lower triangular R with R C R' = I."""
    p = len(C)
    L = [[mpf(0)] * p for _ in range(p)]
    R = [[mpf(0)] * p for _ in range(p)]
    for i in range(p):
        for j in range(i + 1):
            rest = C[i][j] - mp.fdot(zip(L[i][:j], L[j][:j], strict=True))
            if j < i:
                L[i][j] = rest * R[j][j]
            elif rest <= 0:
                raise _TooCoarse(0)
            else:
                L[i][i] = mp.sqrt(rest)
                R[i][i] = 1 / L[i][i]
    for i in range(p):
        for j in range(i):
            R[i][j] = -R[i][i] * mp.fdot((L[i][k], R[k][j]) for k in range(j, i))
    return R


# ------------------------------------------------------------------------------------ p = d = 1


def log_delta_scalar(pair: Pair, epsilon: float) -> float:
    """log delta of N(m, 1 + x) against N(0, 1), as normal tails beyond the roots of l = epsilon."""
    [(x, m2)] = pair
    bits = GOOD_BITS + 50
    with mp.workprec(_bits(pair)):
        if abs(x) < mpf(2) ** -GOOD_BITS:
            x = mpf(0)
        m, eps, v = mp.sqrt(m2), mpf(epsilon), 1 + x
        if x == 0 and m < mpf(2) ** -GOOD_BITS:
            return -math.inf
        # l > eps where x z^2 + 2 m z > m^2 + v (log v + 2 eps)
        right = m2 + v * (mp.log1p(x) + 2 * eps)
        square = m2 + x * right
        if square <= 0:
            return -math.inf
        q = m + mp.sqrt(square)
        upper = right / q
        deviation = mp.sqrt(v)
        lower = -q / x if x else None
        while True:
            with mp.workprec(bits):
                parts = []
                for weight, mean, scale in ((1, m, deviation), (-mp.exp(eps), 0, 1)):
                    a = (upper - mean) / scale
                    if lower is None:
                        terms = [_tail(a)]
                    elif x > 0:  # beyond upper, or below lower
                        terms = [_tail(a), _tail((mean - lower) / scale)]
                    else:  # between upper and lower, lower being the larger
                        b = (lower - mean) / scale
                        terms = [_tail(a), -_tail(b)] if a > 0 or b > 0 else []
                        if a < 0 and b < 0:
                            terms = [_tail(-b), -_tail(-a)]
                    parts += [weight * term for term in terms]
                delta = mp.fsum(parts)
                size = mp.fsum(parts, absolute=True)
                if delta > size * mpf(2) ** (60 - bits):
                    return float(mp.log(delta))
                if size == 0 or bits > 2 * GOOD_BITS:
                    return -math.inf
                bits *= 2


def _tail(z: Any) -> Any:
    """P(N(0, 1) > z), to the current precision, relative; 0 where it is below exp(LEAST)."""
    if z < 0:
        return 1 - _tail(-z)
    if z > 45:
        return mpf(0)
    if z > 20:
        with mp.workprec(mp.prec + 20 + 2 * mp.mag(z)):
            tail = mp.erfc(z / mp.sqrt(2)) / 2
        return +tail
    # 1/2 - density(z) (z + z^3 / 3 + z^5 / (3 5) + ...), in integers with enough guard bits
    guard = mp.prec + 20 + int(0.75 * float(z) ** 2)
    with mp.workprec(guard + 10):
        z2 = int(mp.ldexp(z * z, guard))
        term = total = int(mp.ldexp(z, guard))
        k = 1
        while term:
            k += 2
            term = (term * z2 >> guard) // k
            total += term
        tail = mpf(0.5) - mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi) * mp.ldexp(total, -guard)
    return +tail


# --------------------------------------------------------------------------- any p and d: contour


def log_delta_contour(
    pair: Pair, d: int, epsilon: float, saddle_shift: float = 1.0, bend: float | None = None
) -> float:
    """log delta by the contour integral; `pair` has the excesses x and squared shifts m2.

    For checks, `saddle_shift` multiplies c - 1 at the saddle point c (when all is finite there),
    and `bend` sets the angle of the rays.
    """
    tiny = mpf(2) ** -GOOD_BITS
    with mp.workprec(_bits(pair)):
        eps = mpf(epsilon)
        flat = mp.fsum(m2 for x, m2 in pair if abs(x) < tiny)
        pair = [(x, m2) for x, m2 in pair if abs(x) >= tiny]
        if flat >= tiny**2:
            pair.append((mpf(0), flat))
        if not pair:
            return -math.inf
        logs = mp.fsum(mp.log1p(x) for x, _ in pair) * d / 2 + eps
        v = _saddle(pair, d, logs)
        if v is None:
            return -math.inf
        v *= saddle_shift
        c = 1 + v
        top, slope = -v * logs - mp.log(c * v), -logs - 1 / c - 1 / v
        poles, curvature = [], 1 / c**2 + 1 / v**2
        for x, m2 in pair:
            D = 1 - x * v
            y, a = x / D, m2 * (1 + x) / (2 * D**3)
            top += -mp.log(D) * d / 2 + c * v * m2 / (2 * D)
            slope += _slope(x, m2, v, d)
            curvature += y * y * d / 2 + 2 * a
            poles.append((y, a))
        if top + mp.log(v) < LEAST:  # delta is at most exp(top) v / 2
            return -math.inf
        width = 1 / mp.sqrt(curvature)
        # From here on u = s - c is counted in widths.
        poles = [(y * width, a * width**2) for y, a in poles]
        poles_of_one = [width / c, width / v]
        slope *= width
        bend, end = _bend(poles, poles_of_one, slope, d) if bend is None else (bend, math.inf)
        area = _ray_integral(poles, poles_of_one, slope, d, bend, end)
        return min(0.0, float(top + mp.log(area * width / mp.pi)))


def _slope(x: Any, m2: Any, v: Any, d: int) -> Any:
    """One coordinate's part of K'(1 + v), but for the logarithms."""
    D = 1 - x * v
    return x * d / (2 * D) + m2 * ((2 * v + 1) * D + x * v * (v + 1)) / (2 * D * D)


def _saddle(pair: Pair, d: int, logs: Any) -> Any:
    """v = c - 1 near the least of K(s) + (1 - s) eps - log(s (s - 1)), s > 1; None if infinite.

    There the pair's least upper bound of l is below eps, and delta is zero.
    """
    top = max(max(x for x, _ in pair), mpf(0))

    def place(t: Any) -> Any:
        return 1 / (top + mp.exp(-t))  # below 1 / top, where K becomes infinite

    def rises(t: Any) -> bool:
        v = place(t)
        total = mp.fsum(_slope(x, m2, v, d) for x, m2 in pair)
        return total - logs - 1 / v - 1 / (1 + v) > 0

    low, high = mpf(-2), mpf(2)
    while not rises(high):
        low, high = high, 2 * high
        if high > 300:
            return None
    while rises(low):
        low, high = 2 * low, low
    while high - low > 0.01:
        middle = (low + high) / 2
        if rises(middle):
            high = middle
        else:
            low = middle
    return place((low + high) / 2)


def _bend(poles: Pair, poles_of_one: Vector, slope: Any, d: int) -> tuple[float, float]:
    """The angle by which to turn the upper half of the contour to the right, and where it may end.

    Doubles are enough to choose: of a few angles along which the integrand falls without rising
    again, the one along which it falls the fastest. The turn is allowed if the integrand vanishes
    far out in the whole sector between the ray and the vertical line, or if it is negligible on an
    arc back to that line, along which it always falls; then the ray ends at that arc.
    """
    y, a = np.array([[float(y), float(a)] for y, a in poles]).T
    ones = np.array([float(w) for w in poles_of_one])
    radii = 2.0 ** np.arange(-4, 140, 0.25)

    def height(angle: float) -> np.ndarray:
        u = (radii * 1j * np.exp(-1j * angle))[:, None]
        yu, wu = y * u, ones * u
        value = np.sum(-(np.log(1 - yu) + yu) * d / 2 + a * u * (u / (1 - yu)), axis=1)
        return (value - np.sum(np.log(1 + wu) - wu, axis=1) + float(slope) * u[:, 0]).real

    negligible = -45 - np.log(radii).clip(0)
    upright = height(0.0)
    reached = upright < negligible
    best, cost, end = 0.0, int(np.argmax(reached)) if reached.any() else len(radii), math.inf
    # Far out the exponent is `far` times u, unless the integrand is already negligible by then.
    curved = y != 0
    far = float(slope) + ones.sum() - np.sum(y[curved] * d / 2 + a[curved] / y[curved])
    for angle in (0.2, 0.45, 0.7, -0.2, -0.45, -0.7):
        h = height(angle)
        small = h < negligible
        arc = np.all([small, *(height(angle * part) < negligible for part in SECTOR)], axis=0)
        first = int(np.argmax(small)) if small.any() else len(radii)
        if angle * far < 0 and small.any() and (h[first:] < -40).all():
            last, limit = first, math.inf
        elif arc.any():
            last = int(np.argmax(arc))
            limit = radii[last]
        else:
            continue
        if np.diff(h[: last + 1], prepend=0.0).max() < 1 and first < cost - 2:
            best, cost, end = angle, first, limit
    return best, end


def _ray_integral(
    poles: Pair, poles_of_one: Vector, slope: Any, d: int, bend: float, end: float
) -> Any:
    """The imaginary part of the integral along the ray; the integrand is 1 at the saddle point.

    The radius is exp(t - exp(-t)) and the trapezoidal rule in t is refined until it settles. Long
    doubles are used where their rounding errors are bounded by ROUNDING_TOLERANCE.
    """
    with mp.workprec(NODE_BITS):
        linear = slope - mp.fsum(y for y, _ in poles) * d / 2 + mp.fsum(poles_of_one)
        problem = (poles, poles_of_one, linear, d, bend, end)
        for line in (_line_of_long_doubles, _line_of_mpf):
            h, estimate = 0.5, None
            total, rounding = line(*problem, FIRST, h)
            for _ in range(10):
                more, error = line(*problem, FIRST + h / 2, h)
                total, rounding, h = total + more, rounding + error, h / 2
                if not rounding < ROUNDING_TOLERANCE * abs(total):
                    break
                if estimate and abs(h * total - estimate) <= QUADRATURE_TOLERANCE * estimate:
                    return h * total
                estimate = h * total
    raise ArithmeticError("the contour integral does not settle")


def _line_of_mpf(
    poles: Pair,
    poles_of_one: Vector,
    linear: Any,
    d: int,
    bend: float,
    end: float,
    first: float,
    h: float,
) -> tuple[Any, float]:
    """The sum over t = first, first + h, ... until three terms in a row do not count; 0."""
    direction = mp.mpc(mp.sin(bend), mp.cos(bend))
    total, biggest, quiet, t = mpf(0), mpf(0), 0, first
    while quiet < 3 and t < LAST:
        inner = mp.exp(-mpf(t))
        radius = mp.exp(t - inner)
        if radius > end:
            break
        u = radius * direction
        value = linear * u
        for y, a in poles:
            factor = 1 - y * u
            value += a * u * u / factor - mp.log(factor) * d / 2
        fall = (1 + poles_of_one[0] * u) * (1 + poles_of_one[1] * u)
        term = mp.exp(value) * direction / fall * (radius * (1 + inner))
        total += term.imag
        biggest = max(biggest, abs(term))
        quiet = quiet + 1 if t > 0 and abs(term) < 1e-17 * biggest else 0
        t += h
    return total, 0.0


def _line_of_long_doubles(
    poles: Pair,
    poles_of_one: Vector,
    linear: Any,
    d: int,
    bend: float,
    end: float,
    first: float,
    h: float,
) -> tuple[Any, float]:
    """The same sum, and a bound on its rounding error."""

    def long(values: Any) -> Any:
        return np.array([mp.nstr(value, 25) for value in values]).astype(np.longdouble)

    y, a = long([y for y, _ in poles]), long([a for _, a in poles])
    (sine, cosine, slope, w0, w1) = long([mp.sin(bend), mp.cos(bend), linear, *poles_of_one])
    direction = sine + 1j * cosine
    with np.errstate(all="ignore"):
        t = np.arange(first, LAST, h, dtype=np.longdouble)
        t = t[np.exp(t - np.exp(-t)) <= end]
        radius = np.exp(t - np.exp(-t))
        u = radius * direction
        factor = 1 - y * u[:, None]
        curved = a * (u * u)[:, None] / factor
        logs = np.log(factor) * d / 2
        value = slope * u + np.sum(curved - logs, axis=1)
        size = abs(slope * u) + np.sum(abs(curved) + abs(logs), axis=1) + 10
        terms = np.exp(value) * direction / ((1 + w0 * u) * (1 + w1 * u))
        terms *= radius * (1 + np.exp(-t))
        error = abs(terms) * size * (20 * np.finfo(np.longdouble).eps)
        total, bound = np.sum(terms.imag), np.sum(error)
    return mpf(np.format_float_scientific(total, precision=25)), float(bound)
