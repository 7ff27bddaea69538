"""Block Lanczos: an orthonormal basis of the space that A reaches from a few vectors.

A Q = Q T + Q_+ B E_last', T block tridiagonal, Q fully reorthogonalised.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pilu.ridge.spectral import Spectrum

Array = NDArray[np.float64]

_DEFLATE = 1e-14  # relative size below which a direction is rounding error
_CANCELLED = 0.5  # share of a block's norm: if a pass leaves less, it is repeated


class BlockLanczos:
    """Lanczos on A, in the coordinates of its spectrum, from a block; extended on demand.

    Attributes
    ----------
    first : array
        R_1: the block in the basis of its own columns.
    projected : array
        T.
    coupling : array
        B: the coupling of the last block to the next one.
    deflated : float
        Bound on the norm of what was left out as rounding error: of A Q over |A|, of the first
        block over its own norm, and of the square of that block.
    """

    def __init__(self, spectrum: Spectrum, block: Array) -> None:
        self._spectrum = spectrum
        self._size = float(np.max(spectrum.eigenvalues, initial=0.0))
        self._vectors = np.empty((block.shape[1], len(block)))  # a row each
        self._used = 0
        self._previous = np.empty((0, len(block)))
        self._last = self._store(_independent(block))
        # Each of the block's columns can be left out once.
        self._most_deflated = 4 * _DEFLATE * math.sqrt(block.shape[1])
        self.deflated = self._most_deflated if len(self._last) < block.shape[1] else 0.0
        self.first = self._last @ block
        self._matrix = np.zeros((0, 0))
        self.projected = self._matrix[:0, :0]
        self.coupling = np.zeros((len(self._last), 0))

    @property
    def width(self) -> int:
        """Independent vectors in the first block."""
        return len(self.first)

    @property
    def basis(self) -> Array:
        """Q, one column for each dimension of T."""
        return self._vectors[: len(self.projected)].T

    @property
    def exhausted(self) -> bool:
        """Whether the space is invariant, so that nothing is neglected."""
        return len(self._last) == 0

    def extend(self, n_columns: int) -> None:
        """Grow the space to at least `n_columns` dimensions, or until it is invariant."""
        self._reserve(n_columns + 2 * self.width)  # two blocks beyond the end
        if self.width == 1:
            self._extend_by_ones(n_columns)
        while len(self.projected) < n_columns and not self.exhausted:
            self._step()

    def _step(self) -> None:
        old, last = len(self.projected), self._last
        image = self._spectrum.times(last.T).T
        image -= self.coupling @ self._previous
        inner = image @ last.T
        inner = (inner + inner.T) / 2
        image -= inner @ last
        image = self._orthogonalised(image)
        new, before = old + len(last), old - self.coupling.shape[1]
        self._matrix[old:new, old:new] = inner
        self._matrix[old:new, before:old] = self.coupling
        self._matrix[before:old, old:new] = self.coupling.T
        self.projected = self._matrix[:new, :new]
        self._previous = last
        self._last = self._store(self._next(image))
        self.coupling = self._last @ image.T

    def _extend_by_ones(self, n_columns: int) -> None:
        # The same for a single vector, without the overhead of small matrix products.
        vectors, matrix, times = self._vectors, self._matrix, self._spectrum.times
        tiny, old, norm = _DEFLATE * self._size, len(self.projected), 0.0
        while old < n_columns and not self.exhausted:
            last, known = vectors[old], vectors[: old + 1]
            image = times(last)
            matrix[old, old] = image.dot(last)
            local = slice(max(old - 1, 0), old + 1)
            image -= matrix[old, local].dot(vectors[local])
            while True:
                along = known.dot(image)
                image -= along.dot(known)
                norm, cancelled = math.sqrt(image.dot(image)), float(along.dot(along))
                # The square of the length before was norm^2 + cancelled. If little is left, it is
                # rounding error: once more.
                enough = norm > _CANCELLED * math.sqrt(norm**2 + cancelled)
                if enough or not norm > tiny:
                    break
            old += 1
            if norm <= tiny or old >= len(image):
                self.deflated, norm = self._most_deflated, 0.0
                self._last = vectors[:0]
            else:
                matrix[old - 1, old] = matrix[old, old - 1] = norm
                np.divide(image, norm, out=vectors[old])
        if old > len(self.projected):
            self.projected = matrix[:old, :old]
            self._used = old if self.exhausted else old + 1
            self._last = vectors[old : self._used]
            self.coupling = np.full((len(self._last), 1), norm)

    def _orthogonalised(self, block: Array) -> Array:
        # Against all vectors so far, and again if little is left, which is then rounding error.
        known = self._vectors[: self._used]
        size = _norm(block)
        while size > 0.0:
            block = block - (block @ known.T) @ known
            left = _norm(block)
            if left > _CANCELLED * size or left <= _DEFLATE * self._size:
                break
            size = left
        return block

    def _next(self, image: Array) -> Array:
        """An orthonormal basis of the image, without directions of rounding size."""
        left, singular, _ = np.linalg.svd(image.T, full_matrices=False)
        kept = singular > _DEFLATE * self._size
        kept[image.shape[1] - self._used :] = False  # no more directions than there are
        if not kept.all():
            self.deflated = self._most_deflated
        # A direction just above the limit is orthogonalised once more.
        fresh = self._orthogonalised(left[:, kept].T)
        return np.linalg.qr(fresh.T)[0].T if len(fresh) else fresh

    def _reserve(self, size: int) -> None:
        if size <= len(self._matrix):
            return
        vectors, matrix = np.empty((size, self._vectors.shape[1])), np.zeros((size, size))
        vectors[: self._used] = self._vectors[: self._used]
        matrix[: len(self._matrix), : len(self._matrix)] = self._matrix
        self._vectors, self._matrix = vectors, matrix

    def _store(self, block: Array) -> Array:
        end = self._used + len(block)
        self._vectors[self._used : end] = block
        self._used = end
        return self._vectors[end - len(block) : end]


def _independent(block: Array) -> Array:
    """An orthonormal basis of the columns, in rows."""
    if block.shape[1] == 1:
        row = block.T / np.max(np.abs(block))  # the square of a tiny row would be zero
        return np.asarray(row / _norm(row))
    left, singular, _ = np.linalg.svd(block, full_matrices=False)
    return np.asarray(left[:, singular > _DEFLATE * singular[0]].T)


def _norm(block: Array) -> float:
    flat = block.ravel()
    return math.sqrt(flat @ flat)
