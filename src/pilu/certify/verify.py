"""Recompute a certificate from its own evidence, with `pilu.accounting` alone."""

import math
from typing import Any

import numpy as np

from pilu.accounting.curves import PrivacyCurve, Spent
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import epsilon_from_mu
from pilu.certify.accountant import TOLERANCE, Accountant, require, require_close
from pilu.certify.certificate import SCHEMA, UNBOUND_SCHEMA, Certificate, scope_of, sha256_of
from pilu.certify.exact import Exact
from pilu.certify.promises import REFERENCES
from pilu.certify.theorem import Theorem
from pilu.exceptions import CertificateMismatch

# A new accountant is one file and one line here. Its name is the one that certificates state.
ACCOUNTANTS: dict[str, Accountant] = {"exact": Exact(), "theorem": Theorem()}

# For mini-batches: whether learning visited any of the rows' batches, whether unlearning visited
# all of them, and whether a batch is empty.
_FACTS_OF_BATCHES = {"batches_visited", "batches_revisited", "batches_left_empty"}


def verify(certificate: Certificate) -> dict[str, bool]:
    """Check that a certificate is consistent, and recompute its numbers from its evidence.

    Returns
    -------
    checks : dict of str to bool
        ``True`` for what holds, ``False`` for what was not checked. Without evidence, epsilon is
        not recomputed. Evidence and utility are not compared with the data. The issuer is not
        checked: anyone can write a consistent certificate. `model.verify`, a store's log or a
        signature establish who issued it.

    Raises
    ------
    CertificateMismatch
        If a number is wrong; the message names it.
    """
    if not isinstance(certificate, Certificate):
        raise CertificateMismatch(
            f"certificate must be a pilu.Certificate, got {type(certificate).__name__}. Read its "
            "JSON by pilu.Certificate.from_json."
        )
    try:
        certificate = Certificate.from_json(certificate.to_json())  # checks the types of all fields
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
    try:
        epsilon, total = _recomputed(certificate)
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise CertificateMismatch(
            f"the evidence cannot be read ({type(error).__name__}: {error})."
        ) from None
    require_close("epsilon", certificate.epsilon, epsilon, absolute=1e-12)
    checks["epsilon_recomputed"] = True
    require_close("total_epsilon", certificate.total_epsilon, total.epsilon, absolute=1e-12)
    require_close("total_delta", certificate.total_delta, total.delta)
    checks["total_recomputed"] = True
    return checks


def _check_binding(c: Certificate) -> None:
    """Check the evidence's hash, and that it is bound to the other fields."""
    if c.evidence is None:
        return
    require(
        sha256_of(c.evidence) == c.evidence_sha256,
        "the evidence does not have the hash stated in the certificate",
    )
    if c.schema == UNBOUND_SCHEMA:
        return
    require(
        c.evidence["fields_sha256"] == c.fields_sha256,
        "the evidence belongs to other numbers than the certificate's",
    )
    require(
        ("nonce" in c.evidence) == (c.scope.get("private") is True),
        "the evidence does not match the scope's statement about private noise",
    )


def _check_fields(c: Certificate) -> None:
    finite = (c.epsilon, c.epsilon_target, c.delta, c.noise, c.total_epsilon, c.total_delta)
    require(all(0 <= v < 1e300 for v in finite), "a number is negative or infinite")
    require(len(c.parameters_sha256) == 64, "parameters_sha256 is not a hash")
    require(c.epsilon <= c.epsilon_target, "epsilon exceeds epsilon_target")
    require(c.method in REFERENCES, f"method {c.method!r} is not known")
    require((len(c.schedule) > 0) == (c.method != "refit"), "the schedule is empty, or a refit's")
    require(
        all((steps is None or steps >= 1) and noise >= 0 for steps, noise in c.schedule)
        and all(noise > 0 for _, noise in c.schedule[:1]),
        "the schedule has a segment without steps, negative noise, or no learning noise",
    )
    require(len(set(c.rows)) == len(c.rows), "a row is listed twice")
    require(_scope_agrees(c), "the scope contradicts the numbers")
    if c.method == "redraw":
        _check_redraw(c)
    elif c.method == "refit":
        _check_refit(c)
    else:
        require(0 < c.delta < 1, "delta is not in (0, 1)")
        require(len(c.evidence_sha256) == 64, "evidence_sha256 is not a hash")
        require(c.mu is None or 0 <= c.mu < math.inf, "mu is negative or infinite")
        _accountant(c).check(c)
        require(
            tuple(c.schedule[-1]) == (c.n_unlearn_steps, c.noise),
            "the schedule's last segment is not (n_unlearn_steps, noise)",
        )
        facts = _FACTS_OF_BATCHES if c.batch_size is not None else set()
        require(_FACTS_OF_BATCHES & set(c.checks) == facts, "the checks do not match batch_size")
        require(
            len(c.schedule) == 2 + len(c.conditional_on),
            "the schedule must have one segment for learning and one for every request",
        )


