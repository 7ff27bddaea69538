"""What forgetting each of all people would cost: rows are read in turn, a few at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from pilu._checks import check_integer
from pilu._processes import packed
from pilu._progress import progress_bar
from pilu.certify.accountant import Law, Progress, Target
from pilu.certify.coarse import CoarseExact, coarse_accountant
from pilu.chains.request import Request
from pilu.data.names import hash_of
from pilu.data.table import rows_in_a_batch
from pilu.deletion.attaching import table_of, with_rows
from pilu.deletion.store import Moment, Store
from pilu.ridge.law import RidgeLaw

__all__ = ["Prices", "price_everybody"]

_WORTH_PROCESSES = 256  # people: for fewer, starting processes costs more than it saves


@dataclass(frozen=True)
class Prices:
    """Names, rows and noise of people; the arrays run parallel."""

    names: list[str]
    rows: NDArray[np.intp]
    noise: NDArray[np.float64]
    epsilon: float
    delta: float
    n_unlearn_steps: int
    n_subjects: int  # of whom all, or a sample, were quoted


def price_everybody(
    store: Store,
    table: str | Path | None = None,
    *,
    epsilon: float = 1.0,
    delta: float | None = None,
    n_unlearn_steps: int = 80,
    at_most: int | None = None,
) -> Prices:
    """Quote everybody who is left, or `at_most` so many of them, drawn at random."""
    if at_most is not None:
        check_integer("people", at_most, least=1)
    moment = store.read()
    people = _people(moment, store.key, table)
    n_subjects = len(people)
    if not people:
        raise ValueError("table must have somebody of the fit in it, got none of the names.")
    if at_most is not None and at_most < n_subjects:
        chosen = np.random.default_rng().choice(n_subjects, at_most, replace=False)
        people = [people[k] for k in sorted(chosen.tolist())]
    model = with_rows(moment, table, store.key, np.array([], dtype=np.intp))
    target = model._target(epsilon, delta, n_unlearn_steps)
    source, law = model.fitted_.source, model.fitted_.law
    sizes = np.array([len(rows) for _, rows in people], dtype=np.intp)
    if sizes.max() == source.live.sum():
        raise ValueError("there must be somebody else: all rows that are left are one person's.")

    def blocks() -> Iterator[tuple[Request, NDArray[np.intp]]]:
        for groups, _ in packed(sizes, rows_in_a_batch(source.n_columns)):
            rows = np.concatenate([rows for _, rows in people[groups]])
            yield Request.read(source, rows), sizes[groups]

    n_jobs = -1 if len(people) >= _WORTH_PROCESSES else 1
    with (
        parallel_config(n_jobs=n_jobs),
        progress_bar(len(people), what="quoting", unit="person") as bar,
    ):
        noise = _noises(law, blocks(), target, bar.update)
    return Prices(
        [name for name, _ in people],
        sizes,
        noise,
        target.epsilon,
        target.delta,
        target.n_unlearn_steps,
        n_subjects,
    )


def _noises(
    law: Law,
    blocks: Iterator[tuple[Request, NDArray[np.intp]]],
    target: Target,
    progress: Progress,
) -> NDArray[np.float64]:
    """What every group of rows would take."""
    judge = coarse_accountant(law)
    if isinstance(judge, CoarseExact):
        assert isinstance(law, RidgeLaw)  # a store has no mini-batches
        return judge.calibrate_groups(law, blocks, target, progress)[0]
    found = []
    for block, sizes in blocks:
        ends = np.cumsum(sizes)
        for first, end in zip(ends - sizes, ends, strict=True):
            one = Request(block.X[first:end], block.Y[first:end], block.rows[first:end])
            found.append(judge.calibrate(law, one, target).noise)
            progress(1)
    return np.array(found)


def _people(
    moment: Moment, key: bytes, table: str | Path | None
) -> list[tuple[str, NDArray[np.intp]]]:
    """Names as they stand in the table, with the positions of their rows, in that order."""
    known, found = moment.names.by_hash("subject"), {}
    for _, ids, subjects in table_of(moment, table).names():
        for name in subjects or ids or ():
            hashed = hash_of(name, key)
            if hashed in known:
                found[hashed] = str(name)
    return [
        (found[hashed], np.array(positions, dtype=np.intp))
        for hashed, positions in known.items()
        if hashed in found
    ]
