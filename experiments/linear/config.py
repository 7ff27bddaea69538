"""The settings of every linear figure: the paper's in full size, and quick ones.

[PILU, section Experiments and its appendices]. alpha, sigma_learn, T, K, delta = 1/n in halves and
the rows' quantiles are the paper's. Left open there and declared here: the epsilons, the horizons
of the ablations, seeds, the quantiles of depth's seven rows (MNIST's are taken); the share of 92%
is counted in rows, where the paper cuts at a norm. Other than the paper's are the data of "depth"
(one scene with VGG16 hypercolumns for NYU-Depth with DINOv2) and the weights of "mnist" (AugNet's
for ImageNet's).
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

EPSILONS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 4.0, 6.5, 10.0)
TUNED_RUNS = 10  # of DP-GD with each threshold and step size that was chosen
SEVEN = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class RowSet:
    """Rows at quantiles of the gradient norm, among the share of rows with the smallest norms."""

    quantiles: tuple[float, ...]
    share: float = 1.0


@dataclass(frozen=True)
class DepthData:
    """Patches of a scene; every seventh block of columns is held out."""

    patch: int = 3  # pixels
    block: int = 13  # patches
    period: int = 7
    held_out: int = 3
    every: int = 1  # of the features, one in so many


@dataclass(frozen=True)
class MnistData:
    """n rows out of the first images of both parts, chosen by a fixed permutation."""

    n_train: int = 4000
    n_from_train: int = 6000
    n_from_test: int = 1000
    image_size: int = 224
    every: int = 1


@dataclass(frozen=True)
class Study:
    """One data set, all its figures."""

    name: str
    size: str
    data: DepthData | MnistData
    n_steps: int  # T
    n_unlearn_steps: int  # K
    row_sets: dict[str, RowSet]
    alpha: float = 1e-4
    noise: float = 0.01  # sigma_learn
    seed: int = 0
    n_runs: int = 20
    epsilons: tuple[float, ...] = EPSILONS
    unlearn_steps: tuple[int, ...] = ()  # of the ablation over K, at epsilon = 1
    learn_steps: tuple[int, ...] = ()  # of the ablation over T
    newton_steps: tuple[int, ...] = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
    newton_noise: float = 0.1  # sigma_learn, sigma_unlearn and sigma_Guo; K = 1
    batch_sizes: tuple[int, ...] = ()
    batch_accountants: tuple[str, ...] = ("theorem", "exact")

    @property
    def main_rows(self) -> str:
        """The set that most figures show: the first."""
        return next(iter(self.row_sets))

    def describe(self) -> dict[str, Any]:
        return asdict(self)


DEPTH = Study(
    name="depth",
    size="full",
    data=DepthData(),
    n_steps=800,
    n_unlearn_steps=80,
    row_sets={"five": RowSet((0.0, 0.25, 0.5, 0.75, 1.0), share=0.92), "seven": RowSet(SEVEN)},
    unlearn_steps=(1, 2, 5, 10, 20, 40, 80, 160, 320),
    learn_steps=(25, 50, 100, 200, 400, 800, 1600, 3200),
    batch_sizes=(256, 512, 1024, 2048),
)

MNIST = Study(
    name="mnist",
    size="full",
    data=MnistData(),
    n_steps=300,
    n_unlearn_steps=20,
    row_sets={"seven": RowSet(SEVEN)},
    unlearn_steps=(1, 2, 5, 10, 20, 40, 80, 160),
    learn_steps=(10, 30, 100, 300, 1000, 3000),
)

QUICK: dict[str, Any] = {"size": "quick", "n_runs": 5, "epsilons": (0.1, 0.4, 1.0, 4.0, 10.0)}

STUDIES = {
    "full": {"depth": DEPTH, "mnist": MNIST},
    "quick": {
        "depth": replace(
            DEPTH,
            **QUICK,
            data=DepthData(patch=8, block=5, every=4),
            n_steps=50,  # as much learning as mini-batches of few features come down to
            n_unlearn_steps=10,
            unlearn_steps=(1, 5, 10, 40, 160),
            learn_steps=(10, 50, 200, 800),
            batch_sizes=(256, 1024),
        ),
        "mnist": replace(
            MNIST,
            **QUICK,
            data=MnistData(1000, 1500, 250, image_size=64, every=4),
            unlearn_steps=(1, 5, 20, 80),
            learn_steps=(30, 300, 3000),
        ),
    },
}
