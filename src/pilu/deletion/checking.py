"""Checks of a whole store, and of a receipt against a store and the data.

Each returns named booleans of what was found true; a mismatch raises and names the file.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.composition import Spent
from pilu.certify.accountant import Target
from pilu.certify.certificate import Certificate, names_parameters
from pilu.certify.exact import Exact
from pilu.certify.verify import curve_of, verify
from pilu.chains.request import Request
from pilu.chains.schedule import Schedule, Segment
from pilu.data.statistics import Statistics
from pilu.data.tables import encoded_targets
from pilu.deletion.attaching import table_of, targets_of, with_rows
from pilu.deletion.history import certificates
from pilu.deletion.ledger import canonical
from pilu.deletion.merkle import Head
from pilu.deletion.receipt import Receipt, certificate_of
from pilu.deletion.store import Moment, Store
from pilu.exceptions import CertificateMismatch, LedgerMismatch, StoreDamaged
from pilu.losses.problem import SmoothProblem
from pilu.ridge.law import RidgeLaw
from pilu.ridge.problem import RidgeProblem

__all__ = ["check_receipt", "check_store"]

Array = NDArray[np.float64]

_CLOSE_CURVES = 1e-3  # in log delta: errors that are charged depend on the path to the numbers
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
    _check_files(store, moment)
    _check_history(store, moment)
    found = {
        "files_whole": True,
        "log_agrees_with_its_head": True,
        "log_grown_from_the_noted_head": since is not None,
        "state_follows_from_the_log": True,
        "eigenbasis_is_that_of_the_statistics": _check_spectrum(store, moment),
        "rows_and_statistics_are_those_of_the_table": False,
    }
    if table is not None:
        _check_data(store, moment, table)
        found["rows_and_statistics_are_those_of_the_table"] = True
    return found


def _check_history(store: Store, moment: Moment) -> None:
    """Certificates in the log follow each other, and the state is what they lead to."""

    def require(condition: bool, complaint: str) -> None:
        _require(condition, store, complaint)

    first, state = moment.entries[0].record, moment.state
    require(first["kind"] == "fit", "the log does not begin with a fit")
    ours = all(record["store"] == state["store"] for _, record in moment.entries)
    require(ours, "an entry of the log is another store's")
    learning = tuple((int(steps), float(noise)) for steps, noise in first["learning"])
    held, total = first["parameters_sha256"], (0.0, 0.0)
    schedule, issued, gone = learning, list[str](), set[int]()
    for place, record in moment.entries:
        if "certificate" not in record:
            require(record["kind"] in ("fit", "request", "release"), f"entry {place} is of no kind")
            continue
        certificate = certificate_of(record)
        verify(certificate)
        if certificate.method == "redraw":
            issued, total, schedule = [], (0.0, 0.0), learning
        else:
            schedule = (*schedule, (certificate.n_unlearn_steps, certificate.noise))
        sum_of_both = total[0] + certificate.epsilon
        require(
            tuple(certificate.conditional_on) == tuple(issued)
            and not gone & set(certificate.rows)
            and tuple(map(tuple, certificate.schedule)) == schedule
            and certificate.scope["private"] == first["private"]
            and math.isclose(certificate.total_epsilon, sum_of_both, rel_tol=1e-9)
            and certificate.total_epsilon <= first["budget"][0]
            and certificate.total_delta <= first["budget"][1],
            f"the certificate at place {place} does not follow what was before it",
        )
        kind = "unlearn" if certificate.rows else "redraw"
        require(
            record["kind"] == kind and bool(record["subjects"]) == bool(certificate.rows),
            f"entry {place} does not say what its certificate says",
        )
        gone |= set(certificate.rows)
        if certificate.method != "redraw":
            issued.append(certificate.sha256)
        held = certificate.parameters_sha256
        total = (certificate.total_epsilon, certificate.total_delta)
    fitted = moment.model.fitted_
    source, chain = fitted.source, fitted.chain
    spent = Spent.from_record(state["model"]["spent"])
    now = tuple((s.steps, s.noise) for s in chain.schedule.segments)
    same = {name: first[name] for name in ("n_rows", "budget")}
    struck = [source.digests, *moment.names.hashes.values()]
    require(names_parameters(held, chain.theta, source.key), "the parameters are others")
    require((spent.epsilon, spent.delta) == total, "the running total is another")
    require(fitted.certificates == tuple(issued), "other certificates were issued")
    require(now == schedule, "the schedule is another")
    require(
        {name: state[name] for name in same} == same
        and (chain.problem.alpha, chain.step_size, chain.private)
        == (first["alpha"], first["step_size"], first["private"]),
        "the settings are not those of the fit",
    )
    alive = np.ones(first["n_rows"], dtype=bool)
    alive[sorted(gone)] = False
    require(
        np.array_equal(source.live, alive)
        and all(np.array_equal(hashes.any(axis=1), alive) for hashes in struck),
        "the rows that are left are others",
    )


def _check_files(store: Store, moment: Moment) -> None:
    """Nothing lies in the folder that the ledger does not speak of."""
    folder = f"arrays-{moment.state['generation']}"
    arrays = {f"{folder}/{name}.npy" for name in moment.state["arrays"]}
    found = {
        path.relative_to(store.folder).as_posix()
        for path in store.folder.rglob("*")
        if path.is_file()
    }
    strange = found - arrays - {"key", "ledger.sqlite"}
    _require(not strange, store, f"{min(strange, default='')} is none of its files")


def _check_spectrum(store: Store, moment: Moment) -> bool:
    """False where there is nothing to check: another loss has no eigenbasis."""
    problem = moment.model.fitted_.chain.problem
    if not isinstance(problem, RidgeProblem):
        return False
    statistics, spectrum = problem.statistics, problem.spectrum
    if statistics is None:
        return True
    V, a = spectrum.basis, spectrum.eigenvalues - spectrum.alpha
    size = float(np.linalg.norm(statistics.gram))
    good = (
        np.linalg.norm((V * a) @ V.T - statistics.gram) <= _CLOSE * size
        and np.linalg.norm(V.T @ V - np.eye(V.shape[1])) <= _CLOSE * len(V)
        and np.linalg.norm(V @ spectrum.cross - statistics.cross)
        <= _CLOSE * float(np.linalg.norm(statistics.cross))
    )
    _require(bool(good), store, "the eigenbasis is not that of the statistics")
    return True


def _check_data(store: Store, moment: Moment, table: str | Path) -> None:
    """Rows that are left against their digests, and their sums against the statistics."""
    model = with_rows(moment, table, store.key, np.array([], dtype=np.intp))
    problem, source = model.fitted_.chain.problem, model.fitted_.source
    held = problem.statistics if isinstance(problem, RidgeProblem) else None
    n, p = int(source.live.sum()), source.n_columns
    if held is None:  # another loss, or more columns than rows: nothing but the rows themselves
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
    checks |= dict.fromkeys(
        ("in_the_log_of_the_store", "log_grown_from_its_head", "issuer_checked"), True
    )
    if table is not None:
        checked = _check_against_data(receipt, store.read(), table)
        checks["inputs_checked_against_data"] = checked
    return checks


def _check_against_data(receipt: Receipt, moment: Moment, table: str | Path) -> bool:
    """What the noise certifies, from the rows themselves; a redraw depends on none of its own.

    Other losses than ridge rest on simulated means, which are never the same again: not checked.
    """
    certificate = receipt.certificate
    by_simulation = isinstance(moment.model.fitted_.chain.problem, SmoothProblem)
    if certificate.method == "redraw" or by_simulation:
        return False
    earlier = [
        row
        for place, other in certificates(moment.entries)
        if place < receipt.place
        for row in other.rows
    ]
    law, request = _law_and_request(moment, certificate, earlier, table)
    target = Target(certificate.epsilon, certificate.delta, certificate.n_unlearn_steps)
    answer = Exact().spend(law, request, certificate.noise, target)
    if answer.epsilon > certificate.epsilon * (1 + 1e-9):
        raise CertificateMismatch(
            f"the noise of the certificate, {certificate.noise:.6g}, is not enough for the rows in "
            f"{table}: it certifies epsilon {answer.epsilon:.6g}, not {certificate.epsilon:.6g}."
        )
    stated, found = (
        np.log(curve_of(evidence).deltas(np.array([0.0, certificate.epsilon])) + 1e-300)
        for evidence in (receipt.evidence or {}, answer.evidence)
    )
    if not np.allclose(stated, found, atol=_CLOSE_CURVES, rtol=0):
        raise CertificateMismatch(f"the evidence is not that of the rows in {table}.")
    return True


def _law_and_request(
    moment: Moment, certificate: Certificate, earlier: list[int], table: str | Path
) -> tuple[RidgeLaw, Request]:
    found, model = table_of(moment, table), moment.model
    source, chain = model.fitted_.source, model.fitted_.chain
    if found.n_rows != source.n_rows:
        raise ValueError(
            f"{found.path} must have all {source.n_rows} rows of the fit, those forgotten "
            f"included, got {found.n_rows}."
        )
    targets = targets_of(model)
    then = np.ones(source.n_rows, dtype=bool)
    then[earlier] = False
    rows = np.array(certificate.rows, dtype=np.intp)
    kept: list[tuple[Array, Array]] = []

    def read(share: int, shares: int) -> Any:
        if share:  # one reader: a file is read from its start
            return
        for batch in found.batches():
            Y = encoded_targets(found.path, batch.y, targets)
            known = source.live[batch.places]
            if (source.digest(batch.X, Y)[known] != source.digests[batch.places][known]).any():
                raise StoreDamaged(f"{found.path}: rows are not those of the fit, in their order.")
            asked = np.isin(batch.places, rows)
            kept.append((batch.X[asked], Y[asked]))
            here = then[batch.places]
            yield batch.X[here], Y[here]

    at_the_time = replace(source, rows=None, live=then)
    problem = RidgeProblem.collected(at_the_time, chain.problem.alpha, model._theta.shape[1], read)
    segments = tuple(Segment(int(k), float(s)) for k, s in certificate.schedule[:-1])
    law = RidgeLaw(problem.spectrum, chain.step_size, Schedule(segments), chain.start)
    X, Y = (np.vstack(parts) for parts in zip(*kept, strict=True))
    ones = np.ones((len(X), int(source.fit_intercept)))
    return law, Request(np.hstack([X, ones]), Y, rows)


def _require(condition: bool, store: Store, complaint: str) -> None:
    if not condition:
        raise StoreDamaged(f"{store.folder}: {complaint}. Restore the directory from a backup.")
