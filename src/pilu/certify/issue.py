"""Issue certificates: the terms of a request, its noise, and one function per way of forgetting."""

import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_probability, check_real, check_steps, complaint
from pilu.accounting.curves import Spent
from pilu.certify.accountant import VISIBLE_ULPS, Accountant, Calibration, Target
from pilu.certify.certificate import (
    SCHEMA,
    Certificate,
    hash_of_parameters,
    library_versions,
    scope_of,
)
from pilu.certify.verify import ACCOUNTANTS, verify
from pilu.chains.chain import Chain
from pilu.chains.problem import Law
from pilu.data.rows import Request
from pilu.exceptions import BeyondPrecision, CertificateMismatch

_LEAST_EPSILON, _LARGEST_EPSILON = 1e-9, 1e4
_LEAST_DELTA = 1e-300
_USUAL_EPSILON, _USUAL_DELTA = (1e-3, 30.0), (1e-30, 0.1)


class Terms(NamedTuple):
    """The accountant, law and target of requests."""

    accountant: Accountant
    law: Law
    target: Target

    def calibrate(self, request: Request) -> Calibration:
        """The accountant's answer, refused before the first step if it misses the target."""
        target, answer = self.target, self.accountant.calibrate(self.law, request, self.target)
        if 0.0 < answer.noise < target.floor:
            raise ArithmeticError("the accountant's noise is below the floor; please report this.")
        if not answer.epsilon <= target.epsilon:
            reason = f"the calibrated noise reaches only {answer.epsilon:g}."
            raise _out_of_reach(target.epsilon, target.delta, reason)
        return answer


def set_terms(
    chain: Chain,
    accountant: str | Accountant,
    epsilon: float,
    delta: float | None,
    n_unlearn_steps: int,
) -> Terms:
    """The accountant, the law in the form that it accepts, and the target, all checked.

    The accountant is a name or an object; "auto" is the exact one if the iterates are Gaussian,
    otherwise the theorem. Delta is by default 1/n for n rows at fit.
    """
    value = check_real("epsilon", epsilon, above=0.0, most=_LARGEST_EPSILON)
    K = check_steps("n_unlearn_steps", n_unlearn_steps)
    if value < _LEAST_EPSILON:
        raise complaint("epsilon", f"at least {_LEAST_EPSILON:g}", epsilon)
    delta = read_delta(chain, delta)
    law = chain.law(corrected=True)
    if isinstance(accountant, str) and accountant == "auto":
        accountant = "exact" if law.is_gaussian else "theorem"
    chosen = resolve_accountant(accountant)
    if not getattr(chosen, "takes_corrections", False):
        law = chain.law()
    return Terms(chosen, law, set_target(law, value, delta, K))


def read_delta(chain: Chain, delta: float | None) -> float:
    """Delta, checked; by default 1/n for n rows at fit."""
    if delta is None:
        return 1.0 / len(chain.problem.source.live)
    value = check_probability("delta", delta)
    if value < _LEAST_DELTA:
        raise complaint("delta", f"at least {_LEAST_DELTA:g}", delta)
    return value


def set_target(law: Law, epsilon: float, delta: float, n_unlearn_steps: int) -> Target:
    """The target for requests under a law.

    Its floor depends on the law, not on realised parameters, and is the same for all rows. It is
    rounded up to a power of two, because only its order of magnitude matters.
    """
    size = law.largest_size(n_unlearn_steps)
    exact = VISIBLE_ULPS * 2.0**-52 * size / math.sqrt(2 * law.step_size)
    floor = 2.0 ** math.ceil(math.log2(exact)) if exact > 0 else 0.0
    return Target(epsilon, delta, n_unlearn_steps, floor)


def resolve_accountant(accountant: str | Accountant) -> Accountant:
    """An accountant given by name or as an object."""
    if isinstance(accountant, str) and accountant in ACCOUNTANTS:
        return ACCOUNTANTS[accountant]
    if not isinstance(accountant, str | type) and hasattr(accountant, "calibrate"):
        return accountant
    names = ", ".join(map(repr, ACCOUNTANTS))
    raise complaint("accountant", f"one of {names} or an accountant object", accountant)


