"""What a certificate of a refit states, and how released parameters are identified."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pilu.refit.fingerprints import fingerprint
from pilu.refit.program import Options, Release


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
        "strong_convexity": done.convexity,
        "transformers_sha256": done.transformers_sha256,
        "program_sha256": fingerprint(clone(estimator)),
        "rows_sha256": hash_of_rows(digests, key),
        "n_rows": len(digests),
    }
