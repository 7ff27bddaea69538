"""Every figure of the paper's linear experiments by its printed number, and its caption.

CIFAR-10 brings its own (`cifar10/page.py`).
"""

from typing import NamedTuple


class Shown(NamedTuple):
    """A picture of the page."""

    place: str  # as printed in the paper
    name: str
    alternative: str
    ours: str
    paper: str = ""


SCHEMATIC = Shown(
    "Figure 1",
    "schematic",
    "Two noisy paths of one parameter: they part while the row is learned and approach each other "
    "while it is unlearned",
    "Both paths take the same normals. They are pushed apart only while the row is learned. What "
    "is left at T + K must be hidden by noise. The paths are computed, not drawn by hand.",
    '"Learn-unlearn vs. retraining trajectories", as a drawing.',
)
DEPTH = (
    Shown(
        "Figures 2a and 6",
        "depth_patches",
        "Five patches of the scene with their true and predicted depth and the error",
        "The five rows to forget, from the smallest gradient to the largest, among the 92 % with "
        "the smallest gradients. Each is one patch (red) of the scene below.",
        "Five patches of NYU-Depth, with errors in metres.",
    ),
    Shown(
        "Figure 6, whole scene",
        "depth_scene",
        "The scene with boxes at the rows, its true and predicted depth, and the error",
        "All rows to forget, those of Figure 7 too, and what the model has learned.",
    ),
    Shown(
        "Figure 3a",
        "depth_sensitivities",
        "Sensitivities of five rows along learning, runs below their bounds",
        "Bounds are tight where the mean gradient is large, and loose where it crosses zero.",
        '"Empirical trajectories" and "the corresponding high-probability sensitivity bounds", '
        'which "vary substantially across points and iterations".',
    ),
    Shown(
        "Figure 3b",
        "depth_privacy_utility",
        "Test error against epsilon for five rows, by Theorem 1 and by the exact accountant",
        "One curve a row. The dashed curve is one level of noise for everybody: what the hardest "
        "of some 300 candidates needs. These are the rows with the largest gradients, the largest "
        "|x|, and the largest product of |x| and the target. At other epsilon than 1 they are the "
        "five hardest of them.",
        'At any fixed epsilon the error "varies substantially across points".',
    ),
    Shown(
        "Figure 7a",
        "depth_privacy_utility_seven",
        "Test error against epsilon for seven rows over the full range of gradients",
        "The same for seven rows over the full range of gradients.",
        '"seven representative indices selected from the full gradient-norm spectrum".',
    ),
    Shown(
        "Figure 8",
        "depth_noise",
        "Calibrated noise against epsilon for five rows",
        "By Theorem 1 the noises of the five rows differ by a constant factor over all epsilon. "
        "The exact accountant needs no further noise for easy rows at large epsilon.",
        '"differences of up to a factor four between the least and most influential examples."',
    ),
    Shown(
        "Figure 7b",
        "depth_noise_seven",
        "Calibrated noise against epsilon for seven rows",
        "The same for seven rows over the full range of gradients.",
        "The noise of the same seven.",
    ),
    Shown(
        "The order of rows",
        "depth_difficulty",
        "Noise of 200 rows against their gradient after learning",
        "200 rows drawn at random. The paper chooses its rows by the gradient after learning.",
    ),
    Shown(
        "Figure 4a",
        "depth_unlearning_steps",
        "Test error and noise against the unlearning steps K",
        "epsilon = 1. Above the score, below the noise that it comes from. Scores have a scale of "
        "their own in each panel, because all exact means lie within 0.03 m, far below a constant.",
        'Increasing K "monotonically improves the RMSE"; gains plateau beyond K = 80.',
    ),
    Shown(
        "Figure 4b",
        "depth_learning_steps",
        "Test error and noise against the learning steps T",
        "epsilon = 1. Scores have a scale of their own in each panel; a constant is above that "
        "of the exact accountant.",
        'Longer training "degrades the final test error".',
    ),
    Shown(
        "Figure 5a",
        "depth_dp_gd",
        "Test error against epsilon of pilu and DP-GD",
        "DP-GD has one curve for all rows: with the paper's threshold, and with the threshold and "
        "step size that one run of each choice found best at each epsilon. This tuning is not "
        "charged to its epsilon.",
        'With C = 24: "substantially higher utility" for easy points, "comparable on harder ones".',
    ),
    Shown(
        "Figure 5b",
        "depth_newton",
        "epsilon against T of pilu and the Newton step",
        "K = 1 and all noises 0.1. The formula that the paper takes for the Newton step is not a "
        "proof after T steps; a proved one is beside it ([baselines.md](baselines.md)).",
        '"opposite behaviors as T varies": Newton "becomes competitive only for sufficiently '
        'large T".',
    ),
    Shown(
        "Figure 10",
        "depth_minibatches",
        "Test error against epsilon for four batch sizes and the full batch",
        "Batches are compared at the training error of the full batch, which is the last column. "
        "The two lines have scales of their own.",
        '"Larger batches improve the privacy-utility curve by shortening the learning trajectory".',
    ),
)
MNIST = (
    Shown(
        "Figure 11",
        "mnist_rows",
        "Seven digits, from the smallest gradient to the largest",
        "The seven rows to forget.",
        '"Seven representative MNIST training points, selected as empirical quantiles of the '
        'per-sample gradient norm".',
    ),
    Shown(
        "Figure 12a",
        "mnist_sensitivities",
        "Sensitivities of seven digits along learning",
        "Bounds and 20 runs.",
        'Bounds "vary substantially across points and iterations".',
    ),
    Shown(
        "Figure 12b",
        "mnist_privacy_utility",
        "Share of wrong digits against epsilon for seven rows",
        "Errors, not accuracies, so that small differences can be seen.",
        '"utility improves with the privacy budget, with marked differences across removed '
        'points."',
    ),
    Shown(
        "Noise behind Figure 12b",
        "mnist_noise",
        "Calibrated noise against epsilon for seven digits",
        "The noise that these errors come from.",
    ),
    Shown(
        "The order of rows",
        "mnist_difficulty",
        "Noise of 200 digits against their gradient after learning",
        "200 rows drawn at random.",
    ),
    Shown(
        "Figure 13a",
        "mnist_unlearning_steps",
        "Share of wrong digits and noise against the unlearning steps K",
        "epsilon = 1.",
        'K improves utility "rapidly at first and then largely saturates".',
    ),
    Shown(
        "Figure 13b",
        "mnist_learning_steps",
        "Share of wrong digits and noise against the learning steps T",
        "epsilon = 1.",
        'Performance improves first, but for the hardest points "very large values of T can '
        'eventually hurt utility".',
    ),
    Shown(
        "Figure 14a",
        "mnist_dp_gd",
        "Share of wrong digits against epsilon of pilu and DP-GD",
        "As Figure 5a.",
        '"a better privacy-utility tradeoff, with the largest gains on the most influential '
        'points."',
    ),
    Shown(
        "Figure 14b",
        "mnist_newton",
        "epsilon against T of pilu and the Newton step",
        "As Figure 5b.",
        "The Newton step's privacy cost \"decreases as training approaches convergence\", pilu's "
        '"increases with T".',
    ),
)
FIGURES = {"depth": DEPTH, "mnist": MNIST}
# Where the paper shows what the scripts of the claims are named after.
PLACES = {
    "depth": {
        "sensitivities": "Fig. 3a",
        "privacy_utility": "Fig. 3b",
        "noise": "Fig. 8",
        "privacy_utility, noise": "Fig. 3b, 8",
        "uniform": "Sec. 5",
        "difficulty": "Sec. 4.1",
        "unlearning_steps": "Fig. 4a",
        "learning_steps": "Fig. 4b",
        "dp_gd": "Fig. 5a",
        "newton": "Fig. 5b",
        "newton (table)": "Table 2",
        "leave_one_out": "Sec. 3.3",
        "minibatches": "Fig. 10",
        "minibatches (table)": "Table 4",
        "minibatches (epochs)": "Sec. 2.2",
    },
    "mnist": {
        "sensitivities": "Fig. 12a",
        "privacy_utility": "Fig. 12b",
        "privacy_utility, noise": "Fig. 12b",
        "uniform": "Sec. 5",
        "difficulty": "App. G.1",
        "unlearning_steps": "Fig. 13a",
        "learning_steps": "Fig. 13b",
        "dp_gd": "Fig. 14a",
        "newton": "Fig. 14b",
        "leave_one_out": "Sec. 3.3",
    },
}
