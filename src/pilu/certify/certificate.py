"""The certificate: a frozen record with a lossless JSON form."""

import hashlib
import hmac
import json
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.certify.promises import REFERENCES, limits_of, line_of, promises_of
from pilu.exceptions import CertificateMismatch

SCHEMA = "pilu.certificate/2"
# The first format, still read: its evidence is not bound to its fields.
UNBOUND_SCHEMA = "pilu.certificate/1"

_PLAIN = (bool, int, float, str, type(None))
_DEEPEST = 32  # nesting levels of a certificate or a receipt

_UTILITY_NUMBERS = ("before", "after", "redraw", "seconds", "redraw_seconds")

_NOT_COVERED = (
    # The analysis treats these as constants, although the row was present when they were set.
    "covers_step_size_and_regularisation",
    "covers_preprocessing_fitted_with_the_row",
    "covers_choices_made_after_seeing_parameters",
    # Other sources of information about the row.
    "covers_earlier_releases_and_copies",
    "covers_published_noise_levels_and_quotes",
    "covers_requests_that_depend_on_a_release",
    "covers_floating_point",
    # A classifier may keep the name of a class without any remaining row.
    "covers_class_names",
)


@dataclass(frozen=True)
class Certificate:
    """The guarantee for one request, with the evidence to recompute it.

    Attributes
    ----------
    schema : str
        Format of this record.
    method : {"langevin", "redraw", "refit"}
    accountant : dict
        Name and options of the accountant.
    epsilon, delta : float
        What is certified; conditional on earlier requests if `conditional_on` is not empty.
    epsilon_target : float
        The requested epsilon.
    noise, n_unlearn_steps : float, int
        sigma_unlearn and K. For a refit: the noise of a standard coordinate, and 0.
    schedule : tuple of (steps, noise)
        The whole chain, this request's segment last. The steps of learning are None if it was a
        draw from their stationary law (``n_steps=None``). Empty for a refit.
    batch_size : int or None
        Rows in the mini-batch of a step; None if every step uses all rows.
    rows : tuple of int
        Fit-time positions of the forgotten rows.
    total_epsilon, total_delta : float
        The total: compared with the run without the rows of this and all earlier requests. For a
        refit, epsilon and delta: every release is compared with retraining on its own.
    conditional_on : tuple of str
        Hashes of the earlier certificates since the last redraw.
    parameters_sha256 : str
        Hash of the certified parameters. Except for seeded runs it is keyed by a secret of the
        model, so that the hash alone does not confirm a guess of the parameters.
    mu : float or None
        The Gaussian privacy parameter, if the accountant has one.
    numerical_error : dict
        Allowances for rounding.
    scope : dict
        What the guarantee covers, as named booleans and numbers; `words` says it in sentences.
    checks : dict
        Named facts about the computation, e.g. whether the paper's closed form was feasible.
    evidence : dict or None
        A few numbers from which epsilon is recomputed without the data. "prior" is the total before
        this request, "fields_sha256" a hash of all other fields. The evidence depends on the rows;
        `without_evidence` keeps only `evidence_sha256`.
    versions : dict
        Versions of the software that computed it.
    utility : dict or None
        With validation data: `metric` ("rmse" or "accuracy"), its predicted value `before` and
        `after` the request and after a `redraw`, and the `seconds` and `redraw_seconds` of the two.
        It depends on the rows and on the validation data, and `verify` cannot recompute it.
    """

    schema: str
    method: str
    accountant: Mapping[str, Any]
    epsilon: float
    epsilon_target: float
    delta: float
    noise: float
    n_unlearn_steps: int
    schedule: tuple[tuple[int | None, float], ...]
    batch_size: int | None
    rows: tuple[int, ...]
    total_epsilon: float
    total_delta: float
    conditional_on: tuple[str, ...]
    parameters_sha256: str
    mu: float | None
    numerical_error: Mapping[str, float]
    scope: Mapping[str, Any]
    checks: Mapping[str, bool]
    evidence: Mapping[str, Any] | None
    evidence_sha256: str
    versions: Mapping[str, str]
    utility: Mapping[str, Any] | None = None

    def __repr__(self) -> str:  # short, and without the evidence: it may end up in a notebook
        return f"Certificate({line_of(_fields_of(self))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Certificate.from_json, (self.to_json(),)

    def __post_init__(self) -> None:
        for name in FIELDS:
            object.__setattr__(self, name, _frozen(getattr(self, name)))

    def __hash__(self) -> int:
        return hash(self.sha256)

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, full precision."""
        return _canonical(_fields_of(self))

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read the output of `to_json`; raise `CertificateMismatch` for anything else."""
        try:
            record = strict_json(text)
        except ValueError as error:
            raise CertificateMismatch(f"the certificate is not valid JSON: {error}.") from None
        names, given = set(FIELDS), record if isinstance(record, dict) else {}
        if given.get("schema", SCHEMA) not in (SCHEMA, UNBOUND_SCHEMA):
            raise CertificateMismatch(
                f"schema must be {SCHEMA!r}, got schema={given['schema']!r}. "
                "Check the certificate with the version of pilu that wrote it."
            )
        if set(given) != names:
            raise CertificateMismatch(
                f"the certificate must have exactly the fields of {SCHEMA}; "
                f"missing: {sorted(names - set(given))}, unknown: {sorted(set(given) - names)}."
            )
        _check_types(record)
        return cls(**record)

    @property
    def words(self) -> tuple[str, ...]:
        """What is guaranteed and what is not, in sentences rendered from the fields."""
        record = _fields_of(self)
        return (*promises_of(record), *limits_of(record))

    @property
    def earlier_releases(self) -> Mapping[str, Any] | None:
        """What earlier releases with shaped noise told about the forgotten people, if known.

        "people" lists for each person the rows, the number of releases, epsilon of "each", and
        epsilon and delta of all of them together. It is part of the evidence and depends on the
        rows.
        """
        earlier: Mapping[str, Any] | None = (self.evidence or {}).get("earlier")
        return earlier

    @property
    def reference(self) -> str:
        """What the released parameters are compared with."""
        return REFERENCES[self.method]

    @property
    def sha256(self) -> str:
        """Hash of the certificate, the same with and without its evidence."""
        return sha256_of(_fields_of(self.without_evidence()))

    @property
    def fields_sha256(self) -> str:
        """Hash of everything but the evidence."""
        record = _fields_of(self)
        return sha256_of({name: record[name] for name in record if "evidence" not in name})

    def resting_on(self, evidence: Mapping[str, Any]) -> "Certificate":
        """The certificate with evidence, which is bound to all other fields."""
        bound = {**evidence, "fields_sha256": self.fields_sha256}
        return replace(self, evidence=bound, evidence_sha256=sha256_of(bound))

    def without_evidence(self) -> "Certificate":
        """The certificate to publish, with only the hash of its evidence."""
        return self if self.evidence is None else replace(self, evidence=None)

    def with_evidence(self, evidence: Mapping[str, Any]) -> "Certificate":
        """Restore evidence that was kept separately; its hash must match."""
        if sha256_of(evidence) != self.evidence_sha256:
            raise CertificateMismatch(
                "the evidence does not have the hash stated in the certificate. It belongs to "
                "another certificate or was altered."
            )
        return replace(self, evidence=evidence)


