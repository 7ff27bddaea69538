"""Check a certificate: its arithmetic, and for a refit also the released model against the data."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2
from sklearn.base import BaseEstimator, clone, is_classifier

from pilu._checks import check_probability
from pilu.certify.certificate import Certificate
from pilu.certify.verify import verify as verify_arithmetic
from pilu.estimators.forgetful import Forgetful
from pilu.estimators.refit_exposure import people_of
from pilu.estimators.refitted import groups_of
from pilu.estimators.requests import RowBook
from pilu.exceptions import CertificateMismatch, WrongInput
from pilu.refit.evidence import hash_of_release, hash_of_rows, options_of
from pilu.refit.fingerprints import fingerprint
from pilu.refit.held_rows import Table
from pilu.refit.noise_scale import shape_noise
from pilu.refit.program import Prepared, head_of, prepare, standard_parameters, transformers_of
from pilu.refit.schema import Schema
from pilu.refit.solve import solve

Array = NDArray[np.float64]

_SAME = 1e-9  # relative difference of two fits of the same transformer on other hardware


def verify(
    certificate: Certificate,
    estimator: Any = None,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    subjects: Any = None,
    program: Any = None,
    false_alarm: float = 1e-6,
) -> dict[str, bool]:
    """Check that a certificate is consistent, and recompute its numbers from its evidence.

    With `estimator`, the certificate of a refit must name this model by its hash. With `X` and `y`
    it is also checked against the data. The pipeline is fitted from scratch on these rows. Its
    transformers must agree with the released ones. The released parameters must lie where the
    certificate says: within twice the radius of the new solution, up to noise of the stated size.

    Parameters
    ----------
    certificate : Certificate
    estimator : Forgetful or fitted scikit-learn estimator, optional
        The model that was released: a fitted `Forgetful` or its `released_`.
    X, y, sample_weight, subjects : optional
        The rows that are left, in the order in which the model got them.
    program : estimator, optional
        The unfitted estimator that `Forgetful` wraps. It is needed beside a plain `released_` whose
        hyperparameters were chosen by a search.
    false_alarm : float in (0, 1), default=1e-6
        Probability that noise alone makes the check of the parameters fail.

    Returns
    -------
    checks : dict of str to bool
        ``True`` for what holds, ``False`` for what was not checked. Without evidence, epsilon is
        not recomputed. The issuer is not checked: anyone can write a consistent certificate.
        `model.verify`, a store's log or a signature establish who issued it.

    Raises
    ------
    CertificateMismatch
        If a number is wrong; the message names it.
    """
    checks = verify_arithmetic(certificate)
    if estimator is None and X is None and y is None:
        return checks
    if estimator is None or (X is None) != (y is None):
        raise WrongInput(
            "X and y must be given together, and with the estimator. Pass all three, or the "
            "certificate alone."
        )
    if certificate.method != "refit":
        raise WrongInput(
            "only the certificate of a refit can be checked against a model here. Use "
            "model.verify(certificate) for others."
        )
    released = estimator.released_ if isinstance(estimator, Forgetful) else estimator
    _expect(
        hash_of_release(released) == certificate.parameters_sha256,
        "the estimator is not the one that was released with this certificate. Use the certificate "
        "of the latest unlearn, add or correct",
    )
    checks["parameters_checked"] = True
    if X is None:
        return checks
    if certificate.evidence is None:
        raise WrongInput("a certificate without its evidence cannot be checked against data.")
    check_probability("false_alarm", false_alarm)
    key = estimator.fitted_.key if isinstance(estimator, Forgetful) else None
    if program is None:
        program = estimator.estimator if isinstance(estimator, Forgetful) else clone(estimator)
    schema = Schema.of(X, y, labels=is_classifier(program))
    if isinstance(estimator, Forgetful):
        schema = estimator.fitted_.schema
    table = Table.of(X, y, sample_weight, key=key or bytes(32), schema=schema)
    _check_inputs(certificate, program, table, key)
    book = RowBook.open(len(table), key or bytes(32), None, subjects)
    table = table.split_by(groups_of(book, len(table)))
    options = options_of(certificate.evidence, certificate.epsilon, certificate.delta)
    prepared = prepare(program, table, options)
    if options.shaped:
        everybody = people_of(book, np.ones(len(table), dtype=bool), table)
        prepared, _ = shape_noise(prepared, options, everybody)
    _check_targets(certificate, prepared)
    identical = _check_transformers(released, prepared)
    _expect(
        not identical
        or prepared.transformers_sha256 == certificate.evidence["transformers_sha256"],
        "the hash of transformers and choices is not that of a fit from scratch on these rows",
    )
    _check_parameters(certificate, released, prepared, false_alarm)
    return {
        **checks,
        "inputs_checked_against_data": True,
        "rows_checked": key is not None,
        "transformers_identical": identical,
    }


def _expect(condition: bool, failure: str) -> None:
    if not condition:
        raise CertificateMismatch(f"{failure}.")


def _check_inputs(c: Certificate, program: Any, table: Table, key: bytes | None) -> None:
    """The program and the rows are those that the certificate names."""
    evidence = c.evidence or {}
    _expect(
        fingerprint(clone(program)) == evidence["program_sha256"],
        "the program is not the one that was certified. Pass the unfitted estimator as program=, "
        "if its hyperparameters were chosen by a search",
    )
    _expect(
        len(table) == evidence["n_rows"],
        f"X must be the {evidence['n_rows']} rows of the release, got {len(table)}. Leave out the "
        "forgotten rows",
    )
    if key is not None:
        _expect(
            hash_of_rows(table.digests, key) == evidence["rows_sha256"],
            "the rows are not those of the release. Pass the rows that are left, as they were then "
            "and in the order in which the model got them",
        )


def _check_targets(c: Certificate, prepared: Prepared) -> None:
    """Noise and radius are functions of the rows."""
    radius = float((c.evidence or {})["radius"])
    evidence, shape = c.evidence or {}, prepared.shape
    numbers = [("noise", c.noise, prepared.noise), ("radius", radius, prepared.radius)]
    if shape is not None:
        for name in ("curvature", "penalty_factor"):
            numbers.append((name, float(evidence[name]), float(getattr(shape, name))))
    for name, stated, found in numbers:
        if not math.isclose(stated, found, rel_tol=1e-6):
            raise CertificateMismatch(
                f"the {name} is {stated:.6g} in the certificate and {found:.6g} on these rows. If "
                "the model has subjects, pass them, too."
            )


def _check_transformers(released: Any, prepared: Prepared) -> bool:
    """Compare released transformers with those fitted from scratch; True if equal in every bit."""
    identical = True
    for (name, one), (_, other) in zip(
        transformers_of(released), prepared.released_transformers, strict=True
    ):
        if fingerprint(one) != fingerprint(other):
            identical = False
            close = _is_close(one, other)
            _expect(close, f"step {name!r} is not what a fit from scratch on these rows gives")
    return identical


def _is_close(one: Any, other: Any) -> bool:
    """Whether two fitted objects are equal, up to rounding of floats."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and one.dtype.kind == "f" and one.shape == other.shape:
        size = float(np.abs(other[np.isfinite(other)]).max(initial=0.0))
        return bool(np.allclose(one, other, rtol=_SAME, atol=_SAME * size, equal_nan=True))
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=_SAME) or fingerprint(one) == fingerprint(other)
    if isinstance(one, list | tuple) and len(one) == len(other):
        return all(_is_close(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and one.keys() == other.keys():
        return all(_is_close(one[key], other[key]) for key in one)
    if isinstance(one, BaseEstimator):
        return _is_close(vars(one), vars(other))
    return fingerprint(one) == fingerprint(other)


def _check_parameters(
    c: Certificate, released: Any, prepared: Prepared, false_alarm: float
) -> None:
    """The released parameters are the new solution, moved by 2 b at most, plus the noise.

    |theta - theta'| <= 2 b + sigma chi, with chi of as many degrees of freedom as parameters. The
    false alarms are shared by too much noise, too little noise, and one coordinate far off.
    """
    head, classes = head_of(released), prepared.problem.classes
    if classes is not None:
        _expect(np.array_equal(classes, head.classes_), "the class names are not those of the rows")
    theta = standard_parameters(prepared, head)
    if theta is None:
        raise CertificateMismatch("the parameters do not have the shape that these rows give.")
    _expect(
        _is_close(head_of(prepared.finished(theta)), head),
        "the head is not what a fit from scratch on these rows gives",
    )
    solution = solve(prepared.objective, None, prepared.within)
    moved, share = 2 * prepared.radius, false_alarm / 3
    difference = theta - solution
    if prepared.shape is not None:
        difference = prepared.shape.lengths(difference)
    difference = np.abs(difference)
    length = float(np.linalg.norm(difference))
    most = moved + c.noise * math.sqrt(float(chi2.isf(share, theta.size)))
    least = c.noise * math.sqrt(float(chi2.ppf(share, theta.size))) - moved
    worst = moved - c.noise * float(ndtri(share / 2 / theta.size))
    _expect(
        length <= most and float(difference.max()) <= worst,
        "the released parameters are farther from the solution on these rows than radius and "
        f"noise allow ({length:.3g}, at most {most:.3g})",
    )
    _expect(
        length >= least,
        "the released parameters are nearer to the solution on these rows than the stated noise "
        f"allows ({length:.3g}, at least {least:.3g})",
    )
