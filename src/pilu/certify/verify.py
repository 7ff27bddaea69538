"""Recompute a certificate from its own evidence, with `pilu.accounting` alone."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pilu.accounting.coarse import CoarseCurve
from pilu.accounting.composition import Spent
from pilu.accounting.curves import Curve, GaussianCurve, PrivacyCurve
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import epsilon_from_mu, mu_from_epsilon
from pilu.accounting.shifted import Blocks, later_variance
from pilu.certify.certificate import SCHEMA, UNBOUND_SCHEMA, Certificate, sha256_of
from pilu.certify.scope import FACTS_OF_BATCHES, scope_of_langevin, scope_of_redraw
from pilu.exceptions import CertificateMismatch

__all__ = ["curve_of", "verify"]

_TOLERANCE = 1e-9


def verify(certificate: Certificate) -> dict[str, bool]:
    """Check that a certificate agrees with itself.

    Returns
    -------
    checks : dict of str to bool
        What was found true, and what could not be checked (``False``): without evidence epsilon
        is not recomputed, and neither evidence nor utility is ever compared with the data here.
        Who issued the certificate is not known here either: anybody can write one that agrees
        with itself. `model.verify`, a store's log or a signature tell.

    Raises
    ------
    CertificateMismatch
        Where a number disagrees; the message names it.
    """
    _require(isinstance(certificate, Certificate), "certificate must be a pilu.Certificate")
    try:
        certificate = Certificate.from_json(certificate.to_json())  # every field of its type
        _check_fields(certificate)
        _check_binding(certificate)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CertificateMismatch(
            f"the fields cannot be read ({type(error).__name__}: {error})."
        ) from None
    checks = {
        "fields_consistent": True,
        "evidence_matches_hash": False,
        "evidence_bound_to_fields": False,
        "epsilon_recomputed": False,
        "total_recomputed": False,
        "noise_is_private": certificate.scope.get("private") is True,
        "unconditional": not certificate.conditional_on,
        "parameters_checked": False,
        "issuer_checked": False,
        "inputs_checked_against_data": False,
        "utility_recomputed": False,
    }
    if certificate.evidence is None:
        return checks
    checks["evidence_matches_hash"] = True
    checks["evidence_bound_to_fields"] = certificate.schema == SCHEMA
    recompute = _RECOMPUTE.get(str(certificate.accountant.get("name")))
    _require(recompute is not None, f"accountant {certificate.accountant!r} is not known")
    try:
        epsilon, total = recompute(certificate)  # type: ignore[misc]
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise CertificateMismatch(
            f"the evidence cannot be read ({type(error).__name__}: {error})."
        ) from None
    _require_close("epsilon", certificate.epsilon, epsilon, absolute=1e-12)
    checks["epsilon_recomputed"] = True
    _require_close("total_epsilon", certificate.total_epsilon, total.epsilon, absolute=1e-12)
    _require_close("total_delta", certificate.total_delta, total.delta)
    checks["total_recomputed"] = True
    return checks


def _check_binding(c: Certificate) -> None:
    """The evidence is the one that was hashed, and says to which numbers it belongs."""
    if c.evidence is None:
        return
    _require(
        sha256_of(c.evidence) == c.evidence_sha256,
        "the evidence does not have the hash that the certificate names",
    )
    if c.schema == UNBOUND_SCHEMA:
        return
    _require(
        c.evidence["fields_sha256"] == c.fields_sha256,
        "the evidence belongs to other numbers than those of the certificate",
    )
    _require(
        ("nonce" in c.evidence) == (c.scope.get("private") is True),
        "the evidence is not that of noise drawn as the scope says",
    )


def _check_fields(c: Certificate) -> None:
    finite = (c.epsilon, c.epsilon_target, c.delta, c.noise, c.total_epsilon, c.total_delta)
    _require(all(0 <= v < 1e300 for v in finite), "a number is negative or infinite")
    _require(len(c.parameters_sha256) == 64, "parameters_sha256 is not a hash")
    _require(c.epsilon <= c.epsilon_target, "epsilon exceeds epsilon_target")
    _require(c.method in ("langevin", "redraw"), f"method {c.method!r} is not known")
    _require(len(c.schedule) > 0, "the schedule is empty")
    _require(
        all(steps >= 1 and noise >= 0 for steps, noise in c.schedule) and c.schedule[0][1] > 0,
        "the schedule has a segment without steps, a negative noise, or no learning noise",
    )
    _require(len(set(c.rows)) == len(c.rows), "a row is listed twice")
    _require(all(type(row) is int and row >= 0 for row in c.rows), "a row is no position")
    _require(
        c.batch_size is None or (type(c.batch_size) is int and c.batch_size >= 1),
        "batch_size is neither None nor a positive integer",
    )
    _require(
        _scope_agrees(c),
        "the scope does not say what the numbers say",
    )
    if c.method == "redraw":
        _check_redraw(c)
    else:
        _require(0 < c.delta < 1, "delta is not in (0, 1)")
        _require(len(c.rows) > 0, "no row is listed")
        _require(len(c.evidence_sha256) == 64, "evidence_sha256 is not a hash")
        _check_accountant(c)
        _require(
            tuple(c.schedule[-1]) == (c.n_unlearn_steps, c.noise),
            "the schedule's last segment is not (n_unlearn_steps, noise)",
        )
        facts = set(FACTS_OF_BATCHES) if c.batch_size is not None else set()
        _require(
            set(FACTS_OF_BATCHES) & set(c.checks) == facts,
            "the checks do not belong to a run with this batch_size",
        )
        _require(
            len(c.schedule) == 2 + len(c.conditional_on),
            "the schedule does not have one segment for learning and one for every request",
        )


def _scope_agrees(c: Certificate) -> bool:
    private = c.scope.get("private") is True
    if c.method == "redraw":
        expected = scope_of_redraw(private=private)
    else:
        expected = scope_of_langevin(
            private=private,
            conditional=bool(c.conditional_on),
            epsilon=c.epsilon,
            delta=c.delta,
            slack=float(c.accountant.get("delta_split", 0.0)) * c.delta,
            both_directions=c.accountant.get("direction") == "both",
        )
    stated = dict(c.scope)
    if c.schema == UNBOUND_SCHEMA:  # it had sentences, which decide nothing
        stated = {name: stated[name] for name in stated if name not in ("words", "reference")}
    return sha256_of(expected) == sha256_of(stated)


def _recompute_theorem(c: Certificate) -> tuple[float, Spent]:
    evidence = c.evidence or {}
    numbers = np.array(evidence["blocks"], dtype=np.float64)
    prior = _prior(c)
    contraction, step_size = float(evidence["contraction"]), float(evidence["step_size"])
    split = float(c.accountant["delta_split"])
    _require(
        numbers.ndim == 2
        and numbers.shape[1] == 2
        and bool((np.isfinite(numbers) & (numbers >= 0)).all())
        and 0 < contraction <= 1
        and 0 < step_size < math.inf
        and 0 < split < 1
        and 0 < c.n_unlearn_steps < 10**9,
        "the evidence is out of range",
    )
    _check_terms(c)
    blocks = Blocks(numbers[:, 0], numbers[:, 1])
    extra = c.noise**2 * 2 * step_size * later_variance(c.n_unlearn_steps, contraction)
    mu, slack = blocks.mu_as_pooled(extra), split * c.delta
    _require(c.mu is not None, "mu is missing")
    coarse = c.accountant.get("coarse") is True  # the target is stated, reached or less
    if coarse:
        stated = float(mu_from_epsilon(c.epsilon_target, c.delta - slack))
        _require(mu <= stated * (1 + _TOLERANCE), "the noise is not enough for epsilon")
        mu = stated
    _require_close("mu", c.mu or 0.0, mu)
    epsilon = c.epsilon_target if coarse else float(epsilon_from_mu(mu, c.delta - slack))
    total = prior.after(epsilon=c.epsilon, delta=c.delta, curve=GaussianCurve(mu, slack))
    return epsilon, total


def _check_terms(c: Certificate) -> None:
    terms = (c.evidence or {}).get("terms", {})
    _require(sha256_of(_terms(c)) == sha256_of(terms), "the terms are not those of the evidence")


def _terms(c: Certificate) -> dict[str, Any]:
    """What a bound by concentration rests on, where the loss is not ridge's."""
    names = {"loss", "auxiliary_runs", "delta_tails", "delta_means"}
    return {name: c.accountant[name] for name in names & set(c.accountant)}


