"""What a certificate of a refit states, and how released parameters are identified."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pilu.refit.fingerprints import fingerprint
from pilu.refit.program import Release
from pilu.refit.settings import Options


def hash_of_release(estimator: Any) -> str:
    """Hash of a released estimator, with all that is in it."""
    return fingerprint(estimator)


def hash_of_rows(digests: NDArray[np.uint8], key: bytes) -> str:
    """Keyed hash of rows in their order."""
    return hashlib.blake2b(digests.tobytes(), key=key, digest_size=32).hexdigest()


def evidence_of(
    estimator: Any, done: Release, digests: NDArray[np.uint8], key: bytes, options: Options
) -> dict[str, Any]:
    """Targets and hashes of a refit; nothing that a run happened to reach."""
    return {
        "radius": done.radius,
        "score_noise": options.score_noise,
        **_about_shape(done, options),
        "strong_convexity": done.convexity,
        "transformers_sha256": done.transformers_sha256,
        "program_sha256": fingerprint(clone(estimator)),
        "rows_sha256": hash_of_rows(digests, key),
        "n_rows": len(digests),
    }


def _about_shape(done: Release, options: Options) -> dict[str, Any]:
    """What shaped noise was made from, or folded into; nothing for a plain release."""
    about: dict[str, Any] = {"fold_scaler": True} if options.fold_scaler else {}
    if options.shaped:
        about |= {
            "curvature": done.curvature,
            "penalty_factor": done.penalty_factor,
            "noise_scale": options.noise_scale,
            "max_exposure": options.max_exposure,
            "exposure_delta": options.exposure_delta,
            "exposure_quantile": options.exposure_quantile,
        }
    return about


def options_of(evidence: Any, epsilon: float, delta: float) -> Options:
    """The options that evidence states, checked."""
    names = ("noise_scale", "max_exposure", "exposure_delta", "exposure_quantile", "fold_scaler")
    given = {name: evidence[name] for name in names if name in evidence}
    return Options.checked(
        epsilon=epsilon, delta=delta, score_noise=evidence["score_noise"], **given
    )
