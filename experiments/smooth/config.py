"""The settings of the studies with smooth losses, in both sizes.

The objective is a sum over rows, so that alpha is 1/C of scikit-learn.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
EPSILON = 1.0  # where rows are compared


@dataclass(frozen=True)
class PictureData:
    """Rows out of the first images of both parts: to learn, set aside, to test, in this order.

    MNIST's are chosen by the permutation of `experiments.linear`, so that digits to learn are the
    same there and here.
    """

    source: str  # mnist or cifar10
    network: str
    image_size: int  # pixels
    n_from_train: int
    n_from_test: int
    n_train: int
    n_aside: int
    classes: tuple[int, ...] = ()  # those that are kept; all, if none is named


@dataclass(frozen=True)
class TextData:
    """Texts of reviews and editorials with a clear rating; tweets name people and stay out."""

    n_train: int
    n_aside: int
    n_test: int
    least_rating: float = 1.0  # to either side; ratings go from -4 to 4


@dataclass(frozen=True)
class Study:
    """One data set, all its tables."""

    name: str
    size: str
    data: PictureData | TextData
    n_steps: int = 500  # T
    n_unlearn_steps: int = 50  # K
    alpha: float = 0.01
    noise: float = 0.01  # sigma_learn
    n_auxiliary_runs: int = 32
    seed: int = 0
    n_repeats: int = 5
    epsilons: tuple[float, ...] = EPSILONS
    quantiles: tuple[float, ...] = (0.05, 0.5, 0.95, 1.0)  # of the noise: rows to forget
    n_shown: int = 6  # of the most expensive rows, and of the cheapest
    share_flipped: float = 0.02
    n_flips: int = 0  # times that labels are flipped at random

    def describe(self) -> dict[str, Any]:
        return asdict(self)


DIGITS = PictureData("mnist", "resnet50", 96, 6000, 1000, n_train=4000, n_aside=1000)
PHOTOGRAPHS = PictureData("cifar10", "mobilenet_v2", 96, 5000, 1500, n_train=4000, n_aside=1000)

MNIST38 = Study("mnist38", "full", replace(DIGITS, classes=(3, 8)), n_flips=5)
MNIST = Study("mnist", "full", DIGITS, n_auxiliary_runs=16)
VADER = Study("vader", "full", TextData(n_train=3000, n_aside=800, n_test=1200))
CIFAR10 = Study("cifar10", "full", PHOTOGRAPHS, n_auxiliary_runs=16)

# The features of 64 pixels are those that the quick linear study computes.
FEW_DIGITS = replace(DIGITS, image_size=64, n_from_train=1500, n_from_test=250)
FEW_DIGITS = replace(FEW_DIGITS, n_train=1000, n_aside=250)
FEW_PHOTOGRAPHS = replace(PHOTOGRAPHS, image_size=64, n_from_train=600, n_from_test=200)
FEW_PHOTOGRAPHS = replace(FEW_PHOTOGRAPHS, n_train=500, n_aside=100)
QUICK: dict[str, Any] = {
    "size": "quick",
    "n_steps": 200,
    "n_unlearn_steps": 20,
    "n_auxiliary_runs": 4,
    "n_repeats": 3,
    "epsilons": (0.1, 1.0, 10.0),
}

STUDIES = {
    "full": {study.name: study for study in (MNIST38, MNIST, VADER, CIFAR10)},
    "quick": {
        "mnist38": replace(MNIST38, **QUICK, data=replace(FEW_DIGITS, classes=(3, 8)), n_flips=2),
        "mnist": replace(MNIST, **QUICK, data=FEW_DIGITS),
        "vader": replace(VADER, **QUICK, data=TextData(n_train=500, n_aside=100, n_test=200)),
        "cifar10": replace(CIFAR10, **QUICK, data=FEW_PHOTOGRAPHS),
    },
}
TITLES = {
    "mnist38": "MNIST, 3 against 8",
    "mnist": "MNIST, ten digits",
    "vader": "VADER, positive against negative",
    "cifar10": "CIFAR-10, ten classes",
}
