"""Sums over powers in blocks, against the powers written out."""

import numpy as np
import pytest

from pilu.ridge.spectral import Powers, decays

A = np.array([0.0, 1e-9, 1e-3, 0.2, 0.5, 0.99, 1.0, 1.3])


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 1000])
def test_blocks_of_powers_are_the_powers(count, rng):
    table = np.array([[float(1 - np.longdouble(a)) ** s for s in range(count)] for a in A])
    np.testing.assert_allclose(decays(A, 1.0, count), table, rtol=1e-12, atol=1e-300)
    powers = Powers.of(A, 1.0)
    columns, rows = rng.normal(size=(len(A), 3)), rng.normal(size=(2, len(A)))
    np.testing.assert_allclose(powers.series(columns, count), columns.T @ table, atol=1e-12)
    series = rng.normal(size=(count, 2))
    np.testing.assert_allclose(powers.weighted(series), table @ series, atol=1e-11)
    reached = np.array([rows @ (t[:, None] * columns) for t in table.T])
    np.testing.assert_allclose(
        powers.norms(rows, columns, count), np.linalg.norm(reached, axis=(1, 2)), atol=1e-12
    )
    weights = rng.uniform(size=count)
    np.testing.assert_allclose(
        powers.norm_sums(rows, columns, weights),
        weights @ np.linalg.norm(reached, axis=1),
        atol=1e-10,
    )
    squares = Powers.of(A, 1.0).squared()
    np.testing.assert_allclose(squares.series(columns, count), columns.T @ table**2, atol=1e-12)
