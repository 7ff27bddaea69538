"""The budget: the total of all requests since the last redraw may not exceed it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pilu._checks import check_probability, check_real
from pilu._digits import down, up
from pilu.certify.certificate import Certificate

__all__ = ["Budget", "left_of", "over_budget"]

_DELTAS = 20  # the default budget, in units of delta = 1/n


@dataclass(frozen=True)
class Budget:
    """A total (epsilon, delta) for a store.

    By default epsilon = 10 and delta = 20/n, where n is the number of rows at the fit. That is
    enough for about five requests at epsilon = 1 and delta = 1/n: deltas grow with e^epsilon.
    """

    epsilon: float = 10.0
    delta: float | None = None

    def __post_init__(self) -> None:
        check_real("budget_epsilon", self.epsilon, above=0.0)
        if self.delta is not None:
            check_probability("budget_delta", self.delta)

    def limits(self, n_rows: int) -> list[float]:
        """epsilon and delta for a table of n rows."""
        default = min(_DELTAS / n_rows, 0.5)
        return [self.epsilon, default if self.delta is None else self.delta]


def left_of(state: Mapping[str, Any]) -> tuple[float, float]:
    """What is left of a store's budget: epsilon and delta."""
    epsilon, delta = state["budget"]
    spent = state["model"]["spent"]["total"]
    return max(epsilon - spent[0], 0.0), max(delta - spent[1], 0.0)


def over_budget(certificate: Certificate, state: Mapping[str, Any]) -> str:
    """What of a certificate's total exceeds a store's budget; empty if nothing does."""
    totals = (certificate.total_epsilon, certificate.total_delta)
    return " and ".join(
        f"{name} = {up(total)}, past the budget of {down(limit)}"
        for name, total, limit in zip(("epsilon", "delta"), totals, state["budget"], strict=True)
        if not total <= limit
    )
