"""Ridge regression by Langevin dynamics: what is its own among the losses."""

import secrets
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from pilu._checks import check_choice
from pilu.chains.chain import SOLVERS, Problem
from pilu.data.partitions import LearnedPartitions, PartitionedRows, Partitions, is_dask
from pilu.data.rows import RowSource
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.estimators.base import LangevinBase, check_batch_size
from pilu.estimators.planning import PlanningMixin
from pilu.estimators.requests import RowBook
from pilu.minibatch.problem import MinibatchProblem
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.spectrum import check_room

__all__ = ["LangevinRidgeBase"]

_COUNTED_FIRST = 1024  # columns: products of so many take longer than reading rows twice


class LangevinRidgeBase(PlanningMixin, LangevinBase):
    """Ridge regression: solvers in the eigenbasis, dask collections, plans."""

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        n_steps: int = 800,
        noise: float = 0.01,
        step_size: float | str = "auto",
        batch_size: int | None = None,
        fit_intercept: bool = True,
        solver: str = "spectral",
        random_state: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.n_steps = n_steps
        self.noise = noise
        self.step_size = step_size
        self.batch_size = batch_size
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.random_state = random_state

    @property
    def _solver(self) -> str:  # type: ignore[override]
        return self.solver

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("solver", self.solver, tuple(SOLVERS))

    def _fit(
        self, X: Any, y: Any, sample_ids: Any, subjects: Any, coef_init: ArrayLike | None
    ) -> None:
        self._ids_are_the_index = False
        if is_dask(X) or is_dask(y):
            self._check_parameters()
            named = {"sample_ids": sample_ids, "subjects": subjects}
            lazy = {name: given for name, given in named.items() if is_dask(given)}
            self._fit_partitions(Partitions.of(X, y, **lazy), named, coef_init)
        else:
            unique = getattr(getattr(X, "index", None), "is_unique", False)
            self._ids_are_the_index = sample_ids is None and bool(unique)
            super()._fit(X, y, sample_ids, subjects, coef_init)

    def _fit_partitions(
        self, partitions: Partitions, named: dict[str, Any], coef_init: ArrayLike | None
    ) -> LearnedPartitions:
        """The same from dask collections: one pass over the partitions, where they are."""
        if self.batch_size is not None or self.solver != "spectral":
            raise ValueError(
                "batch_size must be None and solver 'spectral' for dask collections, got "
                f"batch_size={self.batch_size!r} and solver={self.solver!r}: rows are read once, "
                "where they are."
            )
        key, fit_intercept = secrets.token_bytes(32), bool(self.fit_intercept)
        validate_data(self, partitions.like, skip_check_array=True)  # names of columns
        sums = self._wants_sums(partitions)
        targets = self._partitioned_targets(partitions)
        reading, d = partitions.reading(targets), targets.n_outputs
        learned = partitions.learn(reading, key, fit_intercept=fit_intercept, sums=sums)
        n, p = int(learned.sizes.sum()), partitions.n_features
        if n < 2:
            raise ValueError(f"X must have at least 2 rows, got n_samples={n}.")
        learned.notes.check_scale()
        rows = PartitionedRows(partitions, learned.sizes, reading)
        live, digests = np.ones(n, dtype=bool), learned.notes.digests
        source = RowSource(rows, partitions.n_features, fit_intercept, live, digests, key)
        alpha = float(self.alpha)
        if n >= source.n_columns and learned.statistics is not None:
            problem = RidgeProblem.of_statistics(source, alpha, learned.statistics)
        else:
            problem = RidgeProblem.collected(source, alpha, d, source.features)
        named = {**named, **learned.beside}
        if named["sample_ids"] is None and getattr(learned.index, "is_unique", False):
            named["sample_ids"], self._ids_are_the_index = learned.index, True
        book = RowBook.open(n, key, **named)
        step_size = self._resolve_step_size(problem.spectrum.largest)
        self._learn(problem, step_size, self._start(coef_init, p, d), book)
        return learned

    def _wants_sums(self, partitions: Partitions) -> bool:
        """Whether p x p sums are what to learn from: there are at least as many rows as columns."""
        p, n = partitions.n_features + bool(self.fit_intercept), partitions.n_rows
        if n is None and p >= _COUNTED_FIRST:
            n = int(partitions.rows()[0].sum())
        if n is not None and n < p:
            return False
        check_room(p)
        return True

    def _partitioned_targets(self, partitions: Partitions) -> NumericTargets | ClassTargets:
        """How targets become numbers."""
        raise NotImplementedError

    def _problem(self, source: RowSource, n_outputs: int) -> tuple[Problem, float]:
        """The problem, and the largest curvature that a step meets."""
        alpha, n = float(self.alpha), source.n_rows
        if self.batch_size is None or self.batch_size == n:  # one batch is a full batch
            full = RidgeProblem.fit(source, alpha, n_outputs)
            return full, full.spectrum.largest
        check_batch_size(self.batch_size, n)
        cyclic = MinibatchProblem.fit(source, alpha, n_outputs, int(self.batch_size))
        return cyclic, cyclic.largest
