"""A made-up customer table of the kind that companies have, for examples and benchmarks."""

from typing import Any, NamedTuple

import numpy as np

from pilu._checks import check_integer
from pilu._extras import need

_PLANS = ("basic", "plus", "family", "pro", "student")
_REGIONS = tuple(f"region {i:02d}" for i in range(1, 17))
_PAYMENTS = ("card", "debit", "invoice", "wallet")
_DEVICES = ("android", "ios", "web")


class Customers(NamedTuple):
    """A frame of one row for each customer and quarter, whether they left, and who they are."""

    X: Any
    y: Any
    subjects: Any

    numbers: tuple[str, ...] = (
        "tenure",
        "monthly",
        "total",
        "usage",
        "calls",
        "data",
        "age",
        "income",
        "late",
        "tickets",
    )
    categories: tuple[str, ...] = ("plan", "region", "payment", "device", "newsletter")


def make_customers(n_rows: int = 40_000, *, seed: int = 0) -> Customers:
    """Draw a table: skewed and correlated amounts, missing values, texts, several rows a customer.

    Nobody in it exists. `age` and `income` have missing values. Needs pandas.
    """
    check_integer("n_rows", n_rows, least=10)
    pd = need("pandas", for_="make_customers", extra="pandas")
    rng = np.random.default_rng(seed)
    n = n_rows
    who = np.sort(rng.integers(0, max(1, round(0.3 * n)), size=n))
    plan = rng.choice(_PLANS, size=n, p=[0.4, 0.25, 0.15, 0.15, 0.05])
    payment = rng.choice(_PAYMENTS, size=n, p=[0.4, 0.3, 0.2, 0.1])
    tenure = rng.gamma(1.5, 20.0, size=n).round()
    monthly = 20 + 10 * (plan == "pro") + 15 * (plan == "family") + rng.lognormal(2.0, 0.6, size=n)
    usage = rng.lognormal(3.0, 1.0, size=n)
    late = rng.poisson(0.7, size=n)
    tickets = rng.poisson(0.4 + 0.3 * late)
    X = pd.DataFrame(
        {
            "tenure": tenure,
            "monthly": monthly.round(2),
            "total": (monthly * tenure * rng.lognormal(0.0, 0.1, size=n)).round(2),
            "usage": usage,
            "calls": rng.poisson(usage / 5),
            "data": usage * rng.lognormal(0.0, 0.3, size=n),
            "age": np.where(rng.random(n) < 0.08, np.nan, rng.normal(45, 15, size=n).clip(18, 95)),
            "income": np.where(rng.random(n) < 0.15, np.nan, rng.lognormal(10.3, 0.5, size=n)),
            "late": late,
            "tickets": tickets,
            "plan": plan,
            "region": rng.choice(_REGIONS, size=n, p=np.arange(16, 0, -1) / 136),
            "payment": payment,
            "device": rng.choice(_DEVICES, size=n),
            "newsletter": rng.random(n) < 0.3,
        }
    )
    log_odds = -1.2 - 0.02 * tenure + 0.3 * tickets + 0.2 * late + 0.01 * (monthly - 40)
    log_odds += 0.6 * (payment == "invoice") - 0.3 * (plan == "pro") + rng.normal(0, 0.3, size=n)
    left = rng.random(n) < 1 / (1 + np.exp(-log_odds))
    return Customers(X, np.where(left, "left", "stayed"), np.array([f"c{i:05d}" for i in who]))
