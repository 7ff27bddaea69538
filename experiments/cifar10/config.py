"""The two studies on CIFAR-10: the paper's settings, and our choices where it leaves them open.

[PILU, app. CIFAR-10] specifies n, the split, augmentation, eta, batch, l2, T, K, sigma_unlearn,
R and delta = 1/n. The network and its step size differ here, so that many runs are affordable.
Chosen here as well: learning noise (none), initial weights, probe images, the distinguishers' size,
and which rows are "representative".

The retrained run also takes the K noisy steps, as in Definition 1. All runs start from the same
weights, as Algorithm A starts from a fixed theta_0.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from experiments.cifar10.networks import Convolutional, Perceptron
from experiments.cifar10.steps import Steps


@dataclass(frozen=True)
class Split:
    """A fixed permutation shares the images out: to learn, probe, test, and to set aside."""

    n_from_train: int = 5000
    n_from_test: int = 1500
    n_train: int = 500
    n_probe: int = 30
    n_test: int = 1000
    n_choose: int = 1000  # of those aside: on these the step size is chosen
    seed: int = 0


@dataclass(frozen=True)
class Study:
    """One study: the network of a run, its steps, and how many runs there are."""

    name: str
    network: Perceptron | Convolutional
    learning: Steps
    unlearning: Steps
    n_runs: int
    block: int  # runs side by side
    split: Split = field(default_factory=Split)
    image_size: int = 96  # pixels that the frozen network sees
    start_seed: int = 1
    quantiles: tuple[float, ...] = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
    step_sizes: tuple[float, ...] = (0.01, 0.03, 0.1)
    aim: float = 0.0  # accuracy on images aside, for which a step size is chosen
    mlp_width: int = 32

    @property
    def delta(self) -> float:
        return 1 / self.split.n_train

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    def of_a_run(self) -> dict[str, Any]:
        """The settings of a block of runs: more runs or another distinguisher do not change it."""
        others = ("n_runs", "mlp_width", "step_sizes", "aim")
        return {key: value for key, value in self.describe().items() if key not in others}


def study(name: str, network: Any, step_size: float, **options: Any) -> Study:
    """T = 500, K = 20, sigma_unlearn = 0.02 as in the paper."""
    learning = Steps(500, step_size)
    return Study(name, network, learning, replace(learning, n_steps=20, noise=0.02), **options)


FEATURES = study("features", Perceptron((128, 64, 10)), 0.03, n_runs=1000, block=50, aim=0.65)
# One block keeps 4 x 4 places: two blocks of (16, 32) reached 36 % on images aside, but 33 % in the
# test. The aim is two points above 35 %, because 1,000 images tell an accuracy to 1.5 points.
IMAGES = study("images", Convolutional(8, (32,), 128), 0.03, n_runs=100, block=10, aim=0.37)


def smaller(full: Study, **options: Any) -> Study:
    """A check that everything works; nothing follows from its numbers."""
    return replace(
        full,
        learning=replace(full.learning, n_steps=30),
        unlearning=replace(full.unlearning, n_steps=5),
        quantiles=(0.0, 0.5, 1.0),
        **options,
    )


FEW = Split(n_from_train=600, n_from_test=200, n_train=200, n_test=200, n_choose=200)
STUDIES = {
    "full": {"features": FEATURES, "images": IMAGES},
    "quick": {
        "features": smaller(FEATURES, n_runs=40, block=20, split=FEW, image_size=64),
        "images": smaller(IMAGES, n_runs=24, block=12, split=FEW),
    },
}
