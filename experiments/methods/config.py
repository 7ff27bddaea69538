"""The settings of the three parts, in both sizes."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

TITLES = {
    "digits": "digits, ten classes",
    "cancer": "breast cancer",
    "diabetes": "diabetes, regression",
    "customers": "customers, made up",
    "mnist38": "MNIST, 3 against 8",
    "mnist": "MNIST, ten digits",
    "vader": "VADER, texts",
    "cifar10": "CIFAR-10, ten classes",
    "depth": "depth, regression",
}
SHARES = {"one person": 0.0, "1 %": 0.01, "10 %": 0.1}
METHODS = ("retraining", "refit", "redraw", "Langevin", "Newton step", "DP-GD")


@dataclass(frozen=True)
class SideBySide:
    """Requests to one data set. Langevin and DP-GD take the best of their grids."""

    data: str
    repeats: int = 3
    epsilon: float = 1.0  # the target of Langevin, Newton and DP-GD, at delta = 1/rows
    redraw_steps: int = 500
    noise: float = 0.01  # of learning, where no grid chooses it
    learn_steps: tuple[int, ...] = (30, 100, 300)
    noises: tuple[float, ...] = (0.01, 0.1)
    unlearn_steps: int = 200
    auxiliary_runs: int = 8
    dp_steps: tuple[int, ...] = (10, 30, 100, 300)
    clippings: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0)  # in units of a median row's gradient at 0
    tuning_requests: int = 3
    limit: float = 150.0  # seconds of a method's learning, and of a request
    seed: int = 0


@dataclass(frozen=True)
class Exposures:
    """Exposure of everybody without a cap and with caps, and what caps cost."""

    data: tuple[str, ...] = ("digits", "customers", "mnist38", "vader")
    caps: tuple[float, ...] = (1.0, 3.0, 10.0)  # whose curves are kept
    plan: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0)
    delta: float = 1e-6
    n_draws: int = 32
    n_points: int = 200  # of a sorted curve


@dataclass(frozen=True)
class Reconstructions:
    """Rows that are deleted one at a time, from two classifiers of pixels."""

    data: tuple[str, ...] = ("digits", "mnist")
    n_rows: int = 30
    n_shown: int = 6
    caps: tuple[float, ...] = (10.0, 1.0)
    delta: float = 1e-5
    seed: int = 3


@dataclass(frozen=True)
class Settings:
    """One size of the whole study."""

    size: str
    side_by_side: dict[str, SideBySide]
    n_customers: int
    exposures: Exposures = field(default_factory=Exposures)
    reconstructions: Reconstructions = field(default_factory=Reconstructions)

    def describe(self, part: Any) -> dict[str, Any]:
        """What the tables of a part depend on."""
        return {"size": self.size, "n_customers": self.n_customers, **asdict(part)}


_SMALL = {"repeats": 5}
_LARGE: dict[str, Any] = {
    "redraw_steps": 300,
    "learn_steps": (30, 100),
    "noises": (0.01,),
    "unlearn_steps": 100,
    "auxiliary_runs": 4,
    "dp_steps": (10, 30, 100),
    "clippings": (0.1, 0.3, 1.0),
    "tuning_requests": 2,
    "limit": 60.0,
}
FULL: dict[str, dict[str, Any]] = {
    "digits": _SMALL,
    "cancer": _SMALL,
    "diabetes": _SMALL,
    "customers": _SMALL,
    "mnist38": _LARGE,
    "vader": _LARGE,
    "depth": _LARGE | {"learn_steps": (100, 300), "dp_steps": (100, 300)},
    "cifar10": _LARGE,
    "mnist": _LARGE,
}
_QUICK = {
    "repeats": 2,
    "redraw_steps": 50,
    "learn_steps": (30,),
    "noises": (0.1,),
    "unlearn_steps": 20,
    "auxiliary_runs": 2,
    "dp_steps": (10, 30),
    "clippings": (0.3,),
    "tuning_requests": 1,
}

FEW = ("digits", "cancer", "diabetes", "customers")  # that need no download
SETTINGS = {
    "full": Settings(
        "full", {name: SideBySide(name, **given) for name, given in FULL.items()}, 10_000
    ),
    "quick": Settings(
        "quick",
        {
            name: SideBySide(name, **_QUICK)
            for name in ("digits", "cancer", "diabetes", "customers")
        },
        n_customers=1_000,
        exposures=replace(
            Exposures(), data=("digits", "customers"), plan=(1.0, 10.0), n_draws=4, n_points=40
        ),
        reconstructions=replace(Reconstructions(), data=("digits",), n_rows=4, n_shown=3),
    ),
}
