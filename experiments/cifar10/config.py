"""The study on CIFAR-10: the paper's settings, and our choices where it leaves them open.

[PILU, app. CIFAR-10] specifies n, the split, normalisation, augmentation, eta, batch, l2, T, K,
sigma_unlearn, R, delta = 1/n, the shape of the network and its hidden layer. Chosen here: learning
noise, convolution widths, dropout, initial weights, probe size, the MLP's width and which rows are
"representative".

The retrained run also takes the K noisy steps, as in Definition 1: without them, the noise itself
would distinguish the two runs. All runs start from the same weights, as Algorithm A starts from a
fixed theta_0. Each draws its own batches, crops, dropout and noise. Crops are padded with the mean
colour. All rows are unlearned from copies of one network that learned them all, so each audit is
valid but the audits are not independent of each other.
"""

from dataclasses import asdict, dataclass, field, replace

from experiments.cifar10.network import Architecture, Steps


@dataclass(frozen=True)
class Config:
    """One study."""

    name: str = "paper"
    n_train: int = 500
    n_from_train: int = 5000
    n_from_test: int = 1000
    split_seed: int = 0
    start_seed: int = 1
    n_probe: int = 64
    architecture: Architecture = field(default_factory=Architecture)
    learning: Steps = field(default_factory=lambda: Steps(500, 0.01, 256, 1e-4, noise=0.0))
    unlearning: Steps = field(default_factory=lambda: Steps(20, 0.01, 256, 1e-4, noise=0.02))
    n_runs: int = 100
    quantiles: tuple[float, ...] = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
    mlp_width: int = 32

    @property
    def delta(self) -> float:
        return 1 / self.n_train

    def describe(self) -> dict[str, object]:
        return asdict(self)

    def of_a_run(self) -> dict[str, object]:
        """The settings of a single run: it is reused for more runs or another distinguisher."""
        others = ("name", "n_runs", "mlp_width")
        return {key: value for key, value in self.describe().items() if key not in others}


PAPER = Config()
SMALL = replace(PAPER.architecture, widths=(8, 16, 32))
CONFIGS = {
    "paper": PAPER,
    # An hour on two cores; the network is a quarter as wide.
    "hour": replace(
        PAPER,
        name="hour",
        architecture=SMALL,
        learning=replace(PAPER.learning, n_steps=200),
        n_runs=50,
    ),
    # Minutes, to check that everything works.
    "quick": replace(
        PAPER,
        name="quick",
        architecture=replace(SMALL, widths=(4, 8, 16)),
        learning=replace(PAPER.learning, n_steps=30),
        unlearning=replace(PAPER.unlearning, n_steps=5),
        n_runs=12,
        quantiles=(0.0, 0.5, 1.0),
    ),
}
