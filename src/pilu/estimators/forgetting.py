"""Forgetting rows: a fitted state to the next one and a certificate."""

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pilu.certify.certificate import Certificate, names_parameters
from pilu.certify.issue import calibrate, certify_langevin, certify_redraw
from pilu.certify.verify import verify
from pilu.chains.chain import gaussian_source
from pilu.chains.schedule import Segment
from pilu.data.rows import Request
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.estimators.fitted import Fitted
from pilu.estimators.quoting import Terms
from pilu.estimators.utility import Validation, langevin_record, redraw_record
from pilu.exceptions import CertificateMismatch

__all__ = ["forget", "redraw", "verify_issued"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Targets = ClassTargets | NumericTargets


def forget(
    fitted: Fitted,
    rows: Rows,
    terms: Terms,
    random_state: int | None,
    targets: Targets,
    keep_empty_classes: bool,
    validation: Validation | None,
) -> tuple[Fitted, Certificate]:
    """Forget rows by Langevin steps on the problem without them."""
    started, chain, (accountant, law, target) = time.perf_counter(), fitted.chain, terms
    request = Request.read(fitted.source, rows)
    counts = _counts_left(fitted, targets, request, keep_empty_classes=keep_empty_classes)
    calibration = calibrate(accountant, law, request, target)
    segment = Segment(target.n_unlearn_steps, calibration.noise)
    error = chain.problem.statistics_error  # before rows are subtracted
    problem = chain.problem.without(rows, request.X, request.Y)
    n_steps = chain.schedule.n_steps + segment.steps
    facts = problem.batch_facts(rows, n_steps, segment.steps)
    gaussian = gaussian_source(random_state, fitted.n_requests + 1)
    moved = chain.forgetting(problem, segment, gaussian)
    seconds, utility = time.perf_counter() - started, None
    if validation is not None:
        utility = langevin_record(validation, fitted.law, chain, request, segment, seconds)
    certificate, spent = certify_langevin(
        moved,
        rows,
        accountant,
        calibration,
        target,
        fitted.spent,
        fitted.certificates,
        error,
        facts,
        utility,
    )
    sha256 = certificate.sha256
    after = replace(
        fitted,
        chain=moved,
        book=fitted.book.without(rows),
        spent=spent,
        certificates=(*fitted.certificates, sha256),
        n_requests=fitted.n_requests + 1,
        latest=sha256,
        class_counts=counts,
    )
    return after, certificate


def redraw(
    fitted: Fitted,
    rows: Rows,
    random_state: int | None,
    targets: Targets,
    keep_empty_classes: bool,
    validation: Validation | None,
) -> tuple[Fitted, Certificate]:
    """Learn again without the rows, which may be none; the running total is reset."""
    started, problem = time.perf_counter(), fitted.chain.problem
    request, counts = None, fitted.class_counts
    if len(rows) or validation is not None:  # otherwise no row has to be read
        request = Request.read(fitted.source, rows)
    if request is not None and len(rows):
        counts = _counts_left(fitted, targets, request, keep_empty_classes=keep_empty_classes)
        problem = problem.without(rows, request.X, request.Y)
    gaussian = gaussian_source(random_state, fitted.n_requests + 1)
    chain = fitted.chain.redrawn(problem, gaussian)
    seconds, utility = time.perf_counter() - started, None
    if validation is not None and request is not None:
        utility = redraw_record(validation, fitted.law, request, seconds)
    certificate = certify_redraw(chain, rows, utility)
    after = Fitted(
        chain,
        fitted.book.without(rows),
        n_requests=fitted.n_requests + 1,
        latest=certificate.sha256,
        class_counts=counts,
    )
    return after, certificate


def verify_issued(fitted: Fitted, certificate: Certificate) -> dict[str, bool]:
    """Check a certificate on its own, and that this state issued it."""
    checks, theta, key = verify(certificate), fitted.chain.theta, fitted.source.key
    if not names_parameters(certificate.parameters_sha256, theta, key):
        raise CertificateMismatch(
            "the model's parameters are not those of the certificate. It was issued for another "
            "model, or the model has changed since."
        )
    if fitted.latest != certificate.sha256:
        raise CertificateMismatch(
            "the certificate names the model's parameters, but the model did not issue it. It was "
            "altered or forged."
        )
    return {**checks, "parameters_checked": True, "issuer_checked": True}


def _counts_left(
    fitted: Fitted, targets: Targets, request: Request, *, keep_empty_classes: bool
) -> Array | None:
    """Remaining rows of each class after the request; a class may not lose its last one."""
    if fitted.class_counts is None or isinstance(targets, NumericTargets):
        return None
    requested = targets.members(request.Y).sum(axis=0)
    left: Array = fitted.class_counts - requested
    if not keep_empty_classes:
        remedy = "refit without the class, or pass keep_empty_classes=True"
        targets.check_left(left, requested, remedy)
    return left
