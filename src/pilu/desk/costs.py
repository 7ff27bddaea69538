"""What forgetting each subject would cost: rows are read in turn, a few at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from pilu._checks import check_integer
from pilu._processes import pack
from pilu._progress import progress_bar
from pilu.certify.coarse import coarse_accountant
from pilu.certify.issue import set_terms
from pilu.data.names import hash_of
from pilu.data.rows import Request
from pilu.data.table import rows_in_a_batch
from pilu.desk.langevin_snapshot import LangevinSnapshot
from pilu.estimators.quote import Quote
from pilu.estimators.utility import Utility
from pilu.exceptions import WrongInput
from pilu.report.data import Costs

_WORTH_PROCESSES = 256  # subjects: for fewer, starting processes costs more than it saves


def quote_everyone(
    snapshot: LangevinSnapshot,
    table: str | Path | None = None,
    *,
    epsilon: float = 1.0,
    delta: float | None = None,
    n_unlearn_steps: int = 80,
    at_most: int | None = None,
) -> Costs:
    """Quote all subjects that are left, or a random sample of `at_most` of them."""
    if at_most is not None:
        check_integer("people", at_most, least=1)
    subjects = _subjects(snapshot, table)
    n_subjects = len(subjects)
    if not subjects:
        raise WrongInput("table must have subjects of the fit, got none of their names.")
    if at_most is not None and at_most < n_subjects:
        chosen = np.random.default_rng().choice(n_subjects, at_most, replace=False)
        subjects = [subjects[k] for k in sorted(chosen.tolist())]
    fitted = snapshot.attached(table).fitted_
    source = fitted.source
    law, accountant = fitted.law, coarse_accountant(fitted.law)
    target = set_terms(fitted.chain, accountant, epsilon, delta, n_unlearn_steps).target
    sizes = np.array([len(rows) for _, rows in subjects], dtype=np.intp)
    if sizes.max() == source.live.sum():
        raise WrongInput(
            "there must be at least two subjects: all rows that are left are one subject's."
        )

    def blocks() -> Iterator[tuple[Request, NDArray[np.intp]]]:
        for groups, _ in pack(sizes, rows_in_a_batch(source.n_columns)):
            rows = np.concatenate([rows for _, rows in subjects[groups]])
            yield Request.read(source, rows), sizes[groups]

    n_jobs = -1 if len(subjects) >= _WORTH_PROCESSES else 1
    with (
        parallel_config(n_jobs=n_jobs),
        progress_bar(len(subjects), what="quoting", unit="person") as bar,
    ):
        noise, _ = accountant.calibrate_groups(law, blocks(), target, bar.update)
    names = [name for name, _ in subjects]
    terms = (target.epsilon, target.delta, target.n_unlearn_steps)
    return Costs(noise, sizes, *terms, n_subjects, names)


def worst_of(quoted: Quote) -> dict[str, Any]:
    """The most that one of several quotes costs, as plain numbers."""
    utility = quoted.utility
    return {
        "n_people": len(quoted.requests),
        "n_rows": sum(len(rows) for rows in quoted.requests),
        "metric": None if utility is None else utility.metric,
        "before": None if utility is None else float(utility.before),
        "after": None if utility is None else _worst(utility),
        "how": None if utility is None else "expected, one by one",
        "epsilon": float(np.max(quoted.epsilon)),
        "delta": float(np.max(quoted.delta)),
    }


def _worst(utility: Utility) -> float:
    """The lowest accuracy, or the highest error."""
    worst = np.min if utility.metric == "accuracy" else np.max
    return float(worst(utility.after))


def _subjects(
    snapshot: LangevinSnapshot, table: str | Path | None
) -> list[tuple[str, NDArray[np.intp]]]:
    """Names as the table writes them, with the positions of their rows."""
    positions, names = snapshot.names.by_hash("subject"), {}
    for _, ids, subjects in snapshot.table(table).names():
        for name in subjects or ids or ():
            hashed = hash_of(name, snapshot.key)
            if hashed in positions:
                names[hashed] = str(name)
    return [
        (names[hashed], np.array(rows, dtype=np.intp))
        for hashed, rows in positions.items()
        if hashed in names
    ]
