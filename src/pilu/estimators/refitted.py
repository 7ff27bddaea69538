"""The state of a fitted `Forgetful`, its certificates, and how it recognises attached rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pilu._checks import complaint
from pilu.certify.certificate import Certificate
from pilu.certify.issue import certify_refit
from pilu.certify.verify import verify
from pilu.chains.problem import GaussianSource
from pilu.estimators.requests import RowBook
from pilu.exceptions import CertificateMismatch, RowsChanged, RowsNotAttached, WrongInput
from pilu.refit.evidence import evidence_of, hash_of_release
from pilu.refit.fixed import covers_transformers
from pilu.refit.held_rows import Table
from pilu.refit.kept import Kept
from pilu.refit.noise_scale import measure_people, shape_noise
from pilu.refit.past import Past
from pilu.refit.people import People
from pilu.refit.program import (
    Release,
    check_repeatable,
    head_of,
    prepare,
    release,
    standard_parameters,
)
from pilu.refit.schema import Schema
from pilu.refit.settings import Options
from pilu.refit.solve import solve


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
    program: Any  # the unfitted estimator and the options of this release
    options: Options
    latest: str | None = None  # hash of the certificate of this release; a fit has none
    absent: frozenset[int] = frozenset()  # numbers of rows that attached tables no longer have
    kept: Kept | None = field(default=None, repr=False)  # sums over rows, in memory only
    noise_scale: float | None = None  # of shaped noise
    penalty_factor: float = 1.0  # of its shape
    past: Past | None = field(default=None, repr=False)  # losses of releases with shaped noise
    covers_preprocessing: bool = False  # whether exposure covers the transformers

    def __getstate__(self) -> dict[str, Any]:
        past = None if self.past is None else self.past.without_values()
        return {**self.__dict__, "table": None, "kept": None, "past": past}

    def attached(self, forgotten: Any = ()) -> Table:
        """The rows that are there; those that an attached table lacks must be forgotten now."""
        if self.table is None:
            raise RowsNotAttached(
                "this model was loaded without its rows. Pass those that are left: "
                "model.attach(X, y)."
            )
        lacking = sorted(self.absent - {int(r) for r in forgotten})
        if lacking:
            shown = ", ".join(map(str, lacking[:10]))
            more = f" and {len(lacking) - 10} more" if len(lacking) > 10 else ""
            raise WrongInput(
                f"row(s) {shown}{more} are missing from the attached table, but are not forgotten. "
                "Name them all in one request to unlearn, or attach a table that has them."
            )
        return self.table


@dataclass(frozen=True, eq=False)
class Done:
    """A run of a program: its release, and what the next state keeps of it."""

    release: Release
    kept: Kept | None
    past: Past | None
    covers_preprocessing: bool
    program: Any
    options: Options

    def state(self) -> dict[str, Any]:
        """What the next state takes from this run."""
        shaped = self.release.penalty_factor is not None
        return {
            "released": self.release.estimator,
            "program": self.program,
            "options": self.options,
            "kept": self.kept,
            "noise_scale": self.release.noise if shaped else None,
            "penalty_factor": self.release.penalty_factor or 1.0,
            "past": self.past,
            "covers_preprocessing": self.covers_preprocessing,
        }

    def certificate(
        self,
        estimator: Any,
        table: Table,
        gone: NDArray[np.intp],
        before: Refitted,
        options: Options,
    ) -> Certificate:
        """The certificate of this release on the rows of `table`, without the rows `gone`."""
        done = self.release
        evidence = evidence_of(estimator, done, table.digests, before.key, options)
        return certify_refit(
            gone,
            epsilon=options.epsilon,
            delta=options.delta,
            mu=2 * done.radius / done.noise * (1 + 1e-12),
            noise=done.noise,
            parameters_sha256=hash_of_release(done.estimator),
            private=done.private,
            evidence=evidence | _earlier(before, gone, options),
        )


def run_program(
    estimator: Any,
    table: Table,
    options: Options,
    people: People,
    source: GaussianSource,
    before: Refitted | None = None,
) -> Done:
    """Run a program on a table, from the last release if there is one, and release its result."""
    if not options.shaped:
        kept = None if before is None else before.kept
        prepared, start = prepare(estimator, table, options, kept), None
    else:  # nothing that an earlier run kept: the shape is a function of the rows
        prepared, start = shape_noise(prepare(estimator, table, options), options, people)
    if before is None:
        check_repeatable(estimator, prepared, table)
    elif start is None:
        start = standard_parameters(prepared, head_of(before.released))
    measured = None
    if options.shaped:
        start = solve(prepared.objective, start, prepared.within)
        measured = measure_people(prepared, start, prepared.within, people, prepared.shape)
    past, covers = None if before is None else before.past, covers_transformers(prepared)
    if before is not None and past is None and options.shaped:  # so far nothing was hidden
        past = Past().unbounded(before.book.find_named(before.live)[0], before.n_releases)
    if before is not None:
        covers = covers and before.covers_preprocessing
    if options.shaped or past is not None:
        past = (past or Past()).after(people.names, measured, prepared, options)
    done = release(prepared, start, source)
    return Done(done, prepared.kept, past, covers, clone(estimator), options)


def _earlier(before: Refitted, gone: NDArray[np.intp], options: Options) -> dict[str, Any]:
    """What earlier releases of shaped noise told about people who are forgotten as a whole."""
    if before.past is None or not len(gone):
        return {}
    rows, people = {int(r) for r in gone}, []
    for name, numbers in zip(*before.book.find_named(before.live), strict=True):
        losses = before.past.people.get(name)
        if losses is not None and rows.issuperset(numbers.tolist()):
            people.append({"rows": numbers.tolist(), **losses.record(options.exposure_delta)})
    return {"earlier": {"covers_preprocessing": before.covers_preprocessing, "people": people}}


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