FIELDS = tuple(field.name for field in fields(Certificate))


def _fields_of(certificate: Certificate) -> dict[str, Any]:
    return {name: getattr(certificate, name) for name in FIELDS}


def scope_of(
    method: str,
    *,
    private: bool,
    conditional: bool = False,
    epsilon: float = 0.0,
    delta: float = 0.0,
    slack: float = 0.0,
    both_directions: bool = True,
) -> dict[str, Any]:
    """What a certificate covers, as named booleans and numbers (docs/guarantee.md).

    By default as for a redraw. A refit has a delta, Langevin unlearning all of the numbers.
    """
    reverse_delta: float | None = None
    if both_directions:
        reverse_delta = delta
    elif slack > 0:  # the sensitivity bounds hold along the run with the rows (Theorem 1)
        reverse_delta = min(delta - slack + math.exp(min(epsilon, 700.0)) * slack, 1.0)
    scope = {
        "private": private,
        "self_referenced": method != "refit",
        "equal_to_retraining": method == "redraw",
        "conditional_on_earlier_requests": conditional,
        # The total after several requests is stated in the direction of Definition 1 only.
        "reverse_delta": None if conditional else reverse_delta,
        **dict.fromkeys(_NOT_COVERED, False),
    }
    if method == "refit":  # everything is fitted again, and compared with that
        scope |= {
            "compared_with_retraining": True,
            "covers_step_size_and_regularisation": True,
            "covers_preprocessing_fitted_with_the_row": True,
            "covers_class_names": True,
        }
    return scope