def _check_accountant(c: Certificate) -> None:
    """What can be said of the accountant's numbers without the evidence."""
    name = c.accountant.get("name")
    _require(name in ("exact", "theorem"), f"accountant {c.accountant!r} is not known")
    _require(c.mu is None or 0 <= c.mu < math.inf, "mu is negative or infinite")
    if name == "exact":
        _require(c.mu is None, "mu is stated, and the exact accountant has none")
        return
    options = (c.accountant["group"], c.accountant["strong_convexity"])
    _require(
        options[0] in ("sum", "joint") and options[1] in ("alpha", "retained"),
        "the options are none of the theorem's",
    )
    split = float(c.accountant["delta_split"])
    _require(0 < split < 1, "delta_split is not in (0, 1)")
    _require(c.mu is not None, "mu is missing")
    slack = split * c.delta
    certified = float(epsilon_from_mu(c.mu or 0.0, c.delta - slack))
    _require(c.epsilon >= certified * (1 - _TOLERANCE) - 1e-12, "epsilon is less than mu's")
    stated = _terms(c)
    if stated:
        tails, means = float(stated["delta_tails"]), float(stated["delta_means"])
        _require(0 < tails < slack and 0 < means < slack, "delta_s is not shared out as stated")
        _require_close("delta_tails + delta_means", tails + means, slack)
        runs, loss = stated["auxiliary_runs"], stated["loss"]
        _require(type(runs) is int and runs >= 1, "auxiliary_runs is not a positive integer")
        _require(isinstance(loss, Mapping) and "name" in loss, "the loss has no name")
        _require(
            (c.accountant["group"], c.accountant["strong_convexity"]) == ("sum", "alpha"),
            "the options are ridge's",
        )