def _scope_agrees(c: Certificate) -> bool:
    numbers: dict[str, Any] = {}
    if c.method == "refit":
        numbers = {"delta": c.delta}
    elif c.method == "langevin":
        numbers = {
            "conditional": bool(c.conditional_on),
            "epsilon": c.epsilon,
            "delta": c.delta,
            "slack": float(c.accountant.get("delta_split", 0.0)) * c.delta,
            "both_directions": c.accountant.get("direction") == "both",
        }
    expected = scope_of(c.method, private=c.scope.get("private") is True, **numbers)
    stated = dict(c.scope)
    if c.schema == UNBOUND_SCHEMA:  # it also contained sentences, which are not checked
        stated = {name: stated[name] for name in stated if name not in ("words", "reference")}
    return sha256_of(expected) == sha256_of(stated)


def _accountant(c: Certificate) -> Accountant:
    name = c.accountant.get("name")
    require(name in ACCOUNTANTS, f"accountant {c.accountant!r} is not known")
    return ACCOUNTANTS[str(name)]


def _recomputed(c: Certificate) -> tuple[float, Spent]:
    """Epsilon and the running total, from the evidence."""
    if c.method == "redraw":
        return 0.0, Spent()
    if c.method == "refit":
        return _recomputed_refit(c)
    epsilon, curve = _accountant(c).recompute(c)
    return epsilon, _prior(c).after(epsilon=c.epsilon, delta=c.delta, curve=curve)


def total_of(certificate: Certificate) -> Spent:
    """The running total that the evidence of a chain's certificate leads to; `verify` it first."""
    require(certificate.method != "refit", "a refit has no running total")
    return _recomputed(certificate)[1]


def _prior(c: Certificate) -> Spent:
    prior = Spent.from_record((c.evidence or {})["prior"])
    require(
        (prior == Spent()) == (not c.conditional_on), "the prior total contradicts conditional_on"
    )
    return prior


def _check_redraw(c: Certificate) -> None:
    numbers = (c.epsilon, c.epsilon_target, c.delta, c.noise, c.n_unlearn_steps, c.mu)
    require(
        numbers == (0.0, 0.0, 0.0, 0.0, 0, 0.0)
        and (c.total_epsilon, c.total_delta) == (0.0, 0.0)
        and c.accountant.get("name") == "redraw"
        and not c.conditional_on
        and len(c.schedule) == 1,
        "a redraw must have epsilon = delta = 0, one segment and no earlier request",
    )


def _check_refit(c: Certificate) -> None:
    require(0 < c.delta < 1, "delta is not in (0, 1)")
    require(c.mu is not None and 0 < c.mu < math.inf and c.noise > 0, "mu or noise is not positive")
    require(
        (c.epsilon, c.total_epsilon, c.total_delta, c.n_unlearn_steps, c.batch_size)
        == (c.epsilon_target, c.epsilon, c.delta, 0, None)
        and c.accountant.get("name") == "refit"
        and not c.conditional_on,
        "a refit must have no total of its own, no steps and no earlier request",
    )


def _recomputed_refit(c: Certificate) -> tuple[float, Spent]:
    """Two runs end within twice the radius of each other, and the noise hides it."""
    evidence = c.evidence or {}
    radius, mu = float(evidence["radius"]), float(c.mu or 0.0)
    require(0 < radius < math.inf, "the radius is not positive")
    require(2 * radius <= mu * c.noise, "mu is below twice the radius over the noise")
    require(mu * c.noise <= 2 * radius * (1 + 1e-9), "mu is not that of the radius and the noise")
    require(
        evidence["strong_convexity"] in ("factorisation or penalty", "penalty"),
        "the way to strong convexity is not known",
    )
    for name in ("transformers_sha256", "rows_sha256", "program_sha256"):
        require(len(evidence[name]) == 64, f"{name} is not a hash")
    epsilon = float(epsilon_from_mu(mu, c.delta))
    require(epsilon <= c.epsilon, "mu and delta need a larger epsilon")
    if "earlier" in evidence:
        _check_earlier(c, evidence["earlier"])
    return c.epsilon, Spent(c.epsilon, c.delta)


def _check_earlier(c: Certificate, earlier: Any) -> None:
    """What earlier releases told about each person, from the laws of all of them together."""
    require(isinstance(earlier["covers_preprocessing"], bool), "a statement is not a boolean")
    for person in earlier["people"]:
        rows, n, delta = person["rows"], person["n_releases"], person["delta"]
        require(set(rows) <= set(c.rows) and len(rows) > 0, "an earlier release is of other rows")
        require(type(n) is int and n >= 1, "a person was in no earlier release")
        require(0 < delta < 1, "the delta of earlier releases is not in (0, 1)")
        each = person["each"]
        require(
            len(each) == n and all(e is None or 0 <= e < math.inf for e in each),
            "there must be one epsilon, or none, for each earlier release",
        )
        epsilon, source = person["epsilon"], person["follows_from"]
        require((epsilon is None) == (source is None), "an epsilon of earlier releases is missing")
        if source == "losses":
            numbers = (person[name] for name in ("excesses", "squared_shifts", "counts"))
            pair = GaussianPair(*(np.array(values, dtype=np.float64) for values in numbers))
            needed = PrivacyCurve(pair, both=True).epsilon(delta)
            require(needed <= epsilon * (1 + TOLERANCE), "earlier releases need a larger epsilon")
        elif source == "caps":
            require(0 < epsilon < math.inf, "the epsilon of earlier releases is not positive")
        else:
            require(source is None, "it is not known what an epsilon follows from")
