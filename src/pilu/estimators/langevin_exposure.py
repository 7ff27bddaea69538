"""What the present parameters of a Langevin model tell about rows, groups and people."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray

from pilu._processes import pack
from pilu._progress import progress_bar
from pilu.certify.exposing import expose
from pilu.certify.issue import read_delta
from pilu.data.rows import Request
from pilu.estimators.exposure import Exposure
from pilu.estimators.fitted import Fitted
from pilu.estimators.quote import WORTH_PROCESSES
from pilu.estimators.requests import live_rows

_NUMBERS = 2**22  # in the rows that are read at a time


def expose_parameters(
    fitted: Fitted, requests: Any, subject: Any, subjects: Any, delta: float | None
) -> Exposure:
    """The exposure of each request to the parameters as they are, without any later step."""
    source, value = fitted.source, read_delta(fitted.chain, delta)
    names, groups = fitted.book.find_named(
        source.live, requests, subject=subject, subjects=subjects
    )
    sizes = np.array([len(rows) for rows in groups], dtype=np.intp)
    if len(groups) == 1:
        live_rows(source.live, groups[0])  # refuses a person who has all rows

    def blocks() -> Iterator[tuple[Request, NDArray[np.intp]]]:
        for some, _ in pack(sizes, _NUMBERS // source.n_columns):
            yield Request.read(source, np.concatenate(groups[some])), sizes[some]

    many = len(groups) >= WORTH_PROCESSES
    # A correction holds forgotten rows, which must not reach other processes.
    law = fitted.chain.law(corrected=not many)
    epsilon = np.zeros(0)
    if groups:
        with (
            parallel_config(n_jobs=-1 if many else 1),
            progress_bar(len(groups), what="exposure", unit="request") as bar,
        ):
            epsilon = expose(law, blocks(), value, bar.update)
    return Exposure(
        names,
        tuple(tuple(rows.tolist()) for rows in groups),
        epsilon,
        value,
        covers_preprocessing=False,
        least=epsilon.copy if law.is_gaussian else None,  # exact, or nothing is known
    )