def _recompute_exact(c: Certificate) -> tuple[float, Spent]:
    evidence = c.evidence or {}
    curve = curve_of(evidence, both=c.accountant["direction"] == "both")
    recomputed = curve.epsilon(c.delta)
    coarse = c.accountant.get("coarse") is True  # the epsilon asked for is stated, reached or less
    # A calibrated noise certifies the target itself, a hair above the least epsilon.
    close = recomputed <= c.epsilon * (1 + _TOLERANCE) + 1e-12 and (
        c.epsilon == c.epsilon_target if coarse else c.epsilon <= recomputed * (1 + 1e-5) + 1e-9
    )
    forward: Curve = curve.forward()
    if coarse:
        forward = CoarseCurve(forward, float(mu_from_epsilon(c.epsilon_target, c.delta)))
    total = _prior(c).after(epsilon=c.epsilon, delta=c.delta, curve=forward)
    return (c.epsilon if close else recomputed), total


def curve_of(evidence: Mapping[str, Any], *, both: bool = False) -> PrivacyCurve:
    """The privacy curve that the exact accountant's evidence speaks of."""
    numbers = np.array(evidence["directions"], dtype=np.float64)
    log_tail, error = evidence["log_tail"], float(evidence["epsilon_error"])
    _require(
        numbers.ndim == 2 and numbers.shape[1] == 3 and 0 <= error < math.inf,
        "the evidence is out of range",
    )
    tail = -math.inf if log_tail is None else float(log_tail)
    return PrivacyCurve(GaussianPair(*numbers.T), both, error, tail)


def _prior(c: Certificate) -> Spent:
    prior = Spent.from_record((c.evidence or {})["prior"])
    _require((prior == Spent()) == (not c.conditional_on), "the prior total is not as stated")
    return prior


def _check_redraw(c: Certificate) -> None:
    numbers = (c.epsilon, c.epsilon_target, c.delta, c.noise, c.n_unlearn_steps, c.mu)
    _require(
        numbers == (0.0, 0.0, 0.0, 0.0, 0, 0.0)
        and (c.total_epsilon, c.total_delta) == (0.0, 0.0)
        and c.accountant.get("name") == "redraw"
        and not c.conditional_on
        and len(c.schedule) == 1,
        "a redraw has epsilon and delta 0, one segment, and depends on no earlier request",
    )


def _recompute_redraw(c: Certificate) -> tuple[float, Spent]:
    _require(c.method == "redraw", "the accountant is a redraw's")
    return 0.0, Spent()


_RECOMPUTE: dict[str, Callable[[Certificate], tuple[float, Spent]]] = {
    "exact": _recompute_exact,
    "theorem": _recompute_theorem,
    "redraw": _recompute_redraw,
}


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise CertificateMismatch(f"{complaint}. The certificate was altered or is damaged.")


def _require_close(name: str, stated: float, recomputed: float, absolute: float = 0.0) -> None:
    # Rounding differs between machines; anything more is a mismatch, in either direction.
    _require(
        math.isfinite(recomputed)
        and math.isclose(stated, recomputed, rel_tol=_TOLERANCE, abs_tol=absolute),
        f"{name} is stated as {stated!r} and recomputed as {recomputed!r}",
    )
