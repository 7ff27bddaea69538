"""The state of a fitted estimator: what it shows, and how it forgets, with a certificate."""

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from pilu.accounting.curves import Spent
from pilu.certify.certificate import Certificate, names_parameters
from pilu.certify.issue import Terms, certify_langevin, certify_redraw
from pilu.certify.verify import verify
from pilu.chains.chain import Chain, gaussian_source
from pilu.chains.problem import Law, Problem, Run
from pilu.chains.schedule import Segment
from pilu.data.rows import Request, RowSource
from pilu.data.targets import ClassTargets, NumericTargets
from pilu.estimators.requests import RowBook
from pilu.estimators.utility import Validation, utility_record
from pilu.exceptions import CertificateMismatch, TotalBudgetWarning

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Targets = ClassTargets | NumericTargets

LARGEST_TOTAL_DELTA = 0.1
_CHEAP_WORK = 5e10  # multiplications: a few seconds on one core


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of fitting and forgetting, always replaced as a whole."""

    chain: Chain
    book: RowBook
    spent: Spent = field(default_factory=Spent)
    certificates: tuple[str, ...] = ()  # hashes of those issued since the last redraw
    n_requests: int = 0
    latest: str | None = None  # hash of the last certificate, including redraws
    class_counts: Array | None = None  # remaining rows of each class

    @property
    def source(self) -> RowSource:
        """The rows."""
        return self.chain.problem.source

    @property
    def theta(self) -> Array:
        """The parameters, p x d, the intercept's row last."""
        return self.chain.theta

    @property
    def law(self) -> Law:
        """The law of the run without any forgotten row, without a low-rank correction."""
        return self.chain.law()

    def reading(self, problem: Problem) -> "Fitted":
        """The same state with another form of its problem, e.g. with rows attached."""
        return replace(self, chain=replace(self.chain, problem=problem))


class FittedAttributes:
    """Attributes of a fitted estimator, all read from its `fitted_`."""

    fitted_: Fitted

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in self.__dict__

    @property
    def step_size_(self) -> float:
        """The step size in use; by default 1/L of the fit."""
        check_is_fitted(self)
        return self.fitted_.chain.step_size

    @property
    def schedule_(self) -> tuple[tuple[int | None, float], ...]:
        """All (steps, noise) segments since learning or the last redraw.

        None stands for learning at stationarity.
        """
        check_is_fitted(self)
        return self.fitted_.chain.schedule.record()

    @property
    def remaining_(self) -> NDArray[np.intp]:
        """Fit-time positions of the rows that are not forgotten."""
        check_is_fitted(self)
        return np.flatnonzero(self.fitted_.source.live)

    @property
    def total_(self) -> tuple[float, float]:
        """Running total (epsilon, delta) over all requests since the last redraw."""
        check_is_fitted(self)
        return self.fitted_.spent.epsilon, self.fitted_.spent.delta

    @property
    def _theta(self) -> Array:
        # AttributeError, not NotFittedError: hasattr(model, "coef_") must answer False.
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} is not fitted yet. Call fit first.")
        return self.fitted_.theta

    @property
    def _intercepts(self) -> Array:
        theta, has_intercept = self._theta, self.fitted_.source.fit_intercept
        return theta[-1].copy() if has_intercept else np.zeros(theta.shape[1])

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, reset=False), dtype=np.float64)
        theta, width = self._theta, X.shape[1]
        scores: Array = X @ theta[:width]
        return scores + theta[width] if self.fitted_.source.fit_intercept else scores


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
    started, chain = time.perf_counter(), fitted.chain
    request = Request.read(fitted.source, rows)
    counts = _counts_left(fitted, targets, request, keep_empty_classes=keep_empty_classes)
    calibration = terms.calibrate(request)
    segment = Segment(terms.target.n_unlearn_steps, calibration.noise)
    error = chain.problem.statistics_error  # before rows are subtracted
    problem = chain.problem.without(rows, request.X, request.Y)
    n_steps = chain.schedule.n_steps + segment.steps
    facts = problem.batch_facts(rows, n_steps, segment.steps)
    gaussian = gaussian_source(random_state, fitted.n_requests + 1)
    moved = chain.forgetting(problem, segment, gaussian)
    seconds, utility = time.perf_counter() - started, None
    if validation is not None:
        utility = utility_record(validation, chain, request, segment, seconds)
    certificate, spent = certify_langevin(
        moved,
        rows,
        terms,
        calibration,
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
        utility = utility_record(validation, fitted.chain, request, None, seconds)
    certificate = certify_redraw(chain, rows, utility)
    after = Fitted(
        chain,
        fitted.book.without(rows),
        n_requests=fitted.n_requests + 1,
        latest=certificate.sha256,
        class_counts=counts,
    )
    return after, certificate


def redraw_is_cheap(fitted: Fitted) -> bool:
    """Whether a redraw takes a few seconds at most, by the sizes of the fit.

    It is the same for every request, so the choice reveals nothing about the rows
    (docs/guarantee.md, "Choices after looking").
    """
    chain = fitted.chain
    return chain.problem.redraw_work(chain.schedule.segments[0]) <= _CHEAP_WORK


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


def warn_unless_converged(fitted: Fitted, stacklevel: int = 3) -> None:
    """Warn if learning stopped far from the minimiser (`chains.shortfall`)."""
    chain = fitted.chain
    if chain.schedule.is_stationary:
        return
    found = chain.problem.shortfall(Run(chain.step_size, chain.schedule, chain.start), chain.theta)
    if found is None or not found.is_large:
        return
    is_ridge = chain.law(corrected=True).is_gaussian
    what = "R2 on the training rows" if is_ridge else "the share of the loss that is explained"
    known = not chain.problem.reads_rows  # the law in closed form
    remedy = " n_steps=None learns at the minimiser." if known else ""
    warnings.warn(
        f"learning has not converged after n_steps={chain.schedule.n_steps}: {what} is "
        f"{found.reached:.3g}, and {'' if known else 'at least '}{found.reachable:.3g} at the "
        "minimiser. Bring the columns to similar sizes by fixed constants, or take more steps."
        f"{remedy} pilu.Forgetful fits any scikit-learn pipeline to the minimiser instead.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def warn_of_total(certificate: Certificate, stacklevel: int = 3) -> None:
    """Warn if the total after a request promises little."""
    if certificate.total_delta <= LARGEST_TOTAL_DELTA:
        return
    n = len(certificate.conditional_on) + 1
    warnings.warn(
        f"total_delta is {certificate.total_delta:.3g} after {n} request{'s' * (n > 1)} since the "
        f"last redraw, above {LARGEST_TOTAL_DELTA:g}: the total promises little. "
        "unlearn(method='redraw') resets it to zero. pilu.Forgetful has no total: each of its "
        "releases is compared with retraining.",
        TotalBudgetWarning,
        stacklevel=stacklevel + 1,
    )
