"""Block Lanczos against the relation that defines it, with plain dense matrices."""

import numpy as np
import pytest

from pilu.ridge.lanczos import BlockLanczos
from pilu.ridge.spectral import Spectrum

P = 50


@pytest.fixture(params=["eigenbasis", "rows taken out"])
def spectrum(request, rng):
    values = 3.0 * np.arange(1, P + 1) ** -1.0
    plain = Spectrum(values, np.eye(P), np.zeros((P, 1)), 0.0)
    if request.param == "eigenbasis":
        return plain
    rows = 0.02 * rng.normal(size=(3, P)) * np.sqrt(values)
    return plain.without(rows, np.ones((3, 1)))


def dense(spectrum):
    A = np.diag(spectrum.eigenvalues)
    return A if spectrum.removed is None else A - spectrum.removed.T @ spectrum.removed


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("size", [12, 30])
def test_the_lanczos_relation_holds(width, size, spectrum, rng):
    block = rng.normal(size=(P, width))
    lanczos = BlockLanczos(spectrum, block)
    lanczos.extend(size)
    Q, T, A = lanczos.basis, lanczos.projected, dense(spectrum)
    assert Q.shape == (P, len(T))
    np.testing.assert_allclose(Q.T @ Q, np.eye(len(T)), atol=1e-13)
    np.testing.assert_allclose(Q.T @ A @ Q, T, atol=1e-13)
    np.testing.assert_allclose(Q[:, :width] @ lanczos.first, block, atol=1e-13)
    # What leaves the space comes from the last block alone, at the size of the coupling.
    leaving = A @ Q - Q @ T
    np.testing.assert_allclose(leaving[:, : len(T) - width], 0, atol=1e-13)
    np.testing.assert_allclose(
        np.linalg.svd(leaving[:, len(T) - width :], compute_uv=False)[:width],
        np.linalg.svd(lanczos.coupling, compute_uv=False),
        rtol=1e-10,
    )


def test_growing_in_two_stages_is_growing_at_once(spectrum, rng):
    block = rng.normal(size=(P, 2))
    once, twice = BlockLanczos(spectrum, block), BlockLanczos(spectrum, block)
    once.extend(40)
    twice.extend(10)
    twice.extend(40)
    np.testing.assert_allclose(once.projected, twice.projected, atol=1e-14)


def test_dependent_vectors_count_once(spectrum, rng):
    vector = rng.normal(size=(P, 1))
    lanczos = BlockLanczos(spectrum, np.hstack([vector, 2 * vector, -vector]))
    assert lanczos.width == 1
    lanczos.extend(5)
    np.testing.assert_allclose(
        lanczos.basis[:, :1] @ lanczos.first, np.hstack([vector, 2 * vector, -vector]), atol=1e-13
    )


@pytest.mark.parametrize("width", [1, 2])
def test_an_invariant_space_is_noticed(width, rng):
    plain = Spectrum(np.linspace(1, 2, P), np.eye(P), np.zeros((P, 1)), 0.0)
    block = np.zeros((P, width))
    block[:4] = rng.normal(size=(4, width))  # four eigenvectors
    lanczos = BlockLanczos(plain, block)
    lanczos.extend(40)
    assert lanczos.exhausted
    assert len(lanczos.projected) == 4
    np.testing.assert_allclose(
        np.linalg.eigvalsh(lanczos.projected), plain.eigenvalues[:4], atol=1e-13
    )
