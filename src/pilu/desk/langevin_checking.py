"""Checks of a store of the method "langevin": its certificates, and the data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.certify.certificate import Certificate, names_parameters
from pilu.certify.exact import Exact, curve_of
from pilu.certify.issue import set_target
from pilu.certify.verify import verify
from pilu.chains.problem import Run
from pilu.chains.schedule import Schedule
from pilu.data.rows import Request
from pilu.data.statistics import Statistics
from pilu.data.targets import encoded_targets
from pilu.desk.issued import whole_certificate
from pilu.desk.langevin_snapshot import LangevinSnapshot
from pilu.desk.receipt import Receipt
from pilu.exceptions import CertificateMismatch, StoreDamaged, WrongInput
from pilu.store.log import Entry
from pilu.store.store import require

Array = NDArray[np.float64]
People = Mapping[int, Sequence[Mapping[str, Any]]]  # of entries, by their places

_CLOSE_CURVES = 1e-3  # in log delta and epsilon: charges depend on how numbers were computed
_NEGLIGIBLE = 1e-30  # of delta
_CLOSE = 1e-9  # statistics are known to 1e-12, an eigenbasis to a few p ulps


def check_chain(
    held: LangevinSnapshot, people: People, table: str | Path | None
) -> dict[str, bool]:
    """Check that all parts of a store agree; with a table, also that the rows are those of it."""
    _check_history(held, people)
    # None where there is nothing to check: other losses have no eigenbasis.
    has_spectrum = held.model.fitted_.chain.problem.is_consistent(_CLOSE)
    require(held.folder, has_spectrum is not False, "the eigenbasis is not that of the statistics")
    if table is not None:
        _check_data(held, table)
    return {
        "state_follows_from_the_log": True,
        "eigenbasis_is_that_of_the_statistics": has_spectrum is True,
        "rows_and_statistics_are_those_of_the_table": table is not None,
    }


@dataclass
class _History:
    """What the entries of a log lead to, one certificate after the other."""

    parameters: str  # their hash
    learning: tuple[tuple[int | None, float], ...]
    schedule: tuple[tuple[int | None, float], ...]
    total: tuple[float, float] = (0.0, 0.0)
    issued: list[str] = field(default_factory=list)  # since the last redraw
    forgotten: set[int] = field(default_factory=set)

    def certificate(self, entry: Entry) -> Certificate:
        """The certificate of an entry, with what it repeats of those before it."""
        own: Mapping[str, Any] = entry.certificate or {}
        if own.get("method") == "redraw":
            return whole_certificate(entry, self.learning)
        last = (own.get("n_unlearn_steps"), own.get("noise"))
        return whole_certificate(entry, (*self.schedule, last), self.issued)

    def add(self, certificate: Certificate, rows: Sequence[int]) -> bool:
        """Add a certificate; False if it does not follow from what was before it."""
        is_redraw = certificate.method == "redraw"
        if is_redraw:
            self.issued, self.total, self.schedule = [], (0.0, 0.0), self.learning
        else:
            self.schedule += ((certificate.n_unlearn_steps, certificate.noise),)
        both = self.total[0] + certificate.epsilon
        follows = (
            tuple(certificate.conditional_on) == tuple(self.issued)
            and not self.forgotten & set(rows)
            and tuple(map(tuple, certificate.schedule)) == self.schedule
            and math.isclose(certificate.total_epsilon, both, rel_tol=1e-9)
        )
        if not is_redraw:
            self.issued.append(certificate.sha256)
        self.forgotten |= set(rows)
        self.parameters = certificate.parameters_sha256
        self.total = (certificate.total_epsilon, certificate.total_delta)
        return follows


def _check_history(held: LangevinSnapshot, people: People) -> None:
    """The certificates in the log follow from each other, and the state follows from them."""
    must = partial(require, held.folder)
    entries, state = held.log.entries, held.state
    first = entries[0].record
    learning = Schedule.from_record(first["learning"]).record()
    history = _History(first["parameters_sha256"], learning, learning)
    for entry in entries:
        place, record = entry.place, entry.record
        if entry.certificate is None:
            known = record["kind"] in ("fit", "request", "release", "audit")
            must(known, f"entry {place} is of an unknown kind")
            continue
        certificate, rows = history.certificate(entry), rows_of(entry, people)
        verify(certificate)
        must(
            history.add(certificate, rows)
            and certificate.scope["private"] == first["private"]
            and certificate.total_epsilon <= first["budget"][0]
            and certificate.total_delta <= first["budget"][1],
            f"the certificate at place {place} does not follow from what was before it",
        )
        kind, named = "unlearn" if rows else "redraw", people.get(place) or record.get("subjects")
        must(
            record["kind"] == kind
            and bool(named) == bool(rows)
            and record.get("n_rows", len(rows)) == len(rows),
            f"entry {place} does not say what its certificate says",
        )
    fitted = held.model.fitted_
    source, chain, spent = fitted.source, fitted.chain, fitted.spent
    settings = ("n_rows", "budget")
    must(
        names_parameters(history.parameters, chain.theta, source.key),
        "the parameters are not those of the last certificate",
    )
    must(
        (spent.epsilon, spent.delta) == history.total,
        "the running total is not that of the last certificate",
    )
    must(
        fitted.certificates == tuple(history.issued),
        "the state names other certificates than the log",
    )
    must(
        held.model.schedule_ == history.schedule,
        "the schedule is not that of the certificates",
    )
    must(
        [state[name] for name in settings] == [first[name] for name in settings]
        and (chain.problem.alpha, chain.step_size, chain.private)
        == (first["alpha"], first["step_size"], first["private"]),
        "the settings are not those of the fit",
    )
    live = np.ones(first["n_rows"], dtype=bool)
    live[sorted(history.forgotten)] = False
    hashed = (source.digests, *held.names.hashes.values())  # zeros for forgotten rows
    must(
        np.array_equal(source.live, live)
        and all(np.array_equal(hashes.any(axis=1), live) for hashes in hashed),
        "the rows that are left are not those of the log",
    )


def _check_data(held: LangevinSnapshot, table: str | Path) -> None:
    """The rows that are left match their digests, and their sums the statistics."""
    fitted = held.attached(table).fitted_
    problem, source = fitted.chain.problem, fitted.source
    kept = problem.statistics
    if kept is None:  # another loss, or more columns than rows: there are only the rows to check
        for _ in source.blocks():
            pass
        return
    summed = Statistics.collect(
        source.features,
        int(source.live.sum()),
        source.n_columns,
        problem.n_outputs,
        fit_intercept=source.fit_intercept,
    )
    for name in ("gram", "cross"):
        given, expected = getattr(kept, name), getattr(summed, name)
        agrees = np.linalg.norm(given - expected) <= _CLOSE * np.linalg.norm(expected)
        require(held.folder, bool(agrees), f"{name} is not that of the rows in {table}")


def check_against_data(
    receipt: Receipt, snapshot: LangevinSnapshot, people: People, table: str | Path
) -> bool:
    """Compute what the noise certifies from the rows themselves, and compare.

    False where nothing can be compared. A redraw does not depend on the forgotten rows, and other
    losses than ridge rest on simulated means, which are not reproducible.
    """
    certificate = receipt.certificate
    if certificate.method == "redraw" or not snapshot.model.fitted_.law.is_gaussian:
        return False
    entries = snapshot.log.entries
    earlier = [row for entry in entries[: receipt.place] for row in rows_of(entry, people)]
    rows = np.array(rows_of(entries[receipt.place], people), dtype=np.intp)
    law, request = _law_and_request(snapshot, certificate, earlier, rows, table)
    target = set_target(law, certificate.epsilon, certificate.delta, certificate.n_unlearn_steps)
    answer = Exact().spend(law, request, certificate.noise, target)
    if answer.epsilon > certificate.epsilon * (1 + 1e-9):
        raise CertificateMismatch(
            f"the noise of the certificate, {certificate.noise:.6g}, is not enough for the rows in "
            f"{table}: it certifies epsilon {answer.epsilon:.6g}, not {certificate.epsilon:.6g}."
        )
    # Sums that were subtracted from, or rounded for the record, are charged with more rounding than
    # those of the rows: what was charged is in the certificate, rounded up.
    charged = float(certificate.numerical_error.get("statistics_relative", 0.0))
    law = replace(law, statistics_error=max(law.statistics_error, charged))
    most = Exact().spend(law, request, certificate.noise, target)
    if not _is_between(receipt.evidence or {}, answer.evidence, most.evidence, certificate.epsilon):
        raise CertificateMismatch(f"the evidence is not that of the rows in {table}.")
    return True


def _is_between(
    stated: Mapping[str, Any], least: Mapping[str, Any], most: Mapping[str, Any], epsilon: float
) -> bool:
    """Whether evidence lies between that of the least and of the largest charge for rounding.

    The charge to epsilon also depends on how much of delta was set aside for it, a little.
    """

    def log_deltas(evidence: Mapping[str, Any]) -> Array:
        bare = {**evidence, "epsilon_error": 0.0, "log_tail": None}
        return np.log(curve_of(bare).deltas(np.array([0.0, epsilon])) + _NEGLIGIBLE)

    low, here, high = log_deltas(least), log_deltas(stated), log_deltas(most)
    errors = [float(evidence["epsilon_error"]) for evidence in (least, stated, most)]
    return bool(
        (low - _CLOSE_CURVES <= here).all()
        and (here <= high + _CLOSE_CURVES).all()
        and errors[0] / 2 - _CLOSE_CURVES <= errors[1] <= 2 * errors[2] + _CLOSE_CURVES
    )


def _law_and_request(
    snapshot: LangevinSnapshot,
    certificate: Certificate,
    earlier: list[int],
    rows: NDArray[np.intp],
    path: str | Path,
) -> tuple[Any, Request]:
    """The law before a request and the request itself, from the rows of the table."""
    table, model = snapshot.table(path), snapshot.model
    source, chain = model.fitted_.source, model.fitted_.chain
    if table.n_rows != source.n_rows:
        raise WrongInput(
            f"{table.path} must have all {source.n_rows} rows of the fit, those forgotten "
            f"included, got {table.n_rows}."
        )
    targets = model.targets_
    live = np.ones(source.n_rows, dtype=bool)  # at the time of the request
    live[earlier] = False
    requested: list[tuple[Array, Array]] = []

    def read(share: int, shares: int) -> Any:
        if share:  # one reader: a file is read from its start
            return
        for batch in table.batches():
            Y = encoded_targets(table.path, batch.y, targets)
            known = source.live[batch.places]
            if (source.digest(batch.X, Y)[known] != source.digests[batch.places][known]).any():
                raise StoreDamaged(f"{table.path}: rows are not those of the fit, in their order.")
            chosen = np.isin(batch.places, rows)
            requested.append((batch.X[chosen], Y[chosen]))
            kept = live[batch.places]
            yield batch.X[kept], Y[kept]

    at_the_time = chain.problem.reading(replace(source, rows=None, live=live))
    schedule = Schedule.from_record(certificate.schedule[:-1])
    run = Run(chain.step_size, schedule, chain.start)
    law = at_the_time.recollected(read).law(run)
    X, Y = (np.vstack(parts) for parts in zip(*requested, strict=True))
    ones = np.ones((len(X), int(source.fit_intercept)))
    return law, Request(np.hstack([X, ones]), Y, rows)


def rows_of(entry: Entry, people: People) -> list[int]:
    """Fit-time positions of the rows that an entry forgets."""
    if entry.place in people:
        return sorted(row for person in people[entry.place] for row in person["rows"])
    return list((entry.certificate or {}).get("rows", ()))  # as in the second format