def strict_json(text: str) -> Any:
    """Parse JSON; raise `ValueError` for duplicate names, NaN, infinity or deep nesting."""
    try:
        record = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_without_duplicates,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(record, dict | list):
        _check_depth(record, _DEEPEST)
    return record


def sha256_of(record: Any) -> str:
    """Hash of a record's canonical JSON."""
    return hashlib.sha256(_canonical(record).encode()).hexdigest()


def hash_of_parameters(theta: NDArray[np.float64], key: bytes | None) -> str:
    """HMAC-SHA256 of theta (p x d, the intercept's row last): shape, little-endian float64.

    Without a key it is a plain SHA-256, for seeded runs, which anyone can repeat.
    """
    shape = f"{theta.shape[0]}x{theta.shape[1]}:".encode()
    body = shape + np.ascontiguousarray(theta, dtype="<f8").tobytes()
    if key is None:
        return hashlib.sha256(body).hexdigest()
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def names_parameters(stated: str, theta: NDArray[np.float64], key: bytes) -> bool:
    """Whether a stated hash is that of theta, keyed or plain."""
    return stated in (hash_of_parameters(theta, key), hash_of_parameters(theta, None))


@cache
def library_versions() -> Mapping[str, str]:
    """Versions of the software that computes certificates."""
    versions = {"python": platform.python_version()}
    for name in ("pilu", "numpy", "scipy", "scikit-learn"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # run from a source tree that is not installed
            versions[name] = "unknown"
    return MappingProxyType(versions)


def _canonical(record: Any) -> str:
    return json.dumps(
        record, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_thawed
    )


def _frozen(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return MappingProxyType({k: _frozen(v) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return tuple(_frozen(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


def _thawed(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a certificate cannot hold a {type(value).__name__}")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number a certificate can hold")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is not a number a certificate can hold")
    return value


def _check_depth(value: Any, left: int) -> None:
    if left == 0:
        raise ValueError("it is nested too deeply")
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            _check_depth(part, left - 1)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a name occurs twice")
    return record


def _check_types(record: dict[str, Any]) -> None:
    def number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    def whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def mapping(value: Any) -> bool:
        return isinstance(value, dict)

    def text(value: Any) -> bool:
        return isinstance(value, str)

    def utility(value: Any) -> bool:
        return (
            mapping(value)
            and set(value) == {"metric", *_UTILITY_NUMBERS}
            and value["metric"] in ("rmse", "accuracy")
            and all(number(value[name]) for name in _UTILITY_NUMBERS)
        )

    kinds: dict[str, Callable[[Any], bool]] = {
        **dict.fromkeys(
            ("epsilon", "epsilon_target", "delta", "noise", "total_epsilon", "total_delta"), number
        ),
        **dict.fromkeys(("accountant", "numerical_error", "scope", "checks", "versions"), mapping),
        **dict.fromkeys(("method", "parameters_sha256", "evidence_sha256"), text),
        "n_unlearn_steps": whole,
        "batch_size": lambda v: v is None or (whole(v) and v >= 1),
        "mu": lambda v: v is None or number(v),
        "evidence": lambda v: v is None or mapping(v),
        "utility": lambda v: v is None or utility(v),
        "rows": lambda v: isinstance(v, list) and all(whole(row) and row >= 0 for row in v),
        "conditional_on": lambda v: isinstance(v, list) and all(map(text, v)),
        "schedule": lambda v: (
            isinstance(v, list)
            and all(isinstance(s, list) and len(s) == 2 and number(s[1]) for s in v)
            and all(whole(s[0]) or (i == 0 and s[0] is None) for i, s in enumerate(v))
        ),
    }
    for name, fits in kinds.items():
        if not fits(record[name]):
            raise CertificateMismatch(
                f"field {name!r} of the certificate has the wrong type, got {record[name]!r}."
            )
