"""What is published: coefficients only, on a grid, bound to the certificate they came with.

Rounding is post-processing, so the guarantee holds for what is released: the grid is a function of
the retained rows' law and of the schedule, the same in both runs of Definition 1. It removes the
low bits, in which floating-point noise differs from the real numbers of the analysis. The only
other field that depends on the unrounded parameters is the certificate's hash. It covers a secret
nonce, and the certificate names the parameters by a keyed hash.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pilu.certify.certificate import names_parameters, sha256_of
from pilu.chains.problem import Law
from pilu.desk.model_records import Model
from pilu.exceptions import CertificateMismatch, StoreDamaged, WrongInput
from pilu.store.log import Entry, Log

SCHEMA = "pilu.release/2"
# The first also named the parameters by a plain hash; the third is of refits.
_READABLE = (SCHEMA, "pilu.release/1", "pilu.release/3")

_BELOW = 2.0**-10  # of the least standard deviation in any direction


def grid_below_noise(law: Law) -> float:
    """A power of two, about 1/1000 of the standard deviation in the least noisy direction."""
    least = law.least_final_variance
    if least == 0.0:
        raise WrongInput("a release needs noise in the last steps, got none. Redraw first.")
    return 2.0 ** math.floor(math.log2(math.sqrt(least) * _BELOW))


def release_record(model: Model, features: list[str], certified: Entry | None) -> dict[str, Any]:
    """Coefficients, intercept and the hash of the last certificate, with a hash of all of it.

    `certified` is the entry of that certificate, None before the first request.
    """
    theta, grid = model.fitted_.theta, grid_below_noise(model.fitted_.law)
    key = model.fitted_.source.key
    issued = None if certified is None else certified.certificate
    if issued is not None and not names_parameters(issued["parameters_sha256"], theta, key):
        raise StoreDamaged("the parameters are not those of the last certificate in the ledger.")
    rounded = np.round(theta / grid) * grid
    width, size = len(features), float(np.linalg.norm(rounded))
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "features": features,
        "coefficients": rounded[:width].T.tolist(),
        "intercept": rounded[width].tolist() if len(rounded) > width else None,
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "grid": grid,
        # of the coefficients as they are released
        "grid_rounding_units": grid / (size * 2.0**-52) if size > 0 else None,
        "certificate_sha256": None if certified is None else certified.certificate_sha256,
    }
    return {**record, "sha256": sha256_of(record)}


def check_released_file(content: bytes, log: Log) -> dict[str, bool]:
    """Refuse a file that was not released by the store of a log."""
    logged = [e.record["sha256"] for e in log.entries if e.kind == "release"]
    if hashlib.sha256(content).hexdigest() not in logged:
        raise CertificateMismatch("the model was not released by this store, or it was changed.")
    return {"in_the_log_of_the_store": True}


def check_release(record: Mapping[str, Any], log: Log | None) -> dict[str, bool]:
    """Refuse coefficients that do not match their hash, or that are not in the log of a store."""
    rest = {name: value for name, value in record.items() if name != "sha256"}
    if record.get("schema") not in _READABLE:
        raise CertificateMismatch(
            f"schema must be one of {', '.join(_READABLE)}, got schema={record.get('schema')!r}. "
            "Check the release with the version of pilu that wrote it."
        )
    if sha256_of(rest) != record.get("sha256"):
        raise CertificateMismatch("the coefficients do not have the hash that is given with them.")
    if log is not None:
        logged = [e.record["sha256"] for e in log.entries if e.kind == "release"]
        if record["sha256"] not in logged:
            raise CertificateMismatch("the coefficients were not released by this store.")
    return {
        "hash_is_that_of_the_coefficients": True,
        "in_the_log_of_the_store": log is not None,
    }
