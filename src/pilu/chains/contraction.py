"""The contraction factor of a Langevin step."""

__all__ = ["ROUNDING", "contraction_between"]

ROUNDING = 1e-12  # relative allowance for the floating-point error of means, variances and norms


def contraction_between(smallest: float, largest: float, step_size: float) -> float:
    """c = max(|1 - eta m|, |1 - eta L|) for curvatures between m and L, rounded up."""
    low, high = 1.0 - step_size * smallest, step_size * largest * (1 + ROUNDING) - 1.0
    return min(max(abs(low), high) + 2.0**-52, 1.0)
