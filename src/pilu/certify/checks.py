"""Checks of a certificate's numbers, which raise `CertificateMismatch`."""

import math

from pilu.exceptions import CertificateMismatch

__all__ = ["TOLERANCE", "require", "require_close"]

TOLERANCE = 1e-9  # relative: rounding differs between machines


def require(condition: bool, failure: str) -> None:
    """Raise unless the condition holds; `failure` says what is wrong."""
    if not condition:
        raise CertificateMismatch(f"{failure}. The certificate was altered or is damaged.")


def require_close(name: str, stated: float, recomputed: float, absolute: float = 0.0) -> None:
    """Raise if two numbers differ by more than rounding, in either direction."""
    require(
        math.isfinite(recomputed)
        and math.isclose(stated, recomputed, rel_tol=TOLERANCE, abs_tol=absolute),
        f"{name} is stated as {stated!r} and recomputed as {recomputed!r}",
    )
