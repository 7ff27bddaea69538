"""Draw the study from its tables: the rows, both trade-off pictures, both tables.

python -m experiments.cifar10.render --size full
"""

import argparse
from pathlib import Path

import pandas as pd

from experiments.store import FIGURES, STORES, Store
from experiments.style import GREY, PAGE, bare, figure, legend_below, row_styles
from pilu.datasets import CIFAR10_CLASSES

KINDS = ("linear", "non-linear")


def draw_rows(rows: pd.DataFrame, pixels: pd.DataFrame, folder: Path) -> None:
    """The strip of images, from the smallest gradient to the largest."""
    options = {"width": PAGE, "height": 1.7}
    with figure(folder, "cifar10_rows", 1, len(rows), **options) as axes:
        for panel, line in zip(axes[0], rows.itertuples(), strict=True):
            image = pixels[pixels["row"] == line.row].drop(columns="row").to_numpy()
            panel.imshow(image.reshape(32, 32, 3))
            panel.set_title(f"row {line.row}\n{CIFAR10_CLASSES[line.label]}")
            panel.set_xlabel(f"|gradient| {line.gradient_norm:.1f}")
            bare(panel)


def draw_trade_offs(curves: pd.DataFrame, rows: pd.DataFrame, note: str, folder: Path) -> None:
    """beta(alpha) of every row, by the linear and by the non-linear distinguisher."""
    styles = row_styles([int(row) for row in rows["row"]])
    options = {"height": 3.6, "sharey": True}
    with figure(folder, "cifar10_trade_offs", 1, 2, **options) as axes:
        for panel, kind in zip(axes[0], KINDS, strict=True):
            for row, style in styles.items():
                some = curves[(curves["row"] == row) & (curves["distinguisher"] == kind)]
                panel.plot(some["alpha"], some["beta"], label=f"row {row}", markevery=5, **style)
            panel.plot([0, 1], [1, 0], color=GREY, linestyle=":", linewidth=1)
            panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", title=f"{kind} distinguisher")
            panel.set_xlabel("type-I error alpha")
        axes[0, 0].set_ylabel("type-II error beta(alpha)")
        axes[0, 0].figure.suptitle(note, fontsize=7)
        legend_below(axes[0, 0], "the row with the smallest gradient first")


def render(store: Store, folder: Path) -> None:
    table, curves = store.read("cifar10_audits"), store.read("cifar10_curves")
    provenance = store.provenance("cifar10_audits")
    config, most = provenance["config"], table.iloc[0]
    rows = table.drop_duplicates("row")[["row", "label", "gradient_norm"]]
    widths = "-".join(str(width) for width in config["architecture"]["widths"])
    note = (
        f"R = {provenance['runs_of_each_kind']}, T = {config['learning']['n_steps']}, "
        f"K = {config['unlearning']['n_steps']}, widths {widths}; the {most['counted']} counted "
        f"runs can prove mu >= {most['mu_provable']:.1f}, epsilon >= "
        f"{most['epsilon_provable']:.1f} at most"
    )
    draw_trade_offs(curves, rows, note, folder)
    draw_rows(rows, store.read("cifar10_pixels"), folder)
    main_table = table[table["distinguisher"] == "non-linear"]
    columns = ["row", "auc", "mu_hat", "fit_error", "epsilon_hat", "mu_lower", "epsilon_lower"]
    print("\ncifar10: non-linear distinguisher; the last two are bounds, the others estimates")
    print(main_table[columns].to_string(index=False, float_format="{:.3g}".format))
    print("\ncifar10: epsilon-hat by distinguisher")
    pivot = table.pivot_table(
        index="row", columns="distinguisher", values="epsilon_hat", sort=False
    )
    print(pivot.to_string(float_format="{:.3g}".format))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=tuple(STORES), default="full")
    size = parser.parse_args().size
    render(STORES[size], FIGURES[size])


if __name__ == "__main__":
    main()
