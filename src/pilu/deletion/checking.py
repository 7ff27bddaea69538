"""Checks of a whole store, and of a receipt against a store and the data.

Each returns named booleans of what was found true; a mismatch raises and names the file.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.composition import Spent
from pilu.certify.accountant import Request, Target
from pilu.certify.certificate import Certificate, sha256_of_parameters
from pilu.certify.coarse import CoarseExact
from pilu.certify.verify import verify
from pilu.deletion.fitting import ReadElsewhere, encoded_targets
from pilu.deletion.history import certificates
from pilu.deletion.lazy_rows import table_of, with_rows
from pilu.deletion.ledger import canonical
from pilu.deletion.merkle import Head
from pilu.deletion.receipt import Receipt
from pilu.deletion.store import Moment, Store
from pilu.dynamics.schedule import Schedule, Segment
from pilu.exceptions import CertificateMismatch, LedgerMismatch, StoreDamaged
from pilu.laws.iterates import IterateLaw
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.rows import RowSource
from pilu.ridge.statistics import Statistics

__all__ = ["check_receipt", "check_store"]

Array = NDArray[np.float64]

_CLOSE = 1e-9  # statistics are known to 1e-12, an eigenbasis to a few p ulps


def check_store(
    store: Store, *, since: Head | None = None, table: str | Path | None = None
) -> dict[str, bool]:
    """Everything that a store says, against everything else that it says; the data on request."""
    with store.ledger.reading() as ledger:
        ledger.check_whole()
        if since is not None:
            ledger.growth_from(since)
    moment = store.read()
    _check_history(store, moment)
    _check_spectrum(store, moment)
    found = {
        "files_whole": True,
        "log_agrees_with_its_head": True,
        "log_grown_from_the_noted_head": since is not None,
        "certificates_follow_each_other": True,
        "parameters_are_those_last_certified": True,
        "eigenbasis_is_that_of_the_statistics": True,
        "rows_and_statistics_are_those_of_the_table": False,
    }
    if table is not None:
        _check_data(store, moment, table)
        found["rows_and_statistics_are_those_of_the_table"] = True
    return found


def _check_history(store: Store, moment: Moment) -> None:
    """Certificates in the log follow each other, and the state is what they lead to."""
    first = moment.entries[0].record
    _require(first["kind"] == "fit", store, "the log does not begin with a fit")
    ours = all(record["store"] == moment.state["store"] for _, record in moment.entries)
    _require(ours, store, "an entry of the log is another store's")
    held, total = first["parameters_sha256"], (0.0, 0.0)
    since_redraw: tuple[str, ...] = ()
    gone: set[int] = set()
    for place, certificate in certificates(moment.entries):
        verify(certificate)
        before: tuple[str, ...] = () if certificate.method == "redraw" else since_redraw
        _require(
            tuple(certificate.conditional_on) == before and not gone & set(certificate.rows),
            store,
            f"the certificate at place {place} does not follow the one before it",
        )
        gone |= set(certificate.rows)
        since_redraw = () if certificate.method == "redraw" else (*before, certificate.sha256)
        held = certificate.parameters_sha256
        total = (certificate.total_epsilon, certificate.total_delta)
    fitted = moment.model._fitted
    spent = Spent.from_record(moment.state["model"]["spent"])
    live = set(np.flatnonzero(fitted.source.live).tolist())
    _require(sha256_of_parameters(fitted.chain.theta) == held, store, "the parameters are others")
    _require((spent.epsilon, spent.delta) == total, store, "the running total is another")
    _require(live == set(range(len(fitted.source.live))) - gone, store, "other rows are forgotten")
    _require(fitted.certificates == since_redraw, store, "other certificates were issued")


def _check_spectrum(store: Store, moment: Moment) -> None:
    problem = moment.model._fitted.chain.problem
    assert isinstance(problem, RidgeProblem)
    statistics, spectrum = problem.statistics, problem.spectrum
    if statistics is None:
        return
    V, a = spectrum.basis, spectrum.eigenvalues - spectrum.alpha
    size = float(np.linalg.norm(statistics.gram))
    good = (
        np.linalg.norm((V * a) @ V.T - statistics.gram) <= _CLOSE * size
        and np.linalg.norm(V.T @ V - np.eye(V.shape[1])) <= _CLOSE * len(V)
        and np.linalg.norm(V @ spectrum.cross - statistics.cross)
        <= _CLOSE * float(np.linalg.norm(statistics.cross))
    )
    _require(bool(good), store, "the eigenbasis is not that of the statistics")


def _check_data(store: Store, moment: Moment, table: str | Path) -> None:
    """Rows that are left against their digests, and their sums against the statistics."""
    model = with_rows(moment, table, store.key, np.array([], dtype=np.intp))
    problem, source = model._fitted.chain.problem, model._fitted.source
    assert isinstance(problem, RidgeProblem)
    held = problem.statistics
    n, p = int(source.live.sum()), source.n_columns
    if held is None:  # more columns than rows: nothing but the rows themselves
        for _ in source.blocks():
            pass
        return
    again = Statistics.collect(
        source.features, n, p, problem.n_outputs, fit_intercept=source.fit_intercept
    )
    for name in ("gram", "cross"):
        there, here = getattr(held, name), getattr(again, name)
        close = np.linalg.norm(there - here) <= _CLOSE * max(float(np.linalg.norm(here)), 1e-300)
        _require(bool(close), store, f"{name} is not that of the rows in {table}")


def check_receipt(
    receipt: Receipt, store: Store | None = None, table: str | Path | None = None
) -> dict[str, bool]:
    """A receipt by itself; against the log of its store; against the data it was issued on.

    For the data the table must still have all rows of the fit, in their order.
    """
    checks = {
        **receipt.verify(),
        "in_the_log_of_the_store": False,
        "log_grown_from_its_head": False,
    }
    if store is None:
        return checks
    with store.ledger.reading() as ledger:
        entries = ledger.entries()
        if receipt.entry.get("store") != entries[0].record["store"]:
            raise CertificateMismatch(f"the receipt is from another store than {store.folder}.")
        ledger.growth_from(receipt.head)
        found = entries[receipt.place].record if receipt.place < len(entries) else {}
    if canonical(found) != canonical(receipt.entry):
        raise LedgerMismatch(f"the receipt is not in the log of {store.folder}.")
    checks |= {"in_the_log_of_the_store": True, "log_grown_from_its_head": True}
    if table is not None:
        _check_against_data(receipt, store.read(), table)
        checks["inputs_checked_against_data"] = True
    return checks


def _check_against_data(receipt: Receipt, moment: Moment, table: str | Path) -> None:
    """What the certificate's noise certifies, from the rows themselves."""
    certificate = receipt.certificate
    if certificate.method == "redraw":
        return
    earlier = [
        row
        for place, other in certificates(moment.entries)
        if place < receipt.place
        for row in other.rows
    ]
    law, request = _law_and_request(moment, certificate, earlier, table)
    target = Target(certificate.epsilon, certificate.delta, certificate.n_unlearn_steps)
    answer = CoarseExact().spend(law, request, certificate.noise * (1 - 1e-9), target)
    if answer.noise > certificate.noise * (1 + 1e-9):
        raise CertificateMismatch(
            f"the noise of the certificate, {certificate.noise:.6g}, is not enough for the rows in "
            f"{table}: {answer.noise:.6g} would be."
        )