def certify_langevin(
    chain: Chain,
    rows: NDArray[np.intp],
    terms: Terms,
    calibration: Calibration,
    prior: Spent,
    conditional_on: Sequence[str],
    statistics_error: float,
    batch_facts: Mapping[str, bool],
    utility: Mapping[str, Any] | None,
) -> tuple[Certificate, Spent]:
    """The certificate for a chain that has just forgotten `rows`, and the new total."""
    c, target = calibration, terms.target
    total = prior.after(epsilon=c.epsilon, delta=c.delta, curve=c.curve)
    certificate = _issued(
        "langevin",
        rows,
        {**c.evidence, "prior": prior.record()},
        private=chain.private,
        accountant={**terms.accountant.describe(), **c.terms},
        epsilon=c.epsilon,
        epsilon_target=target.epsilon,
        delta=c.delta,
        noise=c.noise,
        n_unlearn_steps=target.n_unlearn_steps,
        total_epsilon=total.epsilon,
        total_delta=total.delta,
        conditional_on=tuple(conditional_on),
        mu=c.mu,
        numerical_error={
            **c.numerical_error,
            "statistics_relative": _two_digits_up(statistics_error),
        },
        scope=scope_of(
            "langevin",
            private=chain.private,
            conditional=bool(conditional_on),
            epsilon=c.epsilon,
            delta=c.delta,
            slack=c.slack,
            both_directions=c.both_directions,
        ),
        checks={**c.checks, **batch_facts},
        utility=utility,
        **_about_chain(chain),
    )
    _check_unusual(certificate)
    return certificate, total


def certify_redraw(
    chain: Chain, rows: NDArray[np.intp], utility: Mapping[str, Any] | None
) -> Certificate:
    """The certificate for a chain that was just redrawn without `rows`."""
    return _issued(
        "redraw",
        rows,
        {},
        private=chain.private,
        accountant={"name": "redraw"},
        epsilon=0.0,
        epsilon_target=0.0,
        delta=0.0,
        noise=0.0,
        n_unlearn_steps=0,
        total_epsilon=0.0,
        total_delta=0.0,
        conditional_on=(),
        mu=0.0,
        numerical_error={"statistics_relative": _two_digits_up(chain.problem.statistics_error)},
        scope=scope_of("redraw", private=chain.private),
        checks={},
        utility=utility,
        **_about_chain(chain),
    )


def certify_refit(
    rows: NDArray[np.intp],
    *,
    epsilon: float,
    delta: float,
    mu: float,
    noise: float,
    parameters_sha256: str,
    private: bool,
    evidence: Mapping[str, Any],
) -> Certificate:
    """The certificate for parameters that were just released by a refit without `rows`."""
    certificate = _issued(
        "refit",
        rows,
        evidence,
        private=private,
        accountant={"name": "refit"},
        epsilon=epsilon,
        epsilon_target=epsilon,
        delta=delta,
        noise=noise,
        n_unlearn_steps=0,
        schedule=(),
        batch_size=None,
        total_epsilon=epsilon,
        total_delta=delta,
        conditional_on=(),
        parameters_sha256=parameters_sha256,
        mu=mu,
        numerical_error={},
        scope=scope_of("refit", private=private, delta=delta),
        checks={},
    )
    verify(certificate)
    return certificate


def _issued(
    method: str,
    rows: NDArray[np.intp],
    evidence: Mapping[str, Any],
    *,
    private: bool,
    **fields: Any,
) -> Certificate:
    """A certificate bound to its evidence, which depends on the rows."""
    certificate = Certificate(
        schema=SCHEMA,
        method=method,
        rows=tuple(int(r) for r in rows),
        evidence=None,
        evidence_sha256="",
        versions=dict(library_versions()),
        **fields,
    )
    # A nonce for private noise. Without it, the evidence's hash could confirm a guess.
    nonce = {"nonce": secrets.token_hex(16)} if private else {}
    return certificate.resting_on({**evidence, **nonce})


def _about_chain(chain: Chain) -> dict[str, Any]:
    key = chain.problem.source.key if chain.private else None
    return {
        "schedule": chain.schedule.record(),
        "batch_size": chain.problem.minibatch_size,
        "parameters_sha256": hash_of_parameters(chain.theta, key),
    }


def _check_unusual(certificate: Certificate) -> None:
    """Verify a certificate of unusual epsilon or delta before it is issued."""
    epsilon, delta = certificate.epsilon_target, certificate.delta
    (e0, e1), (d0, d1) = _USUAL_EPSILON, _USUAL_DELTA
    if e0 <= epsilon <= e1 and d0 <= delta <= d1:
        return
    try:
        verify(certificate)
    except CertificateMismatch as error:
        raise _out_of_reach(epsilon, delta, str(error)) from None


def _out_of_reach(epsilon: float, delta: float, reason: str) -> BeyondPrecision:
    (e0, e1), (d0, d1) = _USUAL_EPSILON, _USUAL_DELTA
    return BeyondPrecision(
        f"epsilon={epsilon:g} and delta={delta:g} cannot be certified in double precision here: "
        f"{reason} Choose an epsilon between {e0:g} and {e1:g} and a delta between {d0:g} and "
        f"{d1:g}. Nothing was changed."
    )


def _two_digits_up(error: float) -> float:
    """An error bound with two digits, not below the error.

    >>> _two_digits_up(1.2345e-14)
    1.3e-14
    """
    if error == 0.0 or math.isinf(error):
        return error
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    return float(f"{math.ceil(error / unit * (1 + 1e-12)) * unit:.1e}")
