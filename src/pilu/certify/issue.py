"""Issue certificates: one function per method of forgetting."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._digits import two_digits_up
from pilu.accounting.curves import Spent
from pilu.certify.accountant import Accountant, Calibration, Law, Target
from pilu.certify.certificate import SCHEMA, Certificate, hash_of_parameters, library_versions
from pilu.certify.scope import scope_of_langevin, scope_of_redraw, scope_of_refit
from pilu.certify.verify import verify
from pilu.chains.chain import Chain
from pilu.data.rows import Request
from pilu.exceptions import BeyondPrecision, CertificateMismatch

__all__ = ["calibrate", "certify_langevin", "certify_redraw", "certify_refit"]

_USUAL_EPSILON, _USUAL_DELTA = (1e-3, 30.0), (1e-30, 0.1)


def calibrate(accountant: Accountant, law: Law, request: Request, target: Target) -> Calibration:
    """The accountant's answer, refused before the first step if it misses the target."""
    answer = accountant.calibrate(law, request, target)
    if 0.0 < answer.noise < target.floor:
        raise ArithmeticError("the accountant's noise is below the floor; please report this.")
    if not answer.epsilon <= target.epsilon:
        reason = f"the calibrated noise reaches only {answer.epsilon:g}."
        raise _out_of_reach(target.epsilon, target.delta, reason)
    return answer


def certify_langevin(
    chain: Chain,
    rows: NDArray[np.intp],
    accountant: Accountant,
    calibration: Calibration,
    target: Target,
    prior: Spent,
    conditional_on: Sequence[str],
    statistics_error: float,
    batch_facts: Mapping[str, bool],
    utility: Mapping[str, Any] | None = None,
) -> tuple[Certificate, Spent]:
    """The certificate for a chain that has just forgotten `rows`, and the new total."""
    c = calibration
    total, before = prior.after(epsilon=c.epsilon, delta=c.delta, curve=c.curve), prior.record()
    K = target.n_unlearn_steps
    certificate = Certificate(
        schema=SCHEMA,
        method="langevin",
        accountant={**accountant.describe(), **c.terms},
        epsilon=c.epsilon,
        epsilon_target=target.epsilon,
        delta=c.delta,
        noise=c.noise,
        n_unlearn_steps=K,
        schedule=_plain_schedule(chain),
        batch_size=chain.problem.minibatch_size,
        rows=tuple(int(r) for r in rows),
        total_epsilon=total.epsilon,
        total_delta=total.delta,
        conditional_on=tuple(conditional_on),
        parameters_sha256=_hash_of_parameters(chain),
        mu=c.mu,
        numerical_error={
            **c.numerical_error,
            "statistics_relative": two_digits_up(statistics_error),
        },
        scope=scope_of_langevin(
            private=chain.private,
            conditional=bool(conditional_on),
            epsilon=c.epsilon,
            delta=c.delta,
            slack=c.slack,
            both_directions=c.both_directions,
        ),
        checks={**c.checks, **batch_facts},
        evidence=None,
        evidence_sha256="",
        versions=dict(library_versions()),
        utility=utility,
    )
    evidence = {**c.evidence, "prior": before, **_nonce(chain.private)}
    certificate = certificate.resting_on(evidence)
    _check_unusual(certificate)
    return certificate, total


def certify_redraw(
    chain: Chain, rows: NDArray[np.intp], utility: Mapping[str, Any] | None = None
) -> Certificate:
    """The certificate for a chain that was just redrawn without `rows`."""
    certificate = Certificate(
        schema=SCHEMA,
        method="redraw",
        accountant={"name": "redraw"},
        epsilon=0.0,
        epsilon_target=0.0,
        delta=0.0,
        noise=0.0,
        n_unlearn_steps=0,
        schedule=_plain_schedule(chain),
        batch_size=chain.problem.minibatch_size,
        rows=tuple(int(r) for r in rows),
        total_epsilon=0.0,
        total_delta=0.0,
        conditional_on=(),
        parameters_sha256=_hash_of_parameters(chain),
        mu=0.0,
        numerical_error={"statistics_relative": two_digits_up(chain.problem.statistics_error)},
        scope=scope_of_redraw(private=chain.private),
        checks={},
        evidence=None,
        evidence_sha256="",
        versions=dict(library_versions()),
        utility=utility,
    )
    return certificate.resting_on(_nonce(chain.private))


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
    certificate = Certificate(
        schema=SCHEMA,
        method="refit",
        accountant={"name": "refit"},
        epsilon=epsilon,
        epsilon_target=epsilon,
        delta=delta,
        noise=noise,
        n_unlearn_steps=0,
        schedule=(),
        batch_size=None,
        rows=tuple(int(r) for r in rows),
        total_epsilon=epsilon,
        total_delta=delta,
        conditional_on=(),
        parameters_sha256=parameters_sha256,
        mu=mu,
        numerical_error={},
        scope=scope_of_refit(private=private, delta=delta),
        checks={},
        evidence=None,
        evidence_sha256="",
        versions=dict(library_versions()),
    )
    certificate = certificate.resting_on({**evidence, **_nonce(private)})
    verify(certificate)
    return certificate


def _nonce(private: bool) -> dict[str, str]:
    """A nonce for private noise. Without it, the evidence's hash could confirm a guess."""
    return {"nonce": secrets.token_hex(16)} if private else {}


def _hash_of_parameters(chain: Chain) -> str:
    key = chain.problem.source.key if chain.private else None
    return hash_of_parameters(chain.theta, key)


def _plain_schedule(chain: Chain) -> tuple[tuple[int, float], ...]:
    return tuple((s.steps, s.noise) for s in chain.schedule.segments)


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
