"""The state of a fitted `Forgetful`, its certificates, and how it recognises attached rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._checks import complaint
from pilu.certify.certificate import Certificate
from pilu.certify.issue import certify_refit
from pilu.certify.verify import verify
from pilu.estimators.requests import RowBook
from pilu.exceptions import CertificateMismatch, RowsChanged, WrongInput
from pilu.refit.evidence import evidence_of, hash_of_release
from pilu.refit.held_rows import Table
from pilu.refit.kept import Kept
from pilu.refit.program import Options, Release
from pilu.refit.schema import Schema


@dataclass(frozen=True, eq=False)
class Refitted:
    """The state of a fitted `Forgetful`, replaced as a whole by every call."""

    table: Table | None = field(repr=False)  # None after unpickling, until rows are attached
    schema: Schema
    book: RowBook = field(repr=False)
    live: NDArray[np.bool_] = field(repr=False)  # by row number
    digests: NDArray[np.uint8] = field(repr=False)  # by row number; zeros for forgotten rows
    key: bytes = field(repr=False)
    released: Any
    n_releases: int
    latest: str | None = None  # hash of the certificate of this release; a fit has none
    absent: frozenset[int] = frozenset()  # numbers of rows that attached tables no longer have
    kept: Kept | None = field(default=None, repr=False)  # sums over rows, in memory only

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "table": None, "kept": None}


def certificate_of(
    estimator: Any,
    done: Release,
    table: Table,
    gone: NDArray[np.intp],
    key: bytes,
    options: Options,
) -> Certificate:
    """The certificate of a release on the rows of `table`, without the rows `gone`."""
    return certify_refit(
        gone,
        epsilon=options.epsilon,
        delta=options.delta,
        mu=2 * done.radius / done.noise * (1 + 1e-12),
        noise=done.noise,
        parameters_sha256=hash_of_release(done.estimator),
        private=done.private,
        evidence=evidence_of(estimator, done, table.digests, key, options),
    )


def verify_latest(fitted: Refitted, certificate: Certificate) -> dict[str, bool]:
    """Check a certificate on its own, and that it is the one of this state's release."""
    checks = verify(certificate)
    if certificate.sha256 != fitted.latest:
        raise CertificateMismatch(
            "the certificate is not that of the model's latest release. It was issued for another "
            "model, before the latest change, or it was altered."
        )
    if hash_of_release(fitted.released) != certificate.parameters_sha256:
        raise CertificateMismatch(
            "the released estimator was changed after this certificate was issued. Use a copy of "
            "released_ for changes."
        )
    return {**checks, "parameters_checked": True, "issuer_checked": True}


def groups_of(
    book: RowBook, n: int, numbers: NDArray[np.intp] | None = None
) -> NDArray[Any] | None:
    """A code for the subject of each row, in the order of their first rows."""
    if book.subjects is None:
        return None
    codes = np.zeros(n, dtype=np.intp)
    for code, rows in enumerate(sorted(book.subjects.values())):
        codes[list(rows)] = code
    return codes if numbers is None else codes[numbers]


def own_index(X: Any) -> Any:
    """The index of a frame, unless it only counts its rows from 0; None for arrays."""
    index = getattr(X, "index", None)
    counts = index is not None and len(index) == X.shape[0] and list(index) == list(range(len(X)))
    return None if counts else index


def new_ids(X: Any, book: RowBook, n_rows: int, n_new: int) -> Any:
    """Ids of added rows: the index of their frame, or their row numbers if all ids are that."""
    index = own_index(X)
    numbered = all(rows == (name,) for name, rows in (book.ids or {}).items())
    return range(n_rows, n_rows + n_new) if index is None and numbered else index


def recognise(fitted: Refitted, digests: Any, sample_ids: Any) -> NDArray[np.intp]:
    """Row numbers of an attached table, by id or by content."""
    if sample_ids is not None and fitted.book.ids is not None:
        return _by_id(fitted, digests, sample_ids)
    waiting: dict[bytes, list[int]] = {}
    for number in np.flatnonzero(fitted.live)[::-1].tolist():
        waiting.setdefault(fitted.digests[number].tobytes(), []).append(number)
    numbers, unknown = [], []
    for position, digest in enumerate(digests):
        known = waiting.get(digest.tobytes())
        if known:
            numbers.append(known.pop())
        else:
            unknown.append(position)
    if unknown:
        raise RowsChanged(
            f"{_listed(unknown)} of the table are not rows of this model, or were changed. Attach "
            "the table as it was at fit, then use add or correct."
        )
    return np.array(numbers, dtype=np.intp)


def _by_id(fitted: Refitted, digests: Any, sample_ids: Any) -> NDArray[np.intp]:
    assert fitted.book.ids is not None
    ids = [v.item() if isinstance(v, np.generic) else v for v in sample_ids]
    if len(ids) != len(digests):
        raise complaint("sample_ids", f"one for each of the {len(digests)} rows", len(ids))
    unknown = [i for i in ids if i not in fitted.book.ids]
    if unknown:
        raise RowsChanged(
            f"{_listed(unknown, 'id')} of the table are not rows of this model. Use add for new "
            "rows."
        )
    numbers = np.array([fitted.book.ids[i][0] for i in ids], dtype=np.intp)
    if len(set(numbers.tolist())) != len(numbers):
        raise WrongInput("sample_ids must be unique, got one of them more than once.")
    changed = [
        i
        for i, n, d in zip(ids, numbers, digests, strict=True)
        if not np.array_equal(fitted.digests[n], d)
    ]
    if changed:
        raise RowsChanged(
            f"{_listed(changed, 'id')} of the table are not the rows of these ids at fit. If they "
            "were changed, attach the rows as they were, then use correct. If the table was "
            "numbered anew, pass the sample_ids of the fit."
        )
    return numbers


def _listed(items: list[Any], what: str = "row") -> str:
    shown = ", ".join(repr(i) for i in items[:5])
    more = f" and {len(items) - 5} more" if len(items) > 5 else ""
    return f"{what}(s) {shown}{more}"


def released_has(name: str) -> Callable[[Any], bool]:
    """A check for `available_if`: whether the released estimator has a method."""

    def check(model: Any) -> bool:
        fitted = "fitted_" in model.__dict__
        getattr(model.fitted_.released if fitted else model.estimator, name)
        return True

    return check
