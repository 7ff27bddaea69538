"""The settings of the four studies of certificates, in both sizes."""

from dataclasses import asdict, dataclass
from typing import Any

EPSILON = 1.0
TITLES = {
    "depth": "Depth",
    "mnist": "MNIST, ten digits",
    "mnist38": "MNIST, 3 against 8",
    "vader": "VADER, positive against negative",
}


@dataclass(frozen=True)
class Audits:
    """Runs of each kind, on the rows of `experiments.linear`."""

    n_runs: dict[str, int]
    too_little: float = 10.0  # the certified noise is divided by it; that must be noticed
    confidence: float = 0.95
    epsilons: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)
    seed: int = 1


@dataclass(frozen=True)
class Concentration:
    """Fresh runs of `experiments.smooth`, none of them among those that estimate the means."""

    studies: tuple[str, ...]
    n_runs: int
    quantiles: tuple[float, ...] = (0.0, 0.5, 0.95, 1.0)  # of the noise: rows that are drawn
    n_points: int = 50  # steps that are kept of a trajectory
    seed: int = 2


@dataclass(frozen=True)
class Groups:
    """Random groups, of ridge and of logistic regression."""

    ridge: tuple[str, ...]
    logistic: tuple[str, ...]
    sizes: dict[str, tuple[int, ...]]
    repeats: dict[str, int]
    once_above: dict[str, int]  # rows; of larger sizes there is one group, which takes minutes
    epsilon_at_fixed_noise: tuple[str, ...] = ("vader",)  # studies of ridge
    tolerated_loss: float = 0.01  # of accuracy, by the fixed noise alone
    seed: int = 3


@dataclass(frozen=True)
class Sequences:
    """Requests one after the other; delta of each is 1/n times a factor."""

    studies: tuple[str, ...]
    checkpoints: dict[str, tuple[int, ...]]
    repeats: dict[str, int]
    terms: tuple[tuple[float, float], ...] = ((1.0, 1.0), (0.1, 1.0), (0.01, 0.01))
    tolerated_loss: float = 0.01  # of accuracy, against a redraw
    seed: int = 4


@dataclass(frozen=True)
class Config:
    """All studies of one size."""

    size: str
    audits: Audits
    concentration: Concentration
    groups: Groups
    sequences: Sequences

    def describe(self, part: str, study: str) -> dict[str, Any]:
        """The settings of one part that concern one study."""
        found: dict[str, Any] = {"size": self.size, "study": study}
        for name, value in asdict(getattr(self, part)).items():
            if name not in ("studies", "ridge", "logistic"):
                found[name] = value[study] if isinstance(value, dict) else value
        return found


SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)

CONFIGS = {
    "full": Config(
        "full",
        Audits({"depth": 50_000, "mnist": 5_000}),
        Concentration(("mnist38", "vader"), n_runs=256),
        Groups(
            ("vader", "mnist"),
            ("vader", "mnist38"),
            sizes={"vader": SIZES, "mnist38": SIZES, "mnist": (1, 5, 20, 100, 500)},
            repeats={"vader": 3, "mnist38": 3, "mnist": 3},
            once_above={"vader": 500, "mnist38": 500, "mnist": 100},
        ),
        Sequences(
            ("vader", "mnist38"),
            checkpoints={
                "vader": (1, 2, 3, 5, 10, 20, 35, 50, 75, 100),
                "mnist38": (1, 2, 3, 5, 10, 20, 35, 50),  # seconds each, with 2,048 columns
            },
            repeats={"vader": 3, "mnist38": 1},
        ),
    ),
    "quick": Config(
        "quick",
        Audits({"depth": 2000, "mnist": 1000}),
        Concentration(("mnist38", "vader"), n_runs=32),
        Groups(
            ("vader",),
            ("vader",),
            sizes={"vader": (1, 5, 20, 50)},
            repeats={"vader": 3},
            once_above={"vader": 50},
        ),
        Sequences(("vader",), checkpoints={"vader": (1, 2, 5, 10)}, repeats={"vader": 2}),
    ),
}
