"""How much noise a row needs, by the number of unlearning steps and by both accountants."""

import argparse
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from pilu import LangevinRidge

STEPS = [1, 2, 5, 10, 20, 40, 80, 160, 320]
COLOURS = {"theorem": "#b0563b", "exact": "#2f6690"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("steps-output"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    X, y = load_diabetes(return_X_y=True)
    model = LangevinRidge(alpha=0.1, n_steps=800, noise=0.01, random_state=0).fit(X, y)
    quote = partial(model.quote, list(range(0, len(X), 10)), epsilon=1.0)  # every tenth row

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, colour in COLOURS.items():
        noise = np.array([quote(n_unlearn_steps=K, accountant=name).noise for K in STEPS])
        middle, worst = np.median(noise, axis=1), noise.max(axis=1)
        axes.plot(STEPS, middle, "o-", color=colour, label=f"{name}: the median row")
        axes.plot(STEPS, worst, "o--", mfc="white", color=colour, label=f"{name}: the worst row")
        for K, *two in zip(STEPS, middle, worst, strict=True):
            print(f"{name:8} {K:4} steps: noise {two[0]:.3f} (median), {two[1]:.3f} (worst)")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("unlearning steps, K")
    axes.set_ylabel("noise of a step (sigma_unlearn)")
    axes.set_title("Diabetes: noise for epsilon = 1", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(options.out / "steps.png", dpi=110)
    print(f"wrote {options.out / 'steps.png'}")


if __name__ == "__main__":
    main()
