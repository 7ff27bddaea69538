"""The sizes that are timed, and synthetic rows of such a size."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    """n rows, p parameters, the intercept included, d outputs; T steps to learn, K to unlearn.

    With a batch size b, T and K count steps on mini-batches. At a `desk` size a store is
    timed, at a `cluster` size a fit of several files, at a `smooth` one softmax regression, at a
    `refit` one the heads of `benchmarks/refit.py`, at a `living` one the desk of refits, at a
    `serve` one the service.
    """

    n: int
    p: int
    d: int
    T: int
    K: int
    b: int | None = None
    desk: bool = False
    cluster: bool = False
    smooth: bool = False
    refit: bool = False
    living: bool = False
    serve: bool = False

    @property
    def data_bytes(self) -> int:
        """Of X, which has no column for the intercept."""
        return 8 * self.n * (self.p - 1)

    def __str__(self) -> str:
        kinds = ("desk", "cluster", "smooth", "refit", "living", "serve")
        numbers = {k: v for k, v in asdict(self).items() if k not in kinds and v is not None}
        return ", ".join(f"{k} = {v}" for k, v in numbers.items())

    def spread_rows(self, count: int) -> list[int]:
        """Rows evenly spaced over the data."""
        return [int(row) for row in np.linspace(0, self.n - 1, count)]


SIZES = {
    "nyu": Size(n=38_400, p=1_537, d=1, T=800, K=80),
    "mnist": Size(n=4_000, p=2_049, d=10, T=300, K=20),
    "cyclic": Size(n=38_400, p=1_537, d=1, T=5_625, K=80, b=512),
    "desk": Size(n=38_400, p=1_537, d=1, T=800, K=80, desk=True),
    "cluster": Size(n=2_000_000, p=257, d=1, T=800, K=80, cluster=True),
    "softmax": Size(n=4_000, p=2_049, d=10, T=300, K=20, smooth=True),
    "refit": Size(n=40_000, p=46, d=1, T=1, K=1, refit=True),
    "living": Size(n=40_000, p=20, d=1, T=1, K=1, living=True),
    "serve": Size(n=40_000, p=20, d=1, T=1, K=1, serve=True),
    "small": Size(n=400, p=120, d=1, T=50, K=5),
    "small-cyclic": Size(n=400, p=120, d=1, T=80, K=5, b=50),
    "small-desk": Size(n=400, p=120, d=1, T=50, K=5, desk=True),
    "small-cluster": Size(n=20_000, p=65, d=1, T=50, K=5, cluster=True),
    "small-softmax": Size(n=400, p=120, d=4, T=50, K=5, smooth=True),
    "small-refit": Size(n=2_000, p=46, d=1, T=1, K=1, refit=True),
    "small-living": Size(n=2_000, p=20, d=1, T=1, K=1, living=True),
    "small-serve": Size(n=2_000, p=20, d=1, T=1, K=1, serve=True),
    "toy": Size(n=100, p=50, d=2, T=20, K=5),
    "toy-desk": Size(n=100, p=50, d=1, T=20, K=5, desk=True),
    "toy-softmax": Size(n=100, p=50, d=3, T=20, K=5, smooth=True),
    "toy-refit": Size(n=200, p=46, d=1, T=1, K=1, refit=True),
    "toy-living": Size(n=400, p=20, d=1, T=1, K=1, living=True),
    "toy-cyclic": Size(n=100, p=50, d=2, T=40, K=12, b=10),
}


def make_data(size: Size) -> tuple[Array, Array]:
    """Features whose variances decay as 1/k, and targets linear in them plus noise.

    X is made in place, so that making it takes no more memory than it does.
    """
    rng = np.random.default_rng(0)
    X = np.empty((size.n, size.p - 1))
    rng.standard_normal(out=X)
    X *= np.arange(1, size.p) ** -0.5
    return X, X @ rng.standard_normal((size.p - 1, size.d)) + rng.standard_normal((size.n, size.d))


def with_intercept(X: Array) -> Array:
    """The rows as the references see them: with a column of ones."""
    return np.hstack([X, np.ones((len(X), 1))])
