"""Forgetting and verifying: what every estimator with a chain can do."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from pilu._checks import check_choice
from pilu.certify.accountant import Accountant, Target
from pilu.certify.certificate import Certificate, names_parameters
from pilu.certify.floor import calibrate_with_floor
from pilu.certify.issue import certify_langevin, certify_redraw
from pilu.certify.verify import verify
from pilu.chains.entropy import GaussianSource
from pilu.chains.request import Request
from pilu.chains.schedule import Segment
from pilu.data.partitions import PartitionedRows, Partitions, is_dask
from pilu.data.rows import RowSource
from pilu.estimators.fitted import Fitted
from pilu.estimators.quoting import QuotingMixin
from pilu.estimators.utility import Validation, langevin_record, redraw_record
from pilu.exceptions import CertificateMismatch
from pilu.losses.law import AuxiliaryRuns

__all__ = ["ForgettingMixin"]

Array = NDArray[np.float64]


_USUAL_EPSILON, _USUAL_DELTA = (1e-3, 30.0), (1e-30, 0.1)


class ForgettingMixin(QuotingMixin):
    """Adds `unlearn`, `verify`, `attach`, `consolidate`; needs `_gaussian` from the estimator."""

    _ids_are_the_index = False

    def _gaussian(self, stream: int) -> GaussianSource:
        raise NotImplementedError

    def _auxiliary_after(self, runs: AuxiliaryRuns | None) -> AuxiliaryRuns | None:
        """The auxiliary runs of a loss that needs some, once rows are forgotten."""
        return runs

    def unlearn(
        self,
        rows: int | Sequence[int] | None = None,
        *,
        ids: Any = None,
        subject: Any = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        n_unlearn_steps: int = 80,
        accountant: str | Accountant = "auto",
        method: str = "langevin",
        validation: tuple[Any, Any] | None = None,
    ) -> Certificate:
        """Forget rows, in place, and hand over a certificate.

        The call either succeeds as a whole or leaves the model as it was.

        Parameters
        ----------
        rows : int or sequence of int, optional
            Fit-time positions; a sequence is one group, forgotten together.
        ids, subject : optional
            The same by the `sample_ids` or `subjects` given to `fit`. Exactly one of the three is
            given; a redraw may do without, and then forgets nobody new.
        epsilon, delta, n_unlearn_steps, accountant
            As in `quote`; a redraw has no use for them.
        method : {"langevin", "redraw"}
            "langevin" takes noisy steps on the remaining rows. "redraw" draws the parameters
            from the law of learning without the rows: epsilon = 0, and the total is reset.
        validation : pair (X, y), optional
            As in `quote`; the prediction goes into `Certificate.utility`, with the seconds that
            the request really took.

        Returns
        -------
        certificate : Certificate
        """
        check_is_fitted(self)
        check_choice("method", method, ("langevin", "redraw"))
        held_out = self._checked_validation(validation)
        if method == "redraw":
            return self._redraw(self._find(rows, ids, subject, nobody=True), held_out)
        return self._forget(
            self._find(rows, ids, subject),
            self._target(epsilon, delta, n_unlearn_steps),
            self._judge(accountant),
            held_out,
        )

    def _forget(
        self,
        rows: NDArray[np.intp],
        target: Target,
        accountant: Accountant,
        validation: Validation | None,
    ) -> Certificate:
        before, started = self.fitted_, time.perf_counter()
        law, request = before.law_for(accountant), Request.read(before.source, rows)
        calibration = calibrate_with_floor(accountant, law, request, target)
        if not calibration.epsilon <= target.epsilon:
            reason = f"the noise found reaches {calibration.epsilon:g}."
            raise _out_of_reach(target.epsilon, target.delta, reason)
        gaussian = self._gaussian(stream=before.n_requests + 1)
        segment = Segment(target.n_unlearn_steps, calibration.noise)
        problem = before.chain.problem.without(rows, request.X, request.Y)
        chain = before.chain.forgetting(problem, segment, gaussian)
        seconds = time.perf_counter() - started
        utility = None
        if validation is not None:
            utility = langevin_record(
                validation, before.law, before.chain, request, segment, seconds
            )
        certificate, spent = certify_langevin(
            chain,
            rows,
            accountant,
            calibration,
            target,
            before.spent,
            before.certificates,
            before.chain.problem.statistics_error,
            utility,
        )
        _check_issue(certificate)
        issued = (*before.certificates, certificate.sha256)
        book, runs = before.book.without(rows), self._auxiliary_after(before.auxiliary)
        # The one assignment: an interrupt before it leaves the model as it was.
        self.fitted_ = Fitted(
            chain, book, spent, issued, before.n_requests + 1, runs, latest=certificate.sha256
        )
        return certificate

    def _redraw(self, rows: NDArray[np.intp], validation: Validation | None) -> Certificate:
        before, started = self.fitted_, time.perf_counter()
        problem, request = before.chain.problem, None
        if len(rows) or validation is not None:  # a redraw by itself needs no row at hand
            request = Request.read(before.source, rows)
        if request is not None and len(rows):
            problem = problem.without(rows, request.X, request.Y)
        gaussian = self._gaussian(stream=before.n_requests + 1)
        chain = before.chain.redrawn(problem, gaussian)
        seconds = time.perf_counter() - started
        utility = None
        if validation is not None and request is not None:
            utility = redraw_record(validation, before.law, request, seconds)
        certificate = certify_redraw(chain, rows, utility)
        book, n_requests = before.book.without(rows), before.n_requests + 1
        runs = before.auxiliary
        # The same law again keeps its runs: else one could redraw until they suit.
        if len(rows) or chain.schedule != before.chain.schedule:
            runs = self._auxiliary_after(runs)
        self.fitted_ = Fitted(
            chain, book, n_requests=n_requests, auxiliary=runs, latest=certificate.sha256
        )
        return certificate

    def _find(self, rows: Any, ids: Any, subject: Any, *, nobody: bool = False) -> NDArray[np.intp]:
        if nobody and rows is None and ids is None and subject is None:
            return np.array([], dtype=np.intp)
        fitted = self.fitted_
        return fitted.book.find(fitted.source.live, rows=rows, ids=ids, subject=subject)

    def verify(self, certificate: Certificate) -> dict[str, bool]:
        """Check a certificate by itself and against the parameters that the model holds now."""
        check_is_fitted(self)
        checks, fitted = verify(certificate), self.fitted_
        if not names_parameters(certificate.parameters_sha256, self._theta, fitted.source.key):
            raise CertificateMismatch(
                "the model's parameters are not those of the certificate. It was issued for "
                "another model, or the model has changed since."
            )
        if fitted.latest != certificate.sha256:
            raise CertificateMismatch(
                "the certificate names the model's parameters, but the model did not issue it: it "
                "was altered or made up."
            )
        return {**checks, "parameters_checked": True, "issuer_checked": True}

    def consolidate(self) -> Any:
        """Bring statistics and eigenbasis up to date, so that nothing of forgotten rows is held.

        The last few forgotten rows stay in memory as a correction, because a new eigenbasis for
        every request would be slow. Pickling, deep copies, a redraw and a quote of all rows do
        this by themselves. Processes that helped with a quote keep its law, without rows, for up
        to a minute.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.fitted_.chain.problem.consolidate()
        return self

    def attach(self, X: Any, y: Any) -> Any:
        """Give a loaded model its training rows back.

        Parameters
        ----------
        X, y : array-like
            All rows of the fit in their order (forgotten ones may hold anything), or just those
            that are not forgotten. Dask collections must have the index of the fit, if its rows
            are known by it.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        fitted = self.fitted_
        if is_dask(X) or is_dask(y):  # rows are compared with their digests when they are read
            source = self._attached_partitions(X, y)
        else:
            source = fitted.source.attach(*self._attachable(X, y))
        self.fitted_ = fitted.reading(fitted.chain.problem.reading(source))
        return self

    def _attached_partitions(self, X: Any, y: Any) -> RowSource:
        source, partitions = self.fitted_.source, Partitions.of(X, y)
        validate_data(self, partitions.like, reset=False, skip_check_array=True)
        reading = partitions.reading(self._encoder())
        (sizes, index), numbers = partitions.rows(), np.flatnonzero(source.live)
        n, found = source.n_rows, int(sizes.sum())
        if found not in (n, len(numbers)):
            raise ValueError(
                f"X must have all {n} rows of the fit or the {len(numbers)} not forgotten, in "
                f"their order, got {found} rows."
            )
        if found == n:
            numbers = np.arange(n)
        names = self._names_by_position()
        if names is not None and index is not None:
            for position, name in zip(numbers, index, strict=True):
                if source.live[position] and name != names[position]:
                    raise ValueError(
                        f"X must have the index of the fit, got {name!r} where it was "
                        f"{names[position]!r}. Rows are forgotten by it: set_index the one that "
                        "was fitted."
                    )
            names = None  # the frame's own are the same, with their type
        return source.reading(
            PartitionedRows(partitions, sizes, reading, numbers=numbers, names=names)
        )

    def _names_by_position(self) -> list[Any] | None:
        """The index of the fit, where it serves as ids; None for forgotten rows."""
        ids = self.fitted_.book.ids
        if ids is None or not self._ids_are_the_index:
            return None
        names: list[Any] = [None] * self.fitted_.source.n_rows
        for name, (position,) in ids.items():
            names[position] = name
        return names

    def _encoder(self) -> Any:
        """From targets to numbers, partition by partition."""
        raise NotImplementedError


def _check_issue(certificate: Certificate) -> None:
    """At the edges of what accountants take, a certificate is verified before it is true."""
    epsilon, delta = certificate.epsilon_target, certificate.delta
    (e0, e1), (d0, d1) = _USUAL_EPSILON, _USUAL_DELTA
    if e0 <= epsilon <= e1 and d0 <= delta <= d1:
        return
    try:
        verify(certificate)
    except CertificateMismatch as error:
        raise _out_of_reach(epsilon, delta, str(error)) from None


def _out_of_reach(epsilon: float, delta: float, reason: str) -> ArithmeticError:
    (e0, e1), (d0, d1) = _USUAL_EPSILON, _USUAL_DELTA
    return ArithmeticError(
        f"epsilon={epsilon:g} and delta={delta:g} cannot be certified in double precision here: "
        f"{reason} Choose an epsilon within {e0:g} and {e1:g} and a delta within {d0:g} and "
        f"{d1:g}. Nothing was changed."
    )