def _law_and_request(
    moment: Moment, certificate: Certificate, earlier: list[int], table: str | Path
) -> tuple[IterateLaw, Request]:
    found, model = table_of(moment, table), moment.model
    source, chain = model._fitted.source, model._fitted.chain
    if found.n_rows != source.n_rows:
        raise ValueError(
            f"{found.path} must have all {source.n_rows} rows of the fit, those forgotten "
            f"included, got {found.n_rows}."
        )
    classes = getattr(model, "classes_", None)
    then = np.ones(source.n_rows, dtype=bool)
    then[earlier] = False
    rows = np.array(certificate.rows, dtype=np.intp)
    kept: list[tuple[Array, Array]] = []

    def read(share: int, shares: int) -> Any:
        if share:  # one reader: a file is read from its start
            return
        for batch in found.batches():
            Y = encoded_targets(found.path, batch.y, classes)
            known = source.live[batch.places]
            if (source.digest(batch.X, Y)[known] != source.digests[batch.places][known]).any():
                raise StoreDamaged(f"{found.path}: rows are not those of the fit, in their order.")
            asked = np.isin(batch.places, rows)
            kept.append((batch.X[asked], Y[asked]))
            here = then[batch.places]
            yield batch.X[here], Y[here]

    at_the_time = RowSource(
        ReadElsewhere(found.n_rows, len(found.features)),  # type: ignore[arg-type]
        None,
        source.fit_intercept,
        then,
        source.digests,
        source.key,
    )
    problem = RidgeProblem.collected(at_the_time, chain.problem.alpha, model._theta.shape[1], read)
    segments = tuple(Segment(int(k), float(s)) for k, s in certificate.schedule[:-1])
    law = IterateLaw(problem.spectrum, chain.step_size, Schedule(segments), chain.start)
    X, Y = (np.vstack(parts) for parts in zip(*kept, strict=True))
    ones = np.ones((len(X), int(source.fit_intercept)))
    return law, Request(np.hstack([X, ones]), Y, rows)


def _require(condition: bool, store: Store, complaint: str) -> None:
    if not condition:
        raise StoreDamaged(f"{store.folder}: {complaint}. Restore the directory from a backup.")
