"""Draw the study from its tables: the rows, both trade-off pictures, both tables.

python -m experiments.cifar10.render --config hour
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

from experiments.cifar10.audits import RESULTS
from experiments.cifar10.compute import load
from experiments.cifar10.config import CONFIGS, Config
from pilu.datasets import CIFAR10_CLASSES, DatasetUnavailable

FIGURES = RESULTS.parent / "figures"
COLOURS = plt.colormaps["viridis"]
KINDS = ("linear", "non-linear")


def draw_rows(rows: pd.DataFrame, pixels, path: Path) -> None:
    """The strip of images, from the smallest gradient to the largest."""
    figure, axes = plt.subplots(1, len(rows), figsize=(1.5 * len(rows), 2.1), layout="constrained")
    for panel, line in zip(axes, rows.itertuples(), strict=True):
        panel.imshow(pixels[line.row])
        panel.set_title(f"row {line.row}\n{CIFAR10_CLASSES[line.label]}", fontsize=9)
        panel.set_xlabel(f"|gradient| {line.gradient_norm:.1f}", fontsize=8)
        panel.set_xticks([])
        panel.set_yticks([])
    figure.savefig(path, dpi=150)


def draw_trade_offs(curves: pd.DataFrame, rows: pd.DataFrame, note: str, path: Path) -> None:
    """beta(alpha) of every row, by the linear and by the non-linear distinguisher."""
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.6), layout="constrained", sharey=True)
    for panel, kind in zip(axes, KINDS, strict=True):
        for k, row in enumerate(rows["row"]):
            some = curves[(curves["row"] == row) & (curves["distinguisher"] == kind)]
            colour = COLOURS(k / max(len(rows) - 1, 1))
            panel.plot(some["alpha"], some["beta"], color=colour, label=f"row {row}")
        panel.plot([0, 1], [1, 0], color="0.6", linestyle=":", linewidth=1)
        panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", title=f"{kind} distinguisher")
        panel.set_xlabel("type-I error alpha")
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("type-II error beta(alpha)")
    axes[1].legend(fontsize="small", frameon=False, title="small gradient first")
    figure.suptitle(note, fontsize=9)
    figure.savefig(path, dpi=150)


def render(config: Config, results: Path, out: Path) -> None:
    stem = results / f"cifar10_{config.name}"
    table, curves = pd.read_csv(f"{stem}.csv"), pd.read_csv(f"{stem}_curves.csv")
    provenance = json.loads(Path(f"{stem}.json").read_text())
    out.mkdir(parents=True, exist_ok=True)
    rows = table.drop_duplicates("row")[["row", "label", "gradient_norm"]]
    most = table.iloc[0]
    note = (
        f"CIFAR-10, {config.name}: R = {provenance['runs_of_each_kind']}, "
        f"T = {config.learning.n_steps}, K = {config.unlearning.n_steps}, widths "
        f"{config.architecture.widths}; the {most['counted']} counted runs prove mu >= "
        f"{most['mu_provable']:.1f}, epsilon >= {most['epsilon_provable']:.1f} at most"
    )
    path = out / f"cifar10_{config.name}_trade_offs.png"
    draw_trade_offs(curves, rows, note, path)
    print(f"wrote {path}")
    try:
        path = out / f"cifar10_{config.name}_rows.png"
        draw_rows(rows, load(config).pixels, path)
        print(f"wrote {path}")
    except DatasetUnavailable as reason:
        print(f"no picture of the rows: {reason}")
    main_table = table[table["distinguisher"] == "non-linear"]
    columns = ["row", "auc", "mu_hat", "fit_error", "epsilon_hat", "mu_lower", "epsilon_lower"]
    print("\nNon-linear distinguisher; the last two are bounds, the others estimates")
    print(main_table[columns].to_string(index=False, float_format="{:.3g}".format))
    print("\nepsilon-hat by distinguisher")
    pivot = table.pivot_table(
        index="row", columns="distinguisher", values="epsilon_hat", sort=False
    )
    print(pivot.to_string(float_format="{:.3g}".format))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", choices=CONFIGS, default="hour")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=FIGURES)
    options = parser.parse_args()
    render(CONFIGS[options.config], options.results, options.out)


if __name__ == "__main__":
    main()
